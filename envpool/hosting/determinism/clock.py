"""Time and chance as hosted code finds them: both follow from the world and its number of calls.

Time stands still within a call, at the scenario's clock plus 1.001 ms for each call made so far and
the one at hand: what is written later looks later, and microseconds are there as they are on a real
clock. `time.sleep` takes no time, the clock moves instead; the next call starts anew.
`monotonic`, `perf_counter` and their like move by a microsecond a read, so a loop that waits for
them ends; one that waits for the wall clock ends too, which moves by a millisecond a read after
10,000 reads. A thread that would sleep longer than a request may take ends where it sleeps: nothing
happens between two calls.

Chance (`random`, `os.urandom`, `secrets`, `uuid`, SQL's random()) is drawn from a stream that
`seeded` begins. Numbers repeat exactly when a call is replayed, and differ from call to call.

The wrappers are put in place by the first `frozen` and stay; outside of `frozen` they do what they
replace. Not covered: a clock read by C code that bypasses Python's `time` and `datetime`, memory
addresses, and `hash` of texts unless PYTHONHASHSEED is set.
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
import time_machine

from envpool.hosting.determinism.lru_caches import lru_cache

STEP = 1_001_000  # nanoseconds from one call of a world to the next
PATIENCE = 10.0  # seconds that a thread may sleep in a call; httpx gives up on a request after them
_SECOND = 1_000_000_000
_TICK = 1_000  # nanoseconds that a read of a monotonic clock takes
_MANY_READS = 10_000
_NODE = 0x02_00_00_00_00_01  # for uuid1, instead of the machine's own address

_travellers: list[Any] = time_machine.traveller_stack
real_sleep = time.sleep
_slept = threading.local()  # .call, .seconds: what a thread other than the call's has slept in it


class frozen:
    """A block in which time is the scenario's (`clock`: ISO 8601 in UTC) at the world's next call.

    Without `num_calls` it is the clock itself: the moment at which the code is loaded.
    """

    __slots__ = ("_base", "_reads", "_thread", "_ticks", "now_ns")

    def __init__(self, clock: str, num_calls: int = -1) -> None:
        self._base = self.now_ns = _nanoseconds(clock) + (num_calls + 1) * STEP
        self._reads = self._ticks = 0
        self._thread = 0

    def __enter__(self) -> "frozen":
        if not _installed:
            _install()
        self._thread = threading.get_ident()
        uuid._last_timestamp = None  # type: ignore[attr-defined]  # another world's
        _travellers.append(self)
        _time_machine.patch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _travellers.remove(self)
        if not _travellers:
            _time_machine.unpatch()

    def time_ns(self) -> int:
        """Unix time in nanoseconds; what time-machine asks of a traveller."""
        self._reads += 1
        if self._reads > _MANY_READS:
            self.now_ns += 1_000_000
        return self.now_ns

    def elapsed_ns(self) -> int:
        """Nanoseconds of a monotonic clock."""
        self._ticks += _TICK
        return 1_000 * _SECOND + self.now_ns - self._base + self._ticks

    def sleep(self, seconds: float) -> None:
        """Let time pass, at once. Ends the thread when it is not the call's own and would sleep on
        after the call."""
        if threading.get_ident() == self._thread:
            self.now_ns += round(seconds * _SECOND)
            return
        if getattr(_slept, "call", None) is not self:
            _slept.call, _slept.seconds = self, 0.0
        _slept.seconds += seconds
        if _slept.seconds > PATIENCE:
            raise SystemExit


class _Stream:
    """Bytes that follow from a key, drawn as they are asked for."""

    __slots__ = ("_blocks", "_key", "_left")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._blocks = 0
        self._left = b""

    def take(self, num_bytes: int) -> bytes:
        while len(self._left) < num_bytes:
            self._blocks += 1
            block = blake2b(self._blocks.to_bytes(8, "big"), key=self._key).digest()
            self._left += block
        taken, self._left = self._left[:num_bytes], self._left[num_bytes:]
        return taken


_stream = _Stream(b"unseeded")
_installed = False


def is_hosted() -> bool:
    """Whether a `frozen` block is open: what runs is hosted code."""
    return bool(_travellers)


def seeded(digest: str, num_calls: int) -> None:
    """Begin the chance of a call: it follows from the package's digest and the calls made so far.

    Example: seeded(digest, 3); uuid.uuid4() gives the same in every world's fourth call.
    """
    global _stream
    key = blake2b(f"{digest} {num_calls}".encode(), digest_size=32).digest()
    _stream = _Stream(key)
    _real_seed(_shared, int.from_bytes(key, "big"))


def chance(num_bytes: int) -> bytes:
    """The next bytes of the call's chance."""
    if num_bytes < 0:
        raise ValueError("negative argument not allowed")
    return _stream.take(num_bytes)


def sql_random() -> int:
    """What SQL's random() gives: the next 64 bits of the call's chance, signed."""
    return int.from_bytes(_stream.take(8), "big", signed=True)


@functools.lru_cache(256)
def _nanoseconds(clock: str) -> int:
    moment = datetime.fromisoformat(clock.replace("Z", "+00:00")).astimezone(UTC)
    return int(moment.replace(microsecond=0).timestamp()) * _SECOND + moment.microsecond * 1_000


def _install() -> None:
    """Put the wrappers in place, for the rest of the process, whose time zone is UTC from now."""
    global _installed
    _installed = True
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, _instead(getattr(time, name), _elapsed))
        setattr(time, f"{name}_ns", _instead(getattr(time, f"{name}_ns"), _elapsed_ns))
    for module, name, hosted in (
        (time, "sleep", _sleep),
        (time, "ctime", _ctime),
        (time, "asctime", _asctime),
        (os, "urandom", chance),
        (os, "getrandom", lambda size, flags=0: chance(size)),
        (random, "_urandom", chance),
        (random, "seed", _seed_shared),
        (random.Random, "seed", _seed),
        (functools, "lru_cache", lru_cache),
        (uuid, "_generate_time_safe", None),  # else libuuid is asked, which asks the machine
        (uuid, "_node", _NODE),
    ):
        was = getattr(module, name)
        setattr(module, name, _instead(was, hosted) if callable(hosted) else hosted)


def _instead(was: Callable[..., Any], hosted: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is `hosted` inside of a `frozen` block and `was` outside."""

    @functools.wraps(was)
    def either(*args: Any, **kwargs: Any) -> Any:
        return hosted(*args, **kwargs) if _travellers else was(*args, **kwargs)

    return either


def _elapsed_ns() -> int:
    moment: frozen = _travellers[-1]
    return moment.elapsed_ns()


def _elapsed() -> float:
    return _elapsed_ns() / _SECOND


def _sleep(seconds: float) -> None:
    seconds = float(seconds)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    moment: frozen = _travellers[-1]
    moment.sleep(seconds)


def _ctime(seconds: float | None = None) -> str:
    return _real_asctime(time.localtime(seconds))


def _asctime(moment: Any = None) -> str:
    return _real_asctime(time.localtime() if moment is None else moment)


_real_asctime = time.asctime
_real_seed = random.Random.seed
_shared: random.Random = random._inst  # behind `random.random()`


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    _real_seed(self, int.from_bytes(chance(32), "big") if a is None else a, version)


def _seed_shared(a: Any = None, version: int = 2) -> None:
    _seed(_shared, a, version)
