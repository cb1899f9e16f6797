"""A pool whose worlds are any MCP server: one at a URL, or one that a command starts.

    pool = McpPool(McpSettings("uvx some-server --db {scratch}/data.db"))
    await pool.host(scenario)  # starts the server once: lists its tools, or reports the fault
    async with pool.lease(scenario, task) as env:
        await env.call("add_note", {"text": "milk"}, "c0-0")

A command is started for every lease, with its own empty folder as `{scratch}`, and ended with its
children: its worlds are separate if it keeps its data there or in memory. A URL gets a connection
for every lease; whether its worlds are separate depends on the server.

The state of such a world is unknown (see envpool.mcp.unknown_states): no digest, no changes, no
fork. Its tasks are verified by tool calls (envpool.mcp.checks). The client speaks MCP 2026-07-28
and the older revisions. The server has the rights of the user who starts the run, and no sandbox.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio

from envpool.core.errors import PoolError, WorldError
from envpool.core.offload import Verified
from envpool.core.types import Env, StoredState, ToolError, ToolResult, ToolSpec
from envpool.mcp.checks import verify_by_calls
from envpool.mcp.client import McpSettings, ServerConnection, command_of
from envpool.mcp.unknown_states import UNKNOWN, UnknownStates
from envpool.store.pool_protocol import VerifierKind
from envpool.store.states import States
from scenarios.checks import Finding
from scenarios.format import Scenario, Task

_REMEMBERED = 8  # call ids whose results a lease remembers


class McpPool:
    """Leases worlds of one MCP server, on asyncio. It implements envpool.store.pool_protocol.Pool.

    Raises PoolError for a target that is neither a URL nor a command.
    """

    def __init__(self, settings: McpSettings) -> None:
        self.settings = settings
        self.command = command_of(settings.target)  # empty: a URL
        self._start_limiter = anyio.CapacityLimiter(settings.starts)
        self._tools: tuple[ToolSpec, ...] = ()  # of the first start; empty: not started yet
        self._states: dict[str, States] = {}  # scenario digest -> its states
        self.num_live = 0
        self.max_live = 0
        self._num_leases = 0
        self._num_starts = 0
        self.num_calls = 0

    def __repr__(self) -> str:
        return (
            f"<McpPool {self.settings.target!r} [{self.num_live} live of {self._num_leases} "
            f"leased | {self._num_starts} starts, {self.num_calls} calls]>"
        )

    async def host(self, scenario: Scenario) -> States:
        """Start the server once, to check that it works and to list its tools. Raises PoolError."""
        if not self._tools:
            connection = await self.connect()
            await connection.close()
        return self.hosted(scenario)

    def hosted(self, scenario: Scenario) -> States:
        """Read access to the states of a hosted scenario: only its tools are known."""
        states = self._states.get(scenario.digest)
        if states is None:
            assert self._tools, "a scenario is hosted first"
            states = self._states[scenario.digest] = UnknownStates(scenario, self._tools)
        return states

    def isolates(self, scenario: Scenario) -> bool:
        """Always False: there are no workers."""
        return False

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """Raises PoolError: the state is unknown, so `Env.check` verifies in the live world."""
        raise PoolError(
            f"scenario {scenario.name!r} has no stored states to verify: its tasks are checked by "
            "tool calls in the live world"
        )

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """A server for this lease alone, or a new connection to the server of a URL.

        Where the server worked before and cannot be started now, the world is broken from its
        start, so that other episodes continue; a server that never worked raises PoolError.
        """
        return self._lease(scenario)

    async def connect(self) -> ServerConnection:
        """Start or reach the server; the caller closes the connection. Raises PoolError."""
        async with self._start_limiter:
            self._num_starts += 1
            connection = ServerConnection(self.settings, self.command)
            try:
                await connection.open()
            except BaseException:
                await connection.close()
                raise
        self._tools = self._tools or connection.tools
        return connection

    def statistics(self) -> dict[str, int]:
        return {
            "worlds": len(self._states),
            "live": self.num_live,
            "max_live": self.max_live,
            "leases": self._num_leases,
            "starts": self._num_starts,
            "calls": self.num_calls,
        }

    @asynccontextmanager
    async def _lease(self, scenario: Scenario) -> AsyncIterator[Env]:
        env = await self._env(scenario)
        self._num_leases += 1
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)
        try:
            yield env
        finally:
            self.num_live -= 1
            await env.close()

    async def _env(self, scenario: Scenario) -> "McpEnv":
        try:
            return McpEnv(self, scenario, await self.connect(), self._tools)
        except PoolError as exc:
            if not self._tools:
                raise
            return McpEnv(self, scenario, None, self._tools, broken=str(exc))


class McpEnv:
    """A leased world. It implements envpool.core.types.Env, as far as a server can.

    A cancelled call leaves the world broken: it is unknown whether the call was executed.
    """

    awaits = True  # a call takes as long as the server does
    start_digest = ""

    def __init__(
        self,
        pool: McpPool,
        scenario: Scenario,
        connection: ServerConnection | None,
        tools: tuple[ToolSpec, ...],
        broken: str = "",
    ) -> None:
        self._pool = pool
        self._scenario = scenario
        self._connection = connection  # None: there is none
        self._tools = tools if connection is None else connection.tools
        self._broken = broken  # why the world can no longer be used; empty: it is usable
        self._restart = False  # the next call starts a new server
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()

    def __repr__(self) -> str:
        return f"<McpEnv {self._pool.settings.target!r} [{self._broken or 'live'}]>"

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the server listed when the lease began."""
        return self._tools

    @property
    def digest(self) -> str:
        """Unknown, so empty."""
        return ""

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        self._raise_if_broken()
        if call_id in self._answered:
            return self._answered[call_id]
        self._pool.num_calls += 1
        text, error = await self._execute(name, arguments)
        result = self._answered[call_id] = ToolResult(text, error)
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return result

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return await verify_by_calls(self, self._scenario, task, answer)

    def state(self) -> StoredState:
        """Unknown. Raises WorldError when the world is broken."""
        self._raise_if_broken()
        return UNKNOWN

    def fork(self) -> "McpEnv":
        """Not available: raises WorldError."""
        raise WorldError(
            f"a world of the MCP server {self._pool.settings.target!r} cannot be forked: "
            "its state is unknown"
        )

    def reset(self) -> None:
        """Return to the start: the next call starts a new server. Raises WorldError for a URL."""
        if not self._pool.command:
            raise WorldError(
                f"a world of the MCP server {self._pool.settings.target!r} cannot be reset: "
                "a server at a URL cannot be restarted from here"
            )
        self._answered.clear()
        self._broken, self._restart = "", True

    async def close(self) -> None:
        """End the connection, and with it the process."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise WorldError(self._broken)

    async def _execute(self, name: str, arguments: Any) -> tuple[str, ToolError | None]:
        if all(tool.name != name for tool in self._tools):
            known = ", ".join(tool.name for tool in self._tools)
            return f"There is no tool {name!r}. Tools: {known}.", "unknown_tool"
        if not isinstance(arguments, dict):
            found = "null" if arguments is None else f"a {type(arguments).__name__}"
            return f"{name}: expected an object of arguments, got {found}.", "arguments"
        try:
            connection = await self._connected()
            return await connection.call(name, arguments)
        except PoolError as exc:
            self._broken = str(exc)
            raise WorldError(self._broken) from exc
        except BaseException:
            self._broken = f"a call of {name} was stopped before the MCP server had answered it"
            raise

    async def _connected(self) -> ServerConnection:
        if self._restart:
            await self.close()
            self._connection = await self._pool.connect()
            self._restart = False
        assert self._connection is not None, "without a connection the world is broken"
        return self._connection
