"""The worker: reads requests, executes them one by one, answers each once and in order.

It is a function from a state and a call to a result and the next state (see envpool.workers.wire).
The states of the worlds it served last stay here, as a cache.

Invariants:
- After a violation it says so in that answer and ends: no further request meets what the code may
  have left behind.
- What breaks the worker's own code is answered by Failed, and ends the worker too.
"""

import _thread
import gc
import json
import resource
import socket
from collections import OrderedDict
from time import process_time
from typing import Any, Literal, Protocol

import msgspec

from envpool.core.errors import PoolError, SeedError
from envpool.core.host_answers import Answer, Loaded, SeedFault, Snapshot
from envpool.core.types import ToolResult, ToolSpec
from envpool.hosting.live_world import LiveWorld
from envpool.store.overlay import Overlay
from envpool.store.template import Template
from envpool.workers.audit_hook import Witness
from envpool.workers.codec import Frames, frame, request_of
from envpool.workers.sandbox import MAX_TEXT, Limits
from envpool.workers.seal import Seal
from envpool.workers.wire import (
    Call,
    Failed,
    Forget,
    Load,
    Ready,
    Refused,
    Replay,
    Replayed,
    Reply,
    Request,
    Stale,
    Unload,
    Verified,
    Verify,
)
from scenarios.format import Scenario

_QUICK = 0.002  # seconds of CPU; half a gigabyte takes fifty times as long
MAX_CACHED = 64 * 2**20  # bytes of pages and memory of worlds
_WORLD = 1024  # bytes that a world costs besides
_READ = 2**18  # bytes at a time
# How a worker ends by itself: exit statuses that hosted code can imitate, but not profit from.
DISMISSED, UNCONFINED, LOST, TAINTED = 0, 81, 82, 83


class Host(Protocol):
    """A scenario, hosted in this process."""

    @property
    def template(self) -> Template:
        """The seeded database."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they are shown."""

    @property
    def memory(self) -> bytes:
        """Module state at the start of every world."""

    @property
    def num_statements(self) -> int:
        """Statements of the seed."""

    @property
    def seed_faults(self) -> tuple[SeedFault, ...]:
        """Seed statements that failed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was set aside or isolated, in words."""

    def call(self, world: LiveWorld, name: str, arguments: Any) -> ToolResult:
        """Execute a call on a world, which it moves on."""

    def close(self) -> None:
        """Give back what it holds."""


class Opens(Protocol):
    """Hosts scenarios."""

    def open(self, request: Load) -> Host:
        """Host one. Raises SeedError and ToolsetError."""

    def verify(self, scenario: Scenario, host: Host, request: Verify) -> Verified:
        """What a task's verifier says about a state of a hosted scenario."""

    def sweep(self) -> None:
        """Remove the files that hosted code has left: the next world must not find them."""


class Cache:
    """The states of the worlds served last, bounded in bytes."""

    def __init__(self) -> None:
        self._worlds: OrderedDict[int, tuple[str, int, LiveWorld, int]] = OrderedDict()
        self._size = 0

    def take(self, package: str, world: int, version: int) -> LiveWorld | None:
        """A world of this version; whatever there was of the world is no longer here."""
        found = self._worlds.pop(world, None)
        if found is None:
            return None
        self._size -= found[3]
        return found[2] if found[:2] == (package, version) else None

    def put(self, package: str, world: int, version: int, live: LiveWorld) -> None:
        size = _WORLD + len(live.memory) + sum(map(len, live.overlay.pages.values()))
        self._worlds[world] = (package, version, live, size)
        self._size += size
        while self._size > MAX_CACHED and len(self._worlds) > 1:
            self._size -= self._worlds.popitem(last=False)[1][3]

    def drop(self, package: str) -> None:
        for number in [n for n, found in self._worlds.items() if found[0] == package]:
            self._size -= self._worlds.pop(number)[3]


class Worker:
    """Executes requests. `tainted`: hosted code did what it may not, and the worker must end."""

    def __init__(self, hosts: Opens, witness: Witness, limits: Limits) -> None:
        self._hosts = hosts
        self._witness = witness
        self._open: dict[str, tuple[Scenario, Host]] = {}  # by the package's digest
        self._cache = Cache()
        self._seal = Seal()
        self._num_threads = _thread._count()
        self._much = limits.memory_mb * 2**10 // 2  # KiB that one request may add to the peak
        self.tainted = False

    def obey(self, request: Request) -> Reply | None:
        """Execute a request; None: it has no answer."""
        self._witness.begin()
        self._peak = _usage().ru_maxrss
        try:
            return self._reply(request)
        except BaseException as exc:  # SystemExit and KeyboardInterrupt are hosted code's too
            why = self._violation() or told(exc)
            self.tainted = True
            return Failed(getattr(request, "id", 0), why)

    def _reply(self, request: Request) -> Reply | None:
        match request:
            case Call():
                return self._call(request)
            case Load():
                return self._load(request)
            case Verify():
                return self._verify(request)
            case Replay():
                return self._replay(request)
            case Forget():
                for world in request.worlds:
                    self._cache.take("", world, -1)
            case Unload():
                self._cache.drop(request.scenario_digest)
                if hosted := self._open.pop(request.scenario_digest, None):
                    hosted[1].close()
                    del hosted
                    gc.unfreeze()
                    _settle()
        return None

    def _load(self, request: Load) -> Loaded | Refused:
        package = request.scenario.digest
        try:
            if package not in self._open:
                self._open[package] = (request.scenario, self._hosts.open(request))
                self._hosts.sweep()
                _settle()
            _, host = self._open[package]
        except PoolError as exc:
            violation = self._violation()
            reason = f"{exc} ({violation})" if violation else str(exc)
            kind: Literal["seed", "toolset"] = "seed" if isinstance(exc, SeedError) else "toolset"
            return Refused(request.id, _sayable(reason), kind, violation)
        if violation := self._violation():
            reason = f"{request.scenario.path}: {violation}"
            return Refused(request.id, reason, violation=violation)
        return Loaded(
            request.id,
            host.template.image,
            host.tools,
            host.memory,
            host.num_statements,
            host.seed_faults,
            host.notes,
            _usage().ru_maxrss * 1024,
        )

    def _call(self, request: Call) -> Answer | Stale:
        _, host = self._open[request.scenario_digest]
        live = self._cache.take(request.scenario_digest, request.world, request.version)
        if request.state is not None:
            live = live_world(request.state)
        if live is None:
            return Stale(request.id)
        pages, memory, before = live.overlay.pages.copy(), live.memory, process_time()
        result = host.call(live, request.name, json.loads(request.arguments))
        seconds = process_time() - before
        violation = self._violation(quick=seconds < _QUICK) or _too_long(result)
        self._hosts.sweep()
        if not violation:
            self._cache.put(request.scenario_digest, request.world, request.version + 1, live)
        else:
            self.tainted = True
        return Answer(
            request.id,
            "" if violation else _sayable(result.text),
            result.error,
            result.changes,
            result.digest,
            {n: page for n, page in live.overlay.pages.items() if pages.get(n) != page},
            live.overlay.num_pages,
            None if live.memory is memory or live.memory == memory else live.memory,
            violation,
            seconds,
        )

    def _verify(self, request: Verify) -> Verified:
        verified = self._hosts.verify(*self._open[request.scenario_digest], request)
        violation = self._violation()
        self._hosts.sweep()
        return msgspec.structs.replace(verified, violation=violation) if violation else verified

    def _replay(self, request: Replay) -> Replayed:
        _, host = self._open[request.scenario_digest]
        episodes = [
            [(name, json.loads(arguments)) for name, arguments in calls]
            for calls in request.episodes
        ]
        before = process_time()
        for calls in episodes:
            live = LiveWorld(host.template.overlay(), host.memory)
            for name, arguments in calls:
                host.call(live, name, arguments)
        cpu_s = process_time() - before
        return Replayed(request.id, cpu_s, self._violation())

    def _violation(self, *, quick: bool = False) -> str:
        """What hosted code did that it may not; empty: nothing. A worker is never clean again.

        A request that was `quick` cannot have filled the memory that would be told of.
        """
        found = self._witness.seen
        if not found and self._witness.is_silenced():
            found = "the code silenced the audit hook"
        if not found and _thread._count() > self._num_threads:
            found = "the code left a thread running"
        if not found and (name := self._seal.broken()):
            found = f"the code changed {name}"
        if not (found or quick) and (taken := _usage().ru_maxrss - self._peak) > self._much:
            found = f"the code took {taken // 2**10} MiB of memory in one go"
        if found:
            self.tainted = True
        return found


def serve(
    connection: socket.socket, hosts: Opens, witness: Witness, level: str, limits: Limits
) -> int:
    """Answer requests until the pool hangs up; gives the process's exit status."""
    worker, frames = Worker(hosts, witness, limits), Frames()
    try:
        connection.sendall(frame(Ready(_thread.get_native_id(), level, _usage().ru_maxrss * 1024)))
        while data := connection.recv(_READ):
            for body in frames.feed(data):
                reply = worker.obey(request_of(body))
                if reply is not None:
                    connection.sendall(_framed(reply))
                if worker.tainted:
                    return TAINTED
    except OSError:
        return LOST
    return DISMISSED


def _settle() -> None:
    """Keep what is hosted now out of the garbage collector, which would go through all of it again
    and again: a fifth of the calls' time. What was frozen before is not looked at."""
    gc.collect()
    gc.freeze()


def live_world(state: Snapshot) -> LiveWorld:
    """A world as it was sent."""
    overlay = Overlay(dict(state.pages), state.num_pages, int(state.digest, 16))
    return LiveWorld(overlay, state.memory, state.num_calls)


def told(exc: BaseException) -> str:
    """An exception in words, whatever its author made of them."""
    try:
        name = type.__getattribute__(type(exc), "__name__")
        return _sayable(f"{name}: {exc}"[:2000])
    except BaseException:
        return "an exception that cannot be told in words"


def _framed(reply: Reply) -> bytes:
    try:
        return frame(reply)
    except (PoolError, UnicodeEncodeError, TypeError, ValueError, NotImplementedError) as exc:
        return frame(Failed(getattr(reply, "id", 0), f"its answer cannot be sent: {told(exc)}"))


def _sayable(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def _too_long(result: ToolResult) -> str:
    if len(result.text) <= MAX_TEXT:
        return ""
    return f"the code gave {len(result.text):,} characters, of which {MAX_TEXT:,} are allowed"


def _usage() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_SELF)
