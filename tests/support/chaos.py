"""Faults on purpose in tests: files of them, an injector that is on, and what it recorded."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import tomli_w

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import ChaosFile
from rehearsal_room.harness.core.events import FaultInjected
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.recorder import Recorder
from tests.support.run_context import MemorySink

Tables = Mapping[str, Mapping[str, Mapping[str, Any]]]  # table, key, its settings


def chaos_of(tables: Tables, seed: int = 7) -> ChaosFile:
    """A chaos file with these tables."""
    return msgspec.convert({"seed": seed, **tables}, ChaosFile)


def write_chaos(path: Path, tables: Tables, seed: int = 7) -> Path:
    """Write a chaos file."""
    path.write_text(tomli_w.dumps({"seed": seed, **tables}))
    return path


@asynccontextmanager
async def injecting(injector: Injector) -> AsyncIterator[list[FaultInjected]]:
    """A block in which the injector is on; yields what it has recorded, which grows."""
    sink = _FaultSink()
    async with OwnedTasks() as tasks:
        tasks.start_soon(injector.run, Recorder(sink))
        await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        yield sink.faults


class _FaultSink(MemorySink):
    def __init__(self) -> None:
        super().__init__()
        self.faults: list[FaultInjected] = []

    def append(self, record: Any) -> None:
        super().append(record)
        assert isinstance(record.event, FaultInjected)
        self.faults.append(record.event)


def faults_of(folder: Path) -> list[FaultInjected]:
    """The faults in a run's log, in its order."""
    with open_reader(folder) as reader:
        return [fault for _, fault in reader.faults()]
