"""Faults of rollout processes: the coordinator kills them, or stops them for a while, by real
signals."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import anyio

from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import TimedHang
from rehearsal_room.harness.chaos.triggers import draw
from rehearsal_room.harness.chaos.workers import stop_for
from rehearsal_room.harness.core.events import FaultInjected
from rehearsal_room.harness.fleet.coordinator import StartWorker
from rehearsal_room.harness.fleet.messages import (
    EpisodeAssignments,
    FromWorker,
    RecordBatch,
    ToWorker,
)
from rehearsal_room.harness.fleet.process_worker import WorkerHandle


def with_process_faults(start: StartWorker, injector: Injector) -> StartWorker:
    """What starts a rollout process, which the injector's faults may hit."""
    if not injector.has("processes"):
        return start
    processes = FaultyProcesses(injector)
    return lambda number: processes.start(start, number)


class FaultyProcesses:
    """The rollout processes of one coordinator."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._live: list[WatchedProcess] = []
        injector.on_time("processes.kill", self._kill)
        injector.on_time("processes.hang", self._hang)

    def start(self, start: StartWorker, number: int) -> "WatchedProcess":
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

    def __init__(self, inner: WorkerHandle, on_end: "Callable[[WatchedProcess], None]") -> None:
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

    def put(self, message: ToWorker) -> None:
        if isinstance(message, EpisodeAssignments):
            self.num_episodes += sum(assignment.judge_from is None for assignment in message.leases)
        self._inner.put(message)

    async def send_all(self) -> None:
        await self._inner.send_all()

    async def receive(self, within: float) -> FromWorker:
        message = await self._inner.receive(within)
        if isinstance(message, RecordBatch):
            self.num_episodes -= sum(record[3] == "ended" for record in message.records)
        return message

    def end(self) -> str:
        if not self.ended.is_set():
            self.ended.set()  # from now on its process id may be another process's
            self._on_end(self)
        return self._inner.end()
