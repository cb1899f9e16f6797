"""Worlds whose state is held here and whose tools run elsewhere: in a worker, on another machine.

An RemoteExecutionEnv holds the complete state of its world: the changed pages, the row sum, the
number of calls, the module state of its code (opaque bytes). An `Executor` is a function from that
state and a call to a CallOutcome; its own copy of the state is a cache.

Invariants:
- A state changes only by an outcome that was checked: a call that was cancelled, refused or lost
  has changed nothing here. One outcome is applied once; a version is never used twice.
- After a WorldError the world is broken, and every later use raises the same sentence.
- The changed rows of each call lead from the digest before it to the digest after it, and `state()`
  recomputes the digest from the pages before it returns: code that misreports what it did ends its
  episode.
"""

import itertools
import re
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import anyio

from rehearsal_room.envpool.core.errors import SeedError, WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Snapshot
from rehearsal_room.envpool.core.types import StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.store.database import StateView
from rehearsal_room.envpool.store.digest import hex_digest, sum_after_change
from rehearsal_room.envpool.store.guarded_vfs import GuardedVFS
from rehearsal_room.envpool.store.overlay import PAGE, Overlay, OverlayFile
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.store.template import arithmetic_of, julian_day_of, template_of
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

MAX_PAGES = 65_536  # of a world: 64 MiB
MAX_TEXT = 16 * 2**20  # characters of a result
MAX_MODULE_STATE = 4 * 2**20  # bytes of module state
_REMEMBERED = 8  # call ids whose results a world remembers
_is_digest = re.compile("[0-9a-f]{32}").fullmatch
_numbers = itertools.count(1)


class Executor(Protocol):
    """Executes the calls of remotely executed worlds."""

    async def execute(self, env: "RemoteExecutionEnv", name: str, arguments: Any) -> CallOutcome:
        """Execute one call on the world's state. Raises WorldError; the world is then broken.

        It may be cancelled: the call then counts as not made, whatever happens to it elsewhere.
        """

    def report_violation(self, env: "RemoteExecutionEnv", why: str) -> None:
        """Report that this world's latest call got an impossible or dishonest outcome."""


class RemoteExecutionScenario(States):
    """A scenario that is hosted elsewhere, with the start state of its worlds.

    `image` is the template's database file; every world starts with `module_state`. `close()`
    closes its connections. Raises SeedError for an image that is not a database.
    """

    def __init__(
        self,
        scenario: Scenario,
        image: bytes,
        tools: Iterable[ToolSpec],
        *,
        module_state: bytes = b"",
        loaded: Loaded | None = None,
    ) -> None:
        self.module_state = module_state
        self.loaded = loaded  # None: it was not built by a worker
        self.num_leases = 0
        self.num_calls = 0
        vfs = self._guard = GuardedVFS(julian_day_of(scenario), arithmetic_of(scenario))
        try:
            template = template_of(pages_of(image, scenario.path), vfs, scenario.path)
        except BaseException:
            vfs.unregister()
            raise
        super().__init__(scenario, template, tools, vfs)

    def lease(self, executor: Executor) -> "RemoteExecutionEnv":
        """The world of a new episode."""
        self.num_leases += 1
        return RemoteExecutionEnv(self, executor, self.template.overlay(), self.module_state, 0)

    def _view_pair(
        self, *overlays: Overlay
    ) -> tuple[tuple[OverlayFile, StateView], tuple[OverlayFile, StateView]]:
        self._guard.restart_timer()
        return super()._view_pair(*overlays)


class RemoteExecutionEnv:
    """A leased world, one call at a time. It implements envpool.core.types.Env."""

    awaits = True  # a call waits for the executor, and may be cancelled

    __slots__ = (
        "_answered",
        "_broken",
        "_digest_verified",
        "_executor",
        "_lock",
        "last_worker",
        "mac",
        "module_state",
        "num_calls",
        "number",
        "overlay",
        "version",
        "world",
    )

    def __init__(
        self,
        world: RemoteExecutionScenario,
        executor: Executor,
        overlay: Overlay,
        module_state: bytes,
        num_calls: int,
    ) -> None:
        self.world = world
        self.number = next(_numbers)  # unique in this process
        self.version = 0  # of the state
        self.overlay = overlay
        self.module_state = module_state
        self.mac = b""  # of this state, by the server that made it; empty: at the start
        self.num_calls = num_calls
        # Set by the executor: the worker that last received the state. It is cleared when that
        # worker's copy is no longer this version.
        self.last_worker: Any = None
        self._executor = executor
        self._answered: OrderedDict[str, ToolResult] | None = None
        self._broken = ""  # why the world can no longer be used; empty: it is usable
        self._digest_verified = True  # the digest is known to be that of the pages
        self._lock: anyio.Lock | None = None

    def __repr__(self) -> str:
        return (
            f"<RemoteExecutionEnv of {self.world.scenario.name!r} "
            f"[{len(self.overlay.pages)} changed pages, "
            f"digest {self.digest[:8]}{', broken' if self._broken else ''}]>"
        )

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self.world.tools

    @property
    def start_digest(self) -> str:
        return self.world.start_digest

    @property
    def digest(self) -> str:
        return hex_digest(self.overlay.total)

    def snapshot(self) -> Snapshot:
        """The state in the form that is sent. It shares its pages with this world: encode it at
        once."""
        overlay = self.overlay
        return Snapshot(
            overlay.pages,
            overlay.num_pages,
            self.digest,
            self.num_calls,
            self.module_state,
            self.mac,
        )

    async def call(self, name: str, arguments: Any, call_id: str = "") -> ToolResult:
        """Execute one call, once: a call whose id was among the last few returns the remembered
        result. A cancelled call counts as not made. Raises WorldError.
        """
        if self._lock is None:
            self._lock = anyio.Lock(fast_acquire=True)
        lock = self._lock
        try:
            lock.acquire_nowait()  # most calls wait for no other, and need no checkpoint
        except anyio.WouldBlock:
            await lock.acquire()
        try:
            self._raise_if_broken()
            answered = self._answered
            if call_id and answered is not None and call_id in answered:
                return answered[call_id]
            result = await self._execute(name, arguments)
            if call_id:
                if self._answered is None:
                    self._answered = OrderedDict()
                self._answered[call_id] = result
                if len(self._answered) > _REMEMBERED:
                    self._answered.popitem(last=False)
            return result
        finally:
            lock.release()

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return ()

    def state(self) -> StoredState:
        """The state now, as changed pages. Raises WorldError when their digest differs from the
        reported one."""
        self._raise_if_broken()
        if not self._digest_verified:
            self._verify_digest()
        return self.world.stored(self.overlay)

    def fork(self) -> "RemoteExecutionEnv":
        """A second world that continues from here."""
        self._raise_if_broken()
        self.world.num_leases += 1
        fork = RemoteExecutionEnv(
            self.world, self._executor, self.overlay.copy(), self.module_state, self.num_calls
        )
        fork._digest_verified = self._digest_verified
        fork.mac = self.mac
        return fork

    def reset(self) -> None:
        """Return to the start. A call that is running then fails."""
        self._raise_if_broken()
        self.overlay = self.world.template.overlay()
        self.module_state = self.world.module_state
        self.mac = b""
        self.num_calls = 0
        self._answered = None
        self._digest_verified = True
        self._invalidate_copies()

    async def _execute(self, name: str, arguments: Any) -> ToolResult:
        self.world.num_calls += 1
        version = self.version
        try:
            outcome = await self._executor.execute(self, name, arguments)
        except BaseException as exc:
            if isinstance(exc, WorldError) and self.version == version:
                raise self._mark_broken(str(exc)) from exc
            self._invalidate_copies()
            raise
        if self.version != version:
            raise WorldError(f"{self._name} was reset while {name} ran")
        if outcome.violation:
            raise self._mark_broken(outcome.violation)
        if fault := fault_in(outcome) or self._fault_in_changes(outcome):
            self._executor.report_violation(self, fault)
            raise self._mark_broken(fault)
        self._apply(outcome)
        return ToolResult(outcome.text, outcome.error, outcome.changes, outcome.digest)

    def _fault_in_changes(self, outcome: CallOutcome) -> str:
        """What is wrong with the reported row changes; empty: nothing. They must lead from the
        digest before the call to the digest after it."""
        total = self.overlay.total
        try:
            for change in outcome.changes:
                total = sum_after_change(
                    total, change.table, _values(change.before), _values(change.after)
                )
        except (OverflowError, TypeError, UnicodeEncodeError) as exc:
            return f"the reported rows are invalid: {exc}"
        if total == int(outcome.digest, 16):
            return ""
        return "the reported row changes do not lead to the reported digest"

    def _apply(self, outcome: CallOutcome) -> None:
        """Move to the state after a call."""
        overlay = self.overlay
        total = int(outcome.digest, 16)
        if outcome.pages:
            if outcome.num_pages < overlay.num_pages:
                for number in [n for n in overlay.pages if n >= outcome.num_pages]:
                    del overlay.pages[number]
            overlay.pages.update(outcome.pages)
            overlay.num_pages = outcome.num_pages
            self._digest_verified = False
        elif total != overlay.total:
            self._digest_verified = False
        overlay.total = total
        if outcome.module_state is not None:
            self.module_state = outcome.module_state
        self.mac = outcome.mac
        self.version += 1
        self.num_calls += 1

    def _verify_digest(self) -> None:
        """Recompute the digest from the pages. Raises WorldError when it differs from the reported
        one."""
        try:
            counted = self.world.verify_digest(self.overlay)
        except Exception as exc:  # reading pages that are not a database can raise anything
            why = f"its pages cannot be read ({exc})"
        else:
            if counted == self.digest:
                self._digest_verified = True
                return
            why = f"its rows have digest {counted}, but {self.digest} was reported"
        why += ": the tool's code interfered"
        self._executor.report_violation(self, why)
        raise self._mark_broken(why)

    def _invalidate_copies(self) -> None:
        """Start a version that no executor has: a call that may still run elsewhere is ignored."""
        self.version += 1
        self.last_worker = None

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise WorldError(self._broken)

    @property
    def _name(self) -> str:
        return f"the world of scenario {self.world.scenario.name!r}"

    def _mark_broken(self, why: str) -> WorldError:
        self._broken = f"{self._name} is broken: {why}"
        self._invalidate_copies()
        return WorldError(self._broken)


def _values(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row.values())


def pages_of(image: bytes, path: Path) -> tuple[bytes, ...]:
    """The pages of a database file. Raises SeedError naming `path` for an invalid size."""
    if not image or len(image) % PAGE or len(image) > MAX_PAGES * PAGE:
        raise SeedError(
            f"{path}: its database has {len(image)} bytes; expected 1 to {MAX_PAGES} pages "
            f"of {PAGE} bytes"
        )
    return tuple(image[offset : offset + PAGE] for offset in range(0, len(image), PAGE))


def fault_in(outcome: CallOutcome) -> str:
    """What is impossible in an outcome, as part of a sentence; empty: nothing."""
    if not _is_digest(outcome.digest):
        return f"the reported digest {outcome.digest[:40]!r} is not 32 hexadecimal digits"
    if len(outcome.text) > MAX_TEXT:
        return f"a result has {len(outcome.text)} characters; the limit is {MAX_TEXT}"
    if outcome.module_state is not None and len(outcome.module_state) > MAX_MODULE_STATE:
        size = len(outcome.module_state)
        return f"its module state has {size} bytes; the limit is {MAX_MODULE_STATE}"
    if not outcome.pages:
        return ""
    num_pages = outcome.num_pages
    if not 0 < num_pages <= MAX_PAGES:
        return f"its database has {num_pages} pages; the limit is {MAX_PAGES}"
    for number, page in outcome.pages.items():
        if len(page) != PAGE or not 0 <= number < num_pages:
            return f"the outcome has page {number} of {len(page)} bytes among {num_pages} pages"
    return ""
