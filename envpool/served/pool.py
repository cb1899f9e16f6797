"""A pool whose worlds are the MCP servers of a suite's tasks (MCP-Universe, MCPMark).

Every lease has server processes of its own, started on a state of its own: a copy of a folder, a
new database, or nothing. Findings are made in the live world, before the lease ends
(envpool.served.checks); both servers and state are gone after it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.mcp.server_pool import McpEnv, ServerPool
from rehearsal_room.envpool.served.checks import imports_of, require_imports
from rehearsal_room.envpool.served.connection import ServedConnection
from rehearsal_room.envpool.served.needs import ServedSettings, faults
from rehearsal_room.envpool.served.starts import Databases
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.served_worlds import ServedWorld
from rehearsal_room.scenarios.format import Scenario, Task


class ServedPool(ServerPool, AsyncContextManagerMixin):
    """Leases worlds of a suite, on asyncio. It implements envpool.store.pool_protocol.Pool. Use it
    in `async with`."""

    def __init__(self, settings: ServedSettings) -> None:
        super().__init__()
        self.settings = settings
        self._databases = Databases(settings)
        self._start_limiter = anyio.CapacityLimiter(settings.starts)
        self._hosting = anyio.Lock()
        self._imported: set[tuple[str, ...]] = set()  # of checks that were seen to work

    def __repr__(self) -> str:
        return (
            f"<ServedPool [{self.num_live} live of {self._num_leases} leased | "
            f"{self._num_starts} starts, {self.num_calls} calls]>"
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator["ServedPool"]:
        async with self._databases:
            yield self

    async def host(self, scenario: Scenario) -> States:
        """Check what the world needs, and start its servers once where no world with the same ones
        was started yet. Raises PoolError, which names the task."""
        for fault in faults(_world_of(scenario), self.settings):
            raise PoolError(f"task {scenario.name!r}: {fault}")
        world = _world_of(scenario)
        async with self._hosting:
            try:
                if imports_of(world) not in self._imported:
                    await require_imports(world, self.settings)
                    self._imported.add(imports_of(world))
                return await super().host(scenario)
            except PoolError as exc:
                raise PoolError(f"task {scenario.name!r}: {exc}") from exc

    def name_of(self, scenario: Scenario) -> str:
        names = ", ".join(repr(server.name) for server in _world_of(scenario).servers)
        return f"the MCP servers {names}"

    def restarts(self, scenario: Scenario) -> bool:
        return True

    async def check(
        self, env: McpEnv, scenario: Scenario, task: Task, answer: str
    ) -> tuple[Finding, ...]:
        connection = env.connection
        if not isinstance(connection, ServedConnection):
            raise WorldError("the world is gone, so its task cannot be checked")
        return await connection.check(answer)

    def _kind_of(self, scenario: Scenario) -> str:
        return msgspec.json.encode(_world_of(scenario).servers).decode()

    async def _start(self, scenario: Scenario) -> ServedConnection:
        async with self._start_limiter:
            self._num_starts += 1
            connection = ServedConnection(_world_of(scenario), self.settings, self._databases)
            try:
                await connection.open()
            except BaseException:
                await connection.close()
                raise
        return connection


def _world_of(scenario: Scenario) -> ServedWorld:
    assert scenario.suite is not None, "the pool has worlds of suites alone"
    assert scenario.suite.served is not None, "the suite's worlds are MCP servers"
    return scenario.suite.served
