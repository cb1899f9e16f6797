"""A worker without a file of the run and without a socket, in this process: what Ray's actors are
to the coordinator, without Ray. It can die after a record that it was asked to die after."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import msgspec

from rehearsal_room.harness.fleet.carried import with_logged
from rehearsal_room.harness.fleet.messages import (
    EpisodeAssignments,
    FromWorker,
    RecordBatch,
    ToWorker,
    content_of,
    from_worker,
    to_worker,
)
from rehearsal_room.harness.fleet.transport import CarriedTransport
from rehearsal_room.harness.fleet.worker import RolloutWorker, WorkerSpec

Dies = Callable[[RecordBatch], bool]  # whether the worker dies after this batch


class CarriedWorker:
    """A WorkerHandle of a Worker that knows its leases only."""

    ahead = 1

    def __init__(self, spec: WorkerSpec, folder: Path, number: int, dies: Dies) -> None:
        self.number = number
        self.carried: list[EpisodeAssignments] = []  # what it was leased
        self._folder = folder
        self._plans = spec.plans
        self._dies = dies
        self._outgoing: list[ToWorker] = []
        self._received: list[bytes] = []
        self._work, self._arrived = anyio.Event(), anyio.Event()
        self._is_dead = False
        self._far = CarriedTransport()
        far = msgspec.structs.replace(spec, folder=None, names_trusted=False)
        self._tasks = [
            asyncio.create_task(RolloutWorker(far, self._far).serve()),
            asyncio.create_task(self._carry()),
        ]

    @property
    def name(self) -> str:
        """See WorkerHandle."""
        return f"carried worker {self.number + 1}"

    def put(self, message: ToWorker) -> None:
        """See WorkerHandle."""
        self._outgoing.append(message)
        self._work.set()

    async def send_all(self) -> None:
        """See WorkerHandle."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            messages, self._outgoing = self._outgoing, []
            for message in messages:
                if isinstance(message, EpisodeAssignments):
                    message = with_logged(message, self._folder, self._plans)
                    self.carried.append(message)
                data = content_of(message)
                assert to_worker(data) == message
                self._far.deliver([data])

    async def receive(self, within: float) -> FromWorker:
        """See WorkerHandle."""
        while not self._received:
            if self._is_dead:
                raise anyio.EndOfStream
            self._arrived = anyio.Event()
            with anyio.fail_after(within):
                await self._arrived.wait()
        message: FromWorker = from_worker(self._received.pop(0))
        if isinstance(message, RecordBatch) and self._dies(message):
            self._die()
        return message

    def end(self) -> str:
        """See WorkerHandle."""
        self._die()
        return "it died on purpose"

    async def _carry(self) -> None:
        async for batch in self._far.batches():
            self._received += batch
            self._arrived.set()

    def _die(self) -> None:
        self._is_dead = True
        self._received.clear()
        for task in self._tasks:
            task.cancel()


def kinds_in(batch: RecordBatch) -> Sequence[str]:
    """The kinds of a batch's records."""
    return [kind for _, _, _, kind, *_ in batch.records]
