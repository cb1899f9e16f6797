"""What pools of MCP servers have in common: worlds of unknown state, each behind a connection.

The state of such a world is unknown (see envpool.mcp.unknown_states): no digest, no changes, no
fork. Its tasks are verified before the lease ends.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import Env, ServerRequest, ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode, AsksBack
from rehearsal_room.envpool.mcp.unknown_env import UnknownEnv
from rehearsal_room.envpool.mcp.unknown_pool import UnknownPool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task


class WorldConnection(Protocol):
    """A world that runs, and the calls that it carries out."""

    tools: tuple[ToolSpec, ...]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """The text of a call's result and why it failed (None: it did not). Raises WorldError."""

    async def renew_tools(self) -> None:
        """List the tools again where the server has said that they changed. Raises WorldError."""

    async def close(self) -> None:
        """End the world."""


class ServerPool(UnknownPool):
    """Leases worlds of MCP servers. It implements envpool.store.pool_protocol.Pool."""

    why_not_verified = "its tasks are checked by tool calls in the live world"

    def __init__(self) -> None:
        super().__init__()
        self._tools: dict[str, tuple[ToolSpec, ...]] = {}  # by `_kind_of`, of the first start
        self._num_starts = 0

    @abstractmethod
    def name_of(self, scenario: Scenario) -> str:
        """What a message calls the world of a scenario, as in "the MCP server 'notes'"."""

    @abstractmethod
    def restarts(self, scenario: Scenario) -> bool:
        """Whether a world can be started again, so that it can be reset."""

    @abstractmethod
    async def check(
        self, env: "McpEnv", scenario: Scenario, task: Task, answer: str
    ) -> tuple[Finding, ...]:
        """The findings on a task, made in its live world. Raises WorldError."""

    @abstractmethod
    async def _start(self, scenario: Scenario) -> WorldConnection:
        """Start or reach a world. Raises PoolError."""

    def _kind_of(self, scenario: Scenario) -> str:
        """Scenarios of one kind have the same tools."""
        return ""

    async def connect(self, scenario: Scenario) -> WorldConnection:
        """Start or reach a world; the caller closes the connection. Raises PoolError."""
        connection = await self._start(scenario)
        self._tools.setdefault(self._kind_of(scenario), connection.tools)
        return connection

    async def host(self, scenario: Scenario) -> States:
        """Start a world once, to check that it works and to list its tools. Raises PoolError."""
        if self._kind_of(scenario) not in self._tools:
            connection = await self.connect(scenario)
            await connection.close()
        return self.hosted(scenario)

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """A world for this lease alone, as far as its server keeps worlds apart.

        Where the server worked before and cannot be started now, the world is broken from its
        start, so that other episodes continue; a server that never worked raises PoolError.
        """
        return self._lease(scenario)

    def statistics(self) -> dict[str, int]:
        return {**super().statistics(), "starts": self._num_starts}

    def _tools_of(self, scenario: Scenario) -> Iterable[ToolSpec]:
        tools = self._tools.get(self._kind_of(scenario))
        assert tools, "a scenario is hosted first"
        return tools

    @asynccontextmanager
    async def _lease(self, scenario: Scenario) -> AsyncIterator[Env]:
        env = await self._env(scenario)
        with self._counted():
            try:
                yield env
            finally:
                await env.close()

    async def _env(self, scenario: Scenario) -> "McpEnv":
        try:
            connection = await self.connect(scenario)
        except PoolError as exc:
            tools = self._tools.get(self._kind_of(scenario))
            if not tools:
                raise
            return McpEnv(self, scenario, None, tools, broken=str(exc))
        return McpEnv(self, scenario, connection, connection.tools)


class McpEnv(UnknownEnv):
    """A leased world. It implements envpool.core.types.Env, as far as a server can.

    A cancelled call leaves the world broken: it is unknown whether the call was executed.
    """

    _pool: ServerPool

    def __init__(
        self,
        pool: ServerPool,
        scenario: Scenario,
        connection: WorldConnection | None,
        tools: tuple[ToolSpec, ...],
        broken: str = "",
    ) -> None:
        super().__init__(pool, pool.name_of(scenario), tools, broken)
        self._scenario = scenario
        self._connection = connection  # None: there is none
        self._restart = False  # the next call starts a new server
        self._answerer: Answerer | None = None  # None: nobody answers the server

    @property
    def asks(self) -> AskMode:
        """See envpool.mcp.asks.AsksBack."""
        return self._connection.asks if isinstance(self._connection, AsksBack) else "refuse"

    def answer_with(self, answerer: Answerer) -> None:
        """See envpool.mcp.asks.AsksBack."""
        self._answerer = answerer
        if isinstance(self._connection, AsksBack):
            self._connection.answer_with(answerer)

    @property
    def connection(self) -> WorldConnection | None:
        """What carries its calls out; None: there is none, and the world is broken."""
        return self._connection

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return await self._pool.check(self, self._scenario, task, answer)

    def reset(self) -> None:
        """Return to the start: the next call starts a new server. Raises WorldError for a URL."""
        if not self._pool.restarts(self._scenario):
            raise WorldError(
                f"a world of {self._name} cannot be reset: a server at a URL cannot be restarted "
                "from here"
            )
        self._answered.clear()
        self._broken, self._restart = "", True

    async def close(self) -> None:
        """End the connection, and with it the process."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _asked(self) -> tuple[ServerRequest, ...]:
        return getattr(self._connection, "last_asked", ())

    async def _renew_tools(self) -> None:
        if self._connection is not None and not self._restart:
            try:
                await self._connection.renew_tools()
            except WorldError as exc:
                self._broken = str(exc)
                raise
            self._tools = self._connection.tools

    async def _execute(
        self, name: str, arguments: dict[str, Any]
    ) -> tuple[str, ToolErrorKind | None]:
        try:
            connection = await self._connected()
            return await connection.call(name, arguments)
        except PoolError as exc:
            self._broken = str(exc)
            raise WorldError(self._broken) from exc
        except BaseException:
            self._broken = f"a call of {name} was stopped before the MCP server had answered it"
            raise

    async def _connected(self) -> WorldConnection:
        if self._restart:
            await self.close()
            self._connection = await self._pool.connect(self._scenario)
            self._restart = False
            if self._answerer is not None:
                self.answer_with(self._answerer)
        assert self._connection is not None, "without a connection the world is broken"
        return self._connection
