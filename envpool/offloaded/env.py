"""Worlds whose truth is here and whose tools run elsewhere: in a worker, on another machine.

A OffloadedEnv holds everything that its world is: the changed pages, the row sum, the number of
calls, the module memory of its code (opaque bytes). Whoever executes a call (an `Executor`) is a
function from that state and the call to a wire.Answer, and its own copy of the state is a cache.

Invariants:
- A state changes by an answer that was checked, or not at all: a call that was cancelled, refused
  or lost has changed nothing here. One answer is applied once; a version is never used twice.
- After a WorldError the world is broken, and every later use says the same sentence.
- The changed rows of each call lead from its digest before to its digest after, and the digest that
  leaves by `state()` was counted here, from the pages: code that lies about what it did ends its
  episode.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import anyio

from envpool.core.errors import SeedError, WorldError
from envpool.core.host_answers import Answer, Loaded, Snapshot
from envpool.core.types import StoredState, ToolResult, ToolSpec
from envpool.store.database import StateView
from envpool.store.digest import moved, written
from envpool.store.guarded_vfs import GuardedVFS
from envpool.store.overlay import PAGE, Overlay, OverlayFile
from envpool.store.states import States
from envpool.store.template import arithmetic_of, day_of, template_of
from scenarios.api import Row
from scenarios.format import Scenario

MAX_PAGES = 65_536  # of a world: 64 MiB
MAX_TEXT = 16 * 2**20  # characters of a result
MAX_MEMORY = 4 * 2**20  # bytes of module memory
_REMEMBERED = 8  # call ids whose results a world still knows
_HEXADECIMAL = frozenset("0123456789abcdef")
_numbers = itertools.count(1)


class Executor(Protocol):
    """Who executes the calls of held worlds."""

    async def execute(self, env: "OffloadedEnv", name: str, arguments: Any) -> Answer:
        """Execute one call on the world's state. Raises WorldError; the world is broken then.

        It may be cancelled: the call then has not happened, whatever becomes of it elsewhere.
        """

    def distrust(self, env: "OffloadedEnv", why: str) -> None:
        """What executed this world's latest call has answered what cannot be."""


class OffloadedScenario(States):
    """A scenario that is hosted elsewhere, with the start of its worlds. `close()` it.

    `image` is the template's file, `memory` the module memory at the start. Raises SeedError for an
    image that is no database.
    """

    def __init__(
        self,
        scenario: Scenario,
        image: bytes,
        tools: Iterable[ToolSpec],
        *,
        memory: bytes = b"",
        loaded: Loaded | None = None,
    ) -> None:
        self.memory = memory
        self.loaded = loaded  # what the worker told when it built the world; None: not by a worker
        self.num_leases = 0
        self.num_calls = 0
        vfs = self._guard = GuardedVFS(day_of(scenario), arithmetic_of(scenario))
        try:
            template = template_of(pages_of(image, scenario.path), vfs, scenario.path)
        except BaseException:
            vfs.unregister()
            raise
        super().__init__(scenario, template, tools, vfs)

    def lease(self, executor: Executor) -> "OffloadedEnv":
        """A fresh episode's world."""
        self.num_leases += 1
        return OffloadedEnv(self, executor, self.template.overlay(), self.memory, 0)

    def snapshot_of(self, state: StoredState) -> Snapshot:
        """A stored state, to be sent; its module memory is not known."""
        pages = {number - 1: page for number, page in state.pages.items()}
        return Snapshot(pages, state.num_pages, state.digest)

    def _view_pair(
        self, *overlays: Overlay
    ) -> tuple[tuple[OverlayFile, StateView], tuple[OverlayFile, StateView]]:
        self._guard.begin()
        return super()._view_pair(*overlays)


class OffloadedEnv:
    """A leased world. It implements envpool.core.types.Env, and one call of it runs at a time."""

    awaits = True  # a call takes a while, and may be cancelled

    __slots__ = (
        "_answered",
        "_broken",
        "_executor",
        "_proven",
        "_turn",
        "home",
        "memory",
        "num_calls",
        "number",
        "overlay",
        "version",
        "world",
    )

    def __init__(
        self,
        world: OffloadedScenario,
        executor: Executor,
        overlay: Overlay,
        memory: bytes,
        num_calls: int,
    ) -> None:
        self.world = world
        self.number = next(_numbers)  # unique in this process
        self.version = 0  # of the state
        self.overlay = overlay
        self.memory = memory
        self.num_calls = num_calls
        # The executor's note of who was given the state last; it is cleared when what they have
        # is no longer this version.
        self.home: Any = None
        self._executor = executor
        self._answered: OrderedDict[str, ToolResult] | None = None
        self._broken = ""  # why the world can no longer be used; empty: it can
        self._proven = True  # the digest is known to be that of the pages
        self._turn: anyio.Lock | None = None

    def __repr__(self) -> str:
        return (
            f"<OffloadedEnv of {self.world.scenario.name!r} "
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
        return written(self.overlay.total)

    def snapshot(self) -> Snapshot:
        """The state as it is sent. It shares its pages with this world: encode it at once."""
        overlay = self.overlay
        return Snapshot(overlay.pages, overlay.num_pages, self.digest, self.num_calls, self.memory)

    async def call(self, name: str, arguments: Any, call_id: str = "") -> ToolResult:
        """Execute one call, once: one whose id was among the last few is answered from memory.

        When it is cancelled, the call has not happened. Raises WorldError.
        """
        if self._turn is None:
            self._turn = anyio.Lock(fast_acquire=True)
        async with self._turn:
            self._check()
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

    def state(self) -> StoredState:
        """The state now, as changed pages. Raises WorldError when they have another digest than
        the one that was told."""
        self._check()
        if not self._proven:
            self._prove()
        return self.world.stored(self.overlay)

    def fork(self) -> "OffloadedEnv":
        """A second world that goes on from here."""
        self._check()
        self.world.num_leases += 1
        fork = OffloadedEnv(
            self.world, self._executor, self.overlay.copy(), self.memory, self.num_calls
        )
        fork._proven = self._proven
        return fork

    def reset(self) -> None:
        """Back to the start. A call that is running then fails."""
        self._check()
        self.overlay = self.world.template.overlay()
        self.memory = self.world.memory
        self.num_calls = 0
        self._answered = None
        self._proven = True
        self._renew()

    async def _execute(self, name: str, arguments: Any) -> ToolResult:
        self.world.num_calls += 1
        version = self.version
        try:
            answer = await self._executor.execute(self, name, arguments)
        except BaseException as exc:
            if isinstance(exc, WorldError) and self.version == version:
                raise self._break(str(exc)) from exc
            self._renew()
            raise
        if self.version != version:
            raise WorldError(f"{self._place()} was reset while {name} ran")
        if answer.violation:
            raise self._break(answer.violation)
        if fault := fault_of(answer) or self._fault_of_changes(answer):
            self._executor.distrust(self, fault)
            raise self._break(fault)
        self._take(answer)
        return ToolResult(answer.text, answer.error, answer.changes, answer.digest)

    def _fault_of_changes(self, answer: Answer) -> str:
        """What speaks against the rows that a call is said to have changed; empty: nothing. They
        must lead from the digest before it to the one after it."""
        total = self.overlay.total
        try:
            for change in answer.changes:
                total = moved(total, change.table, _values(change.before), _values(change.after))
        except (OverflowError, TypeError, UnicodeEncodeError) as exc:
            return f"the worker told rows that cannot be: {exc}"
        if total == int(answer.digest, 16):
            return ""
        return "the rows that it is said to have changed do not lead to the digest that was told"

    def _take(self, answer: Answer) -> None:
        """Go on to the state after a call."""
        overlay = self.overlay
        total = int(answer.digest, 16)
        if answer.pages:
            if answer.num_pages < overlay.num_pages:
                for number in [n for n in overlay.pages if n >= answer.num_pages]:
                    del overlay.pages[number]
            overlay.pages.update(answer.pages)
            overlay.num_pages = answer.num_pages
            self._proven = False
        elif total != overlay.total:
            self._proven = False
        overlay.total = total
        if answer.memory is not None:
            self.memory = answer.memory
        self.version += 1
        self.num_calls += 1

    def _prove(self) -> None:
        """Count the digest from the pages. Raises WorldError when it is not what was told."""
        try:
            counted = self.world.verify_digest(self.overlay)
        except Exception as exc:  # whatever reading pages that are no database gives
            why = f"its pages cannot be read ({exc})"
        else:
            if counted == self.digest:
                self._proven = True
                return
            why = f"its rows have digest {counted}, and {self.digest} was told"
        why += ": the tool's code interfered"
        self._executor.distrust(self, why)
        raise self._break(why)

    def _renew(self) -> None:
        """Nobody has this state: what may still run of it, elsewhere, is not to be met again."""
        self.version += 1
        self.home = None

    def _check(self) -> None:
        if self._broken:
            raise WorldError(self._broken)

    def _place(self) -> str:
        return f"the world of scenario {self.world.scenario.name!r}"

    def _break(self, why: str) -> WorldError:
        self._broken = f"{self._place()} is broken: {why}"
        self._renew()
        return WorldError(self._broken)


def _values(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row.values())


def pages_of(image: bytes, path: Path) -> tuple[bytes, ...]:
    """The pages of a database file. Raises SeedError naming `path` when they cannot be."""
    if not image or len(image) % PAGE or len(image) > MAX_PAGES * PAGE:
        raise SeedError(
            f"{path}: its database has {len(image)} bytes, which is not 1 to {MAX_PAGES} pages "
            f"of {PAGE}"
        )
    return tuple(image[place : place + PAGE] for place in range(0, len(image), PAGE))


def fault_of(answer: Answer) -> str:
    """What in an answer cannot be, as part of a sentence; empty: nothing."""
    if len(answer.digest) != 32 or not set(answer.digest) <= _HEXADECIMAL:
        return f"the worker told the digest {answer.digest[:40]!r}"
    if len(answer.text) > MAX_TEXT:
        return f"a result has {len(answer.text)} characters, and may have {MAX_TEXT}"
    if answer.memory is not None and len(answer.memory) > MAX_MEMORY:
        return f"its module memory has {len(answer.memory)} bytes, and may have {MAX_MEMORY}"
    if not answer.pages:
        return ""
    num_pages = answer.num_pages
    if not 0 < num_pages <= MAX_PAGES:
        return f"its database has {num_pages} pages, and may have {MAX_PAGES}"
    for number, page in answer.pages.items():
        if len(page) != PAGE or not 0 <= number < num_pages:
            return f"the worker gave a page {number} of {len(page)} bytes among {num_pages} pages"
    return ""
