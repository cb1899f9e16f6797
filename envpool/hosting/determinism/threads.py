"""Ensure that no thread of the hosted code is alive after a call.

A call waits briefly for the threads that the code has started. One that still runs is a violation,
because it could write into the next world. Usually harmless uses of threads are replaced instead: a
ThreadPoolExecutor runs its work at once in the calling thread, and a Timer does not fire, because
nothing happens between two calls (it fires when the code waits for it). Threads that sleep for
long end by themselves (see envpool.hosting.determinism.clock). The sandbox deals with processes.

The first `Threads` installs the replaced classes, which stay; outside of a `frozen_clock` block
they behave as the original ones.
"""

import _thread
import concurrent.futures
import concurrent.futures.thread
import threading
from collections.abc import Callable
from time import CLOCK_MONOTONIC, clock_gettime
from typing import Any

from rehearsal_room.envpool.hosting.determinism.clock import is_hosted, real_sleep

GRACE = 0.5  # seconds to wait in total for the threads of one call
_count: Callable[[], int] = _thread._count


class Threads:
    """The check that a call leaves no threads beside those that exist now."""

    __slots__ = ("_known", "_num_known")

    def __init__(self) -> None:
        _install()
        self._known = frozenset(threading.enumerate())
        self._num_known = _count()

    def check(self) -> str:
        """Wait for the code's threads. Call it inside of the call's `frozen_clock` block.

        Returns a sentence about those that still run; empty when there are none.
        """
        return "" if _count() <= self._num_known else self._remaining()

    def _remaining(self) -> str:
        deadline = clock_gettime(CLOCK_MONOTONIC) + GRACE
        for thread in self._started():
            thread.join(max(0.0, deadline - clock_gettime(CLOCK_MONOTONIC)))
        while _count() > self._num_known and clock_gettime(CLOCK_MONOTONIC) < deadline:
            real_sleep(0.001)  # a thread of `_thread` cannot be joined
        if _count() <= self._num_known:
            return ""
        names = sorted(thread.name for thread in self._started()) or ["without a name"]
        return f"the code left threads running: {', '.join(names)[:200]}"

    def _started(self) -> list[threading.Thread]:
        here = threading.current_thread()
        return [
            thread
            for thread in threading.enumerate()
            if thread not in self._known and thread is not here
        ]


class InlineExecutor(concurrent.futures.ThreadPoolExecutor):
    """A ThreadPoolExecutor whose `submit` does the work at once in a `frozen_clock` block."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begun = False

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        if not is_hosted():
            return super().submit(fn, *args, **kwargs)
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._begin()
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as exc:  # as in a worker thread: `result()` raises it
            future.set_exception(exc)
        return future

    def _begin(self) -> None:
        if self._initializer is not None and not self._begun:
            self._initializer(*self._initargs)
        self._begun = True


class DeferredTimer(threading.Timer):
    """A Timer that, in a `frozen_clock` block, fires only when the code waits for it."""

    _is_deferred = False

    def start(self) -> None:
        if not is_hosted():
            super().start()
            return
        if self._is_deferred:
            raise RuntimeError("threads can only be started once")
        self._is_deferred = True

    def join(self, timeout: float | None = None) -> None:
        if not self._is_deferred:
            super().join(timeout)
        elif self.is_alive() and (timeout is None or timeout >= self.interval):
            self.finished.set()
            self.function(*self.args, **self.kwargs)

    def is_alive(self) -> bool:
        return not self.finished.is_set() if self._is_deferred else super().is_alive()


_start = _thread.start_new_thread


def _start_new_thread(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> int:
    """Start a thread and return when it runs: one that does not run yet is not counted."""
    running = _thread.allocate_lock()
    running.acquire()

    def run() -> None:
        running.release()
        function(*args, **(kwargs or {}))

    ident = _start(run, ())
    running.acquire()
    return ident


def _install() -> None:
    setattr(_thread, "start_new_thread", _start_new_thread)  # noqa: B010
    for module in (concurrent.futures, concurrent.futures.thread):
        setattr(module, "ThreadPoolExecutor", InlineExecutor)  # noqa: B010 - mypy: not its own type
    setattr(threading, "Timer", DeferredTimer)  # noqa: B010
