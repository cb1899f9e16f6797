"""The event loop under hosted code: its time is virtual, and nothing in it outlives a call.

When every task waits, the clock jumps to the next deadline, so `asyncio.sleep(3600)` takes no time.
What would go to a thread (`def` endpoints and dependencies, `asyncio.to_thread`, executors) runs in
line: the same world is under it, and no other thread wakes up. Tasks and timers that a call leaves
behind are driven to their end, for at most a day of virtual time; what goes on even then is
cancelled.

Limit: `anyio.from_thread` finds no thread here, and says so to whoever calls it.
"""

import asyncio
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar

import anyio.to_thread

T = TypeVar("T")

MAX_WAIT = 7 * 86_400.0  # virtual seconds that a call may wait
LEFT_WAIT = 86_400.0  # virtual seconds for what a call leaves behind …
LEFT_TURNS = 10_000  # … and turns of the loop
THREAD_WAIT = 1.0  # wall seconds to wait for a thread of the code, when all else waits


class Stuck(Exception):
    """A coroutine waits for what will not come."""


class _NothingToWatch:
    """What the loop takes for its selector. It watches no file; waiting moves the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> tuple[()]:
        self._loop.wait(timeout)
        return ()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that waits for nothing but itself, with a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.until = MAX_WAIT  # the clock goes no further
        self.turns_left: int | None = None  # None: any number
        self.made: list[asyncio.Task[Any]] = []  # the tasks of this call
        self._selector = _NothingToWatch(self)
        self._woken = threading.Event()
        self.set_exception_handler(lambda loop, context: None)
        self.set_task_factory(_note_task)  # type: ignore[arg-type]  # typeshed wants a Protocol

    def time(self) -> float:
        return self.now

    def wait(self, timeout: float | None) -> None:
        """One turn of the loop: nothing is ready for `timeout` seconds (None: for ever)."""
        if self.turns_left is not None:
            self.turns_left -= 1
            if self.turns_left < 0:
                raise Stuck("what the call left behind does not end")
        if timeout is None:
            if threading.active_count() == 1 or not self._woken.wait(THREAD_WAIT):
                raise Stuck("it waits for something that never comes")
            self._woken.clear()
        elif timeout > 0:
            self.now += timeout
            if self.now > self.until:
                raise Stuck("it waits too long")

    def run_in_executor(  # type: ignore[override]  # typeshed counts the arguments of func
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(_apart(func, *args))
        except Exception as exc:
            future.set_exception(exc)
        return future

    def leftovers(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done."""
        return [task for task in self.made if not task.done()]

    def forget_generators(self) -> None:
        """Leave the asynchronous generators that are open now to whoever holds them."""
        self._asyncgens.clear()  # type: ignore[attr-defined]

    def is_clear(self) -> bool:
        """Whether nothing is left to do: no task, callback, timer or open asynchronous generator.

        The three underscored names are asyncio.BaseEventLoop's own, the same since Python 3.6.
        """
        return not (
            self._ready  # type: ignore[attr-defined]
            or self._scheduled  # type: ignore[attr-defined]
            or any(gen.ag_frame is not None for gen in self._asyncgens)  # type: ignore[attr-defined]
            or self.leftovers()
        )

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        self._woken.set()


def _note_task(
    loop: VirtualLoop, coro: Coroutine[Any, Any, T], context: Context | None = None
) -> asyncio.Task[T]:
    task = asyncio.Task(coro, loop=loop, context=context)
    loop.made.append(task)
    return task


class _Policy(asyncio.DefaultEventLoopPolicy):
    """`asyncio.run` and `new_event_loop` in hosted code give virtual loops too."""

    _loop_factory = VirtualLoop


_policy = _Policy()


def _apart(func: Callable[..., T], *args: Any) -> T:
    """Call in line what believes that it is in a thread of its own: no loop runs there."""
    running = events._get_running_loop()
    events._set_running_loop(None)
    try:
        return copy_context().run(func, *args)
    finally:
        events._set_running_loop(running)


async def _in_line(func: Callable[..., T], *args: Any, **_: Any) -> T:
    """In the place of anyio.to_thread.run_sync."""
    return _apart(func, *args)


class Contained:
    """While it is entered, threads of anyio run in line and new event loops are virtual.

    Its state is the process's: enter it around every run of hosted code, and not from two threads.
    """

    __slots__ = ("_outer", "_policy", "_run_sync")

    def __enter__(self) -> None:
        self._outer = events._get_running_loop()
        events._set_running_loop(None)  # the caller may be asynchronous itself
        self._run_sync = anyio.to_thread.run_sync
        anyio.to_thread.run_sync = _in_line  # type: ignore[assignment]  # counts the same
        self._policy = events._event_loop_policy  # type: ignore[attr-defined]  # None: not asked yet
        events._event_loop_policy = _policy  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        anyio.to_thread.run_sync = self._run_sync
        events._event_loop_policy = self._policy  # type: ignore[attr-defined]
        events._set_running_loop(self._outer)


class Runner:
    """Runs coroutines of hosted code, one after the other. `close()` ends it.

    Enter `Contained` around each run. A loop that something clings to is given up for a new one.
    """

    def __init__(self) -> None:
        self._loop = VirtualLoop()

    def run(self, coro: Coroutine[Any, Any, T], *, keeps_generators: bool = False) -> T:
        """The coroutine's result, or its exception. Raises Stuck when it cannot go on.

        `keeps_generators`: asynchronous generators that it leaves open (a lifespan's) stay open.
        """
        loop = self._loop
        loop.until = loop.now + MAX_WAIT
        try:
            return loop.run_until_complete(coro)
        finally:
            if keeps_generators:
                loop.forget_generators()
            if loop.is_clear():
                loop.made.clear()
            else:
                self._finish()

    def _finish(self) -> None:
        """Drive what was left to its end, or end it."""
        loop, self._loop = self._loop, VirtualLoop()
        loop.until = loop.now + LEFT_WAIT + 1
        loop.turns_left = LEFT_TURNS
        try:
            loop.run_until_complete(_drained(loop))
        except (Exception, asyncio.CancelledError, SystemExit):
            _give_up(loop)
        loop.close()

    def close(self) -> None:
        """End the loop."""
        self._loop.close()


async def _drained(loop: VirtualLoop) -> None:
    me = asyncio.current_task()
    while left := [task for task in loop.leftovers() if task is not me]:
        await asyncio.wait(left, timeout=loop.until - loop.now - 1)
        if loop.now >= loop.until - 1:
            raise Stuck("what the call left behind does not end")
    await asyncio.sleep(loop.until - loop.now - 1)  # timers
    await loop.shutdown_asyncgens()


def _give_up(loop: VirtualLoop) -> None:
    """Cancel what there is. What does not let itself be cancelled dies with the loop."""
    for task in loop.leftovers():
        task.cancel()
    loop.turns_left = 100
    loop.until = loop.now + LEFT_WAIT
    with suppress(Exception, asyncio.CancelledError, SystemExit):
        loop.run_until_complete(_cancelled(loop))


async def _cancelled(loop: VirtualLoop) -> None:
    me = asyncio.current_task()
    left = [task for task in loop.leftovers() if task is not me]
    if left:
        await asyncio.wait(left, timeout=1.0)
    await loop.shutdown_asyncgens()
