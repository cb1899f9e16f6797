"""Confidence intervals by resampling."""

from collections import Counter
from collections.abc import Mapping

import pytest

from rehearsal_room.harness.outcomes.bootstrap import Resamples, percentile_interval


def _mean(units: Mapping[float, int]) -> float:
    return sum(value * n for value, n in units.items()) / sum(units.values())


def test_resamples_are_as_large_as_the_sample() -> None:
    """Each draws with replacement from the units, so the number of units stays and their mix
    varies."""
    resamples = Resamples(Counter({"a": 30, "b": 10}), num_resamples=50)
    assert set(resamples.values(lambda units: sum(units.values()))) == {40}
    assert len(set(resamples.values(lambda units: units.get("b", 0)))) > 5


def test_the_interval_is_that_of_the_mean() -> None:
    """Half of 400 tasks: the interval is about 1.96 standard errors wide on either side."""
    low, high = percentile_interval(Resamples({0.0: 200, 1.0: 200}).values(_mean))
    assert (low, high) == (pytest.approx(0.451, abs=0.006), pytest.approx(0.549, abs=0.006))


def test_the_seed_decides() -> None:
    """Equal units and seeds give equal values, other seeds others."""
    first, same, other = (Resamples({0.0: 9, 1.0: 5}, seed=n).values(_mean) for n in (1, 1, 2))
    assert first == same != other


def test_undefined_values_are_left_out() -> None:
    """A statistic that is None for a resample has no value there; without units there is none."""
    found = Resamples({1: 1, 2: 1}, num_resamples=40).values(
        lambda units: None if len(units) < 2 else 0.5
    )
    assert 0 < len(found) < 40
    assert Resamples({}).values(lambda units: 1.0) == []


def test_a_percentile_interval() -> None:
    """Of 0 to 2000 it is 50 to 1950; of one value, that value."""
    assert percentile_interval(list(range(2001))) == (50, 1950)
    assert percentile_interval([0.5]) == (0.5, 0.5)
