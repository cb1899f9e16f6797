"""Intervals for a share, where the tries at one task resemble each other.

Tries at a task are not independent: a hundred tries at one task say little about the next task. So
the task is the unit (E. Miller, arXiv:2411.00640): the variance of the mean is taken from the means
of the tasks, it gives an effective number of tries, and Wilson's interval is made for that number
(E. L. Korn and B. I. Graubard, 1998, with Wilson's interval instead of Clopper and Pearson's). With
few tasks, Student's t takes the part of the normal distribution. One task says next to nothing
about others: its interval is the exact one of one try (C. Clopper and E. Pearson, 1934).

`exact_interval` asks another question: what share an agent completes of these tasks alone, if it
tries them again. Then the try is the unit.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import special

from rehearsal_room.harness.outcomes.intervals import Interval

LEVEL = 0.95
_EQUAL = 1e-9  # means that differ by less are equal


def share_interval(
    clusters: Mapping[Any, Sequence[float]], *, level: float = LEVEL
) -> Interval[float] | None:
    """The mean of all tries and its interval; None: there are none. `clusters` has the tries of
    each task, numbers from 0 to 1.

    Example: 20 tasks, of which 10 are solved in both of two tries and 10 in none -> 0.5 in
    (0.29, 0.71): as if there had been 20 tries, not 40
    """
    tries = [list(values) for values in clusters.values() if values]
    total = sum(map(len, tries))
    if not total:
        return None
    mean = math.fsum(map(math.fsum, tries)) / total  # in whatever order they come
    if len(tries) == 1:
        return Interval(mean, *_clopper_pearson(mean, 1, level))
    number, degrees = effective_tries(tries, mean, total), len(tries) - 1
    quantile = _quantile(level, degrees)
    return Interval(mean, *_wilson(mean, number, quantile))


def exact_interval(scores: Sequence[float], *, level: float = LEVEL) -> Interval[float] | None:
    """The share of completed tries, each 0 or 1, and its exact interval; None: there are none.

    It is about these tasks alone: their tries are independent, and each task has a share of its
    own. Where the shares differ, their mean is bounded and the interval is on the safe side (W.
    Hoeffding, 1956).

    Example: 20 tries of which all are completed -> 1 in (0.83, 1)
    """
    if not scores:
        return None
    total = math.fsum(scores)
    return Interval(total / len(scores), *_clopper_pearson(total, len(scores), level))


def mean_interval(
    clusters: Mapping[Any, Sequence[float]], *, level: float = LEVEL
) -> Interval[float] | None:
    """The mean of numbers of any size, each cluster counted once, with Student's t interval; None:
    there are none. One cluster has no spread: its bounds are infinite. Where all clusters are
    equal, others may still lie elsewhere between 0 and 1 (the rule of three)."""
    means = [math.fsum(values) / len(values) for values in clusters.values() if values]
    count = len(means)
    if not count:
        return None
    mean = math.fsum(means) / count
    if count == 1:
        return Interval(mean, -math.inf, math.inf)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in means) / (count - 1) / count)
    if max(means) - min(means) < _EQUAL:
        unseen = 1 - (1 - level) ** (1 / count)
        below, above = mean - min(0.0, mean), max(1.0, mean) - mean
        return Interval(mean, mean - unseen * below, mean + unseen * above)
    half = _quantile(level, count - 1) * spread
    return Interval(mean, mean - half, mean + half)


def quantile_interval(
    values: Sequence[float], share: float, *, level: float = LEVEL
) -> Interval[float] | None:
    """A quantile of numbers, such as the 95th percentile (share 0.95), between two of them (order
    statistics; W. J. Conover, 1999, section 3.2); None: there are none. Beyond the largest number
    the bound is infinite.

    Example: 1, 2, … 100 with share 0.95 -> 95 in (90, 99)
    """
    count = len(values)
    if not count:
        return None
    ordered = sorted(values)
    found = ordered[max(0, math.ceil(share * count) - 1)]
    tail = (1 - level) / 2
    low = int(_fewest(count, share, tail))
    high = int(_fewest(count, share, 1 - tail)) + 1
    lower = ordered[low - 1] if low >= 1 else -math.inf
    upper = ordered[high - 1] if high <= count else math.inf
    return Interval(found, min(lower, found), max(upper, found))


def _fewest(count: int, share: float, chance: float) -> int:
    """The smallest number for which a binomial count is at most that with this chance."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if special.bdtr(middle, count, share) < chance:
            low = middle + 1
        else:
            high = middle
    return low


def effective_tries(tries: Sequence[Sequence[float]], mean: float, total: int) -> float:
    """How many independent tries say as much as these: never more than there are, and never fewer
    than one for each task."""
    count = len(tries)
    spread = mean * (1 - mean)
    if count < 2 or spread == 0:
        return float(count)
    residuals = math.fsum((math.fsum(values) - mean * len(values)) ** 2 for values in tries)
    variance = residuals / total**2 * count / (count - 1)
    if variance == 0:
        return float(total)
    return min(float(total), max(1.0, spread / variance))


def _clopper_pearson(successes: float, tries: int, level: float) -> tuple[float, float]:
    tail, failures = (1 - level) / 2, tries - successes
    lower = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    upper = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return lower, upper


def _quantile(level: float, degrees: int) -> float:
    if degrees < 1:
        return float(special.ndtri((1 + level) / 2))
    return float(special.stdtrit(degrees, (1 + level) / 2))


def _wilson(mean: float, number: float, quantile: float) -> tuple[float, float]:
    """Wilson's bounds for a share seen in so many tries (E. B. Wilson, 1927)."""
    square = quantile**2 / number
    middle = (mean + square / 2) / (1 + square)
    half = quantile / (1 + square) * math.sqrt(mean * (1 - mean) / number + square / number / 4)
    return max(0.0, middle - half), min(1.0, middle + half)
