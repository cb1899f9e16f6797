"""Writes episodes into a log until the disk is full, and prints the error that ends it.

Run as `python -m tests.support.log_full_disk FOLDER`; no file can grow over 300 kB.
"""

import asyncio
import resource
import sys
from pathlib import Path

import anyio

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.log.writer import LogWriter, open_log
from tests.support.episode_logs import whole

_LIMIT = 300_000


async def _write(log: LogWriter, name: str) -> None:
    for number in range(1_000):
        for record in whole(f"{name}-{number}"):
            log.append(record)
        await log.flush()
        sys.stdout.write(f"durable {name}-{number}\n")


async def main(folder: Path) -> None:
    async with open_log(folder) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LIMIT, _LIMIT))
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(_write, log, name)
            tasks.start_soon(anyio.sleep_forever)


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1])))
    except LogError as exc:
        sys.stdout.write(f"LogError {exc}\n")
