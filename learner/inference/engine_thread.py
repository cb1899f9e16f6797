"""The thread in which engines run.

The event loop hands requests in and waits for them; it never waits for a computation. Between two
steps the thread takes up what has come in and gives up what was cancelled, so every slot is soon
free again.
"""

from contextlib import AsyncExitStack
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from learner.inference.engine import Engine, Request


class _Order:
    """A request on its way, and how the one who waits for it is told."""

    __slots__ = ("engine", "is_cancelled", "is_done", "ready", "request")

    def __init__(self, engine: Engine, request: Request) -> None:
        self.engine = engine
        self.request = request
        self.ready = anyio.Event()
        self.is_done = False
        self.is_cancelled = False


class EngineRoom:
    """Runs engines in a thread of its own, which its block owns.

    What goes wrong in an engine is raised to all who wait for it, and to all who ask it after: half
    a step may have been taken. Other engines go on.
    """

    def __init__(self) -> None:
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()  # None: stop
        self._stack = AsyncExitStack()
        self._portal: BlockingPortal | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        # The thread ends before the portal through which it tells who is done.
        self._portal = await self._stack.enter_async_context(BlockingPortal())
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(self._run)
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._orders.put(None)
        await self._stack.__aexit__(kind, exc, trace)

    async def sample(self, engine: Engine, request: Request) -> None:
        """Have the engine sample behind the request's prompt; returns when it is done.

        Raises ModelError for broken weights, whatever bug stopped the engine, and
        ClosedResourceError where the room's block is over.
        """
        if not self._is_open:
            raise anyio.ClosedResourceError
        order = _Order(engine, request)
        self._orders.put(order)
        try:
            await order.ready.wait()
        except BaseException:
            order.is_cancelled = True
            self._orders.put(order)
            raise
        if not order.is_done:
            raise engine.failure or anyio.ClosedResourceError

    async def _run(self) -> None:
        await anyio.to_thread.run_sync(self._work, limiter=anyio.CapacityLimiter(1))

    def _work(self) -> None:
        """The thread's life: step every engine that has orders, and tell who is done."""
        orders: dict[Request, _Order] = {}
        while self._take_up(orders):
            self._step(orders)
        self._tell(list(orders.values()))

    def _take_up(self, orders: dict[Request, _Order]) -> bool:
        """Take in what has come, waiting where there is nothing to do; False: the end."""
        while True:
            try:
                order = self._orders.get(block=not orders)
            except Empty:
                return True
            if order is None:
                return False
            if order.engine.failure is not None:
                self._tell([order])
            elif not order.is_cancelled:
                order.engine.add(order.request)
                orders[order.request] = order
            elif orders.pop(order.request, None):
                order.engine.cancel(order.request)

    def _step(self, orders: dict[Request, _Order]) -> None:
        for engine in dict.fromkeys(order.engine for order in orders.values()):
            try:
                done = [orders.pop(request) for request in engine.step()]
                for order in done:
                    order.is_done = True
            except Exception as exc:
                engine.failure = exc
                done = [order for order in orders.values() if order.engine is engine]
                for order in done:
                    del orders[order.request]
            self._tell(done)

    def _tell(self, orders: list[_Order]) -> None:
        if orders:
            assert self._portal is not None
            self._portal.start_task_soon(_set, orders)


def _set(orders: list[_Order]) -> None:
    for order in orders:
        order.ready.set()
