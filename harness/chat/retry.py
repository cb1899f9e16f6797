"""When a failed request is sent again, and after which wait: pure decisions, without waiting.

Sent again: status 408, 409, 424, 425, 429, 498, 499 and 5xx, lost connections, timeouts, responses
that cannot be read or that contain no choice, and generations that failed, whatever their status.
Not sent again: 501, 505 and other 4xx, an exhausted quota, a full context or a filter under any
status, and responses with `x-should-retry: false`. The server determines the wait
(`retry-after-ms`, `Retry-After` in seconds or as an HTTP date, RFC 9110 §10.2.3, its message, the
moment at which its limit is reset); otherwise it is exponential backoff with full jitter.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Literal

import msgspec

from rehearsal_room.harness.model_servers.refusal_words import (
    tells_filter,
    tells_overflow,
    tells_passing,
)

# malformed: the answer cannot be read, or its generation failed; proxy: the proxy did not answer;
# refused: the provider withheld the reply.
AttemptFailureKind = Literal["status", "connection", "timeout", "malformed", "proxy", "refused"]
# 424: the model failed (Bedrock, text-generation-inference); 498: no capacity (Groq); 499: the
# request was ended on the way.
_RETRIED = frozenset({408, 409, 424, 425, 429, 498, 499})
_NOT_IMPLEMENTED = frozenset({501, 505})  # by a server that has no such method or protocol
_OVERLOADED = frozenset({429, 498, 503, 529})  # 529: Anthropic's word for 503
_PERMANENT = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),
        *("exceeded_current_quota_error", "1113"),  # Moonshot's and Z.ai's
    }
)
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
    requested = asked_wait(failure, now)
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
    if failure.status in _RETRIED or failure.status >= 500:
        return True
    return tells_passing(failure.status, failure.code, failure.message)


def asked_wait(failure: AttemptFailure, now: float) -> float | None:
    """The wait that a server asks for in its headers, in its message, or by the moment at which a
    limit that is used up is reset, where that is soon; None: it asks for none.

    Example: "Rate limit reached. Please try again in 1m26.4s." -> 86.4
    """
    requested = requested_wait(failure.headers, now)
    if requested is not None:
        return requested
    if told := _TOLD_WAIT.search(failure.message):
        return _duration(told[1] + (told[2] or "s"))
    resets = [
        _until(failure.headers[name], now)
        for name in failure.headers
        if "ratelimit" in name and "reset" in name
        if _number(failure.headers.get(name.replace("reset", "remaining"))) == 0
    ]
    soon = [wait for wait in resets if wait is not None and wait <= _SOON_S]
    return max(soon, default=None)


_SOON_S = 120.0
_TOLD_WAIT = re.compile(
    r"\b(?:try again|retry)(?: your request)? (?:in|after)\s+"
    r"((?:\d{1,9}h)?(?:\d{1,9}m(?!s))?\d{1,9}(?:\.\d{1,12})?|(?:\d{1,9}h)?\d{1,9}m)(?!\d)"
    r"\s?(ms|s|m|h)?",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,12})?)(ms|s))?")


def _duration(text: str) -> float | None:
    """The seconds of a duration as Go writes it.

    Example: "2m59.56s" -> 179.56; "857ms" -> 0.857
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        return None
    hours, minutes, rest, unit = found.groups()
    seconds = float(rest or 0) / (1000 if unit == "ms" else 1)
    return int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + seconds


def _until(text: str, now: float) -> float | None:
    """The seconds until a limit is reset: a number of seconds, of Unix seconds or milliseconds, a
    duration or a date."""
    number = _number(text)
    if number is None:
        return _duration(text) if _duration(text) is not None else _until_date(text, now)
    if number > 1e11:
        number /= 1000
    return max(0.0, number - now) if number > 1e8 else number


def _until_date(text: str, now: float) -> float | None:
    """The seconds until a date, in HTTP's form or that of ISO 8601; at least 0."""
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
    if moment.tzinfo is None:  # `-0000`: UTC, by RFC 5322
        moment = moment.replace(tzinfo=UTC)
    try:
        return max(0.0, moment.timestamp() - now)
    except OverflowError:
        return None


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
    seconds = _duration(text)
    return seconds if seconds is not None else _until_date(text, now)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
