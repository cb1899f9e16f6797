"""How many episodes may ask a model server at once: a pure state machine, without clock and I/O.

It is fed with events and their times, and says a limit and its reason. Signals count in this order:

1. the server's own metrics, where they can be believed (harness.admission.metrics_rule);
2. refusals (429, 503, no answer in time): many of them cut the limit, some keep it from growing;
3. the replies per second, compared between limits (harness.admission.climber).

A limit is measured once the requests of the earlier limit are over, which takes about one latency.
In all of this nothing is cancelled: the limit says how many episodes should go on, and those above
it pause before they ask again.
"""

from rehearsal_room.harness.admission.climber import Climber
from rehearsal_room.harness.admission.limits import FIRST_AT_ONCE, MOST_AT_ONCE
from rehearsal_room.harness.admission.metrics_rule import MetricsRule
from rehearsal_room.harness.admission.signals import ServerMetrics
from rehearsal_room.harness.admission.throughput import ThroughputWindow

_MANY_REFUSED = 0.08  # share of the requests
_STORM = 0.3  # share of the requests
_LATE_ATTEMPT = 4  # from which on a refusal is one of a request that may be lost
_LATE_REFUSALS = 2
_CHECK_EVERY = 0.5  # latencies between two decisions
_SAME = 0.05  # of the limit: a change that leaves what was measured valid


class AdmissionControl:
    """The admission to one server. Times are seconds of any clock that does not go back; `now`
    never decreases from call to call."""

    def __init__(self, *, first: int = FIRST_AT_ONCE, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self.limit = min(first, most)
        self._climber = Climber(self.limit, most)
        self._metrics = MetricsRule()
        self._in_flight = 0
        self._latency = 0.0  # a moving average; 0: no reply came yet
        self._replies = 0  # since the limit changed
        self._settled_at = float("-inf")
        self._check_at = 0.0
        self._window: ThroughputWindow | None = None
        self._reason = ""

    @property
    def reason(self) -> str:
        """What bounds the limit, as a sentence."""
        return self._reason or f"too few replies came to try more than {self.limit:,} at once"

    def asked(self, now: float) -> None:
        """A request is sent."""
        self._in_flight += 1

    def failed(self, now: float) -> None:
        """A request ended in a way that says nothing about load."""
        self._in_flight -= 1

    def refused(self, now: float, attempt: int) -> None:
        """The server had no room for a request's attempt of this number, from 1."""
        self._in_flight -= 1
        if now < self._settled_at:
            return
        if self._window is None:
            self._window = ThroughputWindow(now)
        self._window.refused += 1
        self._window.repeated += attempt >= _LATE_ATTEMPT
        self._cut_after_refusals(now)

    def replied(self, now: float, latency: float) -> None:
        """A request was answered, after so many seconds."""
        self._in_flight -= 1
        self._replies += 1
        weight = min(0.2, 2.0 / self.limit) if self._latency else 1.0
        self._latency += (latency - self._latency) * weight
        if now < self._settled_at:
            return
        if self._window is None:
            self._begin_window(now)
            return
        self._window.replies += 1
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY * self._latency
            self._decide(now, self._window)

    def underused(self, now: float) -> None:
        """Fewer episodes run than the limit allows: what is measured says nothing about it."""
        self._window, self._settled_at = None, now

    def metrics(self, now: float, metrics: ServerMetrics | None) -> None:
        """The server's metrics were read (None: there are none that can be read)."""
        if metrics is None:
            return
        rule = self._metrics
        if now < self._settled_at or not self._latency:
            return
        rule.read(now, metrics, self._in_flight)
        if not rule.is_trusted(now) or (self._in_flight < 0.7 * self.limit and not self._reason):
            return
        limit = rule.propose(now, self.limit, self._latency, self._replies)
        self._reason = rule.reason or self._reason
        if limit != self.limit:
            is_small = abs(limit - self.limit) <= max(1, _SAME * self.limit)
            self._climber.hold(forget=not is_small)
            self._set(limit, now, is_small=is_small)

    def _decide(self, now: float, window: ThroughputWindow) -> None:
        if self._cut_after_refusals(now):
            return
        rate = window.rate(now)
        if self._metrics.is_trusted(now):
            self._watch(now)
            return
        limit = self._climber.decide(self.limit, rate, window.refused_share)
        if limit is None:
            return
        self._reason = self._climber.reason or self._reason
        if limit == self.limit:
            self._begin_window(now)
        else:
            self._set(limit, now)

    def _watch(self, now: float) -> None:
        """Look for a collapse that the metrics do not explain."""
        assert self._window is not None
        self._climber.hold(forget=False)
        collapsed = self._climber.is_collapse(self.limit, self._window.rate(now))
        if collapsed:
            self._metrics.ignore(now, self._latency)
            self._decide(now, self._window)
        elif collapsed is not None:
            self._begin_window(now)

    def _cut_after_refusals(self, now: float) -> bool:
        """Lower the limit where many requests are refused, or the same ones again and again."""
        window = self._window
        if window is None:
            return False
        seen = window.refused + window.replies
        are_many = (
            window.refused >= 3
            and seen >= max(12, self.limit / 2)
            and window.refused_share > _MANY_REFUSED
        )
        if not are_many and window.repeated < _LATE_REFUSALS:
            return False
        share = window.refused_share
        self._reason = f"the server refused {share:.0%} of the requests at {self.limit:,}"
        self._climber.hold(forget=True)
        cut = 0.8 if share > _STORM else 0.9
        self._set(max(1, min(self.limit - 1, round(cut * self.limit))), now)
        return True

    def _set(self, limit: int, now: float, *, is_small: bool = False) -> None:
        self.limit = max(1, min(self._most, limit))
        self._metrics.changed()
        self._replies = 0
        if not is_small:
            self._window = None
            self._settled_at = now + self._latency

    def _begin_window(self, now: float) -> None:
        self._window = ThroughputWindow(now)
        self._check_at = now + self._latency
