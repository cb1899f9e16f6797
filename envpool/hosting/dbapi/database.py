"""The database of one hosted scenario: all connections of its code see the current call's world.

One call runs between `enter` and `leave`. The code may open connections, commit, roll back and fail
as often as needed: commits stay, open transactions are rolled back, and the changes of the call
are the net of all commits. A connection that the code keeps continues in the next call, on that
call's world.

Invariants:
- Outside of a call no slot is in a transaction, and none has a setting that a call has made.
- A slot that has seen another schema than the template's serves no second world: SQLite identifies
  a schema by a number that two worlds may share, so it would not notice the difference.
"""

import sqlite3
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import apsw
import msgspec

from rehearsal_room.envpool.hosting.dbapi.slots import STRIDE, Slot, SlotFile
from rehearsal_room.envpool.store.changes import change_order
from rehearsal_room.envpool.store.diff import changes_between
from rehearsal_room.envpool.store.overlay import Overlay, OverlayFile, OverlayVFS
from rehearsal_room.envpool.store.template import TableSchema, same_schema, sum_of, tables_of
from rehearsal_room.envpool.store.tracking import Tracker
from rehearsal_room.scenarios.api import RowChange

MAX_STEPS = 200_000_000  # SQLite virtual machine instructions a call may take; about ten seconds
MAX_PAGES = 65_536  # of a world's file; 64 MiB
_MASK = (1 << 128) - 1
_PATH = Path("server.py")
_Callback = weakref.WeakMethod[Callable[[], None]]  # of a connection


class CallEffects(msgspec.Struct, frozen=True):
    """The effects of a call on its world."""

    changes: tuple[RowChange, ...]  # net, over all its transactions
    total: int  # the state's row sum (see envpool.store.digest)
    stopped: bool = False  # its SQL exceeded the limit


class WorldDatabase:
    """What serves the connections of hosted code, all on one world at a time.

    `random_bytes(n)` returns n random bytes for SQL's random functions. `close()` closes the
    connections.
    """

    def __init__(
        self,
        vfs: OverlayVFS,
        pages: Sequence[bytes],
        *,
        random_bytes: Callable[[int], bytes] | None = None,
        max_steps: int = MAX_STEPS,
        max_pages: int = MAX_PAGES,
    ) -> None:
        self.random_bytes = random_bytes or Random(0).randbytes  # may be replaced before each call
        self._vfs = vfs
        self._max_pages = max_pages
        self._max_strides = max(1, max_steps // STRIDE)
        self._strides = 0
        self._closed = False
        self._slots: list[Slot] = []
        self._free_slots: list[Slot] = []  # the slots that no connection uses
        self._owners: dict[Slot, _Callback] = {}  # their `drop_slot`
        self._peers: list[SlotFile] = []
        self.new_connections: list[_Callback] = []  # `end_setup` of those since the last call
        self.schema_has_changed = False
        self._other_schema = False  # whether the current world's schema differs from the template's
        self._tracker: Tracker | None = None
        self.rebase(pages)

    def __repr__(self) -> str:
        return (
            f"<WorldDatabase [{len(self.tables)} tables, {len(self._pages)} pages | "
            f"{len(self._slots)} slots, {len(self._free_slots)} spare]>"
        )

    def rebase(self, pages: Sequence[bytes]) -> None:
        """Use other pages as the template. Raises SeedError."""
        self._drop(list(self._slots))
        self._pages = tuple(pages)
        self.overlay = self.fresh_overlay()
        self.tables: dict[str, TableSchema] = self._inspect(self.overlay)[0]
        self._before = self.fresh_overlay()
        self._tracker = None

    def fresh_overlay(self) -> Overlay:
        """A fresh world; its row sum is not set."""
        return Overlay({}, len(self._pages), 0)

    def pages_of(self, overlay: Overlay) -> tuple[bytes, ...]:
        """A world's whole file, as pages."""
        return tuple(
            overlay.pages.get(number) or self._pages[number] for number in range(overlay.num_pages)
        )

    # A call ----------------------------------------------------------------------------------

    def enter(self, overlay: Overlay) -> None:
        """Point every connection at this world. The call writes into the overlay."""
        if overlay is not self.overlay:
            other_schema = self._has_other_schema(overlay)
            if other_schema or self._other_schema:
                self._drop(list(self._slots))
            self._other_schema = other_schema
            self.overlay = overlay
            for slot in self._slots:
                slot.file.switch(overlay)
        for slot in self._slots:
            slot.connection.set_last_insert_rowid(0)  # from another world's call
        self._before = overlay.copy()
        self.schema_has_changed = False
        self._strides = 0
        if self._tracker is not None:
            self._tracker.begin()

    def leave(self) -> CallEffects:
        """End the call: close what is open; return the committed changes.

        Sets the row sum of the overlay that was entered.
        """
        stopped, self._strides = self._strides > self._max_strides, 0
        for slot in self._slots:
            slot.reset()
        for reference in self.new_connections:
            end_setup = reference()
            if end_setup is not None:
                end_setup()
        self.new_connections.clear()
        overlay = self.overlay
        if self._tracker is None or overlay.pages == self._before.pages:
            effects = CallEffects((), overlay.total, stopped)
        elif self._other_schema or self._has_other_schema(overlay):
            effects = self._compared_effects(stopped)
        else:
            effects = self._tracked_effects(self._tracker, stopped)
        overlay.total = effects.total
        self._drop([slot for slot in self._slots if slot.dirty])
        self._other_schema = self._has_other_schema(overlay)
        return effects

    def _tracked_effects(self, tracker: Tracker, stopped: bool) -> CallEffects:
        tracker.read_with(self._reader().connection)
        changes, total = tracker.net(self.overlay.total)
        if tracker.untracked:
            tables = {name: self.tables[name] for name in tracker.untracked}
            more, before, after = self._differences(tables, tables)
            changes = tuple(sorted((*changes, *more), key=change_order))
            total = (total - before + after) & _MASK
        return CallEffects(changes, total, stopped)

    def _compared_effects(self, stopped: bool) -> CallEffects:
        tables = self._inspect(self._before)[0] if self._other_schema else self.tables
        after, total = self._inspect(self.overlay)
        return CallEffects(self._differences(tables, after)[0], total, stopped)

    def _differences(
        self, tables: dict[str, TableSchema], tables_after: dict[str, TableSchema]
    ) -> tuple[tuple[RowChange, ...], int, int]:
        """The rows of these tables that the call changed, and the row sums before and after it."""
        first, second = self._open_view(self._before), self._open_view(self.overlay)
        try:
            changes = changes_between(first, second, tables, tables_after)
            return changes, sum_of(first, tables), sum_of(second, tables_after)
        finally:
            first.close()
            second.close()

    def _inspect(self, overlay: Overlay) -> tuple[dict[str, TableSchema], int]:
        """A world's tables and row sum, read from its pages."""
        connection = self._open_view(overlay)
        try:
            tables = tables_of(connection, _PATH)
            return tables, sum_of(connection, tables)
        finally:
            connection.close()

    def _open_view(self, overlay: Overlay) -> apsw.Connection:
        return self._vfs.connect(OverlayFile(self._pages, overlay))

    def _has_other_schema(self, overlay: Overlay) -> bool:
        page = overlay.pages.get(0)
        first = self._pages[0] if self._pages else b""
        return page is not None and not same_schema(page, first)

    # Connections -----------------------------------------------------------------------------

    def acquire(self, drop_slot: Callable[[], None]) -> Slot:
        """A slot that one connection uses, until it releases it or this calls its `drop_slot`."""
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        slot = self._free_slots.pop() if self._free_slots else self._open_slot()
        self._owners[slot] = weakref.WeakMethod(drop_slot)
        return slot

    def release(self, slot: Slot) -> None:
        """Take a slot back."""
        if slot not in self._owners:
            return
        del self._owners[slot]
        slot.reset()
        if slot.dirty or slot.foreign_keys_default or not slot.plain:
            self._drop([slot])
        else:
            self._free_slots.append(slot)

    def note_schema_change(self) -> None:
        """Note that a statement that may change the schema is about to run."""
        self.schema_has_changed = True
        for slot in self._slots:
            slot.statements.clear()

    def close(self) -> None:
        """Close the connections, also those that the code still uses."""
        self._closed = True
        self._drop(list(self._slots))

    def _open_slot(self) -> Slot:
        file = SlotFile(self._pages, self.overlay)
        slot = Slot(
            self._vfs,
            file,
            random_bytes=self._random_bytes,
            should_stop=self._should_stop,
            max_pages=self._max_pages,
        )
        file.join(self._peers)
        if self._tracker is None:
            self._tracker = Tracker(slot.connection, self.tables)
        else:
            self._tracker.attach(slot.connection)
        self._slots.append(slot)
        return slot

    def _reader(self) -> Slot:
        """A slot without temporary tables, which would hide the world's tables."""
        slot = next((slot for slot in self._slots if not slot.dirty), None)
        if slot is None:
            slot = self._open_slot()
            self._free_slots.append(slot)
        return slot

    def _drop(self, slots: list[Slot]) -> None:
        for slot in slots:
            reference = self._owners.pop(slot, None)
            drop_slot = reference() if reference is not None else None
            if drop_slot is not None:
                drop_slot()
            self._slots.remove(slot)
            if slot in self._free_slots:
                self._free_slots.remove(slot)
            slot.close()

    def _random_bytes(self, num: int) -> bytes:
        return self.random_bytes(num)

    def _should_stop(self) -> bool:
        self._strides += 1
        return self._strides > self._max_strides
