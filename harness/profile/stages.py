"""Where the time of a run went, from its log alone.

Two kinds of shares, which are not added to each other:

    of episode time   admission, world, model, tools, full_log, rest: what an episode did at each
                      moment, summed over all episodes; together they are 1
    of wall time      judge, log, bus, loop_lag: what happened beside them

An episode is over before its verdict, so a judge costs a run time only where nothing else is left:
`judge` is the time in which verdicts were awaited and no episode was live. `full_log` is the time
in which episodes waited for room in the log, and `rest` what remains of the episodes' time: waiting
for the event loop, making windows, reading replies, recording, being paused by an agent. An episode
that admission pauses at a turn waits for admission; one that has not begun does not count.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence

from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.sessions import SessionMeasured
from rehearsal_room.harness.profile.limits import bottleneck_of
from rehearsal_room.harness.profile.report import Profile, StageTime, percent
from rehearsal_room.harness.profile.timeline import EpisodeSpan, Timeline, TimelineSpan, TurnSpan

_MEASURED = "what the process measured (admission, log, bus, loop lag)"
_WHY = "the run has not ended, it was killed, or an older version wrote the log"
_COVERED = 0.9  # share of the wall time from which on it counts as measured


class Spans:
    """Intervals of time, in 16 bytes each."""

    def __init__(self) -> None:
        self.began, self.ended = array("d"), array("d")  # Unix seconds

    def add(self, began: float, ended: float) -> None:
        """Add one."""
        self.began.append(began)
        self.ended.append(ended)

    def covered(self, *others: "Spans") -> float:
        """The seconds that at least one of these spans covers, or one of `others`.

        Example: 0 to 2, 1 to 3, 5 to 6 -> 4.0
        """
        pairs = [pair for one in (self, *others) for pair in zip(one.began, one.ended, strict=True)]
        seconds, until = 0.0, float("-inf")
        for start, end in sorted(pairs):
            seconds += max(0.0, end - max(start, until))
            until = max(until, end)
        return seconds


class Totals:
    """Adds up the spans of one run, or of several."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(("world", "model", "tools"), 0.0)
        self._inside_s = self._wall_s = self._judge_s = self._verdict_s = 0.0
        self._num_turns = self._num_calls = self._num_unfinished = self._num_verdicts = 0
        self._episodes: set[tuple[str, str]] = set()  # run, episode
        self._policies: set[str] = set()
        self._sessions: list[SessionMeasured] = []
        self._live, self._awaited = Spans(), Spans()  # of the present run

    def add(self, run: str, part: TimelineSpan) -> None:
        """Add a span of a run."""
        if isinstance(part, TurnSpan):
            self._seconds["model"] += part.replied - part.began
            self._seconds["tools"] += part.ended - part.replied
            self._num_turns += 1
            self._num_calls += len(part.calls())
        elif isinstance(part, EpisodeSpan):
            self._episodes.add((run, part.episode))
            self._policies.add(part.started.policy)
            self._num_unfinished += part.event is None
            self._seconds["world"] += part.started_at - part.began
            self._inside_s += part.ended - part.began
            self._live.add(part.began, part.ended)
        elif part.delays:
            self._num_verdicts += 1
            self._verdict_s += part.ended - part.began
            self._awaited.add(part.began, part.ended)

    def close_run(self, sessions: Iterable[SessionMeasured]) -> None:
        """End a run: no span of it follows."""
        wall_s = self._live.covered(self._awaited)
        self._wall_s += wall_s
        self._judge_s += wall_s - self._live.covered()
        self._live, self._awaited = Spans(), Spans()
        self._sessions += sessions

    def profile(self, run: str) -> Profile:
        """The profile of what was added."""
        sessions = self._sessions
        worst = max(sessions, key=lambda one: one.lag_max_s, default=None)
        culprit = "" if worst is None else worst.culprit
        episode_s = self._inside_s + sum(one.admission_s for one in sessions)
        measured_s = sum(one.wall_s for one in sessions)
        stages = self._stages(episode_s, measured_s)
        return Profile(
            run=run,
            wall_s=self._wall_s,
            stages=stages,
            verdict=bottleneck_of(stages, self._policies, culprit),
            episode_s=episode_s,
            episodes=len(self._episodes),
            unfinished=self._num_unfinished,
            turns=self._num_turns,
            calls=self._num_calls,
            mean_live=_ratio(episode_s, self._wall_s),
            verdict_wait_s=_ratio(self._verdict_s, self._num_verdicts),
            measured_s=measured_s,
            cpu_s=sum(one.cpu_s for one in sessions) if sessions else None,
            worst_lag_s=None if worst is None else worst.lag_max_s,
            worst_lag=culprit,
            notes=tuple(self._notes(measured_s)),
        )

    def _stages(self, episode_s: float, measured_s: float) -> dict[str, StageTime]:
        """The known stages; first those of the episodes."""
        sessions, seconds = self._sessions, self._seconds
        if sessions:
            admission_s = sum(one.admission_s + one.held_back_s for one in sessions)
            seconds = {"admission": admission_s, **seconds}
            seconds["full_log"] = sum(one.room_s for one in sessions)
        rest = max(0.0, episode_s - sum(seconds.values()))
        found = {
            name: StageTime(value, _ratio(value, episode_s), "episodes")
            for name, value in {**seconds, "rest": rest}.items()
        }
        found["judge"] = StageTime(self._judge_s, _ratio(self._judge_s, self._wall_s), "wall")
        if sessions:
            loops_s = sum(one.wall_s * one.loops for one in sessions)
            for name, value, whole in (
                ("log", sum(one.commit_s for one in sessions), measured_s),
                ("bus", sum(one.listeners_s for one in sessions), measured_s),
                ("loop_lag", sum(one.lag_s for one in sessions), loops_s),
            ):
                found[name] = StageTime(value, _ratio(value, whole), "wall")
        return found

    def _notes(self, measured_s: float) -> Iterable[str]:
        if self._num_unfinished:
            attempts = plural(self._num_unfinished, "attempt")
            yield f"{attempts} without an end, live or cut off, counted up to the last record"
        if not self._sessions:
            yield f"{_MEASURED} is not in the log: {_WHY}"
        elif measured_s < _COVERED * self._wall_s:
            known = percent(_ratio(measured_s, self._wall_s))
            yield f"{_MEASURED} is in the log for {known} of the wall time: in the rest {_WHY}"


def add_run(
    run: str,
    reader: LogReader,
    totals: Sequence[Totals],
    on_part: Callable[[str, TimelineSpan], None],
) -> None:
    """Add a run to `totals`; `on_part` gets each of its spans, too. Raises LogError."""
    timeline = Timeline()

    def add(parts: list[TimelineSpan]) -> None:
        for part in parts:
            for total in totals:
                total.add(run, part)
            on_part(run, part)

    for record in reader.records():
        add(timeline.add(record))
    add(timeline.finish())
    sessions = reader.sessions()
    for total in totals:
        total.close_run(sessions)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
