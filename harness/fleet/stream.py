"""Streaming records from a rollout process to the log: the sink of its recorder.

Records are encoded and sent in batches. What the coordinator has reported as stored is published on
the bus of this process, so the judge here, too, gets only what is on disk.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.fleet.messages import RecordBatch
from rehearsal_room.harness.fleet.transport import Transport
from rehearsal_room.harness.log.schema import encoded

CAPACITY = 16_384  # records that are not stored, from which on `wait_for_room` waits
_MAX_BATCH = 1_024  # records
_GATHER_S = 0.005  # seconds from the first record of a batch until it is sent

Publish = Callable[[Record], Awaitable[None]]


class StreamSink:
    """A Sink (see harness.log.recorder) on a transport. `send_batches` and `publish_stored` are
    its tasks. `publish` gets each stored record (None: nothing does)."""

    def __init__(self, connection: Transport, publish: Publish | None) -> None:
        self._connection = connection
        self._publish = publish
        self._buffer: list[Record] = []
        self._sent: deque[tuple[int, list[Record]]] = deque()  # batches that are not stored
        self._stored: deque[list[Record]] = deque()  # not published
        self.room_s = 0.0  # time waited for room, summed over the tasks that waited
        self._num_appended = 0
        self._num_stored = 0  # and published
        self._num_batches = 0
        self._work = anyio.Event()
        self._to_publish = anyio.Event()
        self._progress = anyio.Event()  # replaced when records were stored

    def append(self, record: Record) -> None:
        """Add a record, which is sent soon."""
        self._buffer.append(record)
        self._num_appended += 1
        if len(self._buffer) == 1:
            self._work.set()

    async def wait_for_room(self) -> None:
        """Return at once while fewer than `CAPACITY` records are not stored, the usual case; else
        wait until half of them are."""
        if self._num_appended - self._num_stored < CAPACITY:
            return
        began = time.perf_counter()
        try:
            while self._num_appended - self._num_stored >= CAPACITY // 2:
                await self._progress.wait()
        finally:
            self.room_s += time.perf_counter() - began

    async def flush(self) -> int:
        """Wait until every record appended so far is stored and published; return their number."""
        target = self._num_appended
        while self._num_stored < target:
            await self._progress.wait()
        return target

    def on_stored(self, number: int) -> None:
        """Every batch up to this number is on disk."""
        while self._sent and self._sent[0][0] <= number:
            self._stored.append(self._sent.popleft()[1])
        self._to_publish.set()

    async def send_batches(self) -> None:
        """Send what is appended, until cancelled."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            await anyio.sleep(_GATHER_S)
            while self._buffer:
                # Behind a full socket, encoded batches would be a second buffer without a bound.
                await self._connection.wait_until_sent(self._connection.max_queued)
                batch = self._buffer[:_MAX_BATCH]
                del self._buffer[:_MAX_BATCH]
                self._num_batches += 1
                self._sent.append((self._num_batches, batch))
                self._connection.put(
                    RecordBatch(self._num_batches, [encoded(each) for each in batch])
                )
                await anyio.lowlevel.checkpoint()

    async def publish_stored(self) -> None:
        """Publish what is stored, until cancelled."""
        while True:
            await self._to_publish.wait()
            self._to_publish = anyio.Event()
            while self._stored:
                batch = self._stored.popleft()
                if self._publish is not None:
                    for record in batch:
                        await self._publish(record)
                self._num_stored += len(batch)
                progress, self._progress = self._progress, anyio.Event()
                progress.set()
