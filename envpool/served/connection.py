"""One world of a suite that runs: the state that it began with, its servers, its calls."""

from contextlib import AsyncExitStack
from typing import Any

import anyio
import msgspec
import structlog

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection
from rehearsal_room.envpool.served.checks import Made, checked, clean
from rehearsal_room.envpool.served.needs import ServedSettings, command_of
from rehearsal_room.envpool.served.starts import Databases, begun
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.served_worlds import (
    PYTHON,
    EvaluatorCheck,
    ServedWorld,
    ServerSpec,
    filled,
    variables_of,
)

_CLEAN_S = 120.0  # seconds that undoing what a task did outside may take
_log = structlog.get_logger(__name__)


class ServedConnection:
    """The servers of one task. Call `open` once and `close` in any case.

    A tool is called `server__tool` in MCP-Universe, as upstream does it, and where a task has
    several servers.
    """

    def __init__(self, world: ServedWorld, settings: ServedSettings, databases: Databases) -> None:
        self._world = world
        self._settings = settings
        self._databases = databases
        self._variables: dict[str, str] = {}
        self._routes: dict[str, tuple[str, ServerConnection, str]] = {}  # tool -> server, its name
        self._calls: list[Made] = []
        self._stack = AsyncExitStack()  # ends the state
        self._servers = AsyncExitStack()
        self.tools: tuple[ToolSpec, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join(server.name for server in self._world.servers)
        return f"<ServedConnection {names} [{len(self.tools)} tools]>"

    async def open(self) -> None:
        """Make the state and start the servers. Raises PoolError with the reason."""
        made = begun(self._world, self._databases)
        self._variables = await self._stack.enter_async_context(made)
        for server in self._world.servers:
            await self._start(server)
        self.tools = tuple(
            msgspec.structs.replace(spec, name=name)
            for name, (_, connection, bare) in self._routes.items()
            for spec in connection.tools
            if spec.name == bare
        )

    async def renew_tools(self) -> None:
        """The tools of a benchmark's servers are those of the start, as its own runner has them."""

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """See envpool.mcp.server_pool.WorldConnection."""
        server, connection, bare = self._routes[name]
        text, error = await connection.call(bare, arguments)
        if self._has_cleanups and error is None:
            self._calls.append(
                {"server": server, "tool": bare, "arguments": arguments, "text": text}
            )
        return text, error

    async def check(self, answer: str) -> tuple[Finding, ...]:
        """The findings on the task. A script checks after the servers have ended, as upstream.
        Raises WorldError."""
        if not isinstance(self._world.check, EvaluatorCheck):
            await self._servers.aclose()
        return await checked(self._world, self._settings, self._variables, answer)

    async def close(self) -> None:
        """Undo what the task did outside, end the servers, and remove the state."""
        with anyio.CancelScope(shield=True):
            if self._calls:
                with anyio.move_on_after(_CLEAN_S):
                    calls, self._calls = self._calls, []
                    if why := await clean(self._world, self._settings, calls):
                        _log.warning("task_not_cleaned", why=why)
            await self._servers.aclose()
            await self._stack.aclose()

    @property
    def _has_long_names(self) -> bool:
        return isinstance(self._world.check, EvaluatorCheck) or len(self._world.servers) > 1

    @property
    def _has_cleanups(self) -> bool:
        check = self._world.check
        return isinstance(check, EvaluatorCheck) and bool(check.config.get("cleanups"))

    async def _start(self, server: ServerSpec) -> None:
        values = {**self._settings.named(), **self._variables}
        allowed = {name: values[name] for name in variables_of(server) if name in values}
        variables = {name: filled(text, allowed) for name, text in server.environment.items()}
        if PYTHON in server.command:
            variables.setdefault("PYTHONPATH", self._world.root)
        settings = McpSettings(server.name, start_timeout=self._settings.start_timeout)
        command = command_of(server, self._settings, allowed)
        connection = ServerConnection(settings, command, variables)
        self._servers.push_async_callback(connection.close)
        await connection.open()
        for spec in connection.tools:
            if not server.tools or spec.name in server.tools:
                name = f"{server.name}__{spec.name}" if self._has_long_names else spec.name
                if name in self._routes:
                    raise WorldError(f"two servers have a tool {name!r}")
                self._routes[name] = server.name, connection, spec.name
