"""Intervals for a share, where the tries at one task resemble each other.

Tries at a task are not independent: a hundred tries at one task say little about the next task. So
the task is the unit (E. Miller, arXiv:2411.00640), or the world (harness.outcomes.units), and its
tries are a cluster. The share of a cluster is drawn from a beta distribution, its successes are
binomial (J. G. Skellam, 1948), and the interval holds 95 % of what the tries leave possible for the
mean of that distribution, with its spread integrated out (J. O. Berger, B. Liseo and R. L. Wolpert,
1999): the spread cannot be known from few clusters, and an interval that takes its estimate for the
truth is too short where most of them are alike.

Before the tries, mean m and correlation r of two tries of a cluster have a density that makes
such intervals hold what they promise (`_prior`). One cluster says next to nothing about others: its
interval is the exact one of one try (C. Clopper and E. Pearson, 1934).

From 16 clusters on an interval also holds the one that assumes no distribution (next paragraph):
where most clusters nearly always succeed and a few never do, no beta distribution fits.

Single tries at each task cannot resemble each other. They, scores between 0 and 1, and very many
clusters with different numbers of tries get Wilson's interval for the effective number of tries (E.
L. Korn and B. I. Graubard, 1998), with Student's t.

`exact_interval` asks another question: what share an agent completes of these tasks alone, if it
tries them again. Then the try is the unit.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from rehearsal_room.harness.outcomes.intervals import Interval

LEVEL = 0.95
_EDGES = np.linspace(0, math.pi / 2, 401)  # of arcsin(sqrt(mean)), where Jeffreys' prior is flat
_CELLS = 200  # of the second grid
_ENOUGH = 40  # cells of the first grid that are possible, so that it needs no second one
_ROOTS = (np.arange(28) + 0.5) / 28  # square roots of the correlations of two tries, equally apart
_SPREADS = np.concatenate(([1e5], 1 / _ROOTS**2 - 1))[:, None]  # a + b of the beta distributions
_ANGLES = (np.arange(100) + 0.5) / 100 * math.pi / 2  # at which the prior is computed
_MOST_TRIES = 50  # of a cluster, for the prior: more do not change its shape
_TO_THE_ENDS = -0.15  # power of sin(2 angle) in the prior
_INDEPENDENT = (0.2, 2.0)  # the prior's share of independent tries, and that times the clusters
_NEGLIGIBLE = 1e-9
# From so many clusters on, the bounds also hold those that assume no distribution. A beta
# distribution does not fit every agent: where it nearly always succeeds in most clusters and never
# in a few, its bounds alone held the mean of 100 clusters of 16 tries in half of the samples.
_MANY = 16
_MOST_KINDS = 150  # of clusters: beyond, the estimated spread is near the true one


def share_interval(
    clusters: Mapping[Any, Sequence[float]], *, level: float = LEVEL
) -> Interval[float] | None:
    """The mean of all tries and its interval; None: there are none. `clusters` has the tries of
    each task, numbers from 0 to 1.

    Example: 20 tasks, of which 10 are solved in both of two tries and 10 in none -> 0.5 in
    (0.30, 0.70): as if there had been 20 tries, not 40
    """
    tries = [list(values) for values in clusters.values() if values]
    total = sum(map(len, tries))
    if not total:
        return None
    mean = math.fsum(map(math.fsum, tries)) / total  # in whatever order they come
    if len(tries) == 1:
        return Interval(mean, *_clopper_pearson(mean, 1, level))
    counts = Counter((math.fsum(values), len(values)) for values in tries)
    is_whole = all(value in (0.0, 1.0) for one in tries for value in one)
    number, degrees = effective_tries(tries, mean, total), len(tries) - 1
    plain = _wilson(mean, number, _quantile(level, degrees))
    if total > len(tries) and is_whole and len(counts) <= _MOST_KINDS:
        lower, upper = _integrated(dict(sorted(counts.items())), level)
        bounds = [(lower, upper), (mean, mean)]
        if len(tries) >= _MANY:
            bounds.append(plain)
        return Interval(mean, min(one for one, _ in bounds), max(one for _, one in bounds))
    return Interval(mean, *plain)


def _integrated(counts: Mapping[tuple[float, int], int], level: float) -> tuple[float, float]:
    """The bounds of the mean of a beta distribution; `counts` has how many clusters have so many
    successes in so many tries. Where the first grid is too coarse, a second one covers what it
    leaves possible."""
    number = sum(counts.values())
    total = sum(tries * count for (_, tries), count in counts.items())
    usual = min(_MOST_TRIES, max(2, round(total / number)))
    edges = _EDGES
    weights = _weights(sum(n * _likely(*kind) for kind, n in counts.items()), edges, usual, number)
    held = np.flatnonzero(weights > weights.max() * _NEGLIGIBLE)
    if held[-1] - held[0] < _ENOUGH:
        edges = np.linspace(edges[held[0]], edges[held[-1] + 1], _CELLS + 1)
        likely = sum(n * _likelihood(*kind, edges) for kind, n in counts.items())
        weights = _weights(likely, edges, usual, number)
    below = np.concatenate(([0.0], np.cumsum(weights) / weights.sum()))
    tail = (1 - level) / 2
    bounds = np.sin(np.interp((tail, 1 - tail), below, edges)) ** 2
    successes = math.fsum(hits * count for (hits, _), count in counts.items())
    return float(bounds[0]) if successes else 0.0, float(bounds[1]) if total > successes else 1.0


def _weights(likely: Any, edges: Any, tries: int, number: int) -> Any:
    """How possible each cell's mean is, over all correlations."""
    possible = likely + _prior(edges, tries, number)
    return np.exp(possible - possible.max()).sum(axis=0)


def _middles(edges: Any) -> Any:
    return (edges[:-1] + edges[1:]) / 2


def _likelihood(hits: float, tries: int, edges: Any) -> Any:
    """The logarithm of how likely so many successes of a cluster are, for each correlation and each
    cell's mean: [C, M]."""
    mean = np.sin(_middles(edges)) ** 2
    one, other = mean * _SPREADS, (1 - mean) * _SPREADS
    return special.betaln(one + hits, other + tries - hits) - special.betaln(one, other)


@lru_cache(maxsize=256)
def _likely(hits: float, tries: int) -> Any:
    return _likelihood(hits, tries, _EDGES)


def _prior(edges: Any, tries: int, number: int) -> Any:
    """The logarithm of the prior of each correlation and each cell's mean, for `number` clusters of
    so many tries: [C, M].

    With a small share (`_INDEPENDENT`) the tries of a cluster are independent. Otherwise it is the
    geometric mean of Jeffreys' prior of both parameters, sqrt(|I|), and of the one that takes the
    mean as known, sqrt(I_rr); I is Fisher's information. It is a little higher for means near 0 and
    1 (`_TO_THE_ENDS`). Both constants were chosen by simulation (tests.judge.statistics.coverage).
    """
    most, times = _INDEPENDENT
    share = min(most, times / number)
    middles = _middles(edges)
    found = np.array([np.interp(middles, _ANGLES, row) for row in _dependent(tries)])
    independent = np.full((1, len(middles)), math.log(share))
    logs = np.concatenate((independent, found + math.log(1 - share)))
    return logs + _TO_THE_ENDS * np.log(np.sin(2 * middles))


@lru_cache(maxsize=64)
def _dependent(tries: int) -> Any:
    """The part of the prior for tries that resemble each other, at each of _ANGLES; its mean over
    the means is 1."""
    mean, spread = np.sin(_ANGLES) ** 2, _SPREADS[1:]
    one, other = mean * spread, (1 - mean) * spread
    of_mean = of_both = of_spread = np.zeros(one.shape)
    for hits in range(tries + 1):
        likely = special.betaln(one + hits, other + tries - hits) - special.betaln(one, other)
        chance = special.comb(tries, hits) * np.exp(likely)
        first = special.psi(one + hits) - special.psi(one)
        second = special.psi(other + tries - hits) - special.psi(other)
        by_mean = spread * (first - second)
        both = special.psi(spread + tries) - special.psi(spread)
        by_spread = mean * first + (1 - mean) * second - both
        of_mean = of_mean + chance * by_mean**2
        of_both = of_both + chance * by_mean * by_spread
        of_spread = of_spread + chance * by_spread**2
    # From mean and spread to the angle and the root of the correlation: the grids are even there.
    of_mean = of_mean * np.sin(2 * _ANGLES) ** 2
    of_both = of_both * np.sin(2 * _ANGLES)
    alone = np.maximum(of_mean - of_both**2 / np.maximum(of_spread, 1e-300), 1e-300)
    known = 0.5 * np.log(np.maximum(of_spread, 1e-300)) - 3 * np.log(_ROOTS)[:, None]
    density = np.exp(known + 0.25 * np.log(alone))
    return np.log(density / density.sum() * len(_ANGLES))


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
    there are none. One cluster has no spread: its bounds are infinite. Where clusters are equal,
    or nearly so, others may still lie elsewhere between 0 and 1 (the rule of three)."""
    means = [math.fsum(values) / len(values) for values in clusters.values() if values]
    count = len(means)
    if not count:
        return None
    mean = math.fsum(means) / count
    if count == 1:
        return Interval(mean, -math.inf, math.inf)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in means) / (count - 1) / count)
    half = _quantile(level, count - 1) * spread
    unseen = 1 - (1 - level) ** (1 / count)
    below, above = mean - min(0.0, mean), max(1.0, mean) - mean
    return Interval(mean, mean - max(half, unseen * below), mean + max(half, unseen * above))


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
