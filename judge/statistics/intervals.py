"""Intervals for a share, where the tries at one task resemble each other.

Tries at a task are not independent: a hundred tries at one task say little about the next task. So
the task is the unit (E. Miller, arXiv:2411.00640): the variance of the mean is taken from the means
of the tasks, it gives an effective number of tries, and Wilson's interval is made for that number
(E. L. Korn and B. I. Graubard, 1998, with Wilson's interval instead of Clopper and Pearson's). With
few tasks, Student's t takes the part of the normal distribution.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from scipy import special

LEVEL = 0.95


class Interval(msgspec.Struct, frozen=True):
    """An estimate between two bounds."""

    value: float
    lower: float
    upper: float


def share_interval(
    clusters: Mapping[Any, Sequence[float]], *, level: float = LEVEL
) -> Interval | None:
    """The mean of all tries and its interval; None: there are none. `clusters` has the tries of
    each task, numbers from 0 to 1.

    Example: 20 tasks, of which 10 are solved in both of two tries and 10 in none -> 0.5 in
    (0.29, 0.71): as if there had been 20 tries, not 40
    """
    tries = [list(values) for values in clusters.values() if values]
    total = sum(map(len, tries))
    if not total:
        return None
    mean = sum(map(sum, tries)) / total
    number, degrees = effective_tries(tries, mean, total), len(tries) - 1
    quantile = _quantile(level, degrees)
    return Interval(mean, *_wilson(mean, number, quantile))


def effective_tries(tries: Sequence[Sequence[float]], mean: float, total: int) -> float:
    """How many independent tries say as much as these: never more than there are, and never fewer
    than one for each task."""
    count = len(tries)
    spread = mean * (1 - mean)
    if count < 2 or spread == 0:
        return float(count)
    residuals = sum((sum(values) - mean * len(values)) ** 2 for values in tries)
    variance = residuals / total**2 * count / (count - 1)
    if variance == 0:
        return float(total)
    return min(float(total), max(1.0, spread / variance))


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
