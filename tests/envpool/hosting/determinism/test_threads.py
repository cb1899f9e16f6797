"""Threads of hosted code are replaced, awaited, or reported."""

import _thread
import concurrent.futures
import threading
import time
from collections.abc import Iterator

import pytest

from rehearsal_room.envpool.hosting.determinism.clock import frozen_clock
from rehearsal_room.envpool.hosting.determinism.threads import (
    DeferredTimer,
    InlineExecutor,
    Threads,
)

CLOCK = "2026-03-14T09:30:00Z"


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """An event that ends the test's threads; set after the test, which then waits for them.

    Threads of earlier tests end before the test, so that none ends during it.
    """
    release = threading.Event()
    for thread in frozenset(threading.enumerate()) - {threading.current_thread()}:
        thread.join(timeout=2)
    known = frozenset(threading.enumerate())
    yield release
    release.set()
    for thread in frozenset(threading.enumerate()) - known:
        thread.join()


def test_threads_that_end_are_not_reported() -> None:
    """The check waits for threads of both kinds, joined or not, and reports none that ends."""
    threads = Threads()
    done: list[str] = []
    start = threading.Event()

    def work(name: str) -> None:
        start.wait()
        done.append(name)

    with frozen_clock(CLOCK):
        assert threads.check() == ""
        threading.Thread(target=work, args=("thread",)).start()
        _thread.start_new_thread(work, ("raw",))
        start.set()
        assert threads.check() == ""
    assert sorted(done) == ["raw", "thread"]


def test_threads_that_still_run_are_reported(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that does not end is reported by name; one without a name is reported, too."""
    threads = Threads()

    def report() -> str:
        """What the check reports; the test's threads do not end, so it need not wait for long."""
        with monkeypatch.context() as patch:
            patch.setattr("rehearsal_room.envpool.hosting.determinism.threads.GRACE", 0.05)
            return threads.check()

    with frozen_clock(CLOCK):
        threading.Thread(target=release.wait, name="poller", daemon=True).start()
        assert report() == "the code left threads running: poller"
        release.set()
        assert threads.check() == ""
        release.clear()
        ended = _thread.allocate_lock()
        ended.acquire()

        def wait() -> None:
            release.wait()
            ended.release()

        _thread.start_new_thread(wait, ())
        assert report() == "the code left threads running: without a name"
        release.set()
        ended.acquire()
        assert threads.check() == ""


def test_executors_work_in_the_calling_thread() -> None:
    """A pool's work is done at once, in order, in the caller's thread; `result()` raises its
    errors; the initializer runs once."""
    seen: list[str] = []

    def work(number: int) -> int:
        seen.append(f"{number} in {threading.current_thread().name}")
        return 10 // number

    threads = Threads()
    name = threading.current_thread().name
    with frozen_clock(CLOCK):
        pool = concurrent.futures.ThreadPoolExecutor(
            2, initializer=seen.append, initargs=("begun",)
        )
        with pool as executor:
            futures = [executor.submit(work, number) for number in (5, 0)]
            assert list(executor.map(work, (1, 2))) == [10, 5]
        assert isinstance(futures[1].exception(), ZeroDivisionError)
        assert [future.done() for future in futures] == [True, True]
        assert futures[0].result() == 2
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(work, 1)
        assert threads.check() == ""
    assert seen == ["begun", *(f"{number} in {name}" for number in (5, 0, 1, 2))]


def test_executors_outside_of_hosted_code_use_threads() -> None:
    """Outside of hosted code a pool works as usual."""
    Threads()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert isinstance(executor, InlineExecutor)
        ident = executor.submit(threading.get_ident).result()
    assert ident != threading.get_ident()


def test_timers_fire_only_when_the_code_waits_for_them() -> None:
    """A timer fires when the code joins it, and not otherwise; cancelled timers never fire."""
    threads = Threads()
    fired: list[str] = []
    with frozen_clock(CLOCK):
        forgotten, awaited, cancelled, impatient = (
            threading.Timer(seconds, fired.append, (name,))
            for name, seconds in (("a", 0), ("b", 60), ("c", 1), ("d", 60))
        )
        for timer in (forgotten, awaited, cancelled, impatient):
            timer.start()
        with pytest.raises(RuntimeError, match="only be started once"):
            forgotten.start()
        cancelled.cancel()
        for timer, seconds in ((awaited, None), (cancelled, None), (impatient, 1.0)):
            timer.join(seconds)
        awaited.join()
        assert [timer.is_alive() for timer in (forgotten, awaited, cancelled)] == [
            True,
            False,
            False,
        ]
        assert threads.check() == ""
    assert fired == ["b"]


def test_timers_outside_of_hosted_code_fire() -> None:
    """Outside of hosted code a timer works as usual."""
    Threads()
    fired = threading.Event()
    timer = threading.Timer(0, fired.set)
    assert isinstance(timer, DeferredTimer)
    timer.start()
    assert fired.wait(10)
    timer.join()
    assert not timer.is_alive()


def test_sleep_of_background_threads_takes_no_time() -> None:
    """A loop that sleeps between rounds ends after the rounds that fit into a request."""
    threads = Threads()
    rounds: list[int] = []

    def poll() -> None:
        try:
            while True:
                time.sleep(3)
                rounds.append(1)
        except SystemExit:  # ignored by threading, but reported by pytest
            return

    with frozen_clock(CLOCK):
        threading.Thread(target=poll, daemon=True).start()
        assert threads.check() == ""
    assert len(rounds) == 3
