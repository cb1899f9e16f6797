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

import anyio

from rehearsal_room.envpool.mcp.checks import verify_by_calls
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection, command_of
from rehearsal_room.envpool.mcp.server_pool import McpEnv, ServerPool
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task


class McpPool(ServerPool):
    """Leases worlds of one MCP server, on asyncio. It implements envpool.store.pool_protocol.Pool.

    Raises PoolError for a target that is neither a URL nor a command.
    """

    def __init__(self, settings: McpSettings) -> None:
        super().__init__()
        self.settings = settings
        self.command = command_of(settings.target)  # empty: a URL
        self._start_limiter = anyio.CapacityLimiter(settings.starts)

    def __repr__(self) -> str:
        return (
            f"<McpPool {self.settings.target!r} [{self.num_live} live of {self._num_leases} "
            f"leased | {self._num_starts} starts, {self.num_calls} calls]>"
        )

    def name_of(self, scenario: Scenario) -> str:
        return f"the MCP server {self.settings.target!r}"

    def restarts(self, scenario: Scenario) -> bool:
        return bool(self.command)

    async def check(
        self, env: McpEnv, scenario: Scenario, task: Task, answer: str
    ) -> tuple[Finding, ...]:
        return await verify_by_calls(env, scenario, task, answer)

    async def _start(self, scenario: Scenario) -> ServerConnection:
        async with self._start_limiter:
            self._num_starts += 1
            connection = ServerConnection(self.settings, self.command)
            try:
                await connection.open()
            except BaseException:
                await connection.close()
                raise
        return connection
