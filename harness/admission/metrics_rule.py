"""The limit that follows from a model server's own metrics: its queue, its cache, its preemptions.

The limit is raised until requests wait at the server for a place, or until its key-value cache is
nearly full; it is lowered where many wait, and where requests are preempted, which the server then
computes again. Readings are averaged between two changes of the limit. Metrics are believed only
while they account for the requests that are in flight from here: a gateway's, frozen or forgotten
ones do not.
"""

from rehearsal_room.harness.admission.signals import ServerMetrics

_FRESH_S = 5.0  # for which a reading counts
_ACCOUNTED = 0.6  # of the requests in flight that a server must know of
_CACHE_TARGET, _CACHE_ROOM = 0.95, 0.9  # shares
_PREEMPTED = 0.02  # preemptions for each reply
_MANY_WAIT, _FEW_WAIT = 0.15, 0.03  # of the running requests
_SMALL_STEP = 0.015  # of the limit, near the target
_CEILING_ROUNDS = 80.0  # latencies for which a limit that was too much is not tried again
_IGNORED_ROUNDS = 20.0  # latencies; doubled each time


class MetricsRule:
    """Reads metrics and proposes limits. Times are in seconds."""

    def __init__(self) -> None:
        self._last: ServerMetrics | None = None
        self._read_at = float("-inf")
        self._in_flight = 0  # when the metrics last changed
        self._ignored_until = float("-inf")
        self._ignored_rounds = _IGNORED_ROUNDS
        self._wrong: ServerMetrics | None = None  # what is not believed until it changes
        self._slow_start = True
        self._ceiling, self._ceiling_until = 0, float("-inf")
        self._grown_at = float("-inf")
        self._readings: list[ServerMetrics] = []  # since the limit changed
        self._preempted = 0
        self.reason = ""

    def is_trusted(self, now: float) -> bool:
        """Whether there are metrics that count."""
        return now - self._read_at < _FRESH_S and now >= self._ignored_until

    def ignore(self, now: float, latency: float) -> None:
        """The metrics did not explain what happened: do without them for a while."""
        self._ignored_until = now + self._ignored_rounds * latency
        self._ignored_rounds *= 2.0
        self._wrong = self._last

    def read(self, now: float, metrics: ServerMetrics, in_flight: int) -> None:
        """Take a reading, if it can be believed."""
        last = self._last
        if metrics.running + metrics.waiting < _ACCOUNTED * in_flight - 2:
            return
        if metrics == last and abs(in_flight - self._in_flight) > 0.15 * self._in_flight + 2:
            return  # they stand still
        if metrics == self._wrong:
            return
        self._wrong = None
        if last is not None and metrics.preemptions > last.preemptions:
            self._preempted += metrics.preemptions - last.preemptions
        if metrics != last:
            self._in_flight = in_flight
        self._last, self._read_at = metrics, now
        self._readings.append(metrics)

    def changed(self) -> None:
        """The limit has changed: what was read before does not count."""
        self._readings.clear()
        self._preempted = 0

    def propose(self, now: float, limit: int, latency: float, replies: int) -> int:
        """The next limit; the same one: it fits, or not enough is known. `replies` came since the
        limit changed."""
        if not self._readings:
            return limit
        running = sum(one.running for one in self._readings) / len(self._readings)
        waiting = sum(one.waiting for one in self._readings) / len(self._readings)
        used = sum(one.cache_used or 0.0 for one in self._readings) / len(self._readings)
        if (lower := self._too_much(limit, running, waiting, used, replies)) < limit:
            self._slow_start = False
            self._ceiling, self._ceiling_until = limit, now + _CEILING_ROUNDS * latency
            return lower
        if waiting > _FEW_WAIT * running:
            self._slow_start = False
            self.reason = (
                f"requests wait at the server: {waiting:,.0f} beside {running:,.0f} running"
            )
            return limit
        return max(limit, self._room(now, limit, used, latency))

    def _too_much(
        self, limit: int, running: float, waiting: float, used: float, replies: int
    ) -> int:
        """A lower limit; the same one: it is not too much."""
        if self._preempted > max(1.0, _PREEMPTED * replies):
            self.reason = f"the server preempted requests at {limit:,}: its cache was too small"
            need = (running + waiting) / max(1.0, running) if used > _CACHE_ROOM else 1.0
            return max(1, min(limit - 1, round(max(0.6 * limit, 0.985 * limit / need))))
        if waiting > _MANY_WAIT * running + 2:
            self.reason = (
                f"requests wait at the server: {waiting:,.0f} beside {running:,.0f} running"
            )
            fitting = limit - waiting + 0.08 * running
            return max(1, min(limit - 1, round(max(0.6 * limit, fitting))))
        return limit

    def _room(self, now: float, limit: int, used: float, latency: float) -> int:
        """A higher limit, if there is room."""
        target = _CACHE_TARGET / max(used, 0.01)
        if self._slow_start and target > 1.03:
            higher = limit * min(2.0, target)
        else:
            self._slow_start = False
            if used > _CACHE_ROOM:
                self.reason = f"the server's cache was {used:.0%} full at {limit:,}"
                if now < self._grown_at + 2.0 * latency:
                    return limit
                higher = limit + max(1.0, _SMALL_STEP * limit)
                self._grown_at = now
            else:
                higher = max(limit + 1.0, limit * min(1.25, 0.5 + 0.5 * target))
        if now < self._ceiling_until and used * self._ceiling > _CACHE_ROOM * limit:
            higher = min(higher, self._ceiling - 1)
        return round(higher)
