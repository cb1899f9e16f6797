from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.chat.retry import Backoff, Failure, Pause, asked_wait, wait_before_retry

BACKOFF = Backoff(max_attempts=4, first_s=1.0, longest_s=5.0, longest_asked_s=30.0)
NOW = 1_700_000_000.0


def status(number: int, code: str = "", **headers: str) -> Failure:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure("status", "no", number, code, told)


def wait(failure: Failure, attempt: int = 1, seed: int = 0) -> float | None:
    return wait_before_retry(failure, attempt, backoff=BACKOFF, rng=Random(seed), now=NOW)


@pytest.mark.parametrize("number", [408, 409, 429, 500, 502, 503, 504, 529])
def test_passing_faults_are_retried(number: int) -> None:
    """A status that may pass is waited for."""
    assert wait(status(number)) is not None


@pytest.mark.parametrize("number", [301, 400, 401, 402, 403, 404, 413, 422])
def test_lasting_faults_are_not_retried(number: int) -> None:
    """A status that says the request is wrong gives up at once."""
    assert wait(status(number)) is None


@pytest.mark.parametrize("kind", ["connection", "timeout", "malformed"])
def test_faults_without_a_status_are_retried(kind: str) -> None:
    """Lost connections, timeouts and unreadable answers are waited for."""
    assert wait(Failure(kind, "gone")) is not None  # type: ignore[arg-type]


def test_the_last_attempt_gives_up() -> None:
    """There are as many attempts as the settings say."""
    assert wait(status(503), attempt=3) is not None
    assert wait(status(503), attempt=4) is None


def test_an_exhausted_quota_is_not_retried() -> None:
    """A 429 that no waiting heals gives up at once."""
    assert wait(status(429, "insufficient_quota")) is None


def test_the_server_may_say_whether_to_retry() -> None:
    """`x-should-retry` wins over the status."""
    assert wait(status(503, x_should_retry="false")) is None
    assert wait(status(400, x_should_retry="true")) is not None


def test_retry_after_is_obeyed_to_the_letter() -> None:
    """The server's wait is taken as it is, in seconds, milliseconds or until a date."""
    date = format_datetime(datetime.fromtimestamp(NOW + 7, UTC), usegmt=True)
    assert wait(status(429, retry_after="3")) == 3.0
    assert wait(status(503, retry_after="1.5")) == 1.5
    assert wait(status(429, retry_after_ms="250", retry_after="3")) == 0.25
    assert wait(status(429, retry_after=date)) == 7.0
    assert wait(status(429, retry_after="0")) == 0.0


def test_a_date_in_the_past_means_now() -> None:
    """A wait is never negative."""
    assert asked_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, NOW) == 0.0
    assert asked_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, NOW) == 0.0


def test_a_server_that_asks_for_too_much_is_given_up() -> None:
    """A wait beyond the settings' bound ends the attempts."""
    assert wait(status(429, retry_after="30")) == 30.0
    assert wait(status(429, retry_after="31")) is None


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "-1", "1e999", "99:99", "\x00"])
def test_an_unreadable_retry_after_falls_back_to_backoff(text: str) -> None:
    """What cannot be read is as if it were not there."""
    assert asked_wait({"retry-after": text}, NOW) is None
    assert wait(status(429, retry_after=text)) == wait(status(429))


@given(st.integers(1, 3), st.integers())
def test_backoff_has_full_jitter(attempt: int, seed: int) -> None:
    """The n-th wait lies between nothing and the n-th ceiling, and follows from the seed."""
    seconds = wait(status(500), attempt, seed)
    assert seconds is not None
    assert 0.0 <= seconds <= {1: 1.0, 2: 2.0, 3: 4.0}[attempt]
    assert seconds == wait(status(500), attempt, seed)


@given(st.integers(1, 10**9))
def test_ceilings_are_bounded(attempt: int) -> None:
    """However many attempts there were, no wait of ours is longer than the longest."""
    assert BACKOFF.ceiling(attempt) <= 5.0


@given(st.text(max_size=40))
def test_any_retry_after_can_be_read(text: str) -> None:
    """No header breaks the decision; a wait is finite and not negative."""
    seconds = asked_wait({"retry-after": text}, NOW)
    assert seconds is None or 0.0 <= seconds < float("inf")


def test_a_pause_holds_everybody_and_spreads_their_return() -> None:
    """Whoever asks in a pause waits to its end and up to its length again, each for himself."""
    pause, rng = Pause(), Random(1)
    assert pause.left(100.0, rng) == 0.0
    pause.extend(100.0, 4.0)
    waits = [pause.left(101.0, rng) for _ in range(1000)]
    assert 3.0 <= min(waits) < 3.1
    assert 6.9 < max(waits) <= 7.0
    assert pause.may_be_on
    assert pause.left(104.0, rng) == 0.0
    assert not pause.may_be_on


def test_a_pause_is_never_shortened() -> None:
    """A shorter rate limit that comes later leaves the pause as it was."""
    pause, rng = Pause(), Random(1)
    pause.extend(100.0, 10.0)
    pause.extend(101.0, 1.0)
    assert pause.left(103.0, rng) >= 7.0


def test_the_length_of_pauses_is_summed() -> None:
    """Overlapping pauses count once, a pause after a gap counts in full."""
    pause = Pause()
    assert pause.extend(100.0, 4.0)
    assert pause.extend(102.0, 4.0)
    assert not pause.extend(103.0, 1.0)
    assert pause.total_s == 6.0
    assert pause.extend(200.0, 1.5)
    assert pause.total_s == 7.5
