"""A fault of a rollout process: it is short of memory, which it takes itself."""

import os

import anyio
import anyio.to_thread

from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Ballast
from rehearsal_room.harness.core.events import FaultInjected


class FaultyMemory:
    """The memory of this rollout process."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        injector.on_time("processes.memory", self._take)

    async def _take(self, number: int) -> None:
        ballast = self._injector.fault("processes.memory")
        assert isinstance(ballast, Ballast)
        held, landed = b"", True
        try:
            try:
                held = await anyio.to_thread.run_sync(_filled, ballast.megabytes << 20)
            except MemoryError:  # so there was too little of it, as the fault is to be
                landed = True
            await anyio.sleep(ballast.seconds)
        finally:
            del held
            self._injector.report(
                FaultInjected(
                    "processes.memory",
                    landed,
                    target=f"pid {os.getpid()}",
                    seconds=ballast.seconds,
                )
            )


def _filled(num_bytes: int) -> bytes:
    """Memory that is really used: every page is written to."""
    return b"\1" * num_bytes
