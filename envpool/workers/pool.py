"""The pool of worlds whose code is not trusted: it holds their truth, and workers run their tools.

    async with WorkerPool(WorkerSettings()) as pool:
        await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            result = await env.call("get_cart", {"user_id": 1}, "c0-0")

The states are held here (envpool.offloaded.env), so a worker may die at any moment: the call in
its hands
ends its episode with a WorldError, and all others go on elsewhere (envpool.workers.dispatch).

It runs on asyncio only, and must be left by the task that entered it.
"""

import asyncio
import json
import math
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Literal, Protocol

import anyio
import msgspec

from envpool.core.errors import PoolError, SeedError, ToolsetError, WorldError
from envpool.core.host_answers import Answer, Loaded
from envpool.core.types import Env, StoredState
from envpool.offloaded.env import OffloadedEnv, OffloadedScenario
from envpool.offloaded.owned_tasks import OwnedTasks
from envpool.offloaded.pool import OffloadedPool
from envpool.workers.dispatch import Dispatcher
from envpool.workers.fork_client import Zygote, ZygoteSettings
from envpool.workers.link import CallJob, Job, Link, WorkerProcess
from envpool.workers.sandbox import Limits
from envpool.workers.staff import LOOKS_TO_SLOW, Rules
from envpool.workers.wire import Failed, Load, Refused, Replay, Replayed, Reply, Verified, Verify
from scenarios.errors import PackageError
from scenarios.format import Scenario, Task, read

MAX_WORKERS = 256  # processes; more of them than any machine's cores only use up what it has


class WorkerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many workers there are and how long they may take."""

    workers: int = 0  # 0: as many as this process has cores
    spare: int = 2  # workers that may be added while others are slow
    call_deadline: float = 60.0  # seconds a call may take until its worker is killed
    slow_after: float = 0.1  # seconds a call may compute until what is behind it goes elsewhere
    start_deadline: float = 60.0  # seconds a worker may take to be up
    window: int = 4  # requests that a worker is sent ahead
    sandbox: str = "best"  # see envpool.workers.sandbox.require
    memory_mb: int = 2048  # that a worker cannot exceed
    # Memory from which on a worker drops the scenario that it used least recently for each new one;
    # halfway from here to memory_mb the worker itself is replaced.
    full_mb: int = 1024

    def __post_init__(self) -> None:
        for name in ("call_deadline", "slow_after", "start_deadline", "window", "full_mb"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be above 0, not {getattr(self, name)}")
        for name in ("workers", "spare"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: must not be below 0, not {getattr(self, name)}")
        if self.workers > MAX_WORKERS:
            raise ValueError(f"workers: must be at most {MAX_WORKERS}, not {self.workers}")

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def look_every(self) -> float:
        """Seconds between two looks at the workers."""
        return self.slow_after / (LOOKS_TO_SLOW - 1)


class Spawns(Protocol):
    """Who starts workers; the zygote."""

    @property
    def level(self) -> str:
        """Of the sandbox that holds them."""

    async def spawn(self) -> WorkerProcess:
        """A worker, whose first frame is Ready. Raises PoolError."""


_Soon = tuple[Callable[..., Coroutine[Any, Any, None]], tuple[Any, ...]]
Opens = Callable[[WorkerSettings], AbstractAsyncContextManager[Spawns]]


def zygote(settings: WorkerSettings) -> AbstractAsyncContextManager[Spawns]:
    """The real one."""
    return Zygote(ZygoteSettings(settings.sandbox, Limits(memory_mb=settings.memory_mb)))


class _Leasing:
    """The block in which a world is live."""

    __slots__ = ("_env", "_pool", "_scenario")

    def __init__(self, pool: "WorkerPool", scenario: Scenario) -> None:
        self._pool = pool
        self._scenario = scenario

    async def __aenter__(self) -> Env:
        pool = self._pool
        world = await pool.host(self._scenario)
        pool._came()
        self._env = world.lease(pool)
        return self._env

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.num_live -= 1
        if isinstance(self._env.home, Link):
            self._env.home.forget(self._env.number)


class WorkerPool(OffloadedPool):
    """Leases worlds whose tools run in worker processes. It implements
    envpool.store.pool_protocol.Pool and
    envpool.offloaded.env.Executor. `opens` gives what starts workers.

    Entering it raises PoolError when no worker can be started.
    """

    def __init__(self, settings: WorkerSettings | None = None, *, opens: Opens = zygote) -> None:
        super().__init__("in a worker")
        self.settings = settings or WorkerSettings()
        self.level = ""  # of the sandbox that holds the workers
        self._opens = opens
        self._dispatcher = Dispatcher(_rules(self.settings), self)
        self._up = anyio.Event()  # all workers are up, or none can be
        self._sources: dict[str, dict[str, str]] = {}  # package digest -> file -> text
        self._gone_cpu_s = 0.0  # of workers that are gone
        self._num_started = 0
        # Tasks to be begun. Callbacks of sockets ask for them, and anyio begins none from there.
        self._soon = asyncio.Queue[
            tuple[Callable[..., Coroutine[Any, Any, None]], tuple[Any, ...]]
        ]()
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        counts = self.statistics()
        return (
            f"<WorkerPool [{counts['live']} live of {counts['leases']} leased | "
            f"{counts['worlds']} worlds, {counts['calls']} calls | {counts['workers']} workers]>"
        )

    async def __aenter__(self) -> "WorkerPool":
        try:
            asyncio.get_running_loop()
        except RuntimeError as exc:
            raise PoolError("a pool of workers runs on asyncio, not on trio") from exc
        settings = self.settings
        async with AsyncExitStack() as stack:
            self._spawns = await stack.enter_async_context(self._opens(settings))
            self.level = self._spawns.level
            self._tasks = await stack.enter_async_context(OwnedTasks())
            stack.callback(self._end)
            self._tasks.start_soon(self._look)
            self._tasks.start_soon(self._begin_tasks)
            self._dispatcher.open()
            await self._up.wait()
            if self._dispatcher.staff.fault:
                raise PoolError(self._dispatcher.staff.fault)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._stack.__aexit__(kind, exc, trace)
        finally:
            self._close_worlds()

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return _Leasing(self, scenario)

    def drop(self, scenario: Scenario) -> None:
        """Forget a scenario of which no world is live, here and in the workers."""
        world = self._worlds.pop(scenario.digest, None)
        if world is None:
            return
        for link in self._dispatcher.staff.links:
            if scenario.digest in link.packages:
                link.unload(scenario.digest)
        world.close()
        del self._sources[scenario.digest]
        self._hosting.pop(scenario.digest, None)

    async def verify(
        self,
        scenario: Scenario,
        task_id: str,
        state: StoredState,
        answer: str,
        which: Literal["code", "sql"] = "code",
    ) -> Verified:
        """What a task's verifier says of an episode's end. A verifier that ends its worker is a
        `fault`. Raises PoolError when the scenario cannot be hosted or the state is not its own."""
        world = await self.host(scenario)
        world.restored(state)
        answer = answer.encode(errors="replace").decode()
        request = Verify(0, scenario.digest, task_id, world.snapshot_of(state), answer, which)
        reply = await self._ask(Job(scenario.digest, request))
        if isinstance(reply, Failed):
            return Verified(0, fault=f"it ended its worker: {reply.why}")
        assert isinstance(reply, Verified)
        return reply

    async def replay_cpu_s(
        self, scenario: Scenario, episodes: Sequence[Sequence[tuple[str, Any]]]
    ) -> float:
        """CPU seconds of calls (tool, arguments) made back to back in one worker, each list on a
        fresh world. Raises PoolError."""
        await self.host(scenario)
        listed = tuple(
            tuple((name, _json(arguments)) for name, arguments in calls) for calls in episodes
        )
        reply = await self._ask(Job(scenario.digest, Replay(0, scenario.digest, listed)))
        fault = reply.why if isinstance(reply, Failed) else ""
        if isinstance(reply, Replayed):
            fault = reply.fault
            if not fault:
                return reply.cpu_s
        raise PoolError(f"scenario {scenario.name!r} could not be replayed: {fault}")

    def cpu_s(self) -> float:
        """CPU seconds of all workers so far."""
        return self._gone_cpu_s + sum(link.process.cpu_s() for link in self._dispatcher.staff.links)

    def rss(self) -> int:
        """Bytes that the workers occupy, pages that they share counted for each."""
        return sum(link.process.rss() for link in self._dispatcher.staff.links)

    def statistics(self) -> dict[str, int]:
        dispatcher = self._dispatcher
        return super().statistics() | {
            "workers": len(dispatcher.staff.links),
            "workers_started": self._num_started,
            "workers_replaced": dispatcher.num_replaced,
            "requests_moved": dispatcher.num_moved,
            "replies_dropped": dispatcher.num_dropped,
        }

    # What held worlds ask (envpool.offloaded.env.Executor)

    async def execute(self, env: OffloadedEnv, name: str, arguments: Any) -> Answer:
        name = name.encode(errors="replace").decode()
        reply = await self._ask(CallJob(env, name, _json(arguments)))
        if isinstance(reply, Failed):
            raise WorldError(f"{name} ended its worker: {reply.why}")
        assert isinstance(reply, Answer)
        return reply

    def distrust(self, env: OffloadedEnv, why: str) -> None:
        if isinstance(env.home, Link):
            self._dispatcher.distrust(env.home, why)

    # What the dispatcher asks (envpool.workers.dispatch.Keeps)

    def load_of(self, package: str) -> Load | None:
        world = self._worlds.get(package)
        if world is None:
            return None
        return Load(0, world.scenario, self._sources[package], world.template.image)

    def start_worker(self) -> None:
        self._soon.put_nowait((self._start, ()))

    def joined(self, link: Link) -> None:
        if sum(link.ready for link in self._dispatcher.staff.links) >= self.settings.num_workers:
            self._up.set()

    def bury(self, link: Link, why: str, tell: Callable[[str], None]) -> None:
        self._soon.put_nowait((self._bury, (link, why, tell)))

    # Tasks and what they use

    async def _ask(self, job: Job) -> Reply:
        self._dispatcher.put(job)
        return await job.reply()

    async def _build(self, scenario: Scenario) -> OffloadedScenario:
        """The world as a worker built it. Raises SeedError and ToolsetError, and PoolError when the
        worker died of it."""
        sources: dict[str, str] = {}
        if scenario.awm is None:
            sources = await anyio.to_thread.run_sync(sources_of, scenario)
        reply = await self._ask(Job(scenario.digest, Load(0, scenario, sources)))
        if isinstance(reply, Refused):
            raise (SeedError if reply.kind == "seed" else ToolsetError)(reply.reason)
        if isinstance(reply, Failed):
            raise PoolError(f"{scenario.path}: hosting it ended its worker: {reply.why}")
        assert isinstance(reply, Loaded)
        told = msgspec.structs.replace(reply, image=b"")  # which the template has
        world = OffloadedScenario(
            scenario, reply.image, reply.tools, memory=reply.memory, loaded=told
        )
        self._sources[scenario.digest] = sources
        return world

    async def _start(self) -> None:
        # Not to be cancelled half-way: a worker that has been forked has a socket to be closed.
        with anyio.CancelScope(shield=True):
            try:
                process = await self._spawns.spawn()
            except PoolError as exc:
                self._dispatcher.not_started(str(exc))
                self._up_or_not()
                return
            self._num_started += 1
            link = Link(process, self._dispatcher, self.settings.window)
            if not self._dispatcher.staff.add(link):
                process.socket.close()
                return
            process.socket.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: link, sock=process.socket)

    async def _bury(self, link: Link, why: str, tell: Callable[[str], None]) -> None:
        if why:
            tell(why)
        words = await link.process.wait()
        self._gone_cpu_s += link.process.cpu_s()
        if not why:
            tell(words)
        self._up_or_not()

    async def _begin_tasks(self) -> None:
        while True:
            function, arguments = await self._soon.get()
            self._tasks.start_soon(function, *arguments)

    async def _look(self) -> None:
        while True:
            await anyio.sleep(self.settings.look_every)
            self._dispatcher.look()

    def _up_or_not(self) -> None:
        if self._dispatcher.staff.fault:
            self._up.set()

    def _end(self) -> None:
        """End the workers; the pool's own tasks end next."""
        self._gone_cpu_s = self.cpu_s()
        self._dispatcher.close()


def sources_of(scenario: Scenario) -> dict[str, str]:
    """The texts of a package's code, which are those that were read when its digest was taken.
    Raises ToolsetError when they are not."""
    try:
        digest = read(scenario.path).digest
        texts = {
            name: (scenario.path / name).read_text(encoding="utf-8")
            for name in ("tools.py", "verify.py")
        }
    except (PackageError, OSError, ValueError) as exc:
        raise ToolsetError(str(exc)) from exc
    if digest != scenario.digest:
        raise ToolsetError(f"{scenario.path}: the package has changed since it was read")
    return texts


def _rules(settings: WorkerSettings) -> Rules:
    def looks(seconds: float) -> int:
        return max(LOOKS_TO_SLOW, math.ceil(seconds / settings.look_every))

    return Rules(
        look_every=settings.look_every,
        workers=settings.num_workers,
        spare=settings.spare,
        deadline=looks(settings.call_deadline),
        start=looks(settings.start_deadline),
        too_long=f"it ran longer than {settings.call_deadline:g} s",
        full=settings.full_mb * 2**20,
        too_full=(settings.full_mb + settings.memory_mb) * 2**19,
    )


def _json(arguments: Any) -> bytes:
    """Arguments as JSON. What JSON cannot say (NaN, half a surrogate pair) is said as Python's json
    module says it, for the tool to refuse."""
    return json.dumps(arguments).encode()
