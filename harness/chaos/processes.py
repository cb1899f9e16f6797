"""Faults of rollout processes: killed, stopped for a while, or short of memory.

The coordinator kills and stops them by real signals; each process takes the memory itself.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import anyio
import anyio.to_thread

from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Ballast, TimedHang
from rehearsal_room.harness.chaos.triggers import draw
from rehearsal_room.harness.chaos.workers import stop_for
from rehearsal_room.harness.core.events import FaultInjected


class Handle(Protocol):
    """What the coordinator has of a rollout process (see harness.fleet.process_worker)."""

    number: int
    ahead: int

    @property
    def name(self) -> str: ...

    def put(self, message: Any) -> None: ...

    async def send_all(self) -> None: ...

    async def receive(self, within: float) -> Any: ...

    def end(self) -> str: ...


class FaultyProcesses:
    """The rollout processes of one coordinator."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._live: list[WatchedProcess] = []
        injector.on_time("processes.kill", self._kill)
        injector.on_time("processes.hang", self._hang)

    def start(self, start: Callable[[int], Handle], number: int) -> "WatchedProcess":
        """Start a process with this number. Raises OSError."""
        process = WatchedProcess(start(number), self._live.remove)
        self._live.append(process)
        return process

    async def _kill(self, number: int) -> None:
        victim = self._victim("processes.kill", number)
        if victim is None:
            self._injector.report(FaultInjected("processes.kill", landed=False))
            return
        retried = victim.num_episodes > 0
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        event = FaultInjected("processes.kill", retried=retried, target=victim.name)
        self._injector.report(event)

    async def _hang(self, number: int) -> None:
        hang = self._injector.fault("processes.hang")
        assert isinstance(hang, TimedHang)
        victim = self._victim("processes.hang", number)
        if victim is None:
            self._injector.report(FaultInjected("processes.hang", landed=False))
            return
        num_episodes = victim.num_episodes
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_until, victim, hang.seconds, tasks.cancel_scope)
                await victim.ended.wait()
                tasks.cancel_scope.cancel()
        finally:
            retried = victim.ended.is_set() and num_episodes > 0
            self._injector.report(
                FaultInjected(
                    "processes.hang", retried=retried, target=victim.name, seconds=hang.seconds
                )
            )

    def _victim(self, fault: str, number: int) -> "WatchedProcess | None":
        """The process that is hit; None: none of this machine lives."""
        live = sorted((one for one in self._live if one.pid), key=lambda one: one.number)
        if not live:
            return None
        return live[int(draw(self._injector.seed, fault, "victim", number) * len(live))]


async def _stop_until(victim: "WatchedProcess", seconds: float, scope: anyio.CancelScope) -> None:
    if not victim.ended.is_set():
        await stop_for(victim.pid, seconds)
    scope.cancel()


class WatchedProcess:
    """The handle of a rollout process that counts the episodes which the process has. It implements
    harness.fleet.process_worker.WorkerHandle."""

    def __init__(self, inner: Handle, on_end: "Callable[[WatchedProcess], None]") -> None:
        self._inner = inner
        self._on_end = on_end
        self.number = inner.number
        self.ahead = inner.ahead
        self.pid: int = getattr(inner, "pid", 0)  # 0: it is not a process of this machine
        self.num_episodes = 0  # leased, and not ended
        self.ended = anyio.Event()

    @property
    def name(self) -> str:
        return self._inner.name

    def put(self, message: Any) -> None:
        self.num_episodes += sum(
            lease.judge_from is None for lease in getattr(message, "leases", ())
        )
        self._inner.put(message)

    async def send_all(self) -> None:
        await self._inner.send_all()

    async def receive(self, within: float) -> Any:
        message = await self._inner.receive(within)
        for record in getattr(message, "records", ()):
            self.num_episodes -= record[3] == "ended"
        return message

    def end(self) -> str:
        if not self.ended.is_set():
            self.ended.set()  # from now on its process id may be another process's
            self._on_end(self)
        return self._inner.end()


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
