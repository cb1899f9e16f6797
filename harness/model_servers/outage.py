"""When a model server counts as gone: pure decisions, from the outcomes of requests."""

from math import inf

# Seconds. A server that restarts cuts hundreds of connections in one moment; they count as one
# failure, so that retries can bridge a short outage at any concurrency.
SPACING = 0.5


class OutageDetector:
    """Counts failures to connect in a row (`limit` None: never an outage).

    A response of any status ends the row. Failures within half a second of the last one that was
    counted are not counted, so `limit` failures take at least `limit` / 2 seconds.
    """

    __slots__ = ("_last", "limit", "num_failures")

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.num_failures = 0
        self._last = -inf

    def answered(self) -> None:
        """A response has arrived."""
        self.num_failures = 0

    def failed(self, now: float) -> bool:
        """A connection has failed at `now`, in seconds of any clock; return whether that is one too
        many."""
        if self.limit is None:
            return False
        if now - self._last >= SPACING or now < self._last:
            self.num_failures += 1
            self._last = now
        return self.num_failures >= self.limit
