"""When a failed request is sent again, and after which wait."""

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.chat.completions import read_error
from rehearsal_room.harness.chat.retry import (
    AttemptFailure,
    Backoff,
    asked_wait,
    requested_wait,
    wait_before_retry,
)

BACKOFF = Backoff(max_attempts=4, first_s=1.0, max_wait_s=5.0, max_requested_wait_s=30.0)
NOW = 1_700_000_000.0


def status(number: int, code: str = "", **headers: str) -> AttemptFailure:
    by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    return AttemptFailure("status", "no", number, code, by_name)


def wait(failure: AttemptFailure, attempt: int = 1, seed: int = 0) -> float | None:
    return wait_before_retry(failure, attempt, backoff=BACKOFF, rng=Random(seed), now=NOW)


@pytest.mark.parametrize("number", [408, 409, 424, 425, 429, 498, 499, 500, 502, 503, 504, 529])
def test_temporary_faults_are_retried(number: int) -> None:
    """A request with the status of a temporary fault is sent again."""
    assert wait(status(number)) is not None


@pytest.mark.parametrize("number", [301, 400, 401, 402, 403, 404, 413, 422])
def test_permanent_faults_are_not_retried(number: int) -> None:
    """A request whose status reports that it is wrong is not sent again."""
    assert wait(status(number)) is None


@pytest.mark.parametrize("kind", ["connection", "timeout", "malformed"])
def test_faults_without_a_status_are_retried(kind: str) -> None:
    """A request is sent again after a lost connection, a timeout or an unreadable response."""
    assert wait(AttemptFailure(kind, "gone")) is not None  # type: ignore[arg-type]


def test_the_last_attempt_gives_up() -> None:
    """There are at most as many attempts as the settings allow."""
    assert wait(status(503), attempt=3) is not None
    assert wait(status(503), attempt=4) is None


def test_an_exhausted_quota_is_not_retried() -> None:
    """A 429 for an exhausted quota is not sent again, because waiting does not help."""
    assert wait(status(429, "insufficient_quota")) is None


def test_the_server_may_decide_whether_to_retry() -> None:
    """`x-should-retry` takes precedence over the status."""
    assert wait(status(503, x_should_retry="false")) is None
    assert wait(status(400, x_should_retry="true")) is not None


def test_retry_after_is_followed_exactly() -> None:
    """The wait is exactly the server's, in seconds, in milliseconds or until a date."""
    date = format_datetime(datetime.fromtimestamp(NOW + 7, UTC), usegmt=True)
    assert wait(status(429, retry_after="3")) == 3.0
    assert wait(status(503, retry_after="1.5")) == 1.5
    assert wait(status(429, retry_after_ms="250", retry_after="3")) == 0.25
    assert wait(status(429, retry_after=date)) == 7.0
    assert wait(status(429, retry_after="0")) == 0.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2.0), ("1m2s", 62.0), ("250ms", 0.25), ("2023-11-14T22:13:27Z", 7.0)],
)
def test_other_forms_of_retry_after(text: str, seconds: float) -> None:
    """Some servers write a duration, or a date of ISO 8601."""
    assert requested_wait({"retry-after": text}, NOW) == seconds


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Limit 30000, Used 29000, Requested 2000. Please try again in 20s. Visit", 20.0),
        ("Please try again in 857ms.", 0.857),
        ("Please try again in 1m26.4s.", 86.4),
        ("Please try again in 6m0s.", 360.0),
        ("Quota exceeded, limit: 5\nPlease retry in 34.074824224s.", 34.074824224),
        ("have exceeded token rate limit. Please retry after 6 seconds.", 6.0),
        ("Try again in 2 minutes.", 120.0),
        ("Retry in 1 h", 3600.0),
        ("Try again in a moment", None),
        ("Try again in 2026", 2026.0),
        ("No retry helps.", None),
        (f"Try again in {'9' * 400}h", None),
    ],
)
def test_a_wait_in_the_message(message: str, seconds: float | None) -> None:
    """Where no header says how long to wait, the message may."""
    assert asked_wait(AttemptFailure("status", message, 429), NOW) == seconds
    named = AttemptFailure("status", message, 429, "", {"retry-after": "1"})
    assert asked_wait(named, NOW) == 1.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s"}, 7.66),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "7.66s"}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:25Z",
            },
            5.0,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 9:.0f}"}, 9.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 9:.0f}000"}, 9.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "7"}, 7.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "soon"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "86400"}, None),
    ],
)
def test_a_limit_that_is_used_up(headers: dict[str, str], seconds: float | None) -> None:
    """The moment at which it is reset counts, as long as it is soon."""
    assert asked_wait(AttemptFailure("status", "no", 429, "", headers), NOW) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": "loading", "estimated_time": 20.0}, 20.0),
        ({"message": "limited", "retry_after": 3.2}, 3.2),
        ({"error": {"message": "no", "details": [{"@type": "x"}, {"retryDelay": "34s"}]}}, 34.0),
        (
            {
                "error": {
                    "message": "Rate limit exceeded",
                    "metadata": {
                        "headers": {
                            "X-RateLimit-Remaining": "0",
                            "X-RateLimit-Reset": f"{NOW + 9:.0f}000",
                        }
                    },
                }
            },
            9.0,
        ),
    ],
)
def test_a_wait_in_the_body(body: object, seconds: float) -> None:
    """Hugging Face, Google and OpenRouter say in the body what others say in headers."""
    failure = read_error(429, {}, json.dumps(body).encode())
    assert asked_wait(failure, NOW) == seconds


def test_those_refused_together_do_not_come_back_together() -> None:
    """From the third attempt on the wait that the server asked for is longer, by a random part."""
    refused = status(429, retry_after="2")
    assert {wait(refused, attempt=2, seed=seed) for seed in range(9)} == {2.0}
    waits = [wait(refused, attempt=3, seed=seed) for seed in range(9)]
    assert len(set(waits)) == 9
    assert all(each is not None and 2.0 <= each <= 3.0 for each in waits)


def test_a_date_in_the_past_means_now() -> None:
    """A wait is never negative."""
    assert requested_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, NOW) == 0.0
    assert requested_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, NOW) == 0.0


def test_a_requested_wait_has_a_limit() -> None:
    """A requested wait beyond the limit of the settings ends the attempts."""
    assert wait(status(429, retry_after="30")) == 30.0
    assert wait(status(429, retry_after="31")) is None


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "-1", "1e999", "99:99", "\x00"])
def test_an_unreadable_retry_after_falls_back_to_backoff(text: str) -> None:
    """A header that cannot be read is ignored."""
    assert requested_wait({"retry-after": text}, NOW) is None
    assert wait(status(429, retry_after=text)) == wait(status(429))


@given(st.integers(1, 3), st.integers())
def test_backoff_has_full_jitter(attempt: int, seed: int) -> None:
    """The n-th wait is between zero and the n-th ceiling, and depends only on the seed."""
    seconds = wait(status(500), attempt, seed)
    assert seconds is not None
    assert 0.0 <= seconds <= {1: 1.0, 2: 2.0, 3: 4.0}[attempt]
    assert seconds == wait(status(500), attempt, seed)


@given(st.integers(1, 10**9))
def test_ceilings_are_bounded(attempt: int) -> None:
    """No wait that the client chooses is longer than `max_wait_s`, after any number of attempts."""
    assert BACKOFF.ceiling(attempt) <= 5.0


@given(st.text(max_size=40))
def test_any_retry_after_can_be_read(text: str) -> None:
    """Any header can be read; a wait is finite and not negative."""
    seconds = requested_wait({"retry-after": text}, NOW)
    assert seconds is None or 0.0 <= seconds < float("inf")
