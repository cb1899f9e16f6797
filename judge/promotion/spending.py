"""How much of alpha a look may spend, when a run is looked at several times while it grows.

Looking often and stopping at the first good result finds differences that are not there. So the
chance of a wrong verdict is spent bit by bit (K. K. G. Lan and D. L. DeMets, 1983): at a share t of
the planned episodes, alpha * t^3 of it may be used (K. Kim and D. L. DeMets, 1987). The border of
a look is what spends exactly that, given that earlier looks did not stop: the density of the sums
that go on is carried from look to look (P. Armitage, C. K. McPherson and B. C. Rowe, 1969).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

_POWER = 3.0  # of t
_POINTS = 240  # of the grid of a density
_FAR = 7.0  # standard deviations
_normal = NormalDist()


def nominal_alphas(shares: Sequence[float], alpha: float) -> list[float]:
    """The two-sided alpha of each look. `shares` are the shares of the planned episodes at the
    looks, growing, the last at most 1.

    Example: [1.0], 0.05 -> [0.05]: one look spends all
    Example: [0.5, 1.0], 0.05 -> [0.00625, 0.0474]
    """
    return list(_nominal(tuple(round(share, 6) for share in shares), alpha))


@lru_cache(maxsize=256)
def _nominal(shares: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    found: list[float] = []
    grid: list[float] = [0.0]  # sums after the look before, on the scale of information
    weights: list[float] = [1.0]
    before, spent = 0.0, 0.0
    for share in shares:
        if share <= before:
            found.append(0.0)  # nothing is new, so nothing is spent
            continue
        due = alpha / 2 * min(1.0, share) ** _POWER
        step = math.sqrt(share - before)
        border = _border(grid, weights, step, due - spent, _FAR * math.sqrt(share))
        found.append(2 * (1 - _normal.cdf(border / math.sqrt(share))))
        grid, weights = _carried(grid, weights, step, border, -_FAR * math.sqrt(share))
        before, spent = share, due
    return tuple(found)


def _crossing(grid: list[float], weights: list[float], step: float, border: float) -> float:
    """The chance that the sum is beyond a border after the next step."""
    tail = _normal.cdf
    return sum(
        weight * tail((at - border) / step) for at, weight in zip(grid, weights, strict=True)
    )


def _border(
    grid: list[float], weights: list[float], step: float, chance: float, highest: float
) -> float:
    low, high = 0.0, highest
    for _ in range(60):
        middle = (low + high) / 2
        if _crossing(grid, weights, step, middle) > chance:
            low = middle
        else:
            high = middle
    return high


def _carried(
    grid: list[float], weights: list[float], step: float, border: float, lowest: float
) -> tuple[list[float], list[float]]:
    """The sums that did not cross the border, each with its chance."""
    width = (border - lowest) / _POINTS
    points = [lowest + (index + 0.5) * width for index in range(_POINTS)]
    scale = width / (step * math.sqrt(2 * math.pi))
    return points, [
        scale
        * sum(
            weight * math.exp(-(((point - at) / step) ** 2) / 2)
            for at, weight in zip(grid, weights, strict=True)
        )
        for point in points
    ]
