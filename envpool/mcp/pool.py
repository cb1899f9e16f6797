"""Any MCP server as the world of an episode: one of a URL, or one that a command starts.

    pool = McpPool(McpSettings("uvx some-server --db {scratch}/data.db"))
    await pool.host(scenario)                 # starts it once: which tools it has, or what is wrong
    async with pool.lease(scenario, task) as env:
        await env.call("add_note", {"text": "milk"}, "c0-0")

A command is started afresh for every lease, with an empty folder of its own as `{scratch}`, and
ended with its children: its worlds are apart as far as it keeps its data there or in memory. A URL
gets a connection for every lease; whether its worlds are apart is the server's business.

The state of such a world is unknown: no digest, no changes, no fork (see
envpool.mcp.opaque_states); its
tasks are verified by tool calls (envpool.mcp.checks). MCP 2026-07-28 and the older eras are spoken.
The server runs with the rights of whoever starts the run: no sandbox holds it.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio

from envpool.core.errors import PoolError, WorldError
from envpool.core.types import Env, StoredState, ToolError, ToolResult, ToolSpec
from envpool.mcp.client import Link, McpSettings, command_of
from envpool.mcp.opaque_states import UNKNOWN, UnknownStates
from envpool.store.states import States
from scenarios.format import Scenario, Task

_REMEMBERED = 8  # call ids whose results a lease still knows


class McpPool:
    """Leases worlds of one MCP server, on asyncio. It implements envpool.store.pool_protocol.Pool.

    Raises PoolError for a target that is neither a URL nor a command.
    """

    def __init__(self, settings: McpSettings) -> None:
        self.settings = settings
        self.command = command_of(settings.target)  # empty: a URL
        self._room = anyio.CapacityLimiter(settings.starts)
        self._tools: tuple[ToolSpec, ...] = ()  # at the first start; empty: there was none yet
        self._states: dict[str, States] = {}  # package digest -> what is known of its states
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
        """Start the server once, to see that it works and what it offers. Raises PoolError."""
        if not self._tools:
            link = await self.connect()
            await link.close()
        return self.hosted(scenario)

    def hosted(self, scenario: Scenario) -> States:
        """What can be read of the states of a scenario that is hosted: its tools."""
        states = self._states.get(scenario.digest)
        if states is None:
            assert self._tools, "a scenario is hosted first"
            states = self._states[scenario.digest] = UnknownStates(scenario, self._tools)
        return states

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """A server of its own, or a connection of its own to the one of a URL.

        One that worked before and cannot be had now is a world that is broken from its start, so
        that the episodes beside it go on; one that never worked raises PoolError.
        """
        return self._lease()

    async def connect(self) -> Link:
        """Start or reach the server; whoever asked closes the connection. Raises PoolError."""
        async with self._room:
            self._num_starts += 1
            link = Link(self.settings, self.command)
            try:
                await link.open()
            except BaseException:
                await link.close()
                raise
        self._tools = self._tools or link.tools
        return link

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
    async def _lease(self) -> AsyncIterator[Env]:
        env = await self._env()
        self._num_leases += 1
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)
        try:
            yield env
        finally:
            self.num_live -= 1
            await env.close()

    async def _env(self) -> "McpEnv":
        try:
            return McpEnv(self, await self.connect(), self._tools)
        except PoolError as exc:
            if not self._tools:
                raise
            return McpEnv(self, None, self._tools, broken=str(exc))


class McpEnv:
    """A leased world. It implements envpool.core.types.Env, as far as a server can.

    A call that is cancelled leaves the world broken: nobody knows whether it was executed.
    """

    awaits = True  # calls take as long as the server does: harness.rollout.episode sets a deadline
    start_digest = ""

    def __init__(
        self, pool: McpPool, link: Link | None, tools: tuple[ToolSpec, ...], broken: str = ""
    ) -> None:
        self._pool = pool
        self._link = link  # None: there is none
        self._tools = tools if link is None else link.tools
        self._broken = broken  # why the world cannot be used any more; empty: it can
        self._restart = False  # by the next call
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()

    def __repr__(self) -> str:
        return f"<McpEnv {self._pool.settings.target!r} [{self._broken or 'live'}]>"

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the server listed when the lease began."""
        return self._tools

    @property
    def digest(self) -> str:
        """Unknown."""
        return ""

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        self._check()
        known = self._answered.get(call_id)
        if known is not None:
            return known
        self._pool.num_calls += 1
        text, error = await self._answer(name, arguments)
        result = self._answered[call_id] = ToolResult(text, error)
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return result

    def state(self) -> StoredState:
        """Unknown. Raises WorldError when the world is broken."""
        self._check()
        return UNKNOWN

    def fork(self) -> "McpEnv":
        """Never to be had: raises WorldError."""
        raise WorldError(
            f"a world of the MCP server {self._pool.settings.target!r} cannot be forked: "
            "its state is unknown"
        )

    def reset(self) -> None:
        """Back to the start, by a new server at the next call. Raises WorldError for a URL."""
        if not self._pool.command:
            raise WorldError(
                f"a world of the MCP server {self._pool.settings.target!r} cannot be reset: "
                "it is not ours to start again"
            )
        self._answered.clear()
        self._broken, self._restart = "", True

    async def close(self) -> None:
        """End the connection, and with it the process."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _check(self) -> None:
        if self._broken:
            raise WorldError(self._broken)

    async def _answer(self, name: str, arguments: Any) -> tuple[str, ToolError | None]:
        if all(tool.name != name for tool in self._tools):
            known = ", ".join(tool.name for tool in self._tools)
            return f"There is no tool {name!r}. Tools: {known}.", "unknown_tool"
        if not isinstance(arguments, dict):
            found = "null" if arguments is None else f"a {type(arguments).__name__}"
            return f"{name}: expected an object of arguments, got {found}.", "arguments"
        try:
            link = await self._linked()
            return await link.call(name, arguments)
        except PoolError as exc:
            self._broken = str(exc)
            raise WorldError(self._broken) from exc
        except BaseException:
            self._broken = f"a call of {name} was stopped before the MCP server had answered it"
            raise

    async def _linked(self) -> Link:
        if self._restart:
            await self.close()
            self._link = await self._pool.connect()
            self._restart = False
        assert self._link is not None, "without a link the world is broken"
        return self._link
