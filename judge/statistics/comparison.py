"""Whether one run is better than another, task by task.

Both runs are compared on the tasks that they share. Within a task, tries with the same seed are
paired; where the seeds differ, the means are. The difference is the mean over tasks (each counts
once), and its interval and p come from the spread of the tasks' differences (a paired t test, as in
E. Miller, arXiv:2411.00640, section 4). It is not the difference of two intervals: those overlap
long after the paired difference is clear.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec
from scipy import special

from rehearsal_room.judge.statistics.outcomes import Outcome, TaskKey, by_task

LEVEL = 0.95


class TaskDifference(msgspec.Struct, frozen=True):
    """The difference of two runs on one task: share of the second less share of the first."""

    key: TaskKey
    value: float
    pairs: int  # of tries with the same seed; 0: the means were compared


class Comparison(msgspec.Struct, frozen=True):
    """What `rehearse compare --json` writes."""

    tasks: int  # that both runs have
    paired: int  # of them those that were paired by seed
    delta: float  # B - A, a share
    interval: tuple[float, float]
    p: float
    gained: tuple[str, ...]  # tasks that B does better, as `scenario:task`
    lost: tuple[str, ...]
    verdict: str
    left_out: int = 0  # tasks that only one of the runs has
    unjudged: int = 0  # episodes of the shared tasks without a score
    bounds: tuple[float, float] = (0.0, 0.0)  # of delta, whatever the unjudged episodes had been


def compare(
    first: Sequence[Outcome], second: Sequence[Outcome], *, level: float = LEVEL
) -> Comparison | None:
    """Compare two runs; None: they share no task with a score. `level` is the interval's."""
    before, after = by_task(first), by_task(second)
    shared = sorted(before.keys() & after.keys())
    if not shared:
        return None
    found = [_difference(key, before[key], after[key]) for key in shared]
    values = [one.value for one in found]
    delta = math.fsum(values) / len(values)
    half, p = paired_t(values, level)
    interval = (max(-1.0, delta - half), min(1.0, delta + half))
    return Comparison(
        tasks=len(found),
        paired=sum(one.pairs > 0 for one in found),
        delta=delta,
        interval=interval,
        p=p,
        gained=tuple(_name(one.key) for one in found if one.value > 0),
        lost=tuple(_name(one.key) for one in found if one.value < 0),
        verdict=_verdict(delta, interval),
        left_out=len(before.keys() ^ after.keys()),
        unjudged=_unscored(first, shared) + _unscored(second, shared),
        bounds=(_worst(first, second, shared), -_worst(second, first, shared)),
    )


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


def paired_t(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Half of the interval (95 % unless given) of the mean of some differences, and the two-sided p
    of 0.

    Where all differences are equal, their spread says nothing: the interval is then what a share of
    which nothing was seen can still be (the rule of three), and p is 1, or the chance that so many
    tasks all move by accident to one side.
    """
    count = len(values)
    mean = math.fsum(values) / count
    variance = (
        math.fsum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else 0.0
    )
    if variance == 0:
        unseen = float(1 - (1 - level) ** (1 / count))
        return unseen, 1.0 if mean == 0 else float(2.0 ** (1 - count))
    error = math.sqrt(variance / count)
    half = float(special.stdtrit(count - 1, (1 + level) / 2)) * error
    return half, float(2 * special.stdtr(count - 1, -abs(mean) / error))


def _verdict(delta: float, interval: tuple[float, float]) -> str:
    lower, upper = interval
    if lower > 0:
        return f"B is better by {_points(delta)}"
    if upper < 0:
        return f"A is better by {_points(-delta)}"
    return "no difference is shown"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _unscored(outcomes: Iterable[Outcome], shared: Sequence[TaskKey]) -> int:
    keys = set(shared)
    return sum(one.score is None and one.key in keys for one in outcomes)


def _worst(first: Sequence[Outcome], second: Sequence[Outcome], shared: Sequence[TaskKey]) -> float:
    """The least difference that there could be: unjudged episodes of the first run were all
    completed, and none of the second."""
    low = _filled(second, 0.0)
    high = _filled(first, 1.0)
    return sum(low[key] - high[key] for key in shared) / len(shared)


def _filled(outcomes: Iterable[Outcome], score: float) -> dict[TaskKey, float]:
    """The mean of each task, with this score in place of none."""
    found: dict[TaskKey, list[float]] = {}
    for one in outcomes:
        found.setdefault(one.key, []).append(score if one.score is None else one.score)
    return {key: sum(values) / len(values) for key, values in found.items()}


def _name(key: TaskKey) -> str:
    return ":".join(key)
