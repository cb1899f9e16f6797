"""The pool of worlds with untrusted code: it holds their states, and workers run their tools.

    async with WorkerPool(WorkerSettings()) as pool:
        await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            result = await env.call("get_cart", {"user_id": 1}, "c0-0")

The states are held here (envpool.remote_execution.env), so a worker may die at any moment: the call
in flight ends its episode with a WorldError, and all others continue on other workers
(envpool.workers.dispatch). Where the worker was killed from outside, that call is made again.

It runs on asyncio only, and the task that entered it must leave it.
"""

import asyncio
import json
import math
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import PoolError, SeedError, ToolsetError, WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Verified
from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.kernel.thread_count import surplus_threads
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv, RemoteExecutionScenario
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.remote_execution.pool import RemoteExecutionPool
from rehearsal_room.envpool.store.pool_protocol import VerifierKind
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.workers.dispatch import Dispatcher
from rehearsal_room.envpool.workers.fork_client import KILLED, ForkServerClient, ForkServerSettings
from rehearsal_room.envpool.workers.messages.connection import ProcessHandle, WorkerConnection
from rehearsal_room.envpool.workers.messages.jobs import CallJob, Job
from rehearsal_room.envpool.workers.messages.wire import (
    HostingRefused,
    Load,
    Replay,
    Replayed,
    Verify,
    WorkerFailed,
    WorkerReply,
)
from rehearsal_room.envpool.workers.sandbox import WorkerLimits
from rehearsal_room.envpool.workers.supervisor import SLOW_TICKS, Rules
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario, Task, read

MAX_WORKERS = 256  # executing; more than any machine's cores would only use up resources
_MAX_TRIES = 3  # of a request whose workers were killed from outside
_PLAIN = frozenset((str, int, bool, type(None)))  # what all writers of JSON write equally
_MAX_EMPTY = 8  # kept ready, so that a verdict or a new scenario does not wait for a fork
_encode = msgspec.json.Encoder().encode


class WorkerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of workers and their limits."""

    workers: int = 0  # that may execute at a time; 0: as many as this process has cores
    spare: int = 2  # workers that may execute beside them while others are slow
    call_deadline: float = 60.0  # seconds a call may take until its worker is killed
    slow_after: float = 0.1  # seconds a call may compute until the calls behind it move elsewhere
    start_deadline: float = 60.0  # seconds a worker may take to start
    window: int = 4  # requests that are sent to a worker ahead
    sandbox: str = "best"  # see envpool.workers.sandbox.require
    memory_mb: int = 2048  # memory limit of one worker, in MiB
    # Memory of all workers, in MiB, above which the least recently used one without work ends; its
    # scenario is loaded again when it is needed.
    resident_mb: int = 4096

    def __post_init__(self) -> None:
        for name in ("call_deadline", "slow_after", "start_deadline", "window", "resident_mb"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be above 0, not {getattr(self, name)}")
        for name in ("workers", "spare"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: must not be below 0, not {getattr(self, name)}")
        if self.workers > MAX_WORKERS:
            raise ValueError(f"workers: must be at most {MAX_WORKERS}, not {self.workers}")

    @property
    def num_workers(self) -> int:
        """The number of workers that may execute at a time."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def tick_seconds(self) -> float:
        """Seconds between two checks of the workers."""
        return self.slow_after / (SLOW_TICKS - 1)


class WorkerSpawner(Protocol):
    """Starts workers; the fork server client does."""

    @property
    def level(self) -> str:
        """The sandbox level of the workers."""

    async def spawn(self) -> ProcessHandle:
        """Start a worker, whose first frame is Ready. Raises PoolError."""


OpenSpawner = Callable[[WorkerSettings], AbstractAsyncContextManager[WorkerSpawner]]


def open_fork_server(settings: WorkerSettings) -> AbstractAsyncContextManager[WorkerSpawner]:
    """The spawner of real worker processes."""
    limits = WorkerLimits(memory_mb=settings.memory_mb)
    return ForkServerClient(ForkServerSettings(settings.sandbox, limits))


class _LeaseBlock:
    """The block in which a world is live. Enter and exit are written by hand: a generator-based
    context manager costs 1.6 µs a lease, AsyncContextManagerMixin 2.5 µs, this pair 0.4 µs."""

    __slots__ = ("_env", "_pool", "_scenario")

    def __init__(self, pool: "WorkerPool", scenario: Scenario) -> None:
        self._pool = pool
        self._scenario = scenario

    async def __aenter__(self) -> Env:
        pool = self._pool
        world = await pool.host(self._scenario)
        pool._count_lease()
        self._env = world.lease(pool)
        return self._env

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.num_live -= 1
        worker: WorkerConnection | None = self._env.last_worker
        if worker is not None:
            worker.forget(self._env.number)


class WorkerPool(RemoteExecutionPool, AsyncContextManagerMixin):
    """Leases worlds whose tools run in worker processes. It implements
    envpool.store.pool_protocol.Pool, envpool.remote_execution.env.Executor and
    envpool.workers.dispatch.WorkerOwner. `open_spawner` returns the spawner of its workers.

    Entering it raises PoolError when no worker can be started.
    """

    def __init__(
        self,
        settings: WorkerSettings | None = None,
        *,
        open_spawner: OpenSpawner = open_fork_server,
    ) -> None:
        super().__init__("in a worker")
        self.settings = settings or WorkerSettings()
        self.level = ""  # the sandbox level of the workers
        self._open_spawner = open_spawner
        self._dispatcher = Dispatcher(_rules(self.settings), self)
        self._started = anyio.Event()  # all workers are ready, or none can be started
        self._sources: dict[str, dict[str, str]] = {}  # scenario digest -> file -> text
        self._ended_cpu_s = 0.0  # of workers that have ended
        self._num_started = 0
        self._num_repeated = 0  # requests that were made again in another worker
        # Tasks to be started. Callbacks of sockets request them, and anyio cannot start any there.
        self._requested_tasks = asyncio.Queue[
            tuple[Callable[..., Coroutine[Any, Any, None]], tuple[Any, ...]]
        ]()

    def __repr__(self) -> str:
        counts = self.statistics()
        return (
            f"<WorkerPool [{counts['live']} live of {counts['leases']} leased | "
            f"{counts['worlds']} worlds, {counts['calls']} calls | {counts['workers']} workers]>"
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        try:
            asyncio.get_running_loop()
        except RuntimeError as exc:
            raise PoolError("a pool of workers runs on asyncio, not on trio") from exc
        try:
            async with AsyncExitStack() as stack:
                self._spawner = await stack.enter_async_context(self._open_spawner(self.settings))
                self.level = self._spawner.level
                self._tasks = await stack.enter_async_context(OwnedTasks())
                stack.callback(self._end_workers)
                self._tasks.start_soon(self._tick)
                self._tasks.start_soon(self._start_requested_tasks)
                self._dispatcher.open()
                await self._started.wait()
                if self._dispatcher.supervisor.fault:
                    raise PoolError(self._dispatcher.supervisor.fault)
                yield self
        finally:
            self._close_worlds()

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return _LeaseBlock(self, scenario)

    def drop(self, scenario: Scenario) -> None:
        """Unload a scenario without live worlds, here and in the workers."""
        world = self._worlds.pop(scenario.digest, None)
        if world is None:
            return
        self._dispatcher.drop(scenario.digest)
        world.close()
        del self._sources[scenario.digest]
        self._hosting_locks.pop(scenario.digest, None)

    def isolates(self, scenario: Scenario) -> bool:
        """Always True: all code runs in workers."""
        return True

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """The result of a task's verifier, run in a worker that has executed nothing else and gets
        its inputs from here: no code of the scenario's tools has a part in it.

        A verifier that ends its worker is a `fault`. Raises PoolError when the scenario cannot be
        hosted or the state is not its own.
        """
        world = await self.host(scenario)
        source = self._sources[scenario.digest].get("verify.py", "")
        return await self.verify_state(world, source, task, state, answer, which)

    async def verify_state(
        self,
        world: States,
        source: str,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """The same for a world that another pool hosts; `source` is the text of its verify.py."""
        world.restored(state)
        scenario = world.scenario
        request = Verify(
            0,
            for_verifier(scenario, task.id),
            task.id,
            world.template.image,
            world.snapshot_of(state),
            answer.encode(errors="replace").decode(),
            which,
            source,
        )
        reply, pid = await self._request(lambda: Job(scenario.digest, request))
        if isinstance(reply, WorkerFailed):
            reply = Verified(0, fault=f"it ended its worker: {reply.why}")
        assert isinstance(reply, Verified)
        return msgspec.structs.replace(reply, pid=pid, sandbox=self.level)

    async def replay_cpu_s(
        self, scenario: Scenario, episodes: Sequence[Sequence[tuple[str, Any]]]
    ) -> float:
        """CPU seconds of calls (tool, arguments) made back to back in one worker, each list on a
        fresh world. Raises PoolError."""
        await self.host(scenario)
        encoded = tuple(
            tuple((name, _json(arguments)) for name, arguments in calls) for calls in episodes
        )
        request = Replay(0, scenario.digest, encoded)
        reply, _ = await self._request(lambda: Job(scenario.digest, request))
        fault = reply.why if isinstance(reply, WorkerFailed) else ""
        if isinstance(reply, Replayed):
            fault = reply.fault
            if not fault:
                return reply.cpu_s
        raise PoolError(f"scenario {scenario.name!r} could not be replayed: {fault}")

    def cpu_s(self) -> float:
        """CPU seconds of all workers so far."""
        workers = self._dispatcher.supervisor.workers
        return self._ended_cpu_s + sum(worker.process.cpu_s() for worker in workers)

    def rss(self) -> int:
        """Memory of the workers in bytes, pages that they share counted once (an estimate)."""
        return self._dispatcher.supervisor.memory()

    def statistics(self) -> dict[str, int]:
        dispatcher = self._dispatcher
        return super().statistics() | {
            "workers": len(dispatcher.supervisor.workers),
            "workers_started": self._num_started,
            "workers_replaced": dispatcher.num_replaced,
            "workers_evicted": dispatcher.num_evicted,
            "requests_moved": dispatcher.num_moved,
            "requests_repeated": self._num_repeated,
            "replies_dropped": dispatcher.num_dropped,
        }

    # envpool.remote_execution.env.Executor

    async def execute(self, env: RemoteExecutionEnv, name: str, arguments: Any) -> CallOutcome:
        if not name.isascii():
            name = name.encode(errors="replace").decode()
        encoded = _json(arguments)
        reply, _ = await self._request(lambda: CallJob(env, name, encoded))
        if isinstance(reply, WorkerFailed):
            raise WorldError(f"{name} ended its worker: {reply.why}")
        assert isinstance(reply, CallOutcome)
        return reply

    def report_violation(self, env: RemoteExecutionEnv, why: str) -> None:
        worker: WorkerConnection | None = env.last_worker
        if worker is not None:
            self._dispatcher.report_violation(worker, why)

    # envpool.workers.dispatch.WorkerOwner

    def load_request(self, scenario_digest: str) -> Load | None:
        world = self._worlds.get(scenario_digest)
        if world is None:
            return None
        source = self._sources[scenario_digest].get("tools.py", "")
        return Load(0, for_tools(world.scenario), source, world.template.image)

    def start_worker(self) -> None:
        self._requested_tasks.put_nowait((self._start, ()))

    def worker_ready(self, worker: WorkerConnection) -> None:
        num_ready = sum(each.ready for each in self._dispatcher.supervisor.workers)
        if num_ready >= self._dispatcher.supervisor.rules.empties:
            self._started.set()

    def await_threads(self, worker: WorkerConnection, report: Callable[[str], None]) -> None:
        self._requested_tasks.put_nowait((self._await_threads, (worker, report)))

    def reap(self, worker: WorkerConnection, why: str, report: Callable[[str], None]) -> None:
        self._requested_tasks.put_nowait((self._reap, (worker, why, report)))

    # Tasks and their helpers

    async def _request(self, make: Callable[[], Job]) -> tuple[WorkerReply, int]:
        """The reply to a request, and the id of the process that received it.

        A request whose worker was killed from outside is made again. Nothing that it did remains:
        the pool has the state, and takes it from an answer only. It then has its worker for itself,
        so that it does not die with another request's. What kills its own worker kills
        `_MAX_TRIES` of them, and fails then.
        """
        num_tries = 0
        while True:
            num_tries += 1
            job = make()
            job.alone = num_tries > 1
            self._dispatcher.put(job)
            reply = await job.reply()
            was_killed = isinstance(reply, WorkerFailed) and reply.why in KILLED
            if not was_killed or num_tries == _MAX_TRIES:
                return reply, job.ran_in
            self._num_repeated += 1

    async def _build(self, scenario: Scenario) -> RemoteExecutionScenario:
        """The world as a worker built it. Raises SeedError and ToolsetError, and PoolError when
        building it ended the worker."""
        sources: dict[str, str] = {}
        if scenario.awm is None:
            sources = await anyio.to_thread.run_sync(sources_of, scenario)
        request = Load(0, for_tools(scenario), sources.get("tools.py", ""))
        reply, _ = await self._request(lambda: Job(scenario.digest, request))
        if isinstance(reply, HostingRefused):
            raise (SeedError if reply.kind == "seed" else ToolsetError)(reply.reason)
        if isinstance(reply, WorkerFailed):
            raise PoolError(f"{scenario.path}: hosting it ended its worker: {reply.why}")
        assert isinstance(reply, Loaded)
        loaded = msgspec.structs.replace(reply, image=b"")  # the template has the image
        world = RemoteExecutionScenario(
            scenario, reply.image, reply.tools, module_state=reply.module_state, loaded=loaded
        )
        self._sources[scenario.digest] = sources
        return world

    async def _start(self) -> None:
        # Shielded from cancellation half-way: the socket of a forked worker must be closed.
        with anyio.CancelScope(shield=True):
            try:
                process = await self._spawner.spawn()
            except PoolError as exc:
                self._dispatcher.start_failed(str(exc))
                self._set_started_on_fault()
                return
            self._num_started += 1
            worker = WorkerConnection(process, self._dispatcher, self.settings.window)
            if not self._dispatcher.supervisor.add(worker):
                process.socket.close()
                return
            process.socket.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: worker, sock=process.socket)
            worker.set_open()

    async def _await_threads(self, worker: WorkerConnection, report: Callable[[str], None]) -> None:
        report(await surplus_threads(worker))

    async def _reap(
        self, worker: WorkerConnection, why: str, report: Callable[[str], None]
    ) -> None:
        if why:
            report(why)
        exit_reason = await worker.process.wait()
        self._ended_cpu_s += worker.process.cpu_s()
        if not why:
            report(exit_reason)
        self._set_started_on_fault()

    async def _start_requested_tasks(self) -> None:
        while True:
            function, arguments = await self._requested_tasks.get()
            self._tasks.start_soon(function, *arguments)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(self.settings.tick_seconds)
            self._dispatcher.tick()

    def _set_started_on_fault(self) -> None:
        if self._dispatcher.supervisor.fault:
            self._started.set()

    def _end_workers(self) -> None:
        """End the workers; the pool's own tasks end next."""
        self._ended_cpu_s = self.cpu_s()
        self._dispatcher.close()


def verifier_source(scenario: Scenario) -> str:
    """The text of verify.py of a package without tools; see `sources_of`."""
    return sources_of(scenario, ("verify.py",))["verify.py"]


def sources_of(
    scenario: Scenario, names: Sequence[str] = ("tools.py", "verify.py")
) -> dict[str, str]:
    """The texts of a package's code, the same from which its digest was computed. Raises
    ToolsetError when the files have changed since."""
    try:
        digest = read(scenario.path).digest
        texts = {name: (scenario.path / name).read_text(encoding="utf-8") for name in names}
    except (PackageError, OSError, ValueError) as exc:
        raise ToolsetError(str(exc)) from exc
    if digest != scenario.digest:
        raise ToolsetError(f"{scenario.path}: the package has changed since it was read")
    return texts


def for_tools(scenario: Scenario) -> Scenario:
    """What the worker that runs a scenario's tools needs of it: no tasks, no verifiers."""
    awm = scenario.awm
    awm = None if awm is None else msgspec.structs.replace(awm, verifiers={})
    return msgspec.structs.replace(scenario, tasks=(), rules="", awm=awm)


def for_verifier(scenario: Scenario, task_id: str) -> Scenario:
    """What the worker that runs a task's verifier needs of its scenario: no tools and no rows."""
    awm = scenario.awm
    if awm is not None:
        own = {name: both for name, both in awm.verifiers.items() if name == task_id}
        awm = msgspec.structs.replace(awm, code="", tables=(), samples=(), verifiers=own)
    bare = {"schema_sql": "", "data_sql": "", "rules": "", "awm": awm}
    return msgspec.structs.replace(scenario, **bare)


def _rules(settings: WorkerSettings) -> Rules:
    def ticks(seconds: float) -> int:
        return max(SLOW_TICKS, math.ceil(seconds / settings.tick_seconds))

    return Rules(
        tick_seconds=settings.tick_seconds,
        workers=settings.num_workers,
        spare=settings.spare,
        empties=min(settings.num_workers, _MAX_EMPTY),
        deadline=ticks(settings.call_deadline),
        start=ticks(settings.start_deadline),
        too_long=f"it ran longer than {settings.call_deadline:g} s",
        resident=settings.resident_mb * 2**20,
        too_full=settings.memory_mb * 3 * 2**18,
    )


def _json(arguments: Any) -> bytes:
    """Arguments as JSON. Values that JSON lacks (NaN, half a surrogate pair) are written the way of
    Python's json module, so that the tool refuses them."""
    if type(arguments) is dict and _PLAIN.issuperset(map(type, arguments.values())):
        try:
            return _encode(arguments)  # a tenth of the time
        except (msgspec.MsgspecError, TypeError, ValueError):  # such as half a surrogate pair
            pass
    return json.dumps(arguments).encode()
