"""After a call no thread of the hosted code lives.

Threads that the code starts are waited for briefly; one that goes on is a violation, for it could
write into the next world. What is usually harmless is contained instead: a ThreadPoolExecutor runs
its work at once in the calling thread, and a Timer does not fire, for nothing happens between two
calls (it does fire when the code waits for it). Threads that would sleep end by themselves (see
envpool.hosting.determinism.clock). Processes are the sandbox's matter.

The contained classes are put in place by the first `Threads` and stay; outside of a `frozen` block
they are what they were.
"""

import _thread
import concurrent.futures
import concurrent.futures.thread
import threading
from collections.abc import Callable
from time import CLOCK_MONOTONIC, clock_gettime
from typing import Any

from envpool.hosting.determinism.clock import is_hosted, real_sleep

GRACE = 0.5  # seconds in all that the threads of one call are waited for
_count: Callable[[], int] = _thread._count


class Threads:
    """The threads of a worker: those that are there now, and none besides after a call."""

    __slots__ = ("_known", "_num_known")

    def __init__(self) -> None:
        _contain()
        self._known = frozenset(threading.enumerate())
        self._num_known = _count()

    def check(self) -> str:
        """Wait for the threads that the code has started, inside of the call's `frozen` block.

        Gives a sentence about those that go on; empty: there is none.
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
    """A ThreadPoolExecutor whose work is done when `submit` returns, inside of a `frozen` block."""

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
        except BaseException as exc:  # as a worker thread does: whoever asks for the result gets it
            future.set_exception(exc)
        return future

    def _begin(self) -> None:
        if self._initializer is not None and not self._begun:
            self._initializer(*self._initargs)
        self._begun = True


class HeldTimer(threading.Timer):
    """A Timer that fires, inside of a `frozen` block, when the code waits for it; else never."""

    _is_held = False

    def start(self) -> None:
        if not is_hosted():
            super().start()
            return
        if self._is_held:
            raise RuntimeError("threads can only be started once")
        self._is_held = True

    def join(self, timeout: float | None = None) -> None:
        if not self._is_held:
            super().join(timeout)
        elif self.is_alive() and (timeout is None or timeout >= self.interval):
            self.finished.set()
            self.function(*self.args, **self.kwargs)

    def is_alive(self) -> bool:
        return not self.finished.is_set() if self._is_held else super().is_alive()


_start = _thread.start_new_thread


def _start_seen(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> int:
    """A new thread, running when this returns: one that does not yet run is not counted."""
    runs = _thread.allocate_lock()
    runs.acquire()

    def run() -> None:
        runs.release()
        function(*args, **(kwargs or {}))

    ident = _start(run, ())
    runs.acquire()
    return ident


def _contain() -> None:
    setattr(_thread, "start_new_thread", _start_seen)  # noqa: B010
    for module in (concurrent.futures, concurrent.futures.thread):
        setattr(module, "ThreadPoolExecutor", InlineExecutor)  # noqa: B010 - mypy: not its own type
    setattr(threading, "Timer", HeldTimer)  # noqa: B010
