"""Whether one run is better than another, task by task or world by world.

Both runs are compared on the tasks that they share. Within a task, tries with the same seed are
paired; where the seeds differ, the means are. The difference is the mean over tasks (each counts
once), and its interval and p come from the spread of the tasks' differences (a paired t test, as in
E. Miller, arXiv:2411.00640, section 4). It is not the difference of two intervals: those overlap
long after the paired difference is clear. Where the world is the unit (harness.outcomes.units), a
world's difference is the mean of its tasks', and each world counts once: so a hundred tasks of one
world say as little of other worlds as one does.

Where at most twelve units differ, the t test says too much: its p is then not below the one of the
exact test (judge.statistics.sign_flips), and its interval not narrower. So the verdict, the
interval and p always say the same, and equal agents get a verdict in at most 5 % of comparisons,
of however few units. Only episodes without a verdict can take a verdict away: where it would not be
reached if all of them spoke against it, no difference is shown, so that an agent gains nothing by
breaking its world.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec
from scipy import special

from rehearsal_room.harness.outcomes.units import Unit, by_unit, choose_unit
from rehearsal_room.judge.statistics.outcomes import Outcome, TaskKey, by_task, filled
from rehearsal_room.judge.statistics.sign_flips import MOST, flip_bounds, flip_p, least_tasks

LEVEL = 0.95


class TaskDifference(msgspec.Struct, frozen=True):
    """The difference of two runs on one task: share of the second less share of the first."""

    key: TaskKey
    value: float
    pairs: int  # of tries with the same seed; 0: the means were compared


class Comparison(msgspec.Struct, frozen=True):
    """What `rehearse compare --json` writes."""

    tasks: int  # that both runs have, with a verdict
    paired: int  # of them those that were paired by seed
    delta: float  # B - A, a share
    interval: tuple[float, float]
    p: float
    gained: tuple[str, ...]  # tasks that B does better, as `scenario:task`
    lost: tuple[str, ...]
    verdict: str
    left_out: int = 0  # tasks that only one of the runs has
    unjudged: int = 0  # episodes without a score, of the tasks that both runs played
    bounds: tuple[float, float] = (0.0, 0.0)  # of delta, whatever the unjudged episodes had been
    least: int = 0  # the fewest units with which a difference can be shown at all
    unit: Unit = "task"
    units: int = 0  # tasks, or worlds
    spread: float = 0.0  # standard deviation of the units' differences
    about: str = ""  # what the interval is about


def compare(
    first: Sequence[Outcome],
    second: Sequence[Outcome],
    *,
    level: float = LEVEL,
    unit: Unit | None = None,
) -> Comparison | None:
    """Compare two runs; None: they share no task with a score. `level` is the interval's. `unit`
    None: it follows from the tasks that both played."""
    before, after = by_task(first), by_task(second)
    shared = sorted(before.keys() & after.keys())
    if not shared:
        return None
    played = {one.key for one in first} & {one.key for one in second}
    choice = choose_unit(played, unit)
    found = [_difference(key, before[key], after[key]) for key in shared]
    values = means_of_units({one.key: one.value for one in found}, choice.unit)
    delta = math.fsum(values) / len(values)
    interval, p = interval_and_p(values, level)
    bounds, unjudged = (delta, delta), _unscored(first, played) + _unscored(second, played)
    holds = True
    if unjudged:
        least = _least(first, second, played, choice.unit)
        most = -_least(second, first, played, choice.unit)
        bounds = min(least, delta), max(most, delta)
        if not interval[0] <= 0 <= interval[1]:
            holds = _holds(first, second, interval, level, choice.unit)
    return Comparison(
        tasks=len(found),
        paired=sum(one.pairs > 0 for one in found),
        delta=delta,
        interval=interval,
        p=p,
        gained=tuple(_name(one.key) for one in found if one.value > 0),
        lost=tuple(_name(one.key) for one in found if one.value < 0),
        verdict=_verdict(delta, interval if holds else (-1.0, 1.0)),
        left_out=len(before.keys() ^ after.keys()),
        unjudged=unjudged,
        least=least_tasks(1 - level),
        bounds=bounds,
        unit=choice.unit,
        units=len(values),
        spread=math.sqrt(variance_of(values)),
        about=choice.about,
    )


def means_of_units(values: Mapping[TaskKey, float], unit: Unit) -> list[float]:
    """The value of each unit: a task's own, or the mean of a world's tasks."""
    units = by_unit({key: [value] for key, value in values.items()}, unit)
    return [math.fsum(one) / len(one) for one in units.values()]


def _difference(
    key: TaskKey, before: Sequence[Outcome], after: Sequence[Outcome]
) -> TaskDifference:
    seeds = {one.seed: one.score for one in before}
    pairs = [
        one.score - earlier
        for one in after
        if one.score is not None and (earlier := seeds.get(one.seed)) is not None
    ]
    if pairs:
        return TaskDifference(key, sum(pairs) / len(pairs), len(pairs))
    return TaskDifference(key, _mean(after) - _mean(before), 0)


def _mean(outcomes: Sequence[Outcome]) -> float:
    return sum(one.score or 0.0 for one in outcomes) / len(outcomes)


def interval_and_p(
    values: Sequence[float], level: float = LEVEL
) -> tuple[tuple[float, float], float]:
    """The interval (95 % unless given) of the mean of some units' differences, from -1 to 1, and
    the two-sided p of 0. The interval leaves out 0 where p is below 1 - level, and nowhere else.
    """
    mean, alpha = math.fsum(values) / len(values), 1 - level
    half, p = paired_t(values, level)
    lower, upper = mean - half, mean + half
    if mean and are_alike(values):  # the unseen tasks may not differ, or differ as far as can be
        far = math.copysign(1.0, mean)
        lower, upper = sorted((mean - half * mean, mean + half * (far - mean)))
    differing = [value for value in values if value]
    if len(differing) <= MOST:
        exact = flip_p(differing)
        p = max(p, exact)
        if len(values) <= MOST:
            least, most = flip_bounds(values, alpha) or (-1.0, 1.0)
            lower, upper = min(lower, least), max(upper, most)
        elif exact > alpha:
            lower, upper = min(lower, 0.0), max(upper, 0.0)
    return (max(-1.0, lower), min(1.0, upper)), p


def are_alike(values: Sequence[float]) -> bool:
    """Whether the values are all equal, so that their spread says nothing."""
    return max(values) - min(values) < 1e-9


def variance_of(values: Sequence[float]) -> float:
    """The variance of the values, estimated without bias; 0 where there is only one."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)


def unseen_share(count: int, level: float) -> float:
    """The share that can still be there where none was seen in so many (the rule of three)."""
    return float(1 - (1 - level) ** (1 / count))


def paired_t(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Half of the interval (95 % unless given) of the mean of some differences, and the two-sided p
    of 0.

    Where all differences are equal, their spread says nothing: the interval is then what a share of
    which nothing was seen can still be (the rule of three), and p is 1, or the chance that so many
    tasks all move by accident to one side.
    """
    count = len(values)
    mean = math.fsum(values) / count
    if are_alike(values):
        return unseen_share(count, level), 1.0 if mean == 0 else float(2.0 ** (1 - count))
    error = math.sqrt(variance_of(values) / count)
    half = float(special.stdtrit(count - 1, (1 + level) / 2)) * error
    return half, float(2 * special.stdtr(count - 1, -abs(mean) / error))


def _holds(
    first: Sequence[Outcome],
    second: Sequence[Outcome],
    interval: tuple[float, float],
    level: float,
    unit: Unit,
) -> bool:
    """Whether a difference is shown, too, if all episodes without a score speak against it."""
    is_better = interval[0] > 0
    against = filled(first, float(is_better)), filled(second, float(not is_better))
    worst = compare(*against, level=level, unit=unit)
    assert worst is not None
    return worst.interval[0] > 0 if is_better else worst.interval[1] < 0


def _verdict(delta: float, interval: tuple[float, float]) -> str:
    lower, upper = interval
    if lower > 0:
        return f"B is better by {_points(delta)}"
    if upper < 0:
        return f"A is better by {_points(-delta)}"
    return "no difference is shown"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _unscored(outcomes: Iterable[Outcome], keys: AbstractSet[TaskKey]) -> int:
    return sum(one.score is None and one.key in keys for one in outcomes)


def _least(
    first: Sequence[Outcome], second: Sequence[Outcome], keys: AbstractSet[TaskKey], unit: Unit
) -> float:
    """The least difference that there could be: unjudged episodes of the first run were all
    completed, and none of the second. Tasks count on which no episode has a verdict, too."""
    low = _filled(second, 0.0)
    high = _filled(first, 1.0)
    values = means_of_units({key: low[key] - high[key] for key in sorted(keys)}, unit)
    return math.fsum(values) / len(values)


def _filled(outcomes: Iterable[Outcome], score: float) -> dict[TaskKey, float]:
    """The mean of each task, with this score in place of none."""
    found: dict[TaskKey, list[float]] = {}
    for one in outcomes:
        found.setdefault(one.key, []).append(score if one.score is None else one.score)
    return {key: sum(values) / len(values) for key, values in found.items()}


def _name(key: TaskKey) -> str:
    return ":".join(key)
