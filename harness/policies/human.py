"""The policy of a person: someone plays the episode through a surface (a terminal, HTTP).

    exchange = Exchange(dialect)
    policy = HumanPolicy(exchange, surface)  # `surface(exchange)` runs beside the episode

The agent gives each window to the exchange and waits for an action; the surface takes the window,
shows it, and gives the action of the person. The log, the judge and replay see an episode like any
other. Time that a person takes is not limited, unless the run's limits say so.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import Briefing, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FIXED_SUMMARY
from rehearsal_room.scenarios.format import Call

_SECONDS_TO_END = 5.0  # that a surface has to say goodbye once the episode is over


class PlayedCall(msgspec.Struct, frozen=True):
    """A call that the person made, and the text that came back, as an agent reads it."""

    tool: str
    arguments: Any
    text: str


class HumanExchange:
    """What passes between one episode and the surface on which a person plays it.

    `started` gives the briefing; `call` and `answer` give an action and wait for what it brings.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.calls: list[PlayedCall] = []
        self.over = False  # the episode takes no more actions
        self.result: Any = None  # set by `finish`
        self._dialect = dialect
        self._turn = 0  # of the next action
        self._briefing: Briefing | None = None
        self._began = anyio.Event()
        self._finished = anyio.Event()
        self._lock = anyio.Lock()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open the streams between the episode and the surface for a block."""
        self._give_action, self._take_action = anyio.create_memory_object_stream[Reply](1)
        self._give_window, self._take_window = anyio.create_memory_object_stream[Window](1)
        try:
            yield
        finally:
            self._give_action.close()
            self._take_action.close()
            self._give_window.close()
            self._take_window.close()

    async def started(self) -> Briefing | None:
        """Wait for the start of the episode and return its briefing; None: it never started."""
        await self._began.wait()
        return self._briefing

    async def call(self, tool: str, arguments: dict[str, Any]) -> PlayedCall | None:
        """Make a call and return what came back; None: the episode is over, with this call or
        before it."""
        window = await self._act((Call(tool, arguments),), "")
        if window is None:
            return None
        made = PlayedCall(tool, arguments, window.messages[-1].content)
        self.calls.append(made)
        return made

    async def answer(self, text: str) -> str | None:
        """Give the final answer and wait until the episode was judged; None. In a dialogue it is
        said to the user: returns what the user answers, None where the user ends the talk.

        Raises ValueError for a text that the dialect cannot express; the episode then goes on.
        """
        window = await self._act((), text)
        if window is not None:
            return window.messages[-1].content
        await self._finished.wait()
        return None

    async def finished(self) -> None:
        """Wait until the episode is over and its result is known."""
        await self._finished.wait()

    def leave(self) -> None:
        """End the part of the person; an episode that waits for an action ends without an
        answer."""
        self._give_action.close()

    def finish(self, result: Any = None) -> None:
        """Report that the episode is over; only the first report counts. `result`: what the surface
        may show of it."""
        if self._finished.is_set():
            return
        self.result = result
        self.over = True
        self._give_window.close()
        self._began.set()
        self._finished.set()

    async def next_reply(self, window: Window, *, first: bool) -> Reply:
        """Show a window to the surface (the first one shows nothing that the briefing lacks) and
        return the person's action. Raises PolicyError when the person left."""
        try:
            if not first:
                await self._give_window.send(window)
            return await self._take_action.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise PolicyError("the player left before the final answer") from None

    def begin(self, briefing: Briefing) -> None:
        """Report the start of the episode."""
        self._briefing = briefing
        self._began.set()

    async def _act(self, calls: tuple[Call, ...], text: str) -> Window | None:
        async with self._lock:
            if self.over:
                return None
            reply = self._dialect.write(calls, text, turn=self._turn)
            self._turn += 1
            try:
                await self._give_action.send(reply)
                return await self._take_window.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self.over = True
                return None


Surface = Callable[
    [HumanExchange], Awaitable[None]
]  # runs until the person leaves or the episode ends


class HumanPolicy(AsyncContextManagerMixin):
    """Lets a person play one episode. In its `async with` block the surface runs."""

    name = "human"

    def __init__(self, exchange: HumanExchange, surface: Surface) -> None:
        self._exchange = exchange
        self._surface = surface

    def agent(self, assignment: Assignment) -> Agent:
        """Make the agent of the episode that the person plays."""
        self._exchange.begin(assignment.briefing)
        return _HumanAgent(self._exchange)

    def statistics(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        with self._exchange.open():
            async with self._surface_beside():
                yield self

    @asynccontextmanager
    async def _surface_beside(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._run_surface)
            try:
                yield
            finally:
                self._exchange.finish()
                group.cancel_scope.deadline = anyio.current_time() + _SECONDS_TO_END

    async def _run_surface(self) -> None:
        try:
            await self._surface(self._exchange)
        finally:
            self._exchange.leave()


class _HumanAgent:
    """Waits for the actions of a person."""

    def __init__(self, exchange: HumanExchange) -> None:
        self._exchange = exchange
        self._is_first = True

    async def reply(self, window: Window) -> Reply:
        if window.asks_for_summary:
            return FIXED_SUMMARY
        first, self._is_first = self._is_first, False
        return await self._exchange.next_reply(window, first=first)
