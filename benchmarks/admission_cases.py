"""The simulated servers on which admission is measured, and a generator of others like them."""

import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from benchmarks.simulated_servers import (
    Capacity,
    Reading,
    Refusal,
    Server,
    SharedServer,
    TokenBucket,
    Work,
    batched,
    constant,
    exponential,
    lognormal,
    same,
    served,
    step,
)
from rehearsal_room.harness.admission.signals import ServerMetrics

TURNS = 6  # of an episode, in the mean
TURNOVERS = 60  # of a run
Reads = Callable[[float, ServerMetrics], Reading]


class Case(NamedTuple):
    """A server to admit episodes to."""

    name: str
    make: Callable[[Random], Server]
    turnover_s: float  # an episode's time at the best limit, about
    tool_s: float = 0.0  # between a reply and the next request
    step_at: float | None = None  # when its capacity changes

    @property
    def duration(self) -> float:
        return self.turnover_s * TURNOVERS


def unread(now: float, metrics: ServerMetrics) -> Reading:
    return None


def read(now: float, metrics: ServerMetrics) -> Reading:
    return metrics


def zeros(now: float, metrics: ServerMetrics) -> Reading:
    """A gateway's own metrics: nothing runs, nothing waits, whatever happens behind it."""
    return ServerMetrics(0, 0, 0.0, 0)


def dying(at: float) -> Reads:
    return lambda now, metrics: metrics if now < at else None


def frozen(at: float) -> Reads:
    """Metrics that stay what they were at a time."""
    last = ServerMetrics(0, 0, 0.0, 0)

    def reads(now: float, metrics: ServerMetrics) -> Reading:
        nonlocal last
        if now < at:
            last = metrics
        return last

    return reads


def _capacity(fits: float, then: float | None, at: float) -> Capacity:
    return constant(fits) if then is None else step(fits, then, at)


def _turnover(latency: float, tool_s: float) -> float:
    return TURNS * (latency + tool_s)


def queue(
    fits: float,
    seconds: float,
    *,
    work: Work = exponential,
    reads: Reads = unread,
    tool_s: float = 0.0,
    then: float | None = None,
    what: str = "",
) -> Case:
    """So many places; other requests queue."""
    turnover = _turnover(seconds, tool_s)
    at = turnover * TURNOVERS / 2
    fitting = _capacity(fits, then, at)

    def make(rng: Random) -> Server:
        return SharedServer(served(fitting, seconds), rng, work=work, fits=fitting, reads=reads)

    name = f"queue {fits:g}{'' if then is None else f' -> {then:g}'} of {seconds:g} s{what}"
    return Case(name, make, turnover, tool_s, None if then is None else at)


def cliff(
    fits: float,
    slope: float,
    *,
    a: float = 1.0,
    b: float = 0.005,
    work: Work = exponential,
    reads: Callable[[float], Reads] = lambda at: unread,
    tool_s: float = 0.0,
    then: float | None = None,
    what: str = "",
) -> Case:
    """A key-value cache: more requests than fit slow all of them down."""
    turnover = _turnover(a + b * min(fits, then or fits), tool_s)
    at = turnover * TURNOVERS / 2
    fitting = _capacity(fits, then, at)

    def make(rng: Random) -> Server:
        rate = batched(fitting, a=a, b=b, slope=slope)
        return SharedServer(rate, rng, work=work, fits=fitting, reads=reads(at))

    name = f"cache {fits:g}{'' if then is None else f' -> {then:g}'}, slope {slope:g}{what}"
    return Case(name, make, turnover, tool_s, None if then is None else at)


def batch(a: float, b: float, *, tool_s: float = 0.0) -> Case:
    """A batch that saturates slowly; everything fits."""

    def make(rng: Random) -> Server:
        fits = constant(math.inf)
        return SharedServer(batched(fits, a=a, b=b, slope=0.0), rng, work=exponential, fits=fits)

    return Case(f"batch {a:g} + {b:g} n s", make, _turnover(a * 16, tool_s), tool_s)


def bucket(
    rate: float,
    latency: float,
    *,
    burst: float,
    names_wait: bool = True,
    then: float | None = None,
    tool_s: float = 0.0,
) -> Case:
    """A token bucket, of `rate` requests a second."""
    turnover = _turnover(latency, tool_s)
    at = turnover * TURNOVERS / 2
    rates = _capacity(rate, then, at)

    def make(rng: Random) -> Server:
        return TokenBucket(rates, rng, burst=burst, latency=latency, names_wait=names_wait)

    steps = "" if then is None else f" -> {then:g}"
    name = f"bucket {rate:g}{steps}/s of {latency:g} s{'' if names_wait else ', no Retry-After'}"
    return Case(name, make, turnover, tool_s, None if then is None else at)


def refusing(
    fits: float,
    seconds: float,
    room: float,
    *,
    retry_after: float | None,
    status: int = 429,
    then: float | None = None,
    tool_s: float = 0.0,
) -> Case:
    """So many places and a short queue; it refuses what does not fit in."""
    turnover = _turnover(seconds, tool_s)
    at = turnover * TURNOVERS / 2
    fitting = _capacity(fits, then, at)

    def make(rng: Random) -> Server:
        return SharedServer(
            served(fitting, seconds),
            rng,
            work=exponential,
            fits=fitting,
            refuses_at=lambda now: fitting(now) + room,
            refusal=Refusal(status, retry_after),
        )

    steps = "" if then is None else f" -> {then:g}"
    when = "" if retry_after is None else f", Retry-After {retry_after:g}"
    name = f"refusing ({status}) {fits:g}{steps} + {room:g} of {seconds:g} s{when}"
    return Case(name, make, turnover, tool_s, None if then is None else at)


def known_cases() -> list[Case]:
    """The servers of the benchmark."""
    whole = lambda at: read  # noqa: E731
    return [
        queue(8, 2),
        queue(32, 2),
        queue(128, 1),
        queue(256, 1),
        queue(16, 0.5, tool_s=0.5),
        queue(64, 6, tool_s=2),
        queue(24, 2, work=same, what=", equal work"),
        queue(200, 1, work=same, what=", equal work"),
        queue(24, 2, work=lognormal, what=", lognormal work"),
        queue(100, 1, work=lognormal, what=", lognormal work"),
        queue(48, 2, reads=read, what=", metrics"),
        queue(160, 1, reads=read, what=", metrics"),
        queue(96, 1, reads=zeros, what=", metrics all zero"),
        bucket(5, 2, burst=10),
        bucket(50, 1, burst=50),
        bucket(200, 0.5, burst=20),
        bucket(12, 4, burst=100),
        bucket(20, 1, burst=20, names_wait=False),
        bucket(80, 2, burst=80, names_wait=False),
        batch(1, 0.02),
        batch(2, 0.05),
        batch(0.5, 0.05),
        cliff(64, 1, reads=whole, what=", metrics"),
        cliff(128, 2, reads=whole, what=", metrics"),
        cliff(256, 1, reads=whole, what=", metrics"),
        cliff(32, 3, reads=whole, tool_s=0.5, what=", metrics"),
        cliff(64, 1, what=", no metrics"),
        cliff(128, 2, what=", no metrics"),
        cliff(256, 0.5, what=", no metrics"),
        cliff(48, 1, tool_s=0.5, what=", no metrics"),
        cliff(96, 1, reads=dying, what=", metrics die"),
        cliff(48, 2, reads=dying, what=", metrics die"),
        cliff(96, 1, reads=frozen, then=48, what=", metrics freeze"),
        cliff(64, 1, reads=lambda at: zeros, what=", metrics all zero"),
        refusing(32, 2, 8, retry_after=1.0),
        refusing(100, 1, 10, retry_after=None),
        refusing(64, 2, 0, retry_after=None, status=503),
        refusing(40, 1, 4, retry_after=2.0, status=503, tool_s=0.5),
        queue(64, 2, then=128),
        queue(128, 2, then=48),
        queue(32, 1, then=96, work=same, what=", equal work"),
        cliff(64, 1, then=128, reads=whole, what=", metrics"),
        cliff(128, 1, then=64, reads=whole, what=", metrics"),
        cliff(64, 1, then=128, what=", no metrics"),
        cliff(128, 1, then=64, what=", no metrics"),
        bucket(20, 1, burst=20, then=60),
        bucket(60, 1, burst=20, then=20),
        refusing(32, 2, 8, retry_after=None, then=96),
        refusing(96, 2, 8, retry_after=1.0, then=32),
    ]


def drawn_cases(seed: int, count: int) -> list[Case]:
    """Other servers, drawn at random: kinds in turn, parameters from a seed."""
    rng = Random(f"admission-{seed}")
    cases = (_draw(rng, index) for index in range(count))
    return [case._replace(name=f"{case.name} [{seed}.{index}]") for index, case in enumerate(cases)]


def _draw(rng: Random, index: int) -> Case:
    fits = float(round(math.exp(rng.uniform(math.log(8), math.log(200)))))
    seconds = rng.choice((0.5, 1.0, 2.0, 5.0))
    tool_s = rng.choice((0.0, 0.0, 0.2, 0.5)) * seconds
    work = rng.choice((exponential, lognormal, same))
    then = float(round(fits * rng.choice((0.4, 0.5, 2.0, 3.0)))) if rng.random() < 0.35 else None
    says = rng.choice((None, 1.0, 2.0))
    kind = index % 6
    if kind == 0:
        return queue(fits, seconds, work=work, tool_s=tool_s, then=then)
    if kind == 1:
        reads = rng.choice((lambda at: read, dying, lambda at: zeros))
        slope = rng.uniform(0.5, 3)
        return cliff(fits, slope, work=work, tool_s=tool_s, then=then, reads=reads)
    if kind == 2:
        slope = rng.uniform(0.4, 1.5)
        return cliff(fits, slope, work=work, tool_s=tool_s, then=then)
    if kind == 3:
        burst = fits * rng.uniform(0.3, 2)
        when = rng.random() < 0.6
        return bucket(
            fits / seconds, seconds, burst=burst, names_wait=when, then=then, tool_s=tool_s
        )
    if kind == 4:
        room = float(round(fits * rng.uniform(0, 0.3)))
        return refusing(fits, seconds, room, retry_after=says, then=then, tool_s=tool_s)
    return batch(seconds, seconds * rng.uniform(0.01, 0.1), tool_s=tool_s)
