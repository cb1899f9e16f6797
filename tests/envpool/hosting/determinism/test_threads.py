"""Threads of hosted code: contained, waited for, or told of."""

import _thread
import concurrent.futures
import threading
import time
from collections.abc import Iterator

import pytest

from envpool.hosting.determinism.clock import frozen_clock
from envpool.hosting.determinism.threads import DeferredTimer, InlineExecutor, Threads

CLOCK = "2026-03-14T09:30:00Z"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened when the test is over, and then no thread is left; none that other tests left ends
    meanwhile."""
    gate = threading.Event()
    for thread in frozenset(threading.enumerate()) - {threading.current_thread()}:
        thread.join(timeout=2)
    known = frozenset(threading.enumerate())
    yield gate
    gate.set()
    for thread in frozenset(threading.enumerate()) - known:
        thread.join()


def test_threads_that_end_are_fine() -> None:
    """Threads of both kinds that come to their end are waited for, whether joined or not."""
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


def test_a_thread_that_goes_on_is_told_of(gate: threading.Event) -> None:
    """A thread that does not end is named; one without a name is told of, too."""
    threads = Threads()
    with frozen_clock(CLOCK):
        threading.Thread(target=gate.wait, name="poller", daemon=True).start()
        assert threads.check() == "the code left threads running: poller"
        gate.set()
        assert threads.check() == ""
        gate.clear()
        ended = _thread.allocate_lock()
        ended.acquire()

        def wait() -> None:
            gate.wait()
            ended.release()

        _thread.start_new_thread(wait, ())
        assert threads.check() == "the code left threads running: without a name"
        gate.set()
        ended.acquire()
        assert threads.check() == ""


def test_executors_work_in_the_calling_thread() -> None:
    """A pool's work is done at once, in order, in the caller's thread, with its errors kept for
    whoever asks; its initializer runs once."""
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


def test_executors_of_others_have_their_threads() -> None:
    """Outside of hosted code a pool is what it was."""
    Threads()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert isinstance(executor, InlineExecutor)
        ident = executor.submit(threading.get_ident).result()
    assert ident != threading.get_ident()


def test_timers_fire_when_waited_for() -> None:
    """A timer fires for code that waits for it, and else not at all; cancelled ones never."""
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


def test_timers_of_others_fire() -> None:
    """Outside of hosted code a timer is what it was."""
    Threads()
    fired = threading.Event()
    timer = threading.Timer(0, fired.set)
    assert isinstance(timer, DeferredTimer)
    timer.start()
    assert fired.wait(10)
    timer.join()
    assert not timer.is_alive()


def test_naps_of_background_threads_take_no_time() -> None:
    """A loop that sleeps between its rounds ends after as many as a request could see."""
    threads = Threads()
    rounds: list[int] = []

    def poll() -> None:
        try:
            while True:
                time.sleep(3)
                rounds.append(1)
        except SystemExit:  # of which threading says nothing, but pytest would
            return

    with frozen_clock(CLOCK):
        threading.Thread(target=poll, daemon=True).start()
        assert threads.check() == ""
    assert len(rounds) == 3
