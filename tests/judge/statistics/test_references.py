"""Intervals against figures that others computed (statsmodels 0.15, W. G. Cochran's formula)."""

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


def test_weighed_scores_are_those_of_stratified_samples() -> None:
    """Three strata of several hundred, whose intervals are those of statsmodels' proportion_confint
    (method="wilson"): the textbook's standard error, sqrt(sum of W² p q / (n - 1)) (W. G. Cochran,
    Sampling Techniques, 1977, chapter 5)."""
    strata = {
        "a": (0.8, 300, 0.5, (0.7510711, 0.8413431)),
        "b": (0.6, 500, 0.3, (0.5564541, 0.6420210)),
        "c": (0.45, 400, 0.2, (0.4019522, 0.4989990)),
    }
    ranges = {name: ScoreRange(*bounds, 0.0, 1.0) for name, (_, _, _, bounds) in strata.items()}
    scores = {name: share for name, (share, *_) in strata.items()}
    found = weighed(scores, ranges, {name: weight for name, (_, _, weight, _) in strata.items()})
    error = sum(w**2 * p * (1 - p) / (n - 1) for p, n, w, _ in strata.values()) ** 0.5
    assert found == pytest.approx((0.67 - 1.96 * error, 0.67 + 1.96 * error), abs=5e-4)
