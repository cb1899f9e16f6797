"""What pools of MCP servers have in common: worlds of unknown state, each behind a connection.

The state of such a world is unknown (see envpool.mcp.unknown_states): no digest, no changes, no
fork. Its tasks are verified before the lease ends.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from envpool.core.errors import PoolError, WorldError
from envpool.core.offload import Verified
from envpool.core.types import Env, StoredState, ToolError, ToolResult, ToolSpec
from envpool.mcp.unknown_states import UNKNOWN, UnknownStates
from envpool.store.pool_protocol import VerifierKind
from envpool.store.states import States
from scenarios.checks import Finding
from scenarios.format import Scenario, Task

_REMEMBERED = 8  # call ids whose results a lease remembers


class Connection(Protocol):
    """A world that runs, and the calls that it carries out."""

    tools: tuple[ToolSpec, ...]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolError | None]:
        """The text of a call's result and why it failed (None: it did not). Raises WorldError."""

    async def close(self) -> None:
        """End the world."""


class ServerPool(ABC):
    """Leases worlds of MCP servers. It implements envpool.store.pool_protocol.Pool."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[ToolSpec, ...]] = {}  # by `_kind_of`, of the first start
        self._states: dict[str, States] = {}  # scenario digest -> its states
        self.num_live = 0
        self.max_live = 0
        self._num_leases = 0
        self._num_starts = 0
        self.num_calls = 0

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
    async def _start(self, scenario: Scenario) -> Connection:
        """Start or reach a world. Raises PoolError."""

    def _kind_of(self, scenario: Scenario) -> str:
        """Scenarios of one kind have the same tools."""
        return ""

    async def connect(self, scenario: Scenario) -> Connection:
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

    def hosted(self, scenario: Scenario) -> States:
        """Read access to the states of a hosted scenario: only its tools are known."""
        states = self._states.get(scenario.digest)
        if states is None:
            tools = self._tools.get(self._kind_of(scenario))
            assert tools, "a scenario is hosted first"
            states = self._states[scenario.digest] = UnknownStates(scenario, tools)
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
        """A world for this lease alone, as far as its server keeps worlds apart.

        Where the server worked before and cannot be started now, the world is broken from its
        start, so that other episodes continue; a server that never worked raises PoolError.
        """
        return self._lease(scenario)

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
            connection = await self.connect(scenario)
        except PoolError as exc:
            tools = self._tools.get(self._kind_of(scenario))
            if not tools:
                raise
            return McpEnv(self, scenario, None, tools, broken=str(exc))
        return McpEnv(self, scenario, connection, connection.tools)


class McpEnv:
    """A leased world. It implements envpool.core.types.Env, as far as a server can.

    A cancelled call leaves the world broken: it is unknown whether the call was executed.
    """

    awaits = True  # a call takes as long as the server does
    start_digest = ""

    def __init__(
        self,
        pool: ServerPool,
        scenario: Scenario,
        connection: Connection | None,
        tools: tuple[ToolSpec, ...],
        broken: str = "",
    ) -> None:
        self._pool = pool
        self._scenario = scenario
        self._connection = connection  # None: there is none
        self._tools = tools
        self._broken = broken  # why the world can no longer be used; empty: it is usable
        self._restart = False  # the next call starts a new server
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()

    def __repr__(self) -> str:
        return f"<McpEnv {self._pool.name_of(self._scenario)} [{self._broken or 'live'}]>"

    @property
    def connection(self) -> Connection | None:
        """What carries its calls out; None: there is none, and the world is broken."""
        return self._connection

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
        return await self._pool.check(self, self._scenario, task, answer)

    def state(self) -> StoredState:
        """Unknown. Raises WorldError when the world is broken."""
        self._raise_if_broken()
        return UNKNOWN

    def fork(self) -> "McpEnv":
        """Not available: raises WorldError."""
        raise WorldError(
            f"a world of {self._pool.name_of(self._scenario)} cannot be forked: its state is "
            "unknown"
        )

    def reset(self) -> None:
        """Return to the start: the next call starts a new server. Raises WorldError for a URL."""
        if not self._pool.restarts(self._scenario):
            raise WorldError(
                f"a world of {self._pool.name_of(self._scenario)} cannot be reset: a server at a "
                "URL cannot be restarted from here"
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

    async def _connected(self) -> Connection:
        if self._restart:
            await self.close()
            self._connection = await self._pool.connect(self._scenario)
            self._restart = False
        assert self._connection is not None, "without a connection the world is broken"
        return self._connection
