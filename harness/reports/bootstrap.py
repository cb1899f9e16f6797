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
