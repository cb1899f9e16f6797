"""A run whose episodes are played by several workers, all in one simulated process: the real
coordinator and real workers, whose messages are carried here.

A worker dies, or its messages stop for a while, when the choices say so. What it does after its
death reaches nobody.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.settings import ChaosFile
from rehearsal_room.harness.fleet import worker as worker_module
from rehearsal_room.harness.fleet.carried import with_logged
from rehearsal_room.harness.fleet.coordinated import ended_on_failure
from rehearsal_room.harness.fleet.coordinator import start_workers
from rehearsal_room.harness.fleet.engine import share_of
from rehearsal_room.harness.fleet.messages import (
    EpisodeAssignments,
    FromWorker,
    ToWorker,
    content_of,
    from_worker,
)
from rehearsal_room.harness.fleet.session import Fleet, run_fleet
from rehearsal_room.harness.fleet.transport import CarriedTransport
from rehearsal_room.harness.fleet.worker import RolloutWorker, WorkerSpec
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.remaining import read_remaining
from rehearsal_room.harness.rollout.running import SessionParts
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.verdicts.factory import open_judge
from tests.devtools.simulation.ledger import Ledger, Life, Observer
from tests.devtools.simulation.model import SimulatedModel
from tests.devtools.simulation.parts.choices import Choices
from tests.devtools.simulation.parts.simulated_process import SimulatedProcess

TIMEOUT_S = 10.0  # without a heartbeat, after which a worker is replaced
_FATES = 0.35  # share of the workers that die or fall silent
_LATE = 0.02  # share of the batches that travel long
_LATEST_S = 3.0
_LATEST_FATE_S = 10.0  # after a worker began; a run lasts about so long
_LIFE: ContextVar["WorkerLife"] = ContextVar("life")  # of the worker whose task runs


class WorkerLife:
    """Whether a worker lives; what it does after its death did not happen."""

    def __init__(self, process: Life) -> None:
        self._process = process
        self.has_ended = False

    @property
    def is_dead(self) -> bool:
        return self.has_ended or self._process.is_dead


class SimulatedWorker:
    """A worker in this event loop. It implements harness.fleet.process_worker.WorkerHandle."""

    ahead = 1

    def __init__(
        self,
        spec: Callable[[int, WorkerLife], WorkerSpec],
        process: Life,
        choices: Choices,
        ledger: Ledger,
        with_logged: Callable[[EpisodeAssignments], EpisodeAssignments],
        number: int,
    ) -> None:
        """`with_logged` adds to leases what the log has of their episodes."""
        self.number = number
        self._with_logged = with_logged
        self._choices, self._ledger = choices, ledger
        self._life = WorkerLife(process)
        self._transport = CarriedTransport()
        self._outgoing: deque[ToWorker] = deque()
        self._incoming: deque[bytes] = deque()
        self._to_send = asyncio.Event()
        self._arrived = asyncio.Event()
        self._is_over = False  # its last message is in `incoming`
        self._how = ""
        self._worker = RolloutWorker(spec(number, self._life), self._transport)
        loop = asyncio.get_running_loop()
        lives = (self._serve(), self._carry(), self._observe())
        self._tasks = [loop.create_task(each) for each in lives]
        fate = choices.option("worker_fate", 3, rate=_FATES)
        at = choices.amount("worker_fate_at", _LATEST_FATE_S, rate=1.0) if fate else 0.0
        self._silent_from = at if fate == 2 else 0.0
        self._silent_s = choices.amount("silent", 2 * TIMEOUT_S, rate=1.0) if fate == 2 else 0.0
        self._began = anyio.current_time()
        if fate == 1:
            self._tasks.append(loop.create_task(self._die(at)))

    @property
    def name(self) -> str:
        return f"simulated worker {self.number + 1}"

    def put(self, message: ToWorker) -> None:
        self._outgoing.append(message)
        self._to_send.set()

    async def send_all(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            await self._travel()
            messages = list(self._outgoing)
            self._outgoing.clear()
            contents = [
                content_of(self._with_logged(one) if isinstance(one, EpisodeAssignments) else one)
                for one in messages
            ]
            if not self._life.is_dead:
                self._transport.deliver(contents)

    async def receive(self, within: float) -> FromWorker:
        with anyio.move_on_after(within):
            while not self._incoming:
                if self._is_over:
                    raise anyio.EndOfStream
                self._arrived.clear()
                await self._arrived.wait()
            message: FromWorker = from_worker(self._incoming.popleft())
            return message
        raise TimeoutError

    def end(self) -> str:
        self._stop("it was killed by the coordinator")
        return self._how

    async def _serve(self) -> None:
        """The worker's own life."""
        _LIFE.set(self._life)
        try:
            await self._worker.serve()
        except Exception as exc:  # a worker reports its failures; it does not raise them
            if not self._life.is_dead:
                self._ledger.faults.append(f"{self.name} raised {type(exc).__name__}: {exc}")
        finally:
            self._transport.close()

    async def _observe(self) -> None:
        """Note what the worker's bus carries."""
        observer = Observer(self._life, self._ledger)
        async with self._worker._bus.subscribe(kinds=observer.kinds) as subscription:
            await observer.serve(subscription, None)

    async def _carry(self) -> None:
        """Carry what the worker sends, until it has ended."""
        async for batch in self._transport.batches():
            await self._travel()
            if self._life.has_ended:
                return
            self._incoming += batch
            self._arrived.set()
        self._is_over = True
        self._arrived.set()

    async def _travel(self) -> None:
        """The time that a batch takes; while the worker is silent, until it speaks again."""
        await anyio.sleep(self._choices.amount("late_batch", _LATEST_S, rate=_LATE))
        silent_until = self._began + self._silent_from + self._silent_s
        if self._silent_s and anyio.current_time() >= self._began + self._silent_from:
            await anyio.sleep_until(silent_until)

    async def _die(self, after: float) -> None:
        await anyio.sleep(after)
        self._stop("it died")

    def _stop(self, how: str) -> None:
        if self._life.has_ended:
            return
        self._how = how
        self._life.has_ended = self._is_over = True
        self._arrived.set()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()


class FleetPools:
    """The pools of the workers, which share one hosted world."""

    def __init__(self, new_pool: Callable[[], LocalPool]) -> None:
        self._new_pool = new_pool
        self._live: dict[int, tuple[LocalPool, Life]] = {}

    def num_live(self) -> int:
        """Worlds that living workers have leased."""
        return sum(pool.num_live for pool, life in self._live.values() if not life.is_dead)

    @asynccontextmanager
    async def open(self, life: Life) -> AsyncIterator["_HostedPool"]:
        """One worker's pool."""
        pool = _HostedPool(self._new_pool())
        self._live[id(pool)] = pool.local, life
        yield pool
        if pool.local.num_live == 0:
            del self._live[id(pool)]


class _HostedPool:
    """What a worker uses of a RoutingPool."""

    level = ""

    def __init__(self, local: LocalPool) -> None:
        self.local = local

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def rss(self) -> int:
        return 0

    def cpu_s(self) -> float:
        return 0.0

    async def host_all(self, scenarios: Any) -> None:
        for scenario in scenarios:
            self.local.world(scenario)


async def _measure_nothing(meters: Meters, live: Any) -> None:
    await anyio.sleep_forever()


@contextmanager
def stand_ins(pools: FleetPools) -> Iterator[None]:
    """A block in which workers have these pools, and no process is measured: that takes a thread,
    and fifty samples a second."""

    def pool_of(settings: Settings, **_: Any) -> Any:
        return pools.open(_LIFE.get())

    with (
        patch.object(worker_module, "pool_of", pool_of),
        patch.object(Meters, "watch", _measure_nothing),
    ):
        yield


async def fleet_life(
    folder: Path,
    plans: Sequence[EpisodePlan],
    settings: Settings,
    process: SimulatedProcess,
    *,
    choices: Choices,
    ledger: Ledger,
    life: int,
    pools: FleetPools,
    chaos: ChaosFile,
    admission: AdaptiveAdmission | None,
) -> None:
    """Play what is left with the settings' number of workers."""

    def spec(number: int, worker: WorkerLife) -> WorkerSpec:
        share = share_of(settings, number)
        return WorkerSpec(
            settings=share,
            folder=None,
            tasks=[(plan.scenario, plan.task) for plan in plans[:1]],
            plans=plans,
            policy=SimulatedModel(worker, choices, ledger, life, pools.num_live),
            open_judge=partial(open_judge, settings.judge),
            beginning=None,
            names_trusted=False,
            chaos=chaos,
        )

    def carry(leases: EpisodeAssignments) -> EpisodeAssignments:
        with process.log_copy() as copy:
            return with_logged(leases, copy, plans)

    def start(number: int) -> SimulatedWorker:
        return SimulatedWorker(spec, process, choices, ledger, carry, number)

    left = read_remaining(folder, plans, resume=True, judged=True)
    faults = Chaos(chaos, settings.model, "coordinator")
    handles, _, worlds = await start_workers(start, settings.processes, silence=TIMEOUT_S)
    fleet = Fleet(
        handles=handles,
        worlds=worlds,
        start=start,
        shares=[share_of(settings, one.number).number_at_once for one in handles],
        timeout=TIMEOUT_S,
        judges=True,
    )
    parts = SessionParts(admission=admission, open_database=process.open_database)
    with ended_on_failure(handles):
        await run_fleet(
            *(folder, left, fleet, faults.session(parts)),
            meters=Meters(),
            resume=True,
            console=None,
        )
