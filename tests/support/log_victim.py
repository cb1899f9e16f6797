"""Writes the episodes e000 to e299 into a log, and prints each one that the log reports durable.

Run as `python -m tests.support.log_victim FOLDER`. After a kill at any moment, the next run
continues with the missing episodes.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, EpisodeProgress
from rehearsal_room.harness.log.writer import LogWriter, open_log
from tests.support.episode_logs import WORLD, whole

EPISODES = [f"e{number:03}" for number in range(300)]


async def _play(log: LogWriter, left: Iterator[str], before: dict[str, EpisodeProgress]) -> None:
    for episode in left:
        got = before.get(episode)
        for record in whole(episode, attempt=got.next_attempt if got else 0):
            await log.wait_for_room()
            log.append(record)
            await anyio.sleep(0.001)
        await log.flush()
        os.write(1, f"durable {episode}\n".encode())


async def main(folder: Path) -> None:
    before: dict[str, EpisodeProgress] = {}
    if (folder / LOG_NAME).exists():
        with open_reader(folder) as reader:
            before = reader.progress()
    left = iter([name for name in EPISODES if name not in before or not before[name].judged])
    async with open_log(folder, resume=True) as log, anyio.create_task_group() as tasks:
        log.add_scenario(WORLD)
        for _ in range(40):
            tasks.start_soon(_play, log, left, before)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
