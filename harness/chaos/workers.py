"""Faults of sandbox workers: killed, stopped for a while, or taken for full.

Workers are hit by real signals. Only workers that have executed a call are hit: the pool counts a
death before the first request as a failed start, and it starts no more workers after a few of them.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import anyio

from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.workers.messages.connection import ProcessHandle, WorkerConnection
from rehearsal_room.envpool.workers.messages.jobs import CallJob
from rehearsal_room.envpool.workers.pool import WorkerSettings, WorkerSpawner, open_fork_server
from rehearsal_room.harness.chaos.course import Course
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Hang
from rehearsal_room.harness.chaos.triggers import draw
from rehearsal_room.harness.core.events import FaultInjected

CALL_FAULTS = ("workers.kill", "workers.hang")  # that may hit the worker of a call
_BUSY_TURNS = 5_000  # of the event loop, in which a strike looks in each for its call
_LOOK_S = 0.001  # seconds between two looks after that
_PATIENCE_S = 2.0  # seconds in which a worker that can be hit should execute a call
_FULL_S = 5.0  # seconds in which a worker that counts as full should be replaced
_HUGE = 1 << 46  # bytes
_EXITING = 0x4  # Linux's PF_EXITING, in /proc/PID/stat (proc(5))


class FaultyWorkers:
    """The workers of one pool."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._processes: dict[int, FaultyWorkerProcess] = {}  # by process id
        self._used: dict[int, WorkerConnection] = {}  # that executed a call, by process id
        self._noted = anyio.Event()  # replaced when a worker has executed a call
        self.calls: dict[int, tuple[Course, str]] = {}  # in flight, by the number of the world
        injector.on_time("workers.kill", self._kill)
        injector.on_time("workers.hang", self._hang)
        injector.on_time("workers.memory", self._fill)

    @asynccontextmanager
    async def open_spawner(self, settings: WorkerSettings) -> AsyncIterator[WorkerSpawner]:
        """The spawner of real worker processes, with faults. Raises PoolError."""
        opened: AbstractAsyncContextManager[WorkerSpawner] = open_fork_server(settings)
        async with opened as spawner:
            yield _FaultySpawner(spawner, self._processes)

    def note(self, env: Env) -> None:
        """A call of this world was executed."""
        if isinstance(env, RemoteExecutionEnv) and isinstance(env.last_worker, WorkerConnection):
            self._used[env.last_worker.process.pid] = env.last_worker
            noted, self._noted = self._noted, anyio.Event()
            noted.set()

    def strike_at_call(self, fault: str, env: Env) -> "CallStrike":
        """What hits the worker that executes the next call of a world."""
        hang = self._injector.fault(fault)
        return CallStrike(env, hang.seconds if isinstance(hang, Hang) else 0.0)

    async def _kill(self, number: int) -> None:
        event = FaultInjected("workers.kill", landed=False)
        try:
            if (victim := await self._victim("workers.kill", number)) is not None:
                event = self._event("workers.kill", victim)
                with suppress(ProcessLookupError):
                    os.kill(victim.process.pid, signal.SIGKILL)
        finally:
            self._injector.report(event)

    async def _hang(self, number: int) -> None:
        hang = self._injector.fault("workers.hang")
        assert isinstance(hang, Hang)
        event = FaultInjected("workers.hang", landed=False)
        try:
            if (victim := await self._victim("workers.hang", number)) is not None:
                event = self._event("workers.hang", victim, seconds=hang.seconds)
                await stop_for(victim.process.pid, hang.seconds)
        finally:
            self._injector.report(event)

    async def _fill(self, number: int) -> None:
        """Let a worker count as full until it is replaced; one that dies of something else before
        makes room for another."""
        landed, target = False, ""
        try:
            with anyio.move_on_after(_FULL_S):
                while not landed:
                    victim = await self._victim("workers.memory", number)
                    if victim is None:
                        break
                    process = self._processes[victim.process.pid]
                    process.is_full, target = True, _name_of(process.pid)
                    await process.ended.wait()
                    landed = process.was_replaced
        finally:
            self._injector.report(FaultInjected("workers.memory", landed, target=target))

    async def _victim(self, fault: str, number: int) -> WorkerConnection | None:
        """The worker that is hit; None: none has executed a call and lives, or soon does."""
        with anyio.move_on_after(_PATIENCE_S):
            while True:
                self._used = {pid: one for pid, one in self._used.items() if not one.dead}
                if used := list(self._used.values()):
                    chosen = draw(self._injector.seed, fault, "victim", number) * len(used)
                    return used[int(chosen)]
                await self._noted.wait()
        return None

    def _event(
        self, fault: str, victim: WorkerConnection, *, seconds: float = 0.0
    ) -> FaultInjected:
        """The fault that hits a worker, with the call that it executes."""
        job = victim.sent[0].job if victim.sent else None
        course, call_id = None, ""
        if isinstance(job, CallJob):
            course, call_id = self.calls.get(job.env.number, (None, ""))
        return FaultInjected(
            fault,
            retried=fault == "workers.kill" and job is not None,
            episode="" if course is None else course.episode,
            attempt=0 if course is None else course.attempt,
            turn=0 if course is None else course.turn,
            call=call_id,
            target=_name_of(victim.process.pid),
            seconds=seconds,
        )


class CallStrike:
    """A fault that hits the worker while it executes one call. `run` is its task; it is cancelled
    when the call is over. `seconds` 0: the worker is killed, else it stands still for so long."""

    def __init__(self, env: Env, seconds: float) -> None:
        self._env = env
        self.seconds = seconds
        self.landed = False
        self._pid = 0  # of the worker that was hit; 0: none was

    @property
    def target(self) -> str:
        """The worker that was hit; empty: none was."""
        return _name_of(self._pid) if self._pid else ""

    @property
    def was_replaced(self) -> bool:
        """Whether another worker has answered the call."""
        worker = self._env.last_worker if isinstance(self._env, RemoteExecutionEnv) else None
        return isinstance(worker, WorkerConnection) and worker.process.pid != self._pid

    async def run(self) -> None:
        """Wait until a worker executes the call, and hit it."""
        if not isinstance(self._env, RemoteExecutionEnv):
            return
        turns = 0
        while (worker := _executing(self._env)) is None:
            turns += 1
            await anyio.sleep(0 if turns < _BUSY_TURNS else _LOOK_S)
        self._pid, self.landed = worker.process.pid, True
        if self.seconds:
            await stop_for(self._pid, self.seconds)
        else:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def _executing(env: RemoteExecutionEnv) -> WorkerConnection | None:
    """The worker that has received a call of this world and not answered; None: there is none."""
    worker = env.last_worker
    if not isinstance(worker, WorkerConnection) or worker.dead:
        return None
    jobs = (sent.job for sent in worker.sent)
    has_call = any(isinstance(job, CallJob) and job.env is env for job in jobs)
    return worker if has_call else None


def _name_of(pid: int) -> str:
    return f"sandbox worker (pid {pid})"


def _runs(pid: int) -> bool:
    """Whether a process is neither dead nor dying: its files are closed before it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    state, *_, flags = text.rpartition(")")[2].split()[:7]
    return state not in "ZX" and not int(flags) & _EXITING


async def stop_for(pid: int, seconds: float) -> None:
    """Let a process stand still for some seconds; when it is cancelled, the process goes on."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        try:
            await anyio.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)


class _FaultySpawner:
    """A WorkerSpawner that keeps its processes in a register."""

    def __init__(self, inner: WorkerSpawner, processes: dict[int, "FaultyWorkerProcess"]) -> None:
        self._inner = inner
        self._processes = processes

    @property
    def level(self) -> str:
        return self._inner.level

    async def spawn(self) -> ProcessHandle:
        process = FaultyWorkerProcess(await self._inner.spawn())
        self._processes[process.pid] = process
        return process


class FaultyWorkerProcess:
    """A worker's process that may report too much memory. It implements
    envpool.workers.messages.connection.ProcessHandle."""

    def __init__(self, inner: ProcessHandle) -> None:
        self._inner = inner
        self.pid = inner.pid
        self.is_full = False
        self.ended = anyio.Event()  # set when the pool has ended it, or found it dead
        self.was_replaced = False  # because it counts as full

    @property
    def socket(self) -> socket.socket:
        return self._inner.socket

    def kill(self) -> None:
        self.was_replaced = self.is_full and _runs(self.pid)
        self.ended.set()
        self._inner.kill()

    async def wait(self) -> str:
        return await self._inner.wait()

    def cpu_s(self) -> float:
        return self._inner.cpu_s()

    def rss(self) -> int:
        return _HUGE if self.is_full else self._inner.rss()

    def num_threads(self) -> int:
        return self._inner.num_threads()
