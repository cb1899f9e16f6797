"""Serve one world of the conformance scenario until standard input ends, and print the URL of its
MCP endpoint.

    python -m tests.conformance.serve
"""

import sys
from pathlib import Path

import anyio

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.format import read


async def main() -> None:
    """Serve in this process; the suite runs against it."""
    scenario = read(Path(__file__).parent / "scenario")
    pool = LocalPool()
    settings = WorldServerSettings(port=0)
    async with Leases(pool, [scenario], settings) as leases, serving(leases) as url:
        lease = await leases.lease(NewWorld(scenario.name), "suite")
        sys.stdout.write(f"{url}/worlds/{lease.id}/mcp\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read)
    pool.close()


if __name__ == "__main__":
    anyio.run(main)
