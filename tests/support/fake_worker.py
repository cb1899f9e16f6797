"""Pools whose workers are stand-ins, controlled by a script of the test.

async with fake_pool(script) as (pool, workers): ...
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from tests.devtools.simulation.stand_in_worker import Dies, Script, obedient
from tests.devtools.simulation.stand_in_worker import StandInWorker as FakeWorker
from tests.devtools.simulation.stand_in_worker import StandInWorkers as FakeWorkers

__all__ = ["Dies", "FakeWorker", "FakeWorkers", "Script", "fake_pool", "obedient"]


@asynccontextmanager
async def fake_pool(
    script: Script = obedient, **settings: float
) -> AsyncIterator[tuple[WorkerPool, FakeWorkers]]:
    """A pool in which two fake workers execute at a time (or as `settings` require)."""
    workers = FakeWorkers(script)
    converted = msgspec.convert({"workers": 2, **settings}, WorkerSettings)
    async with WorkerPool(converted, open_spawner=workers.open) as pool:
        yield pool, workers
