"""Following a run on its log: a subscription for a process that can read the run's folder.

It begins with the first record, so it may start late, and it ends when nothing writes the log any
more: after the run's end, and after a crash. The run does not notice it.
"""

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.writer import has_writer

_PAGE = 500  # records


class LogFollower:
    """A Subscription (see harness.bus.local) to all records of a log."""

    def __init__(self, folder: Path, reader: LogReader, *, every_s: float = 0.2) -> None:
        """`every_s`: seconds between two looks at a log in which nothing is new."""
        self._folder, self._reader = folder, reader
        self._every_s = every_s
        self.position = 0  # of the last record that was received

    async def receive(self) -> Sequence[Record]:
        """See Subscription.receive. Raises LogError."""
        while True:
            is_live, rows = await anyio.to_thread.run_sync(self._look)
            if rows:
                self.position = rows[-1][0]
                return [record for _, record in rows]
            if not is_live:
                raise anyio.EndOfStream
            await anyio.sleep(self._every_s)

    def _look(self) -> tuple[bool, list[tuple[int, Record]]]:
        is_live = has_writer(self._folder)  # first: what its writer wrote before it ended is read
        return is_live, self._reader.records_after(self.position, _PAGE)
