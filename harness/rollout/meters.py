"""Measuring a run: times of leases, calls and steps, the loop's lag, CPU and memory."""

import time
from array import array
from typing import Protocol

import anyio
import msgspec
import psutil

_EVERY = 0.01  # seconds between two looks at the loop's lag


class Live(Protocol):
    """How many worlds are live; a pool, as the meters see it."""

    @property
    def num_live(self) -> int:
        """Now."""

    @property
    def max_live(self) -> int:
        """At once, so far."""


class Outside(Protocol):
    """What a run costs outside of this process: a pool whose worlds live in workers."""

    def cpu_s(self) -> float:
        """CPU seconds so far."""

    def rss(self) -> int:
        """Bytes."""


class Spread(msgspec.Struct, frozen=True):
    """Quantiles of many measurements; all 0 where there were none."""

    p50: float
    p95: float
    p99: float
    max: float


def spread_of(values: "array[float]", *, scale: float = 1.0) -> Spread:
    """The quantiles (nearest rank) of the values times `scale`."""
    if not values:
        return Spread(0.0, 0.0, 0.0, 0.0)
    ordered = sorted(values)
    ranks = (0.5, 0.95, 0.99, 1.0)
    found = [ordered[max(0, round(rank * len(ordered)) - 1)] * scale for rank in ranks]
    return Spread(*found)


class Meters:
    """Collects one run's measurements. `watch` is its task.

    Loop lag is how much later than asked a sleeping task wakes. Memory is sampled with it. CPU and
    memory are those of this process and of what is `outside` (None: nothing).
    """

    def __init__(self, outside: Outside | None = None) -> None:
        self._outside = outside
        self.leases = array("d")  # seconds
        self.calls = array("d")
        self.steps = array("d")  # the wait for the reply left out
        self.lags = array("d")
        self._process = psutil.Process()
        self.rss_start = self._rss()  # bytes
        self.rss_max = self.rss_start
        self.live_max = 0  # live worlds at most
        self._began = time.perf_counter()
        self._began_cpu = self._cpu_s()
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.leased = self.leases.append
        self.called = self.calls.append
        self.stepped = self.steps.append

    def start(self) -> None:
        """The clocks of `wall_s` and `cpu_s` begin now."""
        self._began = time.perf_counter()
        self._began_cpu = self._cpu_s()

    def stop(self) -> None:
        """The clocks end."""
        self.wall_s = time.perf_counter() - self._began
        self.cpu_s = self._cpu_s() - self._began_cpu

    async def watch(self, live: Live) -> None:
        """Sample the loop's lag and the process's memory until cancelled."""
        turn = 0
        try:
            while True:
                asked = time.perf_counter() + _EVERY  # uvloop's own clock counts milliseconds
                await anyio.sleep(_EVERY)
                self.lags.append(max(0.0, time.perf_counter() - asked))
                turn += 1
                if turn % 10 == 0 or live.num_live > 1.1 * self.live_max:
                    self.look(live.num_live)
        finally:
            self.look(live.max_live)  # which a short run reaches between two looks

    def look(self, num_live: int) -> None:
        """Sample memory now."""
        rss = self._rss()
        if rss >= self.rss_max:
            self.rss_max = rss
        if num_live > self.live_max:
            self.live_max = num_live

    def _cpu_s(self) -> float:
        return time.process_time() + (0.0 if self._outside is None else self._outside.cpu_s())

    def _rss(self) -> int:
        outside = 0 if self._outside is None else self._outside.rss()
        return int(self._process.memory_info().rss) + outside

    @property
    def rss_per_live_world_kb(self) -> float:
        """Memory that the run added at its peak, by the worlds that were live at most: the
        episode's whole state (task, history, log buffers), not only the world's."""
        return float(self.rss_max - self.rss_start) / 1024 / max(1, self.live_max)
