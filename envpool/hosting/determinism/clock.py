"""The time and randomness of hosted code: both follow from the world and its number of calls.

Time does not advance within a call; it is the scenario's clock plus 1.001 ms for each earlier call
and for the current one: a later call has a later time, and microseconds occur as on a real clock.
`time.sleep` takes no time and moves the clock instead; the next call ignores such moves.
`monotonic`, `perf_counter` and the similar clocks move by a microsecond with each read, so a loop
that waits for them ends. A loop that waits for the wall clock ends too: after 10,000 reads it moves
by a millisecond with each read. A thread that would sleep longer than a request may take ends at
its sleep: nothing happens between two calls.

Random numbers (`random`, `os.urandom`, `secrets`, `uuid`, SQL's random()) are drawn from a stream
that `seed_random` starts. They repeat exactly when a call is replayed, and differ from call to
call.

The first `frozen_clock` installs the wrappers, which stay; outside of a `frozen_clock` block they
do what they replace. Not covered: a clock read by C code that bypasses Python's `time` and
`datetime`, memory addresses, and `hash` of texts unless PYTHONHASHSEED is set.
"""

import functools
import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from types import TracebackType
from typing import Any

import _time_machine  # type: ignore[import-not-found]  # C code, without stubs

from rehearsal_room.envpool.hosting.determinism.light_import import without
from rehearsal_room.envpool.hosting.determinism.lru_caches import lru_cache

with without("pytest"):  # time_machine would import it for its fixture: 0.15 s in each fork server
    import time_machine

STEP = 1_001_000  # nanoseconds between two calls of a world
MAX_THREAD_SLEEP = 10.0  # seconds that a thread may sleep in a call; httpx's request timeout
_SECOND = 1_000_000_000
_TICK = 1_000  # nanoseconds by which a read moves a monotonic clock
_MANY_READS = 10_000
_NODE = 0x02_00_00_00_00_01  # for uuid1, instead of the machine's own address

_clock_stack: list[Any] = time_machine.traveller_stack
real_sleep = time.sleep
_slept = threading.local()  # .call, .seconds: sleep of a thread other than the call's own


class frozen_clock:
    """A block with the time of the world's next call; `clock` is the scenario's, in ISO 8601, UTC.

    Without `num_calls` the time is the clock itself: the moment at which the code is loaded.
    """

    __slots__ = ("_base", "_reads", "_thread", "_ticks", "now_ns")

    def __init__(self, clock: str, num_calls: int = -1) -> None:
        self._base = self.now_ns = _nanoseconds(clock) + (num_calls + 1) * STEP
        self._reads = self._ticks = 0
        self._thread = 0

    def __enter__(self) -> "frozen_clock":
        if not _installed:
            _install()
        self._thread = threading.get_ident()
        uuid._last_timestamp = None  # type: ignore[attr-defined]  # from another world
        _clock_stack.append(self)
        _time_machine.patch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _clock_stack.remove(self)
        if not _clock_stack:
            _time_machine.unpatch()

    def time_ns(self) -> int:
        """Unix time in nanoseconds; time-machine calls this."""
        self._reads += 1
        if self._reads > _MANY_READS:
            self.now_ns += 1_000_000
        return self.now_ns

    def elapsed_ns(self) -> int:
        """The reading of a monotonic clock, in nanoseconds."""
        self._ticks += _TICK
        return 1_000 * _SECOND + self.now_ns - self._base + self._ticks

    def sleep(self, seconds: float) -> None:
        """Move the clock without waiting. In a thread other than the call's own, move nothing, and
        raise SystemExit when it would sleep longer than the call may take."""
        if threading.get_ident() == self._thread:
            self.now_ns += round(seconds * _SECOND)
            return
        if getattr(_slept, "call", None) is not self:
            _slept.call, _slept.seconds = self, 0.0
        _slept.seconds += seconds
        if _slept.seconds > MAX_THREAD_SLEEP:
            raise SystemExit


class _Stream:
    """A stream of bytes that follow from a key."""

    __slots__ = ("_blocks", "_key", "_left")

    def __init__(self, key: bytes) -> None:
        self.restart(key)

    def restart(self, key: bytes) -> None:
        """Go on as a new stream with this key."""
        self._key = key
        self._blocks = 0
        self._left = b""

    def take(self, num_bytes: int) -> bytes:
        while len(self._left) < num_bytes:
            self._blocks += 1
            block = blake2b(self._blocks.to_bytes(8, "big"), key=self._key).digest()
            self._left += block
        drawn, self._left = self._left[:num_bytes], self._left[num_bytes:]
        return drawn


_stream = _Stream(b"unseeded")
_installed = False


def is_hosted() -> bool:
    """Whether a `frozen_clock` block is open, that is whether hosted code runs."""
    return bool(_clock_stack)


def seed_random(digest: str, num_calls: int) -> None:
    """Start the random stream of a call; it follows from the package's digest and `num_calls`.

    Example: after seed_random(digest, 3), uuid.uuid4() is the same in every world's fourth call.
    """
    key = blake2b(f"{digest} {num_calls}".encode(), digest_size=32).digest()
    _stream.restart(key)  # a new object would change this module: see DictVersions
    _real_seed(_global_random, int.from_bytes(key, "big"))


def random_bytes(num_bytes: int) -> bytes:
    """The next bytes of the call's random stream."""
    if num_bytes < 0:
        raise ValueError("negative argument not allowed")
    return _stream.take(num_bytes)


def sql_random() -> int:
    """A result of SQL's random(): the next 64 bits of the call's random stream, signed."""
    return int.from_bytes(_stream.take(8), "big", signed=True)


@functools.lru_cache(256)
def _nanoseconds(clock: str) -> int:
    moment = datetime.fromisoformat(clock.replace("Z", "+00:00")).astimezone(UTC)
    return int(moment.replace(microsecond=0).timestamp()) * _SECOND + moment.microsecond * 1_000


def _install() -> None:
    """Install the wrappers for the rest of the process, and set its time zone to UTC."""
    global _installed
    _installed = True
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, _switch(getattr(time, name), _elapsed))
        setattr(time, f"{name}_ns", _switch(getattr(time, f"{name}_ns"), _elapsed_ns))
    for module, name, hosted in (
        (time, "sleep", _sleep),
        (time, "ctime", _ctime),
        (time, "asctime", _asctime),
        (os, "urandom", random_bytes),
        (os, "getrandom", lambda size, flags=0: random_bytes(size)),
        (random, "_urandom", random_bytes),
        (random, "seed", _seed_global),
        (random.Random, "seed", _seed),
        (functools, "lru_cache", lru_cache),
        (
            uuid,
            "_generate_time_safe",
            None,
        ),  # else libuuid is used, which reads the machine's state
        (uuid, "_node", _NODE),
    ):
        real = getattr(module, name)
        setattr(module, name, _switch(real, hosted) if callable(hosted) else hosted)


def _switch(real: Callable[..., Any], hosted: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `hosted` inside of a `frozen_clock` block and `real` outside."""

    @functools.wraps(real)
    def either(*args: Any, **kwargs: Any) -> Any:
        return hosted(*args, **kwargs) if _clock_stack else real(*args, **kwargs)

    return either


def _elapsed_ns() -> int:
    moment: frozen_clock = _clock_stack[-1]
    return moment.elapsed_ns()


def _elapsed() -> float:
    return _elapsed_ns() / _SECOND


def _sleep(seconds: float) -> None:
    seconds = float(seconds)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    moment: frozen_clock = _clock_stack[-1]
    moment.sleep(seconds)


def _ctime(seconds: float | None = None) -> str:
    return _real_asctime(time.localtime(seconds))


def _asctime(moment: Any = None) -> str:
    return _real_asctime(time.localtime() if moment is None else moment)


_real_asctime = time.asctime
_real_seed = random.Random.seed
_global_random: random.Random = random._inst  # behind `random.random()`


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    _real_seed(self, int.from_bytes(random_bytes(32), "big") if a is None else a, version)


def _seed_global(a: Any = None, version: int = 2) -> None:
    _seed(_global_random, a, version)
