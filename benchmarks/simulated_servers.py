"""Model servers in virtual time, whose capacity a client can only find out by trying.

Each is a queueing model: requests in service share one rate of work (processor sharing), which is a
function of how many there are, so that a fixed batch size, a saturating batch and a key-value cache
that overflows are three functions. Times are in seconds, work in seconds at rate 1.

Sources: continuous batching as a + b * n seconds per step (Orca, OSDI 2022; vLLM,
arXiv:2309.06180); preempted requests are computed again, which costs more the more there are
(vLLM's documentation).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol

from rehearsal_room.harness.admission.signals import ServerMetrics

Capacity = Callable[[float], float]  # time -> requests that fit
Rate = Callable[[int, float], float]  # requests in service, time -> work per second
Work = Callable[[Random], float]  # of one request; mean 1
Reading = ServerMetrics | None


class Refusal(NamedTuple):
    """The answer to a request that the server does not take."""

    status: int
    retry_after: float | None  # seconds; None: the server names no time


class Server(Protocol):
    """A model server, as the simulated client uses it. Jobs are the client's."""

    def submit(self, now: float, job: object) -> Refusal | None:
        """Take a request (None), or refuse it."""

    def next_done(self) -> float:
        """When the next reply comes, if nothing is submitted before; infinity: none comes."""

    def pop(self, now: float) -> object:
        """The job of the reply that comes now."""

    def metrics(self, now: float) -> Reading:
        """What its /metrics say (None: nothing that can be read)."""


class SharedServer:
    """Requests in service share a rate; others queue, or are refused."""

    def __init__(
        self,
        rate: Rate,
        rng: Random,
        *,
        work: Work,
        fits: Capacity,  # requests whose state fits; for the metrics
        most_running: float = math.inf,  # others queue
        refuses_at: Capacity | None = None,  # requests in all, from which it refuses more
        refusal: Refusal | None = None,
        reads: Callable[[float, ServerMetrics], Reading] = lambda now, metrics: None,
    ) -> None:
        self._rate, self._rng, self._work = rate, rng, work
        self._fits, self._most_running = fits, most_running
        self._refuses_at, self._refusal, self._reads = refuses_at, refusal, reads
        self._served = 0.0  # work done so far for each request that was here all the time
        self._at = 0.0
        self._running: list[tuple[float, int, object]] = []  # the `_served` at which each is done
        self._queue: deque[tuple[float, object]] = deque()
        self._number = 0
        self._preemptions = 0.0

    def submit(self, now: float, job: object) -> Refusal | None:
        self._advance(now)
        there = len(self._running) + len(self._queue)
        if self._refuses_at is not None and there >= self._refuses_at(now):
            return self._refusal
        work = self._work(self._rng)
        if len(self._running) < self._most_running:
            self._begin(work, job)
        else:
            self._queue.append((work, job))
        return None

    def next_done(self) -> float:
        if not self._running:
            return math.inf
        share = self._rate(len(self._running), self._at) / len(self._running)
        return self._at + max(0.0, self._running[0][0] - self._served) / share

    def pop(self, now: float) -> object:
        self._advance(now)
        job = heapq.heappop(self._running)[2]
        if self._queue and len(self._running) < self._most_running:
            self._begin(*self._queue.popleft())
        return job

    def metrics(self, now: float) -> Reading:
        fits, running = self._fits(now), len(self._running)
        in_memory = int(min(running, fits))
        waiting = len(self._queue) + running - in_memory
        used = min(1.0, running / fits)
        return self._reads(now, ServerMetrics(in_memory, waiting, used, int(self._preemptions)))

    def _begin(self, work: float, job: object) -> None:
        self._number += 1
        heapq.heappush(self._running, (self._served + work, self._number, job))

    def _advance(self, now: float) -> None:
        running = len(self._running)
        if running:
            done = self._rate(running, self._at) * (now - self._at)
            self._served += done / running
            excess = running - self._fits(now)
            if excess > 0:
                self._preemptions += done * excess / running
        self._at = now


class TokenBucket:
    """Takes a request where there is a token for it; a reply takes the same time under any load."""

    def __init__(
        self, rate: Capacity, rng: Random, *, burst: float, latency: float, names_wait: bool
    ) -> None:
        self._rate, self._rng = rate, rng
        self._burst, self._latency, self._names_wait = burst, latency, names_wait
        self._tokens = burst
        self._at = 0.0
        self._replies: list[tuple[float, int, object]] = []
        self._number = 0

    def submit(self, now: float, job: object) -> Refusal | None:
        rate = self._rate(now)
        self._tokens = min(self._burst, self._tokens + (now - self._at) * rate)
        self._at = now
        if self._tokens < 1:
            wait = math.ceil((1 - self._tokens) / rate)  # the header has whole seconds
            return Refusal(429, float(wait) if self._names_wait else None)
        self._tokens -= 1
        self._number += 1
        latency = self._latency * self._rng.uniform(0.6, 1.4)
        heapq.heappush(self._replies, (now + latency, self._number, job))
        return None

    def next_done(self) -> float:
        return self._replies[0][0] if self._replies else math.inf

    def pop(self, now: float) -> object:
        return heapq.heappop(self._replies)[2]

    def metrics(self, now: float) -> Reading:
        return None


def batched(fits: Capacity, *, a: float, b: float, slope: float, floor: float = 0.3) -> Rate:
    """The rate of continuous batching: n requests take a + b * n seconds each. Above what fits,
    the rate falls by `slope` times the share that does not fit, down to `floor` of it."""

    def rate(running: int, now: float) -> float:
        fitting = fits(now)
        size = min(running, fitting)
        full = size / (a + b * size)
        if running <= fitting:
            return full
        return full * max(floor, 1 - slope * (running - fitting) / fitting)

    return rate


def served(fits: Capacity, seconds: float) -> Rate:
    """The rate of so many independent places, at which a request takes `seconds`."""
    return lambda running, now: min(running, fits(now)) / seconds


def constant(value: float) -> Capacity:
    return lambda now: value


def step(before: float, after: float, at: float) -> Capacity:
    return lambda now: before if now < at else after


def exponential(rng: Random) -> float:
    return rng.expovariate(1.0)


def lognormal(rng: Random) -> float:
    return rng.lognormvariate(-0.32, 0.8)


def same(rng: Random) -> float:
    return 1.0
