"""The database of one hosted scenario: its code's connections all see the world it is pointed at.

Between `enter` and `leave` runs one call. The code may open connections, commit, roll back and fail
as often as it likes: what it committed stays, what it left open is rolled back, and the changes of
the call are the net of it all. A connection that the code keeps goes on in the next call, on that
call's world.

Invariants:
- Outside of a call no slot is in a transaction, and none holds a setting that a call has made.
- A slot that has seen another schema than the template's serves no second world: SQLite knows a
  schema by a number that two worlds may share, so it would not notice.
"""

import sqlite3
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import apsw
import msgspec

from envpool.hosting.dbapi.connections import Connection
from envpool.hosting.dbapi.slots import STRIDE, Slot, SlotFile
from envpool.store.changes import change_order
from envpool.store.diff import changes_between
from envpool.store.overlay import Overlay, OverlayFile, OverlayVFS
from envpool.store.template import Table, same_schema, sum_of, tables_of
from envpool.store.tracking import Tracker
from scenarios.api import RowChange

MAX_STEPS = 200_000_000  # SQLite virtual machine instructions a call may take; about ten seconds
MAX_PAGES = 65_536  # of a world's file; 64 MiB
_MASK = (1 << 128) - 1
_PATH = Path("server.py")


class Left(msgspec.Struct, frozen=True):
    """What a call did to its world."""

    changes: tuple[RowChange, ...]  # net, over all its transactions
    total: int  # the state's row sum (see envpool.store.digest)
    stopped: bool = False  # its SQL ran past the limit


class WorldDatabase:
    """Connections for hosted code, all on one world at a time.

    `chance(n)` gives n random bytes for SQL's random functions. `close()` gives the connections
    back.
    """

    def __init__(
        self,
        vfs: OverlayVFS,
        pages: Sequence[bytes],
        *,
        chance: Callable[[int], bytes] | None = None,
        max_steps: int = MAX_STEPS,
        max_pages: int = MAX_PAGES,
    ) -> None:
        self.chance = chance or Random(0).randbytes  # may be set anew before each call
        self._vfs = vfs
        self._max_pages = max_pages
        self._max_strides = max(1, max_steps // STRIDE)
        self._strides = 0
        self._closed = False
        self._slots: list[Slot] = []
        self._spares: list[Slot] = []  # of them, those that serve nobody
        self._owners: dict[Slot, weakref.ref[Connection]] = {}
        self._peers: list[SlotFile] = []
        self.made: list[weakref.ref[Connection]] = []
        self.has_moved = False
        self._odd = False  # the current world's schema is not the template's
        self._tracker: Tracker | None = None
        self.rebase(pages)

    def __repr__(self) -> str:
        return (
            f"<WorldDatabase [{len(self.tables)} tables, {len(self._pages)} pages | "
            f"{len(self._slots)} slots, {len(self._spares)} spare]>"
        )

    def rebase(self, pages: Sequence[bytes]) -> None:
        """Take other pages as the template. Raises SeedError."""
        self._drop(list(self._slots))
        self._pages = tuple(pages)
        self.overlay = self.start()
        self.tables: dict[str, Table] = self._seen(self.overlay)[0]
        self._before = self.start()
        self._tracker = None

    def start(self) -> Overlay:
        """A fresh world; its row sum is not known here."""
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
            odd = self._is_odd(overlay)
            if odd or self._odd:
                self._drop(list(self._slots))
            self._odd = odd
            self.overlay = overlay
            for slot in self._slots:
                slot.file.switch(overlay)
        for slot in self._slots:
            slot.connection.set_last_insert_rowid(0)  # of another world's call
        self._before = overlay.copy()
        self.has_moved = False
        self._strides = 0
        if self._tracker is not None:
            self._tracker.begin()

    def leave(self) -> Left:
        """End the call: nothing stays open, what was committed is told. Sets the row sum of the
        overlay that was entered."""
        stopped, self._strides = self._strides > self._max_strides, 0
        for slot in self._slots:
            slot.rest()
        for made in self.made:
            connection = made()
            if connection is not None:
                connection.settle()
        self.made.clear()
        overlay = self.overlay
        if self._tracker is None or overlay.pages == self._before.pages:
            left = Left((), overlay.total, stopped)
        elif self._odd or self._is_odd(overlay):
            left = self._compared(stopped)
        else:
            left = self._tracked(self._tracker, stopped)
        overlay.total = left.total
        self._drop([slot for slot in self._slots if slot.stained])
        self._odd = self._is_odd(overlay)
        return left

    def _tracked(self, tracker: Tracker, stopped: bool) -> Left:
        tracker.read_with(self._reader().connection)
        changes, total = tracker.net(self.overlay.total)
        if tracker.untracked:
            tables = {name: self.tables[name] for name in tracker.untracked}
            more, before, after = self._differences(tables, tables)
            changes = tuple(sorted((*changes, *more), key=change_order))
            total = (total - before + after) & _MASK
        return Left(changes, total, stopped)

    def _compared(self, stopped: bool) -> Left:
        tables = self._seen(self._before)[0] if self._odd else self.tables
        after, total = self._seen(self.overlay)
        return Left(self._differences(tables, after)[0], total, stopped)

    def _differences(
        self, tables: dict[str, Table], tables_after: dict[str, Table]
    ) -> tuple[tuple[RowChange, ...], int, int]:
        """The rows of these tables that the call changed, and their row sums before and after."""
        first, second = self._view(self._before), self._view(self.overlay)
        try:
            changes = changes_between(first, second, tables, tables_after)
            return changes, sum_of(first, tables), sum_of(second, tables_after)
        finally:
            first.close()
            second.close()

    def _seen(self, overlay: Overlay) -> tuple[dict[str, Table], int]:
        """A world's tables and row sum, read afresh."""
        connection = self._view(overlay)
        try:
            tables = tables_of(connection, _PATH)
            return tables, sum_of(connection, tables)
        finally:
            connection.close()

    def _view(self, overlay: Overlay) -> apsw.Connection:
        return self._vfs.connect(OverlayFile(self._pages, overlay))

    def _is_odd(self, overlay: Overlay) -> bool:
        page = overlay.pages.get(0)
        first = self._pages[0] if self._pages else b""
        return page is not None and not same_schema(page, first)

    # Connections -----------------------------------------------------------------------------

    def connect(self, *, isolation_level: str | None = "", detect_types: int = 0) -> Connection:
        """A connection for hosted code."""
        return Connection(self, isolation_level=isolation_level, detect_types=detect_types)

    def lend(self, connection: Connection) -> Slot:
        """A slot for this connection alone (see envpool.hosting.dbapi.connections.Source)."""
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        slot = self._spares.pop() if self._spares else self._opened()
        self._owners[slot] = weakref.ref(connection)
        return slot

    def take_back(self, slot: Slot) -> None:
        """The slot that was lent is free."""
        if slot not in self._owners:
            return
        del self._owners[slot]
        slot.rest()
        if slot.stained or slot.keys_at_rest or not slot.plain:
            self._drop([slot])
        else:
            self._spares.append(slot)

    def schema_moved(self) -> None:
        """A statement that may change the schema is about to run."""
        self.has_moved = True
        for slot in self._slots:
            slot.known.clear()

    def close(self) -> None:
        """Close the connections, those of the code too."""
        self._closed = True
        self._drop(list(self._slots))

    def _opened(self) -> Slot:
        file = SlotFile(self._pages, self.overlay)
        slot = Slot(
            self._vfs,
            file,
            chance=self._random_bytes,
            count=self._count,
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
        """A slot without tables of its own that would hide the world's."""
        slot = next((slot for slot in self._slots if not slot.stained), None)
        if slot is None:
            slot = self._opened()
            self._spares.append(slot)
        return slot

    def _drop(self, slots: list[Slot]) -> None:
        for slot in slots:
            owner = self._owners.pop(slot, None)
            connection = owner() if owner is not None else None
            if connection is not None:
                connection.lose_slot()
            self._slots.remove(slot)
            if slot in self._spares:
                self._spares.remove(slot)
            slot.close()

    def _random_bytes(self, num: int) -> bytes:
        return self.chance(num)

    def _count(self) -> bool:
        self._strides += 1
        return self._strides > self._max_strides
