"""When a failed request is sent again, and after which wait: pure decisions, without waiting.

Sent again: status 408, 409, 429 and 5xx, lost connections, timeouts, responses that cannot be read
or that contain no choice, and generations that failed. Not sent again: 501, 505 and other 4xx, an
exhausted quota, a full context or a filter under any status, and responses with
`x-should-retry: false`. The server determines the wait (`retry-after-ms`, `Retry-After` in seconds
or as an HTTP date, RFC 9110 §10.2.3); otherwise it is exponential backoff with full jitter.
"""

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random
from typing import Literal

import msgspec

from rehearsal_room.harness.model_servers.refusal_words import tells_filter, tells_overflow

# malformed: the answer cannot be read, or its generation failed; proxy: the proxy did not answer;
# refused: the provider withheld the reply.
AttemptFailureKind = Literal["status", "connection", "timeout", "malformed", "proxy", "refused"]
_RETRIED = frozenset({408, 409, 429})
_NOT_IMPLEMENTED = frozenset({501, 505})  # by a server that has no such method or protocol
_OVERLOADED = frozenset({429, 503, 529})  # 529: Anthropic's word for 503
_PERMANENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_NO_HEADERS: Mapping[str, str] = {}
_SPREAD_FROM = 3  # attempts


class Backoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of retrying. The n-th wait is uniform in [0, min(max_wait_s, first_s * 2^(n-1))]."""

    max_attempts: int = 8
    first_s: float = 0.5  # upper bound of the first wait
    max_wait_s: float = 60.0  # upper bound of every wait that the client chooses
    max_requested_wait_s: float = 120.0  # if a server asks for a longer wait, the request fails

    def ceiling(self, attempt: int) -> float:
        """The upper bound of the wait after this attempt (from 1), in seconds."""
        return min(self.max_wait_s, self.first_s * 2.0 ** min(attempt - 1, 64))


class AttemptFailure(msgspec.Struct, frozen=True):
    """The reason why one attempt gave no reply."""

    kind: AttemptFailureKind
    message: str  # the server's message, or the fault of the connection
    status: int = 0  # HTTP status; 0: there was no response
    code: str = ""  # the server's error code, as in `insufficient_quota`
    headers: Mapping[str, str] = _NO_HEADERS  # by lower-case name
    was_sent: bool = True  # False: the server never got the request

    @property
    def is_rate_limit(self) -> bool:
        """Whether the server refuses the request because of too many."""
        return self.status == 429

    @property
    def is_overload(self) -> bool:
        """Whether the server asks for fewer requests, now or at all."""
        return self.status in _OVERLOADED

    @property
    def is_too_much(self) -> bool:
        """Whether fewer requests at once could have helped: a refusal, or no answer in time."""
        return self.is_overload or (self.kind == "timeout" and self.was_sent)

    @property
    def is_connection(self) -> bool:
        """Whether the server could not be reached, or its connection was lost."""
        if self.kind == "timeout":
            return not self.was_sent
        return self.kind == "connection" or self.kind == "proxy"


def wait_before_retry(
    failure: AttemptFailure, attempt: int, *, backoff: Backoff, rng: Random, now: float
) -> float | None:
    """The seconds to wait before the next attempt; None: make no other attempt.

    `attempt` counts the attempts made, from 1; `now` is in Unix seconds, for a `Retry-After` date.
    From the third attempt on, a wait that the server asked for is lengthened by a random part: many
    requests that were refused together would come back together, and be refused until none has an
    attempt left.

    Example: status 429 with `Retry-After: 3` after attempt 1 of 8 -> 3.0; status 401 -> None
    """
    if attempt >= backoff.max_attempts or not is_retried(failure):
        return None
    requested = requested_wait(failure.headers, now)
    if requested is None:
        return rng.uniform(0.0, backoff.ceiling(attempt))
    if requested > backoff.max_requested_wait_s:
        return None
    if attempt < _SPREAD_FROM:
        return requested
    return requested + rng.uniform(0.0, backoff.ceiling(attempt - _SPREAD_FROM + 1))


def is_context_overflow(failure: AttemptFailure) -> bool:
    """Whether the server refused a request because it is too long for the model's context."""
    if failure.kind not in ("status", "malformed"):
        return False
    return tells_overflow(failure.status, failure.code, failure.message)


def is_withheld(failure: AttemptFailure) -> bool:
    """Whether the provider does not answer this content, or withheld its answer."""
    if failure.kind == "refused":
        return True
    if failure.kind not in ("status", "malformed"):
        return False
    return tells_filter(failure.status, failure.code, failure.message)


def is_retried(failure: AttemptFailure) -> bool:
    """Whether another attempt could succeed."""
    if failure.code in _PERMANENT or is_withheld(failure) or is_context_overflow(failure):
        return False
    if failure.kind != "status":
        return True
    advice = failure.headers.get("x-should-retry")
    if advice in ("true", "false"):
        return advice == "true"
    if failure.status in _NOT_IMPLEMENTED:
        return False
    return failure.status in _RETRIED or failure.status >= 500


def requested_wait(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a server asks for, in seconds; None: it asks for none, or in a form that
    cannot be read.

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
