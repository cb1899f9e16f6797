"""Confidence intervals by resampling (B. Efron, 1979): the one bootstrap of all reports.

A unit is what is drawn as a whole because its parts depend on each other, as the judgings of one
episode or the tries at one task. Units are given with how often each occurs, so a resample is a
handful of counts however many units there are. The same units, order and seed give the same
intervals. Pure Python: 100 units and 2,000 resamples take about 0.05 s.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Generic, TypeVar

from rehearsal_room.harness.outcomes.intervals import Interval

Figure = Interval[float | None]
U = TypeVar("U")
RESAMPLES = 2_000
TAIL = 0.025  # of a 95 % interval, on each side


class Resamples(Generic[U]):
    """Samples drawn from the units with replacement, each as large as the original."""

    def __init__(
        self, units: Mapping[U, int], *, seed: int = 0, num_resamples: int = RESAMPLES
    ) -> None:
        kinds, draw, num = list(units), Random(seed), sum(units.values())
        indices, counts = range(len(kinds)), list(units.values())
        self._resamples: list[dict[U, int]] = [
            {kinds[i]: n for i, n in Counter(draw.choices(indices, counts, k=num)).items()}
            for _ in range(num_resamples if num else 0)
        ]

    def values(self, statistic: Callable[[Mapping[U, int]], float | None]) -> list[float]:
        """The statistic of each resample for which it is defined (not None), sorted."""
        return sorted(value for one in self._resamples if (value := statistic(one)) is not None)


def percentile_interval(values: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of sorted values, which must not be empty. Between two values the outer one
    is the bound.

    Example: 0, 1, … 2000 -> (50, 1950)
    """
    last = len(values) - 1
    return values[math.floor(TAIL * last)], values[math.ceil((1 - TAIL) * last)]


class Bootstrap(Generic[U]):
    """95 % intervals of statistics, from resampled units.

    100 episodes take about 0.05 s and 1,000 about 0.5 s, and each statistic 0.01 to 0.1 s more.
    """

    def __init__(
        self, units: Mapping[U, int], *, seed: int = 0, num_resamples: int = RESAMPLES
    ) -> None:
        self._units = units
        self._resamples = Resamples(units, seed=seed, num_resamples=num_resamples)

    def of(self, statistic: Callable[[Mapping[U, int]], float | None]) -> Figure:
        """A statistic with its interval, over the resamples for which it is defined. Where these
        are all equal, they show nothing about other values, and there is no interval."""
        value = statistic(self._units)
        found = self._resamples.values(statistic)
        if value is None or not found or math.isclose(found[0], found[-1]):
            return Figure(value, None, None)
        return Figure(value, *percentile_interval(found))

    def share(self, statistic: Callable[[Mapping[U, int]], float | None]) -> Figure:
        """The same for a share from 0 to 1. Where it is 0 or 1 in all episodes, the interval is the
        exact one for n equal among n (C. Clopper and E. Pearson, 1934): 0 of 100 is 0 to 3.6 %."""
        found = self.of(statistic)
        if found.lower is not None or found.value not in (0.0, 1.0):
            return found
        unseen = 1 - TAIL ** (1 / max(1, sum(self._units.values())))
        return Figure(1.0, 1 - unseen, 1.0) if found.value else Figure(0.0, 0.0, unseen)
