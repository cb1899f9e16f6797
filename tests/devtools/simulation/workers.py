"""Sandbox workers as stand-ins: the real pool, dispatcher and supervisor with workers in this event
loop, which execute calls on real worlds and die or stand still when the choices say so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rehearsal_room.envpool.workers.fork_client import KILLED
from rehearsal_room.envpool.workers.messages.wire import (
    Load,
    Verify,
    WorkerCall,
    WorkerReply,
    WorkerRequest,
)
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from tests.devtools.simulation.parts.choices import Choices
from tests.devtools.simulation.parts.memory_socket import MemorySocket
from tests.devtools.simulation.stand_in_worker import Dies, StandInWorker, StandInWorkers

SETTINGS = WorkerSettings(workers=3, slow_after=1.0, call_deadline=60.0)
_KILLED = min(KILLED)  # why it ended, in words by which the pool knows that nothing else did it
_FATES = 0.01  # share of the requests at which a worker dies or stands still
_STILL_S = 20.0  # below the deadline of a call, after which its result would be another


class SimulatedWorkerProcess(StandInWorker):
    """One worker process."""

    def __init__(self, pid: int, choices: Choices) -> None:
        self._choices = choices
        super().__init__(pid, _decide)

    def connect(self) -> Any:
        return MemorySocket.pair(self._choices)

    async def decide(self, request: WorkerRequest) -> WorkerReply | None:
        """What happens at a request: it dies before or after it, stands still, or nothing."""
        if not isinstance(request, WorkerCall | Verify | Load):
            return None
        fate = self._choices.option("worker_process", 4, rate=_FATES)
        if fate == 1:
            raise Dies(_KILLED)
        if fate == 2:
            self._execute(request)
            raise Dies(_KILLED)
        if fate == 3:
            await asyncio.sleep(self._choices.amount("stands_still", _STILL_S, rate=1.0))
        return None


async def _decide(worker: StandInWorker, request: WorkerRequest) -> WorkerReply | bytes | None:
    assert isinstance(worker, SimulatedWorkerProcess)
    return await worker.decide(request)


class SimulatedWorkers(StandInWorkers):
    """Starts them."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(_decide)
        self._choices = choices

    def worker(self, pid: int, script: Any) -> StandInWorker:  # type: ignore[override]
        return SimulatedWorkerProcess(pid, self._choices)


@asynccontextmanager
async def simulated_workers(choices: Choices) -> AsyncIterator[WorkerPool]:
    """A pool whose workers are simulated."""
    async with WorkerPool(SETTINGS, open_spawner=SimulatedWorkers(choices).open) as pool:
        yield pool
