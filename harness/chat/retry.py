"""When a failed request is sent again, and after what wait: pure decisions, no waiting here.

Sent again: status 408, 409, 429 and 5xx, lost connections, timeouts, answers that cannot be read
or that hold no choice. Not: other 4xx, an exhausted quota, and what the server marks with
`x-should-retry: false`. The wait is the server's (`retry-after-ms`, `Retry-After` in seconds or as
an HTTP date, RFC 9110 §10.2.3), else exponential backoff with full jitter.
"""

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random
from typing import Literal

import msgspec

FailureKind = Literal["status", "connection", "timeout", "malformed"]
_RETRIED = frozenset({408, 409, 429})
_HOPELESS = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_NO_HEADERS: Mapping[str, str] = {}


class Backoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How patient to be. The n-th wait is uniform in [0, min(longest_s, first_s * 2^(n-1))]."""

    max_attempts: int = 8
    first_s: float = 0.5
    longest_s: float = 60.0  # of waits that we choose
    longest_asked_s: float = 120.0  # a server that asks for more is given up

    def ceiling(self, attempt: int) -> float:
        """The longest wait after this attempt (from 1)."""
        return min(self.longest_s, self.first_s * 2.0 ** min(attempt - 1, 64))


class Failure(msgspec.Struct, frozen=True):
    """Why one attempt gave no reply."""

    kind: FailureKind
    message: str  # the server's, or the connection's fault
    status: int = 0  # 0: there was no response
    code: str = ""  # the server's word for it, as in `insufficient_quota`
    headers: Mapping[str, str] = _NO_HEADERS  # looked up by lower-case names
    was_sent: bool = True  # False: the server never had the request

    @property
    def is_rate_limit(self) -> bool:
        """Whether the server asks for fewer requests."""
        return self.status == 429


def wait_before_retry(
    failure: Failure, attempt: int, *, backoff: Backoff, rng: Random, now: float
) -> float | None:
    """Seconds to wait before the next attempt; None: give up.

    `attempt` counts those made, from 1; `now` is in Unix seconds, for a `Retry-After` date.

    Example: status 429 with `Retry-After: 3` after attempt 1 of 8 -> 3.0; status 401 -> None
    """
    if attempt >= backoff.max_attempts or not is_retried(failure):
        return None
    asked = asked_wait(failure.headers, now)
    if asked is None:
        return rng.uniform(0.0, backoff.ceiling(attempt))
    return asked if asked <= backoff.longest_asked_s else None


def is_retried(failure: Failure) -> bool:
    """Whether a second attempt could end better."""
    if failure.kind != "status":
        return True
    if failure.code in _HOPELESS:
        return False
    advice = failure.headers.get("x-should-retry")
    if advice in ("true", "false"):
        return advice == "true"
    return failure.status in _RETRIED or failure.status >= 500


def asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a server asks for, in seconds; None: it asks for none that can be read.

    Example: {"retry-after-ms": "250"} -> 0.25
    Example: {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"} -> the seconds until then, at least 0
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:  # `-0000`: UTC, by RFC 5322
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


class Pause:
    """A halt after a rate limit, shared by all requests of one policy.

    Whoever asks during a pause is told to wait for its end plus a random share of its length, so
    that a thousand waiting agents do not come back in one moment.
    """

    __slots__ = ("_length", "_until", "may_be_on", "total_s")

    def __init__(self) -> None:
        self.may_be_on = False  # spares most requests the look at a clock
        self.total_s = 0.0  # the length of all pauses, overlaps counted once
        self._until = -math.inf
        self._length = 0.0

    def extend(self, now: float, seconds: float) -> bool:
        """Let no request begin for `seconds`; return whether the pause ends later than before."""
        until = now + seconds
        if until <= self._until:
            return False
        self.total_s += seconds - max(0.0, self._until - now)
        self._until = until
        self._length = seconds
        self.may_be_on = True
        return True

    def left(self, now: float, rng: Random) -> float:
        """Seconds to wait; 0.0 when there is no pause. `now` is on the clock of `extend`."""
        if now >= self._until:
            self.may_be_on = False
            return 0.0
        return self._until - now + rng.uniform(0.0, self._length)
