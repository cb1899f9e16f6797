"""The agreement of labels: the statistics of a reliability study, in pure Python.

A unit is the sorted labels (or rewards) of one episode, without the judgings that failed: those are
missing values, not a value of their own. Statistics take units with how many episodes have each, so
that a bootstrap resample is a handful of counts. A statistic that is not defined for its data is
None.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rehearsal_room.harness.core.events import Label

Unit = tuple[Any, ...]  # the values of one episode, sorted
# Also of one episode: the reference label, beside the label of one judging.
Pairs = tuple[tuple[Label, Label], ...]
Statistic = Callable[[Mapping[Unit, int]], float | None]


def is_completed(label: str) -> str:
    """A label on the scale of two: completed or not."""
    return label if label == Label.COMPLETED else "not_completed"


@lru_cache(maxsize=65_536)
def _in_two(unit: Unit) -> Unit:
    return tuple(
        sorted(
            tuple(map(is_completed, value)) if isinstance(value, tuple) else is_completed(value)
            for value in unit
        )
    )


def binary(statistic: Statistic) -> Statistic:
    """A statistic of labels, or of pairs of labels, on the scale of two."""

    def on_two(units: Mapping[Unit, int]) -> float | None:
        merged: Counter[Unit] = Counter()
        for unit, n in units.items():
            merged[_in_two(unit)] += n
        return statistic(merged)

    return on_two


def units_of(ratings: Iterable[Sequence[Any]]) -> Counter[Unit]:
    """Episodes by their labels. One that was judged less than twice shows no agreement.

    Example: [["a", None, "a"], ["b", "a", "a"], ["a"]]
             -> {("a", "a"): 1, ("a", "a", "b"): 1}
    """
    given = (tuple(sorted(value for value in row if value is not None)) for row in ratings)
    return Counter(unit for unit in given if len(unit) > 1)


@lru_cache(maxsize=65_536)
def _agreeing(unit: Unit) -> float:
    """The share of a unit's pairs that are equal."""
    pairs = sum(count * (count - 1) for count in Counter(unit).values())
    return pairs / (len(unit) * (len(unit) - 1))


def pairwise_agreement(units: Mapping[Unit, int]) -> float | None:
    """The share of pairs of judgings of one episode that agree. Every episode has the same weight,
    however many of its judgings failed.

    Example: {("a", "a", "b"): 1, ("a", "a"): 1} -> (1/3 + 1) / 2
    """
    return _ratio(sum(n * _agreeing(unit) for unit, n in units.items()), _total(units))


def flip_rate(units: Mapping[Unit, int]) -> float | None:
    """The share of episodes whose judgings are not all equal."""
    return _ratio(sum(n for unit, n in units.items() if unit[0] != unit[-1]), _total(units))


def flip_probability(agreement: float | None) -> float | None:
    """The probability that a single judging gives the opposite of the judge's usual label, from the
    pairwise agreement on a scale of two.

    The moment estimate: judgings that flip independently with probability p disagree in
    d = 2p(1 - p) of the pairs, so p = (1 - sqrt(1 - 2d)) / 2. Where episodes differ in p, it is
    below the mean of their p (Jensen). It is at most 1/2, which means that the judge disagrees with
    itself at least as often as a coin.

    Example: 0.58 -> 0.3
    """
    if agreement is None:
        return None
    return (1 - math.sqrt(max(0.0, 2 * agreement - 1))) / 2


def alpha(units: Mapping[Unit, int]) -> float | None:
    """Krippendorff's alpha for nominal values with missing ones: 1 perfect, 0 chance.

    K. Krippendorff, "Computing Krippendorff's Alpha-Reliability", University of Pennsylvania,
    2011. None where all values are equal: there is nothing to confuse.
    """
    totals: Counter[Any] = Counter()
    observed = 0.0
    for unit, n in units.items():
        observed += n * len(unit) * (1 - _agreeing(unit))
        for value in unit:
            totals[value] += n
    num = totals.total()
    expected = num**2 - sum(count**2 for count in totals.values())
    return None if expected == 0 else 1 - (num - 1) * observed / expected


def agreement(units: Mapping[Unit, int]) -> float | None:
    """The share of Pairs whose two sides are equal. Every pair has the same weight."""
    table = _table(units)
    return _ratio(sum(n for (one, other), n in table.items() if one == other), table.total())


def kappa(units: Mapping[Unit, int]) -> float | None:
    """Cohen's kappa of Pairs: agreement beyond chance, given how often each side uses each label.

    J. Cohen, Educational and Psychological Measurement 20 (1960), 37. None where both sides always
    give the same one label.
    """
    table = _table(units)
    num = table.total()
    rows: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    for (one, other), n in table.items():
        rows[one] += n
        columns[other] += n
    by_chance = sum(n * columns[value] for value, n in rows.items())
    equal = sum(n for (one, other), n in table.items() if one == other)
    return _ratio(num * equal - by_chance, num**2 - by_chance)


def confusion(units: Mapping[Unit, int]) -> dict[Label, dict[Label, int]]:
    """The number of Pairs by reference label (outer) and judging (inner), with every label in
    both."""
    table = _table(units)
    return {one: {other: table[one, other] for other in Label} for one in Label}


def _table(units: Mapping[Unit, int]) -> Counter[tuple[str, str]]:
    table: Counter[tuple[str, str]] = Counter()
    for pairs, n in units.items():
        for pair in pairs:
            table[pair] += n
    return table


def _total(units: Mapping[Any, int]) -> int:
    return sum(units.values())


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None
