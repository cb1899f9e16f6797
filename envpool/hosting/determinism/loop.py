"""The event loop of hosted code: its time is virtual, and nothing in it outlives a call.

When every task waits, the clock jumps to the next deadline, so `asyncio.sleep(3600)` takes no time.
Work for threads (`def` endpoints and dependencies, `asyncio.to_thread`, executors) runs inline: in
the calling thread, on the same world. Tasks and timers that a call leaves behind run to their end,
for at most a day of virtual time; those that do not end by then are cancelled.

Limit: `anyio.from_thread` does not work here and raises its own error.
"""

import asyncio
import sys
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar

import anyio.to_thread

T = TypeVar("T")

MAX_WAIT = 7 * 86_400.0  # virtual seconds that a call may wait
LEFTOVER_WAIT = 86_400.0  # virtual seconds for the tasks that a call leaves behind …
LEFTOVER_TURNS = 10_000  # … and turns of the loop
THREAD_WAIT = 1.0  # real seconds to wait for a thread of the code when nothing else can run


class Stuck(Exception):
    """A coroutine waits for something that cannot happen."""


class _VirtualSelector:
    """The selector of a VirtualLoop. It watches no file; waiting moves the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> tuple[()]:
        self._loop.wait(timeout)
        return ()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop with a virtual clock, which waits only for its own tasks and timers."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.latest = MAX_WAIT  # the clock stops here
        self.turns_left: int | None = None  # None: no limit
        self.tasks: list[asyncio.Task[Any]] = []  # the tasks of this call
        self._selector = _VirtualSelector(self)
        self._woken = threading.Event()
        self.set_exception_handler(lambda loop, context: None)
        self.set_task_factory(_create_task)  # type: ignore[arg-type]  # typeshed wants a Protocol

    def time(self) -> float:
        return self.now

    def wait(self, timeout: float | None) -> None:
        """Wait in one turn of the loop: nothing is ready for `timeout` seconds (None: forever)."""
        if self.turns_left is not None:
            self.turns_left -= 1
            if self.turns_left < 0:
                raise Stuck("a task that the call started does not end")
        if timeout is None:
            if threading.active_count() == 1 or not self._woken.wait(THREAD_WAIT):
                raise Stuck("it waits for something that never happens")
            self._woken.clear()
        elif timeout > 0:
            self.now += timeout
            if self.now > self.latest:
                raise Stuck("it waits too long")

    def run_step(self, task: asyncio.Task[Any]) -> bool:
        """Run the first step of a task that was just created in a clear loop; return whether it has
        ended.

        Nearly every call ends with it: what it awaits is there. Running the loop until the task has
        ended takes a second turn, of which nothing but its callback has need.
        """
        hooks = sys.get_asyncgen_hooks()
        self._thread_id = threading.get_ident()
        try:
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
                finalizer=self._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
            )
            events._set_running_loop(self)
            self._ready.popleft()._run()  # type: ignore[attr-defined]
        finally:
            self._thread_id = None  # type: ignore[assignment]  # as in run_forever
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
        return task.done()

    def run_in_executor(  # type: ignore[override]  # typeshed counts the arguments of func
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(_run_inline(func, *args))
        except Exception as exc:
            future.set_exception(exc)
        return future

    def unfinished_tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done."""
        return [task for task in self.tasks if not task.done()]

    def forget_generators(self) -> None:
        """Do not close the asynchronous generators that are open now: their owner does."""
        self._asyncgens.clear()  # type: ignore[attr-defined]

    def is_clear(self) -> bool:
        """Whether nothing is left to do: no task, callback, timer or open asynchronous generator.

        The three underscored names are asyncio.BaseEventLoop's own, the same since Python 3.6.
        """
        return not (
            self._ready  # type: ignore[attr-defined]
            or self._scheduled  # type: ignore[attr-defined]
            or self.unfinished_tasks()
            or any(gen.ag_frame is not None for gen in self._asyncgens)  # type: ignore[attr-defined]
        )

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        self._woken.set()


def _create_task(
    loop: VirtualLoop, coro: Coroutine[Any, Any, T], context: Context | None = None
) -> asyncio.Task[T]:
    task = asyncio.Task(coro, loop=loop, context=context)
    loop.tasks.append(task)
    return task


class _Policy(asyncio.DefaultEventLoopPolicy):
    """`asyncio.run` and `new_event_loop` in hosted code give virtual loops too."""

    _loop_factory = VirtualLoop


_policy = _Policy()


def _run_inline(func: Callable[..., T], *args: Any) -> T:
    """Call a function that expects to be in another thread: without a running loop."""
    running = events._get_running_loop()
    events._set_running_loop(None)
    try:
        return copy_context().run(func, *args)
    finally:
        events._set_running_loop(running)


async def _run_sync_inline(func: Callable[..., T], *args: Any, **_: Any) -> T:
    """The replacement of anyio.to_thread.run_sync."""
    return _run_inline(func, *args)


class VirtualAsyncio:
    """A block in which threads of anyio run inline and new event loops are virtual.

    It changes the process's state: enter it around every run of hosted code, from one thread only.
    """

    __slots__ = ("_outer", "_policy", "_run_sync")

    def __enter__(self) -> None:
        self._outer = events._get_running_loop()
        events._set_running_loop(None)  # the caller may be asynchronous itself
        self._run_sync = anyio.to_thread.run_sync
        anyio.to_thread.run_sync = _run_sync_inline  # type: ignore[assignment]  # other keywords
        self._policy = events._event_loop_policy  # type: ignore[attr-defined]  # None: not created yet
        events._event_loop_policy = _policy  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        anyio.to_thread.run_sync = self._run_sync
        events._event_loop_policy = self._policy  # type: ignore[attr-defined]
        events._set_running_loop(self._outer)


class Runner:
    """Runs coroutines of hosted code, one after the other. `close()` ends it.

    The caller enters `VirtualAsyncio` around each run. A loop with tasks that cannot be ended is
    replaced by a new one.
    """

    def __init__(self) -> None:
        self._loop = VirtualLoop()

    def run(self, coro: Coroutine[Any, Any, T], *, keeps_generators: bool = False) -> T:
        """The coroutine's result. Raises its exception, or Stuck when it cannot continue.

        `keeps_generators`: asynchronous generators that it leaves open (a lifespan's) stay open.
        """
        loop = self._loop
        loop.latest = loop.now + MAX_WAIT
        task = loop.create_task(coro)
        try:
            return task.result() if loop.run_step(task) else loop.run_until_complete(task)
        finally:
            del task  # an exception's traceback would keep it, and it the exception
            if keeps_generators:
                loop.forget_generators()
            if loop.is_clear():
                loop.tasks.clear()
            else:
                self._finish_leftovers()

    def _finish_leftovers(self) -> None:
        """Run the leftovers to their end, or cancel them. Replaces the loop."""
        loop, self._loop = self._loop, VirtualLoop()
        loop.latest = loop.now + LEFTOVER_WAIT + 1
        loop.turns_left = LEFTOVER_TURNS
        try:
            loop.run_until_complete(_drain(loop))
        except (Exception, asyncio.CancelledError, SystemExit):
            _give_up(loop)
        loop.close()

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()


async def _drain(loop: VirtualLoop) -> None:
    current = asyncio.current_task()
    while pending := [task for task in loop.unfinished_tasks() if task is not current]:
        await asyncio.wait(pending, timeout=loop.latest - loop.now - 1)
        if loop.now >= loop.latest - 1:
            raise Stuck("a task that the call started does not end")
    await asyncio.sleep(loop.latest - loop.now - 1)  # timers
    await loop.shutdown_asyncgens()


def _give_up(loop: VirtualLoop) -> None:
    """Cancel the unfinished tasks. Those that refuse end with the loop."""
    for task in loop.unfinished_tasks():
        task.cancel()
    loop.turns_left = 100
    loop.latest = loop.now + LEFTOVER_WAIT
    with suppress(Exception, asyncio.CancelledError, SystemExit):
        loop.run_until_complete(_cancel_all(loop))


async def _cancel_all(loop: VirtualLoop) -> None:
    current = asyncio.current_task()
    pending = [task for task in loop.unfinished_tasks() if task is not current]
    if pending:
        await asyncio.wait(pending, timeout=1.0)
    await loop.shutdown_asyncgens()
