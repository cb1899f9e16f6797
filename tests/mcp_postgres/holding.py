"""Hosts a world until its standard input ends: `python -m tests.mcp_postgres.holding PACKAGE`."""

import sys
from pathlib import Path

import anyio
import anyio.to_thread

from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.scenarios.format import read


async def main() -> None:
    """Host it, and say so."""
    async with ServerWorldPool() as pool:
        await pool.host(read(Path(sys.argv[1])))
        sys.stdout.write("hosted\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    anyio.run(main)
