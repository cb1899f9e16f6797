"""An event loop without a clock, threads or sockets: time jumps to the next timer when all wait.

Which of several ready tasks runs first is a choice (see tests.devtools.simulation.parts.choices):
the usual order, or another one. `time.time`, `time.monotonic`, `time.perf_counter` and anyio's
worker threads are replaced for as long as a simulation runs, so code under test needs no change.
"""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import anyio.to_thread

from tests.devtools.simulation.parts.choices import Choices
from tests.devtools.simulation.parts.memory_socket import MemoryTransport

EPOCH = 1_800_000_000.0  # what time.time() says when a simulation starts
_REORDERED = (
    0.04  # share of the turns of the loop with several ready tasks that run in another order
)


class Stuck(Exception):
    """Every task waits, and no timer will wake one; or nothing happened for too long."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop with its own clock, which starts at 0, for one thread."""

    def __init__(
        self,
        choices: Choices,
        *,
        most_seconds: float = 3_600.0,
        before_turn: Callable[[int], None] = lambda turn: None,
    ) -> None:
        """`before_turn` is called with the number of each turn of the loop, from 1."""
        super().__init__()
        self._choices = choices
        self._before_turn = before_turn
        self._now = 0.0
        self._most = most_seconds
        self.is_orderly = False  # True: no more choices, as while a dead process is cleaned away
        self.num_turns = 0

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now

    def extend(self, seconds: float) -> None:
        """Allow so many seconds from now on."""
        self._most = self._now + seconds

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        """There is one thread."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run the function in a later turn of the loop."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as exc:
                future.set_exception(exc)

        self.call_soon(work)
        return future

    async def create_unix_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], *, sock: Any
    ) -> tuple[MemoryTransport, Any]:
        """Connect a protocol to a memory socket."""
        protocol = protocol_factory()
        return MemoryTransport(sock, protocol), protocol

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        """Send on a memory socket."""
        sock.send(bytes(data))

    async def sock_recv(self, sock: Any, nbytes: int) -> bytes:
        """Receive from a memory socket; empty when the other end is closed."""
        arrived = asyncio.Event()
        sock.on_arrival(arrived.set)
        while True:
            try:
                return bytes(sock.recv(nbytes))
            except BlockingIOError:
                arrived.clear()
                await arrived.wait()

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""

    def _write_to_self(self) -> None:
        """There is nobody to wake up."""

    def _run_once(self) -> None:
        """One turn of the loop: everything that is ready now runs once."""
        self.num_turns += 1
        self._before_turn(self.num_turns)
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not scheduled:
                raise Stuck("every task waits, and no timer will wake one")
            self._now = max(self._now, scheduled[0]._when)
            if self._now > self._most:
                raise Stuck(f"not finished after {self._most:g} seconds")
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        self._reorder(ready)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _reorder(self, ready: Any) -> None:
        """Let another handle than the first be the first, and the first the last."""
        if len(ready) < 2 or self.is_orderly:
            return
        first = self._choices.option("order", len(ready), rate=_REORDERED)
        if first:
            ready.rotate(-first)


@contextmanager
def virtual_time(loop: VirtualLoop) -> Iterator[None]:
    """The clocks of this process show the loop's time, and anyio's threads are this thread."""

    async def run_sync(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        return func(*args)

    with (
        patch.object(time, "time", lambda: EPOCH + loop.time()),
        patch.object(time, "monotonic", loop.time),
        patch.object(time, "perf_counter", loop.time),
        patch.object(anyio.to_thread, "run_sync", run_sync),
    ):
        yield


def run_virtual(loop: VirtualLoop, main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a function to its end on a loop, with the loop's clock. Raises what it raises, and
    Stuck."""
    with virtual_time(loop):
        return loop.run_until_complete(main())
