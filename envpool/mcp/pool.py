"""A pool whose worlds are any MCP servers, each at a URL or started by a command.

    pool = McpPool(McpSettings("uvx some-server --db {scratch}/data.db"))
    await pool.host(scenario)  # starts the server once: lists its tools, or reports the fault
    async with pool.lease(scenario, task) as env:
        await env.call("add_note", {"text": "milk"}, "c0-0")

A command is started for every lease, with its own empty folder as `{scratch}`, and ended with its
children: its worlds are separate if it keeps its data there or in memory. A URL gets a connection
for every lease; whether its worlds are separate depends on the server. Several servers are one
world (envpool.mcp.joined).

The state of such a world is unknown (see envpool.mcp.unknown_states): no digest, no changes, no
fork. Its tasks are verified by tool calls (envpool.mcp.checks). The client speaks MCP 2026-07-28
and the older revisions. The server has the rights of the user who starts the run, and no sandbox.
"""

from collections.abc import Sequence

import anyio

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.mcp.checks import verify_by_calls
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection, command_of
from rehearsal_room.envpool.mcp.joined import JoinedConnections
from rehearsal_room.envpool.mcp.questions import Warnings
from rehearsal_room.envpool.mcp.server_pool import McpEnv, ServerPool, WorldConnection
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task


class McpPool(ServerPool):
    """Leases worlds of MCP servers, on asyncio. It implements envpool.store.pool_protocol.Pool.

    Raises PoolError for a target that is neither a URL nor a command.
    """

    def __init__(self, settings: McpSettings, others: Sequence[McpSettings] = ()) -> None:
        """`others` are further servers of the same world."""
        super().__init__()
        self.servers = (settings, *others)
        self.commands = tuple(command_of(server.target) for server in self.servers)  # empty: a URL
        self._start_limiter = anyio.CapacityLimiter(settings.starts)
        self._warnings = Warnings()

    def __repr__(self) -> str:
        names = ", ".join(server.label for server in self.servers)
        return (
            f"<McpPool {names} [{self.num_live} live of {self._num_leases} leased | "
            f"{self._num_starts} starts, {self.num_calls} calls]>"
        )

    def name_of(self, scenario: Scenario) -> str:
        names = ", ".join(server.label for server in self.servers)
        return f"the MCP server{'' if len(self.servers) == 1 else 's'} {names}"

    def restarts(self, scenario: Scenario) -> bool:
        return all(self.commands)

    async def check(
        self, env: McpEnv, scenario: Scenario, task: Task, answer: str
    ) -> tuple[Finding, ...]:
        return await verify_by_calls(env, scenario, task, answer)

    async def _start(self, scenario: Scenario) -> WorldConnection:
        async with self._start_limiter:
            self._num_starts += 1
            connections = [
                ServerConnection(settings, command, warnings=self._warnings)
                for settings, command in zip(self.servers, self.commands, strict=True)
            ]
            try:
                await _open(connections)
            except BaseException:
                for connection in reversed(connections):
                    await connection.close()
                raise
        if len(connections) == 1:
            return connections[0]
        return JoinedConnections(connections, [server.name for server in self.servers])


async def _open(connections: Sequence[ServerConnection]) -> None:
    """Open all connections at once. Raises the PoolError of the first that cannot be opened."""
    faults: dict[int, PoolError] = {}

    async def open_one(number: int) -> None:
        try:
            await connections[number].open()
        except PoolError as exc:
            faults[number] = exc

    async with anyio.create_task_group() as tasks:
        for number in range(len(connections)):
            tasks.start_soon(open_one, number)
    if faults:
        raise faults[min(faults)]
