"""The world store: one SQLite connection serves thousands of worlds, each a few changed pages.

Written by hand because a database per world costs too much: here a new world takes 0.43 µs and
0.2 KB, and a call that switches worlds 1.3 times a call on a warm connection of its own
(docs/performance.md).

A template is the immutable list of a seeded database's pages. An Overlay is one world: the pages
that differ from the template. An OverlayFile is the file that SQLite believes it has open; point
its `current` at another overlay and the connection works on another world. SQLite decides by the
change counter in the file's header (bytes 24..27) whether its page cache is stale, so each switch
presents a new counter value: SQLite drops the page cache, but keeps the prepared statements and the
parsed schema, which are the expensive part of a connection.

Invariants:
- `current` changes only outside of a transaction.
- Pages reach an overlay at COMMIT only (memory journal, no cache spill), so a rolled-back call has
  written nothing.
- Stored pages hold no change counter (those bytes are zero), so equal work gives equal bytes.
- The file system's clock is the scenario's time: SQLite's `datetime('now')` is constant.

Sources: SQLite's file format (sqlite.org/fileformat2.html §1.3) and apsw's VFS interface.
"""

import itertools
from collections.abc import Callable, Sequence

import apsw

PAGE = 1024  # bytes; small pages keep overlays small and calls as fast (docs/performance.md)

_ZERO = b"\0\0\0\0"
_COUNTER = slice(24, 28)  # the file change counter; "version valid for" repeats it at 92..95
_vfs_numbers = itertools.count(1)


class Overlay:
    """One world's difference from its template. A copy is a fork of the world."""

    __slots__ = ("num_pages", "pages", "total")

    def __init__(self, pages: dict[int, bytes], num_pages: int, total: int) -> None:
        self.pages = pages  # page number (from 0) -> bytes
        self.num_pages = num_pages
        self.total = total  # the state's row sum (see envpool.store.digest)

    def copy(self) -> "Overlay":
        """An independent world of the same state; the pages' bytes are shared."""
        return Overlay(self.pages.copy(), self.num_pages, self.total)


class OverlayFile:
    """The open file of one connection. Its methods are SQLite's calls (see apsw.VFSFile)."""

    __slots__ = ("_counter", "_stamp", "current", "template")

    def __init__(self, template: Sequence[bytes], current: Overlay) -> None:
        self.template = template
        self.current = current
        self._counter = 1
        self._stamp = b"\0\0\0\1"

    def switch(self, overlay: Overlay) -> None:
        """Work on this world from the next transaction on."""
        if overlay is not self.current:
            self.current = overlay
            self.invalidate()

    def reload(self, overlay: Overlay) -> None:
        """Work on this world, which another connection may have written since."""
        self.current = overlay
        self.invalidate()

    def invalidate(self) -> None:
        """Make SQLite read everything again at its next transaction."""
        self._counter = (self._counter + 1) & 0xFFFFFFFF
        self._stamp = self._counter.to_bytes(4, "big")

    def _page(self, number: int) -> bytes:
        overlay = self.current
        page = overlay.pages.get(number)
        if page is None:
            if number >= len(self.template):
                return b"\0" * PAGE
            page = self.template[number]
        if number == 0:
            stamp = self._stamp
            page = page[:24] + stamp + page[28:92] + stamp + page[96:]
        return page

    def xRead(self, amount: int, offset: int) -> bytes:
        overlay = self.current
        if amount == PAGE:
            number = offset // PAGE
            if number >= overlay.num_pages:
                return b""
            if number:
                page = overlay.pages.get(number)
                if page is not None:
                    return page
                if number < len(self.template):
                    return self.template[number]
            return self._page(number)
        if overlay.num_pages == 0:
            return b""
        within = offset % PAGE
        return self._page(offset // PAGE)[within : within + amount]

    def xWrite(self, data: bytes, offset: int) -> None:
        overlay = self.current
        number = offset // PAGE
        if number == 0:
            self._counter = int.from_bytes(data[_COUNTER], "big")
            self._stamp = data[_COUNTER]
            data = data[:24] + _ZERO + data[28:92] + _ZERO + data[96:]
        overlay.pages[number] = data
        if number >= overlay.num_pages:
            overlay.num_pages = number + 1

    def xTruncate(self, size: int) -> None:
        overlay = self.current
        overlay.num_pages = size // PAGE
        for number in [number for number in overlay.pages if number >= overlay.num_pages]:
            del overlay.pages[number]

    def xFileSize(self) -> int:
        return self.current.num_pages * PAGE

    def xLock(self, level: int) -> None:
        pass

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xSync(self, flags: int) -> None:
        pass

    def xSectorSize(self) -> int:
        return PAGE

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xClose(self) -> None:
        pass


def keep_prepared_statements(connection: apsw.Connection) -> None:
    """Keep prepared statements when the values bound to them change.

    apsw's SQLite is built with STAT4, which inspects bound values and prepares a statement again
    when they change: two fifths of a tool call's time. There are no statistics here to use.
    """
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


class OverlayVFS(apsw.VFS):
    """A file system that holds only OverlayFiles, with a constant clock.

    SQL's random functions raise on its connections: they would make two equal episodes differ.
    `prepare` is called with each new connection.
    """

    def __init__(
        self, julian_day: float, prepare: Callable[[apsw.Connection], None] | None = None
    ) -> None:
        self.name = f"rehearsal-{next(_vfs_numbers)}"
        self._julian_day = julian_day
        self._prepare = prepare
        self._next: OverlayFile | None = None
        super().__init__(self.name, "")

    def connect(self, file: OverlayFile) -> apsw.Connection:
        """A connection whose database is this file. The caller closes it."""
        self._next = file
        try:
            connection = apsw.Connection(
                "world",
                flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
                vfs=self.name,
                statementcachesize=512,
            )
            keep_prepared_statements(connection)
            for pragma in (
                f"page_size={PAGE}",
                "journal_mode=MEMORY",
                "synchronous=OFF",
                "temp_store=MEMORY",
                "cache_spill=OFF",
                "foreign_keys=ON",
                "trusted_schema=OFF",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            connection.create_scalar_function("random", _refuse_randomness, 0)
            connection.create_scalar_function("randomblob", _refuse_randomness, 1)
            if self._prepare is not None:
                self._prepare(connection)
        finally:
            self._next = None
        return connection

    def xOpen(self, name: object, flags: list[int]) -> OverlayFile:  # type: ignore[override]
        if self._next is None or not flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            raise apsw.CantOpenError("a world has one file")
        return self._next

    def xAccess(self, pathname: str, flags: int) -> bool:
        return False

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        pass

    def xCurrentTime(self) -> float:
        return self._julian_day

    def xCurrentTimeInt64(self) -> int:
        return round(self._julian_day * 86_400_000)


def _refuse_randomness(*_: object) -> None:
    raise ValueError("random() and randomblob() are disabled: worlds must be deterministic")
