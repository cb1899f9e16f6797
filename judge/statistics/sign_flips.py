"""The exact test of paired differences: sign flips (R. A. Fisher, The Design of Experiments, 1935,
section 21).

Where two agents are equal, which of them a task's difference speaks for is a matter of chance: each
difference could as well have the other sign. p is the share of all 2^n ways to flip signs that
lead at least as far from 0 as what was found, so it is right for any number of tasks, however the
differences are spread. With n tasks that differ p is never below 2^(1-n): fewer than six cannot
show anything at 5 %.

The bounds of the mean are those that this test does not reject. They are subset means (J. A.
Hartigan, "Using subsample values as typical values", 1969): where a share a of the 2^n - 1 subsets
may be cut off on a side, the bound is the subset mean at that place.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MOST = 12  # differences that are flipped: 4,096 ways
_NEAR = 1e-9  # sums that differ by less are equal
Numbers = NDArray[np.float64]


def least_tasks(alpha: float) -> int:
    """The fewest tasks with which a difference can be shown at all.

    Example: 0.05 -> 6, since 2^(1-6) = 0.031
    """
    return 1 + math.ceil(math.log2(1 / alpha))


def flip_p(differences: Sequence[float] | Numbers) -> float:
    """The two-sided p of a mean of 0. At most MOST of the differences may not be 0."""
    values = np.asarray(differences, dtype=float)
    return float(flip_ps(values[values != 0][None, :])[0])


def flip_ps(rows: Numbers) -> Numbers:
    """The same for each row of `rows` [R, n], n at most MOST. Zeros change no p, so a row may be
    filled up with them."""
    width = rows.shape[1]
    if width > MOST:
        raise ValueError(f"sign flips of {width} differences; at most {MOST} are counted out")
    # Flipping a subset changes the sum by twice the subset's sum; all subsets and their complements
    # lead equally far from 0, so one side is counted.
    toward = np.where(rows.sum(axis=1, keepdims=True) < 0, -rows, rows)
    sums = toward @ _subsets(width).T  # [R, 2^n]
    share = (sums <= _NEAR).mean(axis=1)
    found: Numbers = np.minimum(1.0, 2 * share)
    return found


def flip_bounds(differences: Sequence[float], alpha: float) -> tuple[float, float] | None:
    """The means that the test does not reject, the least and the greatest; None: it rejects none.
    There are at most MOST differences."""
    values = np.asarray(differences, dtype=float)
    place = math.floor(alpha / 2 * 2 ** len(values))
    if place < 1:
        return None
    subsets = _subsets(len(values))[1:]  # without the empty one
    means = np.sort(subsets @ values / subsets.sum(axis=1))
    return float(means[place - 1]), float(means[-place])


@lru_cache(maxsize=MOST + 1)
def _subsets(count: int) -> Numbers:
    """All subsets of so many things: [2^count, count], 1 where it has the thing. The first is
    empty."""
    numbers = np.arange(2**count)[:, None]
    found: Numbers = ((numbers >> np.arange(count)) & 1).astype(float)
    return found
