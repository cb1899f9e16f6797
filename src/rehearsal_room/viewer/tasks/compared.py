"""Runs compared with the first of them: the verdicts of `rehearse compare`, in its own words, the
figures of each run, what differs between them, and the tasks one by one.

A run that shares no task with the first one gets no verdict, only the sentence of `rehearse
compare` that says so; the others are compared without it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import NO_SCORE
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.model_use import ReplyTimes
from rehearsal_room.harness.outcomes.scores import SCORE_SQL, SHARE_SQL
from rehearsal_room.harness.outcomes.units import by_unit, choose_unit
from rehearsal_room.judge.statistics.compare_output import verdict_lines
from rehearsal_room.judge.statistics.compared_runs import (
    RunDifference,
    letter_of,
    level_of,
    nothing_shared,
    run_difference,
    setting_differences,
    unit_asked,
)
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import (
    Outcome,
    TaskKey,
    by_shares,
    by_task,
    have_shares,
)
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.episode_rows import names_of
from rehearsal_room.viewer.reading.lines import RunLine, run_line
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.plain import built
from rehearsal_room.viewer.tasks.task_table import rows_by

MOST_RUNS = 6
Change = Literal["gained", "lost", "same", "left out"]


class RunFigures(msgspec.Struct, frozen=True):
    """A run beside others."""

    name: str  # A, B, …
    id: str
    run: str  # its folder's name
    policy: str
    model: str
    episodes: int  # that are over
    tasks: int
    completed: Interval[float] | None  # None: no episode has a verdict
    bounds: tuple[float, float]  # of `completed`, whatever those without a verdict had been
    without_verdict: int
    kinds: Mapping[str, int]  # episodes with each kind of failure
    turns: float | None  # mean of an episode; None: there is none
    tokens: float | None
    seconds: float | None
    cost_usd: float | None  # of the model, in all; None: its price is not known
    reply_times: ReplyTimes | None  # None: no model replied
    share: Interval[float] | None = None  # mean of the tasks; None: all are all or nothing


class RunVerdict(msgspec.Struct, frozen=True):
    """A run against the first one, in the words of `rehearse compare`."""

    name: str  # B, C, …
    lines: Sequence[str]  # the verdict, then what supports it; or why there is none
    delta: float | None = None  # None: the two cannot be compared
    interval: tuple[float, float] | None = None


class Differing(msgspec.Struct, frozen=True):
    """A setting, or a world's digest, that is not the same in all runs."""

    what: Literal["setting", "world", "judge"]
    name: str
    values: Sequence[Any]  # of A, B, …


class TaskScore(msgspec.Struct, frozen=True):
    """A task in one run."""

    tries: int  # that are over
    judged: int
    completed: int


class ComparedTask(msgspec.Struct, frozen=True):
    """A task in all runs."""

    scenario: str
    task: str
    sides: Sequence[TaskScore | None]  # of A, B, …; None: the run has no episode of it
    changes: Sequence[Change]  # of B, C, … against A
    pairs: Sequence[tuple[str, str] | None]  # an episode of A beside one of B, C, …


class RunComparison(msgspec.Struct, frozen=True):
    """What the page of a comparison shows."""

    level: float  # of each interval
    verdicts: Sequence[RunVerdict]
    runs: Sequence[RunFigures]
    differs: Sequence[Differing]
    only_in_some: Mapping[str, int]  # by run: its tasks that not all runs have
    rows: Sequence[ComparedTask]


_SHARE = f"CASE WHEN share IS NOT NULL THEN {SHARE_SQL} END"


class _Try(Outcome, frozen=True, gc=False):
    """An episode that is over."""

    episode: str = ""


_Tries = Mapping[TaskKey, Sequence[_Try]]


def compared(runs: Sequence[ShownRun], *, is_planned: bool = True) -> Any:
    """Compare runs with the first of them. What so many tasks can show is left out where it is not
    `is_planned`: it takes a second or two. Raises SettingsError and LogError."""
    if not 2 <= len(runs) <= MOST_RUNS:
        raise SettingsError(f"compare: choose two to six runs, not {len(runs)}")
    key = tuple((run.id, run.index().position) for run in runs)
    return (
        runs[0]
        .index()
        .kept(("compared", is_planned, key), lambda: built(_compared(runs, is_planned=is_planned)))
    )


def _compared(runs: Sequence[ShownRun], *, is_planned: bool) -> RunComparison:
    names = [letter_of(index) for index in range(len(runs))]
    tries = [_tries(run.index()) for run in runs]
    shared = set.intersection(*(set(one) for one in tries))
    scored = [_with_verdict(one) for one in tries]
    level = level_of(1 + max(1, sum(bool(scored[0] & one) for one in scored[1:])))
    outcomes = [[one for of_task in all_of.values() for one in of_task] for all_of in tries]
    unit = unit_asked([run.settings() for run in runs])
    found = [
        run_difference(*(name, outcomes[0], others), level=level, unit=unit, is_planned=is_planned)
        for name, others in zip(names[1:], outcomes[1:], strict=True)
    ]
    return RunComparison(
        level=level,
        verdicts=[
            _verdict(name, one, nothing_shared(runs[0].log_folder, run.log_folder), level)
            for name, one, run in zip(names[1:], found, runs[1:], strict=True)
        ],
        runs=[
            msgspec.structs.replace(_figures(name, run), share=_mean_share(run, of_run))
            for name, run, of_run in zip(names, runs, outcomes, strict=True)
        ],
        differs=_differing(runs),
        only_in_some={
            name: len(one.keys() - shared)
            for name, one in zip(names, tries, strict=True)
            if one.keys() - shared
        },
        rows=_rows(tries, found),
    )


def _tries(index: RunIndex) -> dict[TaskKey, list[_Try]]:
    sql = (
        f"SELECT scenario, task, seed, {SCORE_SQL}, {_SHARE}, episode FROM episodes"  # nosec B608 # a constant
        f" WHERE ending IS NOT NULL AND unjudged IS NOT '{NO_SCORE}' ORDER BY number"
    )
    found: dict[TaskKey, list[_Try]] = {}
    for row in index.rows(sql):
        found.setdefault((row[0], row[1]), []).append(_Try(*row))
    return found


def _with_verdict(tries: _Tries) -> set[TaskKey]:
    return {key for key, all_of in tries.items() if _is_judged(all_of)}


def _verdict(name: str, found: RunDifference | None, otherwise: str, level: float) -> RunVerdict:
    if found is None:
        return RunVerdict(name, (otherwise,))
    one = found.comparison
    return RunVerdict(name, tuple(verdict_lines(found, level)), one.delta, one.interval)


def _mean_share(run: ShownRun, outcomes: Sequence[Outcome]) -> Interval[float] | None:
    """The mean share of a task, by the unit of the run's own interval."""
    if not have_shares(outcomes):
        return None
    shares = {
        key: [one.score or 0.0 for one in group]
        for key, group in by_task(by_shares(outcomes)).items()
    }
    unit = choose_unit({one.key for one in outcomes}, run.settings().unit).unit
    return share_interval(by_unit(shares, unit))


def _figures(name: str, run: ShownRun) -> RunFigures:
    line: RunLine = run_line(run)
    index = run.index()
    ((over, tasks, turns, tokens, took),) = index.rows(
        "SELECT count(*), count(DISTINCT json_array(scenario, task)), avg(turns),"
        " avg(prompt_tokens + completion_tokens), avg(seconds) FROM episodes"
        " WHERE ending IS NOT NULL"
    )
    costs = [row.cost_usd for row in rows_by(run, "world")]
    return RunFigures(
        name=name,
        id=run.id,
        run=line.name,
        policy=line.policy,
        model=line.model,
        episodes=over,
        tasks=tasks,
        completed=line.completed,
        bounds=line.bounds,
        without_verdict=line.without_verdict,
        kinds=_kinds(index),
        turns=turns,
        tokens=tokens,
        seconds=took,
        cost_usd=None if None in costs or not costs else sum(one or 0.0 for one in costs),
        reply_times=run.model_use()[1],
    )


def _kinds(index: RunIndex) -> dict[str, int]:
    names, found = names_of(index), dict[str, int]()
    for number, count in index.rows("SELECT kinds, count(*) FROM episodes GROUP BY 1"):
        for kind in names[number]:
            found[kind] = found.get(kind, 0) + count
    return found


def _differing(runs: Sequence[ShownRun]) -> list[Differing]:
    """The settings, worlds and judges that are not the same in all runs."""
    found = [
        Differing("setting", one.setting, one.values)
        for one in setting_differences([run.settings() for run in runs])
    ]
    digests = [_listed(run.index(), "scenario, scenario_digest") for run in runs]
    for world in sorted({world for one in digests for world in one}):
        values = [", ".join(one.get(world, ())) for one in digests]
        if len({digest for one in digests for digest in one.get(world, ())}) > 1:
            found.append(Differing("world", world, values))
    judges = [", ".join(_listed(run.index(), "judge, ''")) for run in runs]
    if len({judge for judge in judges if judge}) > 1:
        found.append(Differing("judge", "", judges))
    return found


def _listed(index: RunIndex, columns: str) -> dict[str, list[str]]:
    """The different values of two columns: those of the second by those of the first."""
    sql = (
        f"SELECT DISTINCT {columns} FROM episodes WHERE ending IS NOT NULL"  # nosec B608 # a constant
        " ORDER BY 1, 2"
    )
    found: dict[str, list[str]] = {}
    for first, second in index.rows(sql):
        if first:
            found.setdefault(first, []).append(second)
    return found


def _rows(tries: Sequence[_Tries], found: Sequence[RunDifference | None]) -> list[ComparedTask]:
    """The tasks of all runs, those that can be compared first; who does better on each is what
    `rehearse compare` says."""
    gained = [set() if one is None else set(one.comparison.gained) for one in found]
    lost = [set() if one is None else set(one.comparison.lost) for one in found]
    rows = []
    for key in sorted(set.union(*(set(one) for one in tries))):
        of_runs = [one.get(key, ()) for one in tries]
        name = ":".join(key)
        changes: list[Change] = []
        for at, others in enumerate(of_runs[1:]):
            if not (_is_judged(of_runs[0]) and _is_judged(others)):
                changes.append("left out")
            elif name in gained[at]:
                changes.append("gained")
            else:
                changes.append("lost" if name in lost[at] else "same")
        pairs = [_pair(of_runs[0], others) for others in of_runs[1:]]
        rows.append(ComparedTask(*key, [_score(one) for one in of_runs], changes, pairs))
    return sorted(rows, key=lambda row: set(row.changes) == {"left out"})


def _is_judged(tries: Sequence[_Try]) -> bool:
    return any(one.score is not None for one in tries)


def _score(tries: Sequence[_Try]) -> TaskScore | None:
    if not tries:
        return None
    judged = [one.score for one in tries if one.score is not None]
    return TaskScore(len(tries), len(judged), round(sum(judged)))


def _pair(first: Sequence[_Try], second: Sequence[_Try]) -> tuple[str, str] | None:
    """Two tries that show a difference: with different scores if there are, and of one seed if
    there are; None: a run has no try."""
    if not first or not second:
        return None
    seeds = {one.seed: one for one in first}
    same_seed = [(seeds[one.seed], one) for one in second if one.seed in seeds]
    for a, b in same_seed:
        if a.score != b.score:
            return a.episode, b.episode
    for score in (1, 0):
        a_first = next((one for one in first if one.score == score), None)
        b_first = next((one for one in second if one.score == 1 - score), None)
        if a_first is not None and b_first is not None:
            return a_first.episode, b_first.episode
    a, b = same_seed[0] if same_seed else (first[0], second[0])
    return a.episode, b.episode
