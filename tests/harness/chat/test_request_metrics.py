"""Measurements of requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.chat.request_metrics import LatencyHistogram, RequestMetrics


@given(st.lists(st.floats(1e-4, 3600.0), min_size=1, max_size=200), st.floats(0.0, 1.0))
def test_quantiles_are_exact_to_a_bucket(values: list[float], share: float) -> None:
    """A quantile is within 2.5 % of the nearest-rank quantile of the values."""
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    rank = max(1, -int(-share * len(values) // 1))
    assert histogram.quantile(share) == pytest.approx(sorted(values)[rank - 1], rel=0.026)
    assert histogram.longest == max(values)


def test_extreme_durations_are_counted() -> None:
    """Durations below and above all buckets do not break it; without values a quantile is 0."""
    histogram = LatencyHistogram()
    assert histogram.quantile(0.5) == 0.0
    histogram.add(0.0)
    histogram.add(1e9)
    assert histogram.num_values == 2
    assert histogram.quantile(0.5) <= 1e-3


def test_requests_in_flight_are_counted() -> None:
    """The peak is that of overlapping requests, and their durations are summed."""
    metrics = RequestMetrics()
    first = metrics.begin()
    second = metrics.begin()
    metrics.end(second)
    metrics.end(first)
    metrics.end(metrics.begin())
    assert (metrics.num_in_flight, metrics.max_in_flight) == (0, 2)
    assert metrics.statistics()["max_in_flight"] == 2
    assert metrics.in_flight_s > 0.0
