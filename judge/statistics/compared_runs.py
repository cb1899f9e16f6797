"""What `rehearse compare` says of two or more runs: each run's figures, what else differs between
them, the differences with their tests, and where they come from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import NOTHING_SPENT, EpisodeRow
from rehearsal_room.harness.logged_runs.logged_run import run_settings
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.model_use import (
    ModelUse,
    ReplyTimes,
    has_model,
    read_model_use,
)
from rehearsal_room.harness.outcomes.scores import tally
from rehearsal_room.harness.outcomes.units import Unit, by_unit, choose_unit
from rehearsal_room.harness.reports.summary import players, priced_use
from rehearsal_room.harness.settings.fields import fields_of, value_of
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.statistics.comparison import (
    LEVEL,
    Comparison,
    compare,
    interval_and_p,
    means_of_units,
)
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import (
    Outcome,
    TaskKey,
    by_shares,
    by_task,
    have_shares,
    outcomes_of,
)
from rehearsal_room.judge.statistics.planning import (
    detectable,
    detectable_by,
    noise_of,
    plan,
    smallest_number,
)

_SHOWN_ELSEWHERE = ("policy", "model")  # who played stands beside each run
_POWER = 0.8
_LONGEST_PLAN = 100_000  # units; more say only that the difference is next to nothing


class ComparedRun(msgspec.Struct, frozen=True):
    """One run."""

    name: str  # A, B, …
    run: str  # its folder, as it was named
    policy: str  # who played, with the model
    judges: tuple[str, ...]
    episodes: int  # that are over
    tasks: int
    completed: Interval[float] | None  # None: no episode has a verdict
    unit: Unit  # of that interval
    bounds: tuple[float, float]  # of `completed`, whatever those without a verdict had been
    without_verdict: int
    turns: float  # mean of an episode
    prompt_tokens: float  # mean of an episode
    completion_tokens: float
    judging_usd: float | None  # of all verdicts; None: a price is unknown
    model: ModelUse | None = None  # of all episodes; None: no model played
    reply_times: ReplyTimes | None = None
    failures: dict[str, int] = {}  # episodes by kind of failure, as `rehearse failures` counts them
    share: Interval[float] | None = None  # mean share of a task; None: all are all or nothing


class SettingDifference(msgspec.Struct, frozen=True):
    """A setting that is not the same in all runs."""

    setting: str
    values: tuple[Any, ...]  # of A, B, …


class ComparedGroup(msgspec.Struct, frozen=True):
    """A part of the tasks that all runs share."""

    kind: str  # world or tag
    name: str
    tasks: int
    completed: tuple[float, ...]  # of A, B, …; each unit counts once
    delta: float  # the last run less the first
    interval: tuple[float, float]
    share: "ComparedGroup | None" = None  # the same of shares; None: all are all or nothing


class RunDifference(msgspec.Struct, frozen=True):
    """A run compared with A."""

    name: str  # B, C, …
    comparison: Comparison
    # The smallest difference that so many units show in 8 of 10 comparisons; None: they show none.
    detectable: float | None
    needed: int | None  # units that would show the difference that was found; None: not to be said
    share: Comparison | None = None  # of the shares; None: all tasks are all or nothing


class CompareReport(Comparison, frozen=True, kw_only=True):
    """What `rehearse compare --json` writes: B compared with A at the top, then all of it."""

    runs: tuple[ComparedRun, ...]
    settings: tuple[SettingDifference, ...]
    changed_worlds: dict[
        str, tuple[str, ...]
    ]  # by world: its digests in A, B, … (empty: not in it)
    only_in_some: dict[str, tuple[str, ...]]  # by run: tasks that not all runs have
    differences: tuple[RunDifference, ...]
    groups: tuple[ComparedGroup, ...]
    level: float = LEVEL  # of each interval: higher where several runs are compared with A


PricesOf = Callable[[Path], Prices | None]
KindsOf = Callable[[Path], Mapping[str, int]]  # episodes by kind of failure


class _Read(msgspec.Struct, frozen=True):
    """What is read of a run."""

    folder: Path
    settings: Settings
    rows: Sequence[EpisodeRow]
    outcomes: Sequence[Outcome]
    model: ModelUse | None  # None: there is no reply
    times: ReplyTimes | None
    failures: Mapping[str, int]

    @property
    def keys(self) -> set[TaskKey]:
        return {(row.scenario, row.task) for row in self.rows}


def compare_runs(
    folders: Sequence[Path],
    prices_of: PricesOf = lambda _: None,
    *,
    kinds_of: KindsOf,
    unit: Unit | None = None,
) -> CompareReport:
    """Compare runs with the first of them. `prices_of` gives the prices of the models of a run's
    folder (None: they are not known), `kinds_of` what went wrong in it. `unit` None: that of the
    runs' settings, else what follows from the tasks. Raises
    LogError, and SettingsError where one shares no task with a verdict with it."""
    runs = [_read(folder, prices_of(folder), kinds_of(folder)) for folder in folders]
    level = level_of(len(runs))
    first, names = runs[0], [letter_of(index) for index in range(len(runs))]
    asked = unit or unit_asked([run.settings for run in runs])
    differences = tuple(
        [
            _difference(name, first, other, level, asked)
            for name, other in zip(names[1:], runs[1:], strict=True)
        ]
    )
    shared = set.intersection(*(run.keys for run in runs))
    return CompareReport(
        **msgspec.structs.asdict(differences[0].comparison),
        runs=tuple([_figures(name, run, unit) for name, run in zip(names, runs, strict=True)]),
        settings=tuple(setting_differences([run.settings for run in runs])),
        changed_worlds=_changed_worlds(runs),
        only_in_some={
            name: tuple([":".join(key) for key in sorted(run.keys - shared)])
            for name, run in zip(names, runs, strict=True)
            if run.keys - shared
        },
        differences=differences,
        groups=tuple(_groups(runs, level, differences[0].comparison.unit)),
        level=level,
    )


def unit_asked(settings: Sequence[Settings]) -> Unit | None:
    """The unit that the runs' settings name; None: they name none, or not the same one."""
    named = {one.unit for one in settings}
    return named.pop() if len(named) == 1 else None


def letter_of(index: int) -> str:
    """The name of a run in a comparison.

    Example: 0 -> "A"; 27 -> "AB"
    """
    return ("" if index < 26 else letter_of(index // 26 - 1)) + chr(ord("A") + index % 26)


def _read(folder: Path, prices: Prices | None, failures: Mapping[str, int]) -> _Read:
    with open_reader(folder) as reader:
        rows = [row for row in reader.episodes() if row.ending is not None]
        if has_model(rows):
            model, times = priced_use(reader, rows, prices)
        else:  # replies of other policies may have tokens, too
            found = read_model_use(reader, rows)
            model, times = (None, None) if found is None else (found.use, found.times)
        return _Read(
            folder, run_settings(folder), rows, outcomes_of(reader), model, times, failures
        )


def _figures(name: str, run: _Read, unit: Unit | None) -> ComparedRun:
    counted, number, use = tally(run.rows), max(1, len(run.rows)), run.model
    judging = NOTHING_SPENT
    for row in run.rows:
        judging = judging.plus(row.judging)
    tries = {
        key: [one.score or 0.0 for one in group] for key, group in by_task(run.outcomes).items()
    }
    unit = choose_unit(run.keys, unit or run.settings.unit).unit
    shares = {
        key: [one.score or 0.0 for one in group]
        for key, group in by_task(by_shares(run.outcomes)).items()
    }
    return ComparedRun(
        name=name,
        run=str(run.folder),
        policy=players(run.rows),
        judges=tuple(sorted({row.judge for row in run.rows if row.judge})),
        episodes=len(run.rows),
        tasks=len(run.keys),
        completed=share_interval(by_unit(tries, unit)),
        unit=unit,
        bounds=counted.bounds,
        without_verdict=counted.without,
        turns=sum(row.num_steps for row in run.rows) / number,
        prompt_tokens=0.0 if use is None else use.prompt_tokens / number,
        completion_tokens=0.0 if use is None else use.completion_tokens / number,
        judging_usd=judging.cost_usd,
        model=use if has_model(run.rows) else None,
        reply_times=run.times if has_model(run.rows) else None,
        failures=dict(run.failures),
        share=share_interval(by_unit(shares, unit)) if have_shares(run.outcomes) else None,
    )


def setting_differences(settings: Sequence[Settings]) -> Iterable[SettingDifference]:
    """The settings on which episodes depend, and that are not the same."""
    for field in fields_of(Settings):
        if field.may_change or field.table == "policy" or field.key in _SHOWN_ELSEWHERE:
            continue
        values = [value_of(one, field) for one in settings]
        if any(value != values[0] for value in values):
            yield SettingDifference(field.key, tuple([_plain(value) for value in values]))


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)


def _changed_worlds(runs: Sequence[_Read]) -> dict[str, tuple[str, ...]]:
    """The worlds whose packages differ between the runs."""
    digests: list[dict[str, set[str]]] = []
    for run in runs:
        found: dict[str, set[str]] = {}
        for row in run.rows:
            found.setdefault(row.scenario, set()).add(row.scenario_digest)
        digests.append(found)
    changed = {}
    for world in sorted({name for found in digests for name in found}):
        sets = [found.get(world, set()) for found in digests]
        if len(set.union(*sets)) > 1:
            changed[world] = tuple([", ".join(sorted(one)) for one in sets])
    return changed


def run_difference(
    name: str,
    first: Sequence[Outcome],
    other: Sequence[Outcome],
    *,
    level: float,
    unit: Unit | None = None,
    is_planned: bool = True,
) -> RunDifference | None:
    """A run compared with the first one; None: they share no task with a verdict. What so many
    units can show is computed where `is_planned`; it takes a second or two."""
    found = compare(first, other, level=level, unit=unit)
    if found is None:
        return None
    found = _named(found, name)
    shares = None
    if have_shares(first) or have_shares(other):
        shares = compare(by_shares(first), by_shares(other), level=level, unit=unit)
        shares = shares and _named(shares, name)
    if not is_planned:
        return RunDifference(name, found, None, None, shares)
    alpha = 1 - level
    is_open = bool(found.delta) and found.interval[0] <= 0 <= found.interval[1]
    if found.unit == "world":
        planned = _planned_by_worlds(name, found, alpha, is_open=is_open)
        return msgspec.structs.replace(planned, share=shares)
    tries = max(1, round(median(map(len, by_task(other).values()))))
    noise = _noise(first, other)
    needed = None
    if is_open:
        needed = plan(abs(found.delta), alpha=alpha, tries=tries, noise=noise).tasks
    return RunDifference(
        name,
        found,
        detectable(found.tasks, alpha=alpha, tries=tries, noise=noise),
        None if needed is None or needed > _LONGEST_PLAN else needed,
        shares,
    )


def _named(found: Comparison, name: str) -> Comparison:
    return msgspec.structs.replace(found, verdict=found.verdict.replace("B is", f"{name} is"))


def _planned_by_worlds(
    name: str, found: Comparison, alpha: float, *, is_open: bool
) -> RunDifference:
    """What so many worlds can show, from how much their differences were seen to vary."""
    variance = found.spread**2
    if not variance:
        return RunDifference(name, found, None, None)
    needed = smallest_number(abs(found.delta), variance, power=_POWER, alpha=alpha) * is_open
    return RunDifference(
        name,
        found,
        detectable_by(found.units, variance, power=_POWER, alpha=alpha),
        needed if 0 < needed <= _LONGEST_PLAN else None,
    )


def level_of(runs: int) -> float:
    """The level of each interval where so many runs are compared: with more than two it is higher,
    so that all intervals hold together."""
    return 1 - (1 - LEVEL) / (runs - 1)


def _difference(
    name: str, first: _Read, other: _Read, level: float, unit: Unit | None
) -> RunDifference:
    found = run_difference(name, first.outcomes, other.outcomes, level=level, unit=unit)
    if found is None:
        raise SettingsError(nothing_shared(first.folder, other.folder))
    return found


def nothing_shared(first: Path, other: Path) -> str:
    """Why two runs cannot be compared."""
    return f"{first} and {other} share no task with a verdict: compare runs of the same scenarios"


def _noise(first: Sequence[Outcome], second: Sequence[Outcome]) -> float | None:
    """The variance of a try in both runs; None: no task was tried twice in one of them."""
    found = [noise_of(outcomes) for outcomes in (first, second)]
    known = [one for one in found if one is not None]
    return sum(known) / len(known) if len(known) == 2 else None


def _groups(runs: Sequence[_Read], level: float, unit: Unit) -> Iterable[ComparedGroup]:
    """The tasks that all runs share with a verdict, by world and by tag. The unit of a world's
    interval is the task."""
    means = [_means(run.outcomes) for run in runs]
    shares = [_means(by_shares(run.outcomes)) for run in runs]
    with_share = {one.key for run in runs for one in run.outcomes if one.share is not None}
    shared = sorted(set.intersection(*(set(one) for one in means)))
    tags: dict[TaskKey, tuple[str, ...]] = {
        (row.scenario, row.task): row.tags for run in runs for row in run.rows
    }
    parts: dict[tuple[str, str], list[TaskKey]] = {}
    for key in shared:
        parts.setdefault(("world", key[0]), []).append(key)
    for key in shared:
        for tag in tags.get(key, ()):
            parts.setdefault(("tag", tag), []).append(key)
    for (kind, name), keys in parts.items():
        of = unit if kind == "tag" else "task"
        found = _group(kind, name, keys, means, level, of)
        if not with_share.isdisjoint(keys):
            share = _group(kind, name, keys, shares, level, of)
            found = msgspec.structs.replace(found, share=share)
        yield found


def _means(outcomes: Iterable[Outcome]) -> dict[TaskKey, float]:
    """The mean score of each task that has one."""
    return {
        key: sum(one.score or 0.0 for one in group) / len(group)
        for key, group in by_task(outcomes).items()
    }


def _group(
    kind: str,
    name: str,
    keys: Sequence[TaskKey],
    means: Sequence[Mapping[TaskKey, float]],
    level: float,
    unit: Unit,
) -> ComparedGroup:
    shares = tuple([_mean(means_of_units({key: one[key] for key in keys}, unit)) for one in means])
    changes = means_of_units({key: means[-1][key] - means[0][key] for key in keys}, unit)
    interval, _ = interval_and_p(changes, level)
    return ComparedGroup(kind, name, len(keys), shares, shares[-1] - shares[0], interval)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
