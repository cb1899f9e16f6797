"""Measurements of the requests to one endpoint, in memory that does not grow with their number; and
who may observe them."""

import math
import time
from typing import Protocol

_SHORTEST = 1e-4  # seconds
_RATIO = 1.05  # of the bounds of a bucket
_LOG_RATIO = math.log(_RATIO)
_NUM_BUCKETS = 400  # the last one begins at 8 hours


class LatencyHistogram:
    """Durations counted in buckets whose bounds grow by 5 %: a quantile is exact to 2.5 %."""

    __slots__ = ("_counts", "longest", "num_values")

    def __init__(self) -> None:
        self._counts = [0] * _NUM_BUCKETS
        self.num_values = 0
        self.longest = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Count one duration."""
        index = int(math.log(seconds / _SHORTEST) / _LOG_RATIO) if seconds > _SHORTEST else 0
        self._counts[min(index, _NUM_BUCKETS - 1)] += 1
        self.num_values += 1
        if seconds > self.longest:
            self.longest = seconds

    def quantile(self, share: float) -> float:
        """The duration in seconds that `share` (0 to 1) of the values do not exceed (nearest rank);
        0.0 where there are no values."""
        rank = max(1, math.ceil(share * self.num_values))
        total = 0
        for index, count in enumerate(self._counts):
            total += count
            if total >= rank:
                return min(self.longest, _SHORTEST * math.pow(_RATIO, index + 0.5))
        return 0.0


class RequestMetrics:
    """Counts requests in flight and measures how long they take."""

    __slots__ = ("first_part", "in_flight_s", "latency", "max_in_flight", "num_in_flight")

    def __init__(self) -> None:
        self.latency = LatencyHistogram()  # of requests with a response of status 200
        self.first_part = LatencyHistogram()  # up to the first part of a reply that is streamed
        self.num_in_flight = 0
        self.max_in_flight = 0
        self.in_flight_s = 0.0  # summed over all requests; divided by the run's seconds: the mean

    def begin(self) -> float:
        """Count a request as in flight; return the time for `end`."""
        self.num_in_flight += 1
        if self.num_in_flight > self.max_in_flight:
            self.max_in_flight = self.num_in_flight
        return time.perf_counter()

    def end(self, began: float) -> None:
        """Count a request as over."""
        self.num_in_flight -= 1
        self.in_flight_s += time.perf_counter() - began

    def statistics(self) -> dict[str, float]:
        """The measurements as numbers: max_in_flight, in_flight_s, latency_p50_s, latency_p95_s,
        latency_p99_s, latency_max_s, and where replies were streamed first_part_p50_s and
        first_part_p95_s."""
        first = self.first_part
        streamed = {
            "first_part_p50_s": first.quantile(0.5),
            "first_part_p95_s": first.quantile(0.95),
        }
        return {
            **(streamed if first.num_values else {}),
            "max_in_flight": self.max_in_flight,
            "in_flight_s": self.in_flight_s,
            "latency_p50_s": self.latency.quantile(0.5),
            "latency_p95_s": self.latency.quantile(0.95),
            "latency_p99_s": self.latency.quantile(0.99),
            "latency_max_s": self.latency.longest,
        }


class RequestObserver(Protocol):
    """Gets every attempt. After `asked` comes exactly one of the others."""

    def asked(self) -> None:
        """A request is sent."""

    def replied(self, seconds: float) -> None:
        """It was answered after so many seconds."""

    def refused(self, attempt: int) -> None:
        """The server had no room for it: status 429, 503 or 529, or no answer in time. It was the
        request's attempt of this number, from 1."""

    def failed(self) -> None:
        """It failed otherwise, or was cancelled."""
