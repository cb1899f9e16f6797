"""What the page of a run shows besides its episodes: counts, curves, tasks and settings."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.schema import NO_SCORE, EpisodeRow
from rehearsal_room.harness.outcomes.model_use import ModelUse, ReplyTimes, model_use_lines
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics
from rehearsal_room.harness.outcomes.scores import SCORE_SQL
from rehearsal_room.harness.reports.faults import FaultCounts, faults_in
from rehearsal_room.harness.settings.tables import without_none
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.index.tables import MOMENTS_PER_SECOND
from rehearsal_room.viewer.reading.episode_rows import names_of
from rehearsal_room.viewer.reading.lines import MEAN_SHARE, RunLine, run_line
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.plain import built

_BUCKETS = 300


class ErrorExample(msgspec.Struct, frozen=True):
    """An episode, and the turn of its first error."""

    episode: str
    turn: int | None


class Cause(msgspec.Struct, frozen=True):
    """A cause of errors or a kind of failure: how many episodes have it, and one of them."""

    cause: str
    n: int
    example: ErrorExample


class Curves(msgspec.Struct, frozen=True):
    """What happened over time, in equal spans of `span` seconds; `at` is where each begins."""

    span: float
    at: list[float]
    episodes: list[int]  # that ended
    steps: list[int]
    pass_rate: list[float | None]  # of the verdicts in the span; None: there was none
    reward: list[float | None]
    policy_s: list[float | None]  # mean seconds of a reply
    calls_s: list[float | None]  # mean seconds of a turn's calls
    waited_s: list[float | None]  # mean seconds that a turn took beside its reply and its calls
    live: list[int]  # episodes at the end of the span
    at_work: list[float]  # mean number of them that waited for a reply or for calls


class TaskLine(msgspec.Struct, frozen=True):
    """A task of the run."""

    scenario: str
    task: str
    difficulty: str
    n: int
    completed: int
    judged: int
    mean_reward: float | None
    mean_share: float | None  # of the task; None: it is all or nothing
    digests: int  # how many different end states its episodes have


class ModelUseShown(msgspec.Struct, frozen=True):
    """The requests, tokens, times and cost of the run's model, as `rehearse show` prints them."""

    use: ModelUse
    times: ReplyTimes
    lines: list[str]


class ReasonsFound(msgspec.Struct, frozen=True):
    """Of how many episodes that are over it is known what went wrong. A log of an earlier version
    does not have it; it is found in the background."""

    found: int
    episodes: int


class RunPage(msgspec.Struct, frozen=True):
    """The page of a run."""

    line: RunLine
    settings: Mapping[str, Any]
    endings: Mapping[str, int]
    labels: Mapping[str, int]
    errors: list[Cause]
    curves: Curves
    statistics: RunStatistics | None
    failures: Mapping[str, int]  # episodes by kind of failure, as far as their reasons are found
    faults: Mapping[str, FaultCounts]
    tasks: list[TaskLine]
    tables: list[str]
    tools: list[str]
    tags: list[str]
    lag: Mapping[str, float] | None  # of finished sessions: mean and worst, in milliseconds
    forked_from: str | None
    model: ModelUseShown | None  # None: no model played, or it has not replied yet
    reasons: ReasonsFound


def run_page(run: ShownRun) -> RunPage:
    """The page, from what is folded so far. Raises LogError and SettingsError."""
    index = run.index()
    # First, so that a page on which all reasons are found counts all of them; others are found now.
    reasons = _reasons(index)
    settings = run.settings()
    with run.reading() as reader:
        faults = faults_in(reader) if index.num_faults() else {}
        sessions = reader.sessions()
    names = names_of(index)
    lag = [(one.lag_s / max(1, one.loops), one.lag_max_s) for one in sessions if one.wall_s]
    return RunPage(
        line=run_line(run),
        settings=built(without_none(msgspec.to_builtins(settings))),
        endings=_counts(index, "coalesce(ending, 'live')"),
        labels=_counts(index, _LABEL),
        errors=_having(index, names, "causes"),
        curves=curves(index),
        statistics=statistics_of(episode_rows(index, names), settings.unit),
        failures=kinds_in(index, names),
        faults=faults,
        tasks=_tasks(index, names),
        tables=_used(index, "changed"),
        tools=_used(index, "tools"),
        tags=_used(index, "tags"),
        lag={"worst_ms": 1e3 * max(worst for _, worst in lag)} if lag else None,
        forked_from=settings.forked_from or None,
        model=_model_use(run),
        reasons=reasons,
    )


def kinds_in(index: RunIndex, names: Mapping[int, Sequence[str]]) -> dict[str, int]:
    """The number of episodes of each kind of failure, the most frequent first."""
    return {one.cause: one.n for one in _having(index, names, "kinds")}


def _reasons(index: RunIndex) -> ReasonsFound:
    sql = "SELECT coalesce(sum(is_diagnosed), 0), count(*) FROM episodes WHERE ending IS NOT NULL"
    (counts,) = index.rows(sql)
    return ReasonsFound(*counts)


def _model_use(run: ShownRun) -> ModelUseShown | None:
    use, times = run.model_use()
    if use is None or times is None:
        return None
    return ModelUseShown(use, times, model_use_lines(use, times))


_LABEL = "CASE WHEN label IS NOT NULL THEN label WHEN judge IS NULL THEN 'none' ELSE 'unjudged' END"


def _counts(index: RunIndex, what: str) -> dict[str, int]:
    sql = f"SELECT {what}, count(*) FROM episodes GROUP BY 1 ORDER BY 2 DESC, 1"
    return dict(index.rows(sql))


def _having(index: RunIndex, names: Mapping[int, Sequence[str]], column: str) -> list[Cause]:
    """How many episodes have each name of a set, the most frequent first."""
    found: dict[str, tuple[int, ErrorExample]] = {}
    sql = f"SELECT {column}, count(*), min(episode), first_error_turn FROM episodes GROUP BY 1"
    for number, count, *example in index.rows(sql):
        for cause in names[number]:
            before, first = found.get(cause, (0, ErrorExample(*example)))
            found[cause] = before + count, first
    causes = [Cause(cause, *counted) for cause, counted in found.items()]
    return sorted(causes, key=lambda one: (-one.n, one.cause))


def _used(index: RunIndex, column: str) -> list[str]:
    sql = (
        "SELECT DISTINCT value FROM names, json_each(names.names)"
        f" WHERE names.id IN (SELECT DISTINCT {column} FROM episodes) ORDER BY 1"
    )
    return [name for (name,) in index.rows(sql)]


def _tasks(index: RunIndex, names: Mapping[int, Sequence[str]]) -> list[TaskLine]:
    rows = index.rows(
        f"SELECT scenario, task, max(tags), count(*), coalesce(sum({SCORE_SQL}), 0),"  # nosec B608 # a constant
        f" count({SCORE_SQL}), avg(reward), {MEAN_SHARE}, count(DISTINCT nullif(end_digest, ''))"
        " FROM episodes GROUP BY scenario, task ORDER BY scenario, task"
    )
    return [
        TaskLine(scenario, task, _difficulty(names[tags]), *counts)
        for scenario, task, tags, *counts in rows
    ]


def _difficulty(tags: Sequence[str]) -> str:
    return next((tag for tag in tags if tag in ("simple", "medium", "hard")), "")


def curves(index: RunIndex) -> Curves:
    """The curves of a run, in at most 300 spans."""
    ((first, last),) = index.rows("SELECT min(moment), max(moment) FROM moments")
    if first is None:
        return _no_curves(0.0)
    each = (last - first) // _BUCKETS + 1  # moments in a span
    rows = index.rows(
        "SELECT (moment - ?) / ?, sum(started), sum(ended), sum(restarted), sum(steps),"
        " sum(judged), sum(completed), sum(rewards), sum(rewarded), sum(policy_s), sum(calls_s),"
        " sum(waited_s)"
        " FROM moments GROUP BY 1 ORDER BY 1",
        first,
        each,
    )
    spans = {number: values for number, *values in rows}
    found = _no_curves(each / MOMENTS_PER_SECOND)
    live = 0
    for number in range((last - first) // each + 1):
        values = spans.get(number, [0] * 11)
        started, ended, restarted, steps, judged, completed, rewards, rewarded, *seconds = values
        live += started - ended
        found.at.append((first + number * each) / MOMENTS_PER_SECOND)
        found.episodes.append(ended - restarted)
        found.steps.append(steps)
        found.pass_rate.append(completed / judged if judged else None)
        found.reward.append(rewards / rewarded if rewarded else None)
        found.policy_s.append(seconds[0] / steps if steps else None)
        found.calls_s.append(seconds[1] / steps if steps else None)
        found.waited_s.append(seconds[2] / steps if steps else None)
        found.live.append(live)
        found.at_work.append(min(float(live + ended), (seconds[0] + seconds[1]) / found.span))
    return found


def _no_curves(span: float) -> Curves:
    return Curves(span, [], [], [], [], [], [], [], [], [], [])


def episode_rows(index: RunIndex, names: Mapping[int, Sequence[str]]) -> list[EpisodeRow]:
    """The episodes as the statistics of a run take them, which read task, tags, ending and label:
    episodes that are equal in these are one object, many times."""
    rows = index.rows(
        "SELECT scenario, task, tags, ending, label, count(*) FROM episodes"
        f" WHERE unjudged IS NOT '{NO_SCORE}'"  # nosec B608 # a constant
        " GROUP BY scenario, task, tags, ending, label ORDER BY min(number)"
    )
    found: list[EpisodeRow] = []
    for scenario, task, tags, ending, label, count in rows:
        row = EpisodeRow(
            episode="",
            attempt=1,
            scenario=scenario,
            task=task,
            group="",
            member=0,
            policy="",
            scenario_digest="",
            started_at=0.0,
            num_steps=0,
            ending=None if ending is None else Ending(ending),
            label=None if label is None else Label(label),
            tags=tuple(names[tags]),
        )
        found += [row] * count
    return found
