"""When a failed request is sent again, and after which wait."""

from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.chat.retry import (
    AttemptFailure,
    Backoff,
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


@pytest.mark.parametrize("number", [408, 409, 429, 500, 502, 503, 504, 529])
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
