"""Intervals against figures that others computed (statsmodels 0.15, R. G. Newcombe's table)."""

import pytest

from rehearsal_room.judge.statistics.intervals import exact_interval, share_interval
from rehearsal_room.judge.suites.scores import ScoreRange, weighed

# Of 200 tasks how many have so many successes in four tries, and what statsmodels' GEE (binomial,
# exchangeable tries, robust errors, on the logit scale) has as the 95 % interval of the mean.
LOW = {0: 82, 1: 38, 2: 31, 3: 28, 4: 21}, (0.28842, 0.38504)
HIGH = {0: 10, 1: 12, 2: 20, 3: 32, 4: 126}, (0.77129, 0.85196)


@pytest.mark.parametrize(("counts", "expected"), [LOW, HIGH])
def test_many_tasks_have_the_interval_of_estimating_equations(
    counts: dict[int, int], expected: tuple[float, float]
) -> None:
    """Where there are many tasks, both ways to treat tries that resemble each other agree."""
    tries = [
        [1.0] * hits + [0.0] * (4 - hits) for hits, count in counts.items() for _ in range(count)
    ]
    found = share_interval(dict(enumerate(tries)))
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx(expected, abs=0.006)


def test_exact_intervals_are_statsmodels() -> None:
    """proportion_confint(method="beta") of 20 of 20, and of 16 of 20."""
    all_of, most = (exact_interval([1.0] * hits + [0.0] * (20 - hits)) for hits in (20, 16))
    assert all_of is not None and most is not None
    assert (all_of.lower, all_of.upper) == pytest.approx((0.8315665, 1.0))
    assert (most.lower, most.upper) == pytest.approx((0.5633860, 0.9426660))


def test_weighed_scores_are_combined_as_newcombe_does() -> None:
    """56 of 70 less 48 of 80, with Wilson's intervals: 0.0524 to 0.3339 (Statistics in Medicine 17,
    1998, 873, table II, method 10)."""
    ranges = {
        "a": ScoreRange(0.6918336, 0.8769526, 0.8, 0.8),
        "b": ScoreRange(0.4904547, 0.7003817, 0.6, 0.6),
    }
    found = weighed({"a": 0.8, "b": 0.6}, ranges, {"a": 1.0, "b": -1.0})
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)
