"""The worker: reads requests, executes them one by one, answers each once and in order.

It is a function from a state and a call to a result and the next state (see
envpool.workers.messages.wire). The states of the worlds that it served last stay here, as a cache.

Invariants:
- It executes the code of one scenario in its life: the first Load decides which, and it refuses
  every other. A worker that runs a verifier has executed nothing before and ends afterwards.
- After a violation the worker reports it in that answer and ends: no further request runs in a
  process that the code may have changed.
- An exception in the worker's own code is answered by Failed, and ends the worker too.
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

from rehearsal_room.envpool.core.errors import PoolError, SeedError
from rehearsal_room.envpool.core.remote_states import (
    CallOutcome,
    Loaded,
    SeedFault,
    Snapshot,
    Verified,
)
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.kernel.huge_pages import HugePages
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.store.template import Template
from rehearsal_room.envpool.workers.audit_hook import AuditHook
from rehearsal_room.envpool.workers.integrity import IntegrityCheck
from rehearsal_room.envpool.workers.messages.codec import WorkerFrames, frame, request_of
from rehearsal_room.envpool.workers.messages.wire import (
    HOT,
    Forget,
    HostingRefused,
    Load,
    Replay,
    Replayed,
    Stale,
    Verify,
    WorkerCall,
    WorkerFailed,
    WorkerReady,
    WorkerReply,
    WorkerRequest,
)
from rehearsal_room.envpool.workers.sandbox import MAX_TEXT, WorkerLimits

_QUICK_S = 0.002  # seconds of CPU; filling half a gigabyte takes fifty times as long
MAX_CACHED = 64 * 2**20  # bytes of pages and module state of worlds
_WORLD_BYTES = 1024  # that a world costs in addition
_READ_BYTES = 2**18  # at a time
# Exit statuses. Hosted code can use them too, but gains nothing by it.
EXIT_DONE, EXIT_UNCONFINED, EXIT_DISCONNECTED, EXIT_TAINTED = 0, 81, 82, 83


class Host(Protocol):
    """A scenario that is hosted in this process."""

    @property
    def template(self) -> Template:
        """The seeded database."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which the agent sees them."""

    @property
    def module_state(self) -> bytes:
        """Module state at the start of every world."""

    @property
    def num_statements(self) -> int:
        """The number of statements of the seed."""

    @property
    def seed_faults(self) -> tuple[SeedFault, ...]:
        """Seed statements that failed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was ignored or isolated."""

    def call(self, world: LiveWorld, name: str, arguments: Any) -> ToolResult:
        """Execute a call on a world and move the world to its next state."""

    def close(self) -> None:
        """Release its resources."""


class HostFactory(Protocol):
    """Hosts scenarios and runs their verifiers."""

    def open(self, request: Load) -> Host:
        """Host a scenario. Raises SeedError and ToolsetError."""

    def verify(self, request: Verify) -> Verified:
        """The result of a task's verifier on a state. Nothing is hosted in this process."""

    def sweep(self) -> None:
        """Remove the files that hosted code left: the next world must not find them."""


class Cache:
    """The states of the worlds that were served last, bounded in bytes."""

    def __init__(self) -> None:
        self._worlds: OrderedDict[int, tuple[int, LiveWorld, int]] = OrderedDict()
        self._size = 0

    def take(self, world: int, version: int) -> LiveWorld | None:
        """Remove the world; returns it if the cache had this version."""
        found = self._worlds.pop(world, None)
        if found is None:
            return None
        self._size -= found[2]
        return found[1] if found[0] == version else None

    def put(self, world: int, version: int, live: LiveWorld) -> None:
        size = _WORLD_BYTES + len(live.module_state) + sum(map(len, live.overlay.pages.values()))
        self._worlds[world] = (version, live, size)
        self._size += size
        while self._size > MAX_CACHED and len(self._worlds) > 1:
            self._size -= self._worlds.popitem(last=False)[1][2]


class ToolWorker:
    """Executes requests. `tainted`: hosted code did something forbidden. `must_end`: that, or it
    has run a verifier; the worker ends after its answer."""

    def __init__(
        self,
        hosts: HostFactory,
        audit_hook: AuditHook,
        integrity: IntegrityCheck,
        limits: WorkerLimits,
        huge_pages: HugePages,
    ) -> None:
        self._hosts = hosts
        self._audit_hook = audit_hook
        self._scenario_digest = ""  # whose code runs here; empty: none has run
        self._host: Host | None = None  # None: it is not loaded
        self._cache = Cache()
        self._huge_pages = huge_pages
        self._num_calls = 0
        self._is_hot = False  # its heap is in huge pages, where the kernel allows them
        self._integrity = integrity
        self._num_threads = _thread._count()
        self._max_growth_kb = limits.memory_mb * 2**10 // 2  # that one request may add to the peak
        self.tainted = False
        self.must_end = False

    def execute(self, request: WorkerRequest) -> WorkerReply | None:
        """Execute a request; None: this request has no answer."""
        self._peak_kb = _usage().ru_maxrss
        try:
            return self._reply(request)
        except BaseException as exc:  # hosted code also raises SystemExit and KeyboardInterrupt
            why = self._violation() or describe(exc)
            self._taint()
            return WorkerFailed(getattr(request, "id", 0), why)

    def rest(self) -> None:
        """Do what can wait until an answer is sent."""
        if self._num_calls >= HOT and not self._is_hot:
            self._is_hot = True
            self._huge_pages.collapse()

    def _reply(self, request: WorkerRequest) -> WorkerReply | None:
        match request:
            case WorkerCall():
                return self._call(request)
            case Load():
                return self._load(request)
            case Verify():
                return self._verify(request)
            case Replay():
                return self._replay(request)
            case Forget():
                for world in request.worlds:
                    self._cache.take(world, -1)
        return None

    def _bind(self, scenario_digest: str) -> None:
        """Decide whose code runs here; raises PoolError when that has been decided."""
        if self._scenario_digest:
            raise PoolError(
                f"this process belongs to scenario {self._scenario_digest}: it executes nothing of "
                f"{scenario_digest}"
            )
        self._scenario_digest = scenario_digest

    def _hosted(self, scenario_digest: str) -> Host:
        if self._host is None or scenario_digest != self._scenario_digest:
            raise PoolError(f"scenario {scenario_digest} is not hosted in this process")
        return self._host

    def _load(self, request: Load) -> Loaded | HostingRefused:
        self._bind(request.scenario.digest)
        gc.disable()  # what is made now is to stay: searching it for garbage costs a twentieth
        try:
            host = self._host = self._hosts.open(request)
            self._hosts.sweep()
            _freeze()
        except PoolError as exc:
            violation = self._violation()
            reason = f"{exc} ({violation})" if violation else str(exc)
            kind: Literal["seed", "toolset"] = "seed" if isinstance(exc, SeedError) else "toolset"
            return HostingRefused(request.id, _encodable(reason), kind, violation)
        finally:
            gc.enable()
        if violation := self._violation():
            reason = f"{request.scenario.path}: {violation}"
            return HostingRefused(request.id, reason, violation=violation)
        return Loaded(
            request.id,
            host.template.image,
            host.tools,
            host.module_state,
            host.num_statements,
            host.seed_faults,
            host.notes,
            _usage().ru_maxrss * 1024,
        )

    def _call(self, request: WorkerCall) -> CallOutcome | Stale:
        host = self._hosted(request.scenario_digest)
        self._num_calls += 1
        live = self._cache.take(request.world, request.version)
        if request.state is not None:
            live = live_world(request.state)
        if live is None:
            return Stale(request.id)
        pages, old_state, before = live.overlay.pages.copy(), live.module_state, process_time()
        result = host.call(live, request.name, json.loads(request.arguments))
        seconds = process_time() - before
        violation = self._violation(quick=seconds < _QUICK_S) or _too_long(result)
        self._hosts.sweep()
        if not violation:
            self._cache.put(request.world, request.version + 1, live)
        else:
            self._taint()
        return CallOutcome(
            request.id,
            "" if violation else _encodable(result.text),
            result.error,
            result.changes,
            result.digest,
            {n: page for n, page in live.overlay.pages.items() if pages.get(n) != page},
            live.overlay.num_pages,
            None if live.module_state == old_state else live.module_state,
            violation,
            seconds,
        )

    def _verify(self, request: Verify) -> Verified:
        self._bind(request.scenario.digest)
        self.must_end = True
        verified = self._hosts.verify(request)
        violation = self._violation()
        return msgspec.structs.replace(verified, violation=violation) if violation else verified

    def _replay(self, request: Replay) -> Replayed:
        host = self._hosted(request.scenario_digest)
        episodes = [
            [(name, json.loads(arguments)) for name, arguments in calls]
            for calls in request.episodes
        ]
        before = process_time()
        for calls in episodes:
            live = LiveWorld(host.template.overlay(), host.module_state)
            for name, arguments in calls:
                host.call(live, name, arguments)
        cpu_s = process_time() - before
        return Replayed(request.id, cpu_s, self._violation())

    def _violation(self, *, quick: bool = False) -> str:
        """The forbidden thing that hosted code did; empty: nothing. It taints the worker for good.

        A `quick` request cannot have used enough memory to be a violation.
        """
        found = self._audit_hook.violation
        if not found and self._audit_hook.is_disabled():
            found = "the code disabled the audit hook"
        if not found and _thread._count() > self._num_threads:
            found = "the code left a thread running"
        if not found and (name := self._integrity.changed_name()):
            found = f"the code changed {name}"
        if not (found or quick):
            growth_kb = _usage().ru_maxrss - self._peak_kb
            if growth_kb > self._max_growth_kb:
                found = f"the code used {growth_kb // 2**10} MiB of memory in one request"
        if found:
            self._taint()
        return found

    def _taint(self) -> None:
        self.tainted = self.must_end = True


def serve(connection: socket.socket, worker: ToolWorker, level: str) -> int:
    """Answer requests until the pool closes the connection; returns the exit status."""
    frames = WorkerFrames()
    try:
        connection.sendall(
            frame(WorkerReady(_thread.get_native_id(), level, _usage().ru_maxrss * 1024))
        )
        while data := connection.recv(_READ_BYTES):
            for body in frames.feed(data):
                reply = worker.execute(request_of(body))
                if reply is not None:
                    connection.sendall(_frame_reply(reply))
                if worker.must_end:
                    return EXIT_TAINTED if worker.tainted else EXIT_DONE
                worker.rest()
    except OSError:
        return EXIT_DISCONNECTED
    return EXIT_DONE


def _freeze() -> None:
    """Keep the hosted objects out of the garbage collector, which would traverse them again and
    again: a fifth of the calls' time. Objects frozen before are not traversed here either."""
    gc.collect()
    gc.freeze()


def live_world(state: Snapshot) -> LiveWorld:
    """The world of a state that was sent."""
    overlay = Overlay(dict(state.pages), state.num_pages, int(state.digest, 16))
    return LiveWorld(overlay, state.module_state, state.num_calls)


def describe(exc: BaseException) -> str:
    """An exception as text, even where hosted code overrides its `__str__`."""
    try:
        name = type.__getattribute__(type(exc), "__name__")
        return _encodable(f"{name}: {exc}"[:2000])
    except BaseException:
        return "an exception that cannot be shown as text"


def _frame_reply(reply: WorkerReply) -> bytes:
    try:
        return frame(reply)
    except (PoolError, UnicodeEncodeError, TypeError, ValueError, NotImplementedError) as exc:
        return frame(
            WorkerFailed(getattr(reply, "id", 0), f"its answer cannot be sent: {describe(exc)}")
        )


def _encodable(text: str) -> str:
    """The text with half surrogate pairs replaced."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _too_long(result: ToolResult) -> str:
    if len(result.text) <= MAX_TEXT:
        return ""
    return f"the code returned {len(result.text):,} characters; the limit is {MAX_TEXT:,}"


def _usage() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_SELF)
