"""Measuring a run: times of leases, calls and steps, the loop's lag, CPU and memory."""

import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Protocol

import anyio
import msgspec
import psutil

from rehearsal_room.harness.core.loop_lag import Lag, LagMonitor
from rehearsal_room.harness.log.sessions import SessionMeasured
from rehearsal_room.harness.log.writer import LogWriter
from rehearsal_room.harness.rollout.plan import EpisodePlan

_INTERVAL = 0.01  # seconds between two samples of the loop's lag


class LiveWorlds(Protocol):
    """The number of live worlds; a pool, as the meters use it."""

    @property
    def num_live(self) -> int:
        """Worlds that are live now."""

    @property
    def max_live(self) -> int:
        """The most worlds that were live at once so far."""


class WorkerUsage(Protocol):
    """What a run costs outside of this process: a pool whose worlds are in workers."""

    def cpu_s(self) -> float:
        """CPU seconds so far."""

    def rss(self) -> int:
        """Resident memory, in bytes."""


class Quantiles(msgspec.Struct, frozen=True):
    """Quantiles of many measurements; all 0 where there were none."""

    p50: float
    p95: float
    p99: float
    max: float


def quantiles_of(values: "array[float]", *, scale: float = 1.0) -> Quantiles:
    """The quantiles (nearest rank) of the values times `scale`."""
    if not values:
        return Quantiles(0.0, 0.0, 0.0, 0.0)
    ordered = sorted(values)
    ranks = (0.5, 0.95, 0.99, 1.0)
    found = [ordered[max(0, round(rank * len(ordered)) - 1)] * scale for rank in ranks]
    return Quantiles(*found)


class Meters:
    """Collects one run's measurements. `watch` is its task.

    Loop lag is how much later than requested a sleeping task wakes. Memory is sampled at the same
    times. CPU and memory are those of this process and of the `workers` (None: there are none).
    """

    def __init__(
        self, workers: WorkerUsage | None = None, *, lag: LagMonitor | None = None
    ) -> None:
        """`lag` names what blocks the loop (None: nothing does)."""
        self._workers = workers
        self._lag = lag
        self.leases = array("d")  # seconds
        self.calls = array("d")
        self.steps = array("d")  # without the wait for the reply
        self.lags = array("d")
        self.admission_s = 0.0  # time that episodes waited to begin, summed
        self.held_back_s = 0.0  # time that live episodes were paused by admission, summed
        self._process = psutil.Process()
        self.rss_start = self._rss()  # bytes
        self.rss_max = self.rss_start
        self.live_max = 0  # the most worlds live at once
        self._began = time.perf_counter()
        self._began_cpu = self._cpu_s()
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.leased = self.leases.append
        self.called = self.calls.append
        self.stepped = self.steps.append

    def start(self) -> None:
        """Start the clocks of `wall_s` and `cpu_s`."""
        self._began = time.perf_counter()
        self._began_cpu = self._cpu_s()

    def stop(self) -> None:
        """Stop the clocks and set `wall_s` and `cpu_s`."""
        self.wall_s = time.perf_counter() - self._began
        self.cpu_s = self._cpu_s() - self._began_cpu

    @property
    def worst_lag(self) -> Lag:
        """The longest time for which the loop was blocked, and by what."""
        return Lag() if self._lag is None else self._lag.worst

    def timed(
        self, admit: Callable[[EpisodePlan], Awaitable[bool | None]] | None
    ) -> Callable[[EpisodePlan], Awaitable[bool | None]] | None:
        """`admit` (see harness.rollout.scheduler), which also adds up how long episodes wait."""
        if admit is None:
            return None

        async def admit_timed(plan: EpisodePlan) -> bool | None:
            began = time.perf_counter()
            try:
                return await admit(plan)
            finally:
                self.admission_s += time.perf_counter() - began

        return admit_timed

    def held_back(self, seconds: float) -> None:
        """A live episode waited to be admitted to the model server again."""
        self.held_back_s += seconds

    async def watch(self, live: LiveWorlds) -> None:
        """Sample the loop's lag and the process's memory until cancelled."""
        with nullcontext() if self._lag is None else self._lag.watching():
            try:
                await self._sample_regularly(live)
            finally:
                self.sample(live.max_live)  # a short run may reach it between two samples

    async def _sample_regularly(self, live: LiveWorlds) -> None:
        turn = 0
        while True:
            asked = time.perf_counter() + _INTERVAL  # uvloop's own clock counts milliseconds
            await anyio.sleep(_INTERVAL)
            lag = max(0.0, time.perf_counter() - asked)
            self.lags.append(lag)
            if self._lag is not None:
                self._lag.mark(lag)
            turn += 1
            if turn % 10 == 0 or live.num_live > 1.1 * self.live_max:
                self.sample(live.num_live)

    def sample(self, num_live: int) -> None:
        """Sample memory now."""
        rss = self._rss()
        if rss >= self.rss_max:
            self.rss_max = rss
        if num_live > self.live_max:
            self.live_max = num_live

    def _cpu_s(self) -> float:
        return time.process_time() + (0.0 if self._workers is None else self._workers.cpu_s())

    def _rss(self) -> int:
        workers = 0 if self._workers is None else self._workers.rss()
        return int(self._process.memory_info().rss) + workers

    @property
    def rss_per_live_world_kb(self) -> float:
        """Memory that the run added at its peak, divided by the most worlds live at once: an
        episode's whole state (task, history, log buffers), not only its world's."""
        return float(self.rss_max - self.rss_start) / 1024 / max(1, self.live_max)


class WorkerFigures(Protocol):
    """What a rollout process measured (harness.fleet.messages.Measured)."""

    @property
    def lags(self) -> bytes:
        """An array of float64 seconds."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds."""

    @property
    def room_s(self) -> float:
        """Seconds that episodes waited for room for their records, summed."""

    @property
    def held_back_s(self) -> float:
        """Seconds that live episodes were paused by admission, summed."""

    @property
    def worst_lag_s(self) -> float:
        """The longest time for which the loop was blocked."""

    @property
    def culprit(self) -> str:
        """What blocked it then."""


class SessionMeter:
    """Sums up a session for its log. `workers` are the rollout processes that ended in order."""

    def __init__(self) -> None:
        self.workers: Sequence[WorkerFigures] = ()


@asynccontextmanager
async def measuring(log: LogWriter, meters: Meters) -> AsyncIterator[SessionMeter]:
    """A block after which what was measured is stored in the log, however the block ends. The
    clocks of the meters run already."""
    session, began_at = SessionMeter(), time.time()
    try:
        yield session
    finally:
        meters.stop()
        log.add_session(_summed_up(began_at, log, meters, session.workers))


def _summed_up(
    began_at: float, log: LogWriter, meters: Meters, workers: Sequence[WorkerFigures]
) -> SessionMeasured:
    figures, lags, worst = log.statistics(), [meters.lags], meters.worst_lag
    for worker in workers:
        lags.append(array("d"))
        lags[-1].frombytes(worker.lags)
        if worker.worst_lag_s > worst.seconds:
            worst.seconds, worst.culprit = worker.worst_lag_s, worker.culprit
    return SessionMeasured(
        began_at=began_at,
        ended_at=time.time(),
        wall_s=meters.wall_s,
        cpu_s=meters.cpu_s + sum(worker.cpu_s for worker in workers),
        admission_s=meters.admission_s,
        held_back_s=meters.held_back_s + sum(worker.held_back_s for worker in workers),
        room_s=figures["room_s"] + sum(worker.room_s for worker in workers),
        commit_s=figures["commit_s"],
        commits=int(figures["commits"]),
        listeners_s=figures["listeners_s"],
        loops=len(lags),
        lag_s=sum(map(sum, lags)),
        lag_max_s=max((max(loop) for loop in lags if loop), default=0.0),
        culprit=worst.culprit,
    )
