"""A log can be followed while it is written, from its beginning to the end of its writer."""

from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from rehearsal_room.harness.bus import log_follower
from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.writer import has_writer, open_log
from tests.support.episode_logs import WORLD, whole


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_every_record_arrives_once(tmp_path: Path) -> None:
    """What was there before, what comes while it follows, and what the writer writes last; a
    receiver that is cancelled meanwhile loses nothing."""
    stored = [record for number in range(300) for record in whole(f"e{number}")]
    received: list[Record] = []

    async def follow() -> None:
        with open_reader(tmp_path) as reader:
            follower = LogFollower(tmp_path, reader, every_s=0.001)
            while True:
                records: list[Record] = []
                try:
                    with anyio.move_on_after(0.004):
                        records = list(await follower.receive())
                except anyio.EndOfStream:
                    return
                received.extend(records)

    async with anyio.create_task_group() as tasks, open_log(tmp_path) as log:
        log.add_scenario(WORLD)
        for number, record in enumerate(stored):
            log.append(record)
            if number == 700:
                await log.flush()
                tasks.start_soon(follow)
            if number % 100 == 0:
                await anyio.sleep(0.002)
        assert len(received) < len(stored)
    assert [record.key for record in received] == [record.key for record in stored]


async def test_who_writes(tmp_path: Path) -> None:
    """A folder has a writer while its log is open; looking at it does not disturb a writer that
    begins, and a second writer is still refused."""
    assert not has_writer(tmp_path)
    async with open_log(tmp_path):
        assert has_writer(tmp_path)
        with pytest.raises(LogError, match="another process is writing to this run"):
            async with open_log(tmp_path, resume=True):
                raise AssertionError("it opened")
    assert not has_writer(tmp_path)


async def test_looking_at_the_lock_stops_no_writer(tmp_path: Path) -> None:
    """Writers begin while another thread looks all the time."""
    stop = anyio.Event()
    looks = 0

    def look() -> None:
        for _ in range(50):
            has_writer(tmp_path)

    async def keep_looking() -> None:
        nonlocal looks
        while not stop.is_set():
            await anyio.to_thread.run_sync(look)
            looks += 50

    async with anyio.create_task_group() as tasks:
        async with open_log(tmp_path):
            tasks.start_soon(keep_looking)
        for _ in range(20):
            async with open_log(tmp_path, resume=True):
                await anyio.lowlevel.checkpoint()
        stop.set()
    assert looks > 0


async def test_the_last_records_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A writer may write and end between two looks of the follower, which still reads it all."""
    written = [(1, whole("a")[0])]

    class EndingWriter:
        """A log whose writer writes and ends right after it was read for the first time."""

        is_live = True

        def records_after(self, position: int, limit: int) -> list[tuple[int, Record]]:
            if self.is_live:
                self.is_live = False
                return []
            return written[position : position + limit]

    log = EndingWriter()
    monkeypatch.setattr(log_follower, "has_writer", lambda _folder: log.is_live)
    follower = LogFollower(tmp_path, cast(LogReader, log), every_s=0.001)
    assert await follower.receive() == [written[0][1]]
    with pytest.raises(anyio.EndOfStream):
        await follower.receive()
