"""When things happened in a run, from its records alone: turns, episodes and verdicts with times.

A record has the time at which its fact was complete. What came before it follows from the seconds
that the fact has itself:

    step      |<- policy_s: the reply ->|<- calls_s: its calls ->| record
    episode   |<- lease ->| `started` ... turns ... | `ended`, which has the seconds of all
    verdict   `ended` | wait for the log and the judge, judging | `judged`

Spans of one attempt never overlap: where clocks disagree, a span begins when the one before it
ended. Calls of one turn have no times of their own; each gets an equal part of the turn's. Records
of an attempt come in order, those of different episodes in any. Memory grows with live episodes,
and by some bytes for each that is over.
"""

import msgspec

from rehearsal_room.harness.core.events import (
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    Judged,
    Record,
    StepTaken,
)

# A first verdict after such a silence of the whole run is taken for one of a later judging, or of a
# resumed run: the judge did not take all the time since the episode's end.
_SILENCE = 60.0  # seconds


class TurnSpan(msgspec.Struct, frozen=True, gc=False):
    """One reply and the calls that it made, or a summary. Times are Unix seconds."""

    episode: str
    attempt: int
    row: int  # as of EpisodeSpan
    started: EpisodeStarted  # of its attempt
    number: int  # of the step, from 0; of a summary the step that comes next
    began: float  # when the policy was asked
    replied: float
    ended: float
    event: StepTaken | HistorySummarized

    def calls(self) -> list[tuple[float, float]]:
        """When each call began and ended, in order: equal parts of the time of all of them."""
        num_calls = len(self.event.results) if isinstance(self.event, StepTaken) else 0
        each = (self.ended - self.replied) / max(1, num_calls)
        return [
            (self.replied + index * each, self.replied + (index + 1) * each)
            for index in range(num_calls)
        ]


class EpisodeSpan(msgspec.Struct, frozen=True, gc=False):
    """One attempt at an episode: it is over, or its records end."""

    episode: str
    attempt: int
    row: int  # number of the episode in the run, from 1, in the order in which they first began
    began: float  # when it began to wait for its world
    started_at: float  # when it had its world
    ended: float
    started: EpisodeStarted
    event: EpisodeEnded | None  # None: it is live, or it was cut off
    num_turns: int  # kept ones included
    prompt_tokens: int  # of its own replies
    completion_tokens: int


class VerdictSpan(msgspec.Struct, frozen=True, gc=False):
    """One verdict. It begins with the end of the episode, if it is the first and not of a later
    judging; else only its models' time is known."""

    episode: str
    attempt: int
    seq: int
    row: int
    began: float
    ended: float
    event: Judged
    delays: bool  # whether it begins with the end of the episode


TimelineSpan = TurnSpan | EpisodeSpan | VerdictSpan


class _Live:
    """An attempt that is not over."""

    __slots__ = (
        *("attempt", "completion_tokens", "copies", "latest", "num_turns", "prompt_tokens"),
        *("started", "started_at"),
    )

    def __init__(self, record: Record, started: EpisodeStarted) -> None:
        self.attempt = record.attempt
        self.started = started
        self.started_at = self.latest = record.at
        self.copies = started.kept  # that still follow
        self.num_turns = self.prompt_tokens = self.completion_tokens = 0


class Timeline:
    """Makes the spans of one run from its records."""

    def __init__(self) -> None:
        self._live: dict[str, _Live] = {}  # by episode
        # Episodes without a verdict: attempt, time of the end, and number of silences until then.
        self._unjudged: dict[str, tuple[int, float, int]] = {}
        self._rows: dict[str, int] = {}
        self._latest = 0.0
        self._silences = 0

    def add(self, record: Record) -> list[TimelineSpan]:
        """The spans that are complete with this record."""
        self._silences += record.at - self._latest > _SILENCE
        self._latest = max(self._latest, record.at)
        event = record.event
        if isinstance(event, EpisodeStarted):
            return self._start(record, event)
        if isinstance(event, Judged):
            return [self._verdict(record, event)]
        live = self._live.get(record.episode)
        if live is None or live.attempt != record.attempt:
            return []
        if isinstance(event, StepTaken | HistorySummarized):
            return self._turn(live, record, event)
        if isinstance(event, EpisodeEnded):
            del self._live[record.episode]
            self._unjudged[record.episode] = (record.attempt, record.at, self._silences)
            return [self._span(record.episode, live, record.at, event)]
        return []

    def finish(self) -> list[TimelineSpan]:
        """The attempts that are not over, up to their last record."""
        live, self._live = self._live, {}
        return [self._span(episode, one, one.latest, None) for episode, one in live.items()]

    def _start(self, record: Record, event: EpisodeStarted) -> list[TimelineSpan]:
        self._rows.setdefault(record.episode, len(self._rows) + 1)
        before = self._live.get(record.episode)
        self._live[record.episode] = _Live(record, event)
        return [] if before is None else [self._span(record.episode, before, before.latest, None)]

    def _turn(
        self, live: _Live, record: Record, event: StepTaken | HistorySummarized
    ) -> list[TimelineSpan]:
        number, before, ended = live.num_turns, live.latest, max(live.latest, record.at)
        live.latest = ended
        live.num_turns += isinstance(event, StepTaken)
        if live.copies:
            live.copies -= 1
            return []
        live.prompt_tokens += event.reply.usage.prompt_tokens
        live.completion_tokens += event.reply.usage.completion_tokens
        calls_s = event.calls_s if isinstance(event, StepTaken) else 0.0
        replied = max(before, ended - calls_s)
        began = max(before, replied - event.policy_s)
        turn = TurnSpan(
            episode=record.episode,
            attempt=record.attempt,
            row=self._rows[record.episode],
            started=live.started,
            number=number,
            began=began,
            replied=replied,
            ended=ended,
            event=event,
        )
        return [turn]

    def _span(
        self, episode: str, live: _Live, at: float, event: EpisodeEnded | None
    ) -> EpisodeSpan:
        ended = max(live.latest, at)
        began = live.started_at
        if event is not None and not live.started.kept:  # else the seconds count earlier turns, too
            began = min(began, ended - event.seconds)
        return EpisodeSpan(
            episode=episode,
            attempt=live.attempt,
            row=self._rows[episode],
            began=began,
            started_at=live.started_at,
            ended=ended,
            started=live.started,
            event=event,
            num_turns=live.num_turns,
            prompt_tokens=live.prompt_tokens,
            completion_tokens=live.completion_tokens,
        )

    def _verdict(self, record: Record, event: Judged) -> VerdictSpan:
        attempt, at, silences = self._unjudged.pop(record.episode, (record.attempt, 0.0, -1))
        delays = attempt == record.attempt and silences == self._silences
        seconds = max((one.seconds for one in (*event.judgements, *event.asked)), default=0.0)
        began = min(at, record.at) if delays else record.at - seconds
        return VerdictSpan(
            episode=record.episode,
            attempt=record.attempt,
            seq=record.seq,
            row=self._rows.get(record.episode, 0),
            began=began,
            ended=record.at,
            event=event,
            delays=delays,
        )
