"""Measuring a run: times of leases, calls and steps, the loop's lag, CPU and memory."""

import time
from array import array
from typing import Protocol

import anyio
import msgspec
import psutil

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

    def __init__(self, workers: WorkerUsage | None = None) -> None:
        self._workers = workers
        self.leases = array("d")  # seconds
        self.calls = array("d")
        self.steps = array("d")  # without the wait for the reply
        self.lags = array("d")
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

    async def watch(self, live: LiveWorlds) -> None:
        """Sample the loop's lag and the process's memory until cancelled."""
        turn = 0
        try:
            while True:
                asked = time.perf_counter() + _INTERVAL  # uvloop's own clock counts milliseconds
                await anyio.sleep(_INTERVAL)
                self.lags.append(max(0.0, time.perf_counter() - asked))
                turn += 1
                if turn % 10 == 0 or live.num_live > 1.1 * self.live_max:
                    self.sample(live.num_live)
        finally:
            self.sample(live.max_live)  # a short run may reach it between two samples

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
