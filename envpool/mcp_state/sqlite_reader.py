"""The state of a server that keeps it in an SQLite database.

After a call, the pages that were committed are found (envpool.mcp_state.database_file), then the
rows in which they may differ (envpool.mcp_state.btrees), and SQLite reads these rows from both
images. Where that cannot tell (a changed schema, a table without rowids, a virtual table, a changed
overflow page that belongs to no changed cell), the tables in question are compared row by row.
"""

import struct
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from rehearsal_room.envpool.core.errors import SeedError, WorldError
from rehearsal_room.envpool.mcp_state.btrees import (
    Malformed,
    Tree,
    cells_of,
    may_overflow,
    row_of,
    walked,
)
from rehearsal_room.envpool.mcp_state.database_file import MAX_BYTES, DatabaseFile
from rehearsal_room.envpool.mcp_state.image import Image
from rehearsal_room.envpool.mcp_state.log_mode import HeldLog, has_log
from rehearsal_room.envpool.mcp_state.rows import ImageConnection, Table, image_vfs, row_writes
from rehearsal_room.envpool.mcp_state.types import Reading, RowValues, RowWrite, TableShape
from rehearsal_room.envpool.store.guarded_vfs import MAX_VALUE, SECONDS

_NOTHING = Reading()


class Snapshot(msgspec.Struct, frozen=True):
    """A state that was read. Readers share it, and a later one only holds what differs."""

    image: Image
    tables: dict[str, Table]
    trees: dict[int, Tree]  # by root; of the schema, the tables, and virtual tables' own tables


EMPTY = Snapshot(Image(), {}, {})


class SqliteReader:
    """Reads the database of a server. It implements envpool.mcp_state.types.StateReader.

    It writes nothing, and takes no lock but that of `holds_log` (envpool.mcp_state.log_mode).
    `since` is a snapshot of an equal database at its start,
    such as another episode's: opening then reads nothing, and the first reading has what differs
    from it. Without it, opening reads the database. A file that does not exist yet is an empty
    database. Raises WorldError. Not to be used by two threads at a time.
    """

    def __init__(
        self,
        path: Path,
        *,
        since: Snapshot | None = None,
        max_bytes: int = MAX_BYTES,
        holds_log: bool = False,
    ) -> None:
        self.path = path
        self._log = HeldLog()
        self._file = DatabaseFile(path, max_bytes, held_log=self._log if holds_log else None)
        self._vfs = image_vfs()
        self._before = ImageConnection(self._vfs, path)
        self._after = ImageConnection(self._vfs, path)
        self.snapshot = since or EMPTY
        if since is None:
            try:
                self._open()
            except BaseException:
                self.close()
                raise

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """The tables, as of the last reading."""
        return tuple(table.shape for table in self.snapshot.tables.values())

    @property
    def has_log(self) -> bool:
        """Whether it is in the mode of a write-ahead log, as of the last reading."""
        image = self.snapshot.image
        return bool(image.num_pages) and has_log(image.page(1))

    def all_rows(self) -> Iterator[tuple[str, int | None, RowValues]]:
        """Table, rowid and values of every row, as of the last reading."""
        with self._readable():
            self._before.show(self.snapshot.image)
            for name, table in self.snapshot.tables.items():
                for rowid, *values in self._before.rows(table):
                    yield name, rowid, tuple(values)

    def _open(self) -> None:
        captured = self._file.capture(self.snapshot.image)
        if captured is not None:
            with self._readable():
                self.snapshot = self._snapshot(EMPTY, captured.image, None, is_same=False)
            self._before, self._after = self._after, self._before

    def remove(self) -> None:
        """Remove the database: its rows are gone at the next reading. Raises OSError."""
        self._file.remove()

    def read(self) -> Reading:
        """The net changes since the last reading."""
        old = self.snapshot
        captured = self._file.capture(old.image)
        if captured is None:
            return _NOTHING
        try:
            with self._readable():
                return self._read(old, captured.image, captured.changed)
        except BaseException:
            self._file.forget()  # the next reading compares everything again
            self._before.close()
            self._after.close()
            raise

    def _read(self, old: Snapshot, image: Image, changed: Set[int] | None) -> Reading:
        if not _is_comparable(old.image, image):
            changed = None
        is_same = changed is not None and _has_same_schema(old, image, changed)
        self._before.show(old.image)
        new = self._snapshot(old, image, changed, is_same=is_same)
        writes = self._writes(old, new, changed)
        self._before, self._after = self._after, self._before
        if not is_same:
            self._after.close()
        self.snapshot = new
        return Reading(tuple(writes), None if is_same else _shapes(old.tables, new.tables))

    def _snapshot(
        self, old: Snapshot, image: Image, changed: Set[int] | None, *, is_same: bool
    ) -> Snapshot:
        """The state that an image holds. `changed`: the pages in which it differs from `old`; None:
        their pages cannot be compared. `is_same`: they have the same schema."""
        self._after.show(image, fresh=not is_same)
        tables = old.tables if is_same else self._after.tables()
        known = old.trees if changed is not None else {}
        roots = {root for table in tables.values() for root in (table.root, *table.parts) if root}
        trees = {
            root: walked(image, root, known.get(root), changed or set())
            for root in (1, *sorted(roots))
            if image.num_pages
        }
        return Snapshot(image, tables, trees)

    def _writes(self, old: Snapshot, new: Snapshot, changed: Set[int] | None) -> list[RowWrite]:
        names = sorted(old.tables.keys() | new.tables.keys())
        rowids = self._rowids(old, new, changed) if changed is not None else None
        writes: list[RowWrite] = []
        for name in names:
            before, after = old.tables.get(name), new.tables.get(name)
            candidates = None
            if before == after and before is not None and rowids is not None:
                candidates = rowids.get(name)
                if candidates == set():
                    continue
            old_rows = self._before.identified(before, candidates) if before else {}
            new_rows = self._after.identified(after, candidates) if after else {}
            shape = (after or before).shape  # type: ignore[union-attr]
            every = (before and before.shape) != (after and after.shape)
            writes += row_writes(shape, old_rows, new_rows, every=every)
        return writes

    def _rowids(
        self, old: Snapshot, new: Snapshot, changed: Set[int]
    ) -> dict[str, set[int] | None]:
        """The rows that may differ, of each table that is the same; None: all of them."""
        found: dict[str, set[int] | None] = {}
        accounted: set[int] = set()
        for name, table in new.tables.items():
            if old.tables.get(name) != table:
                continue
            touched = False
            rowids: set[int] = set()
            for root in (table.root, *table.parts):
                if not root:
                    continue
                before, after = old.trees[root], new.trees[root]
                cells, chains = _changed_cells(old.image, new.image, before, after, changed)
                rowids |= cells
                accounted |= chains
                touched = touched or not changed.isdisjoint(before.pages | after.pages)
                touched = touched or before.pages != after.pages
            whole = touched and (table.schema.without_rowid or not table.root)
            found[name] = None if whole or table.reads_others else rowids
        accounted.update(*(tree.pages for tree in new.trees.values()))
        if may_overflow(new.image, changed, accounted):
            return dict.fromkeys(found)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._before.close()
        self._after.close()
        self._vfs.unregister()
        self._log.release()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except apsw.InterruptError as exc:
            raise WorldError(
                f"the server's database {self.path} has a table that takes more than {SECONDS:g} "
                "seconds to read"
            ) from exc
        except apsw.TooBigError as exc:
            raise WorldError(
                f"the server's database {self.path} has a value of more than {MAX_VALUE:,} bytes"
            ) from exc
        except (apsw.Error, Malformed, SeedError, struct.error, IndexError, ValueError) as exc:
            raise WorldError(f"the server's database {self.path} cannot be read: {exc}") from exc


def _changed_cells(
    old: Image, new: Image, before: Tree, after: Tree, changed: Set[int]
) -> tuple[set[int], set[int]]:
    """The rowids of the cells that differ between two versions of a tree, and the cells' overflow
    pages."""
    gone, come = (changed & before.pages), (changed & after.pages)
    if before.pages != after.pages:
        gone |= before.pages - after.pages
        come |= after.pages - before.pages
    if not (gone or come):
        return set(), set()
    old_cells, new_cells = cells_of(old, gone), cells_of(new, come)
    rowids: set[int] = set()
    chains: set[int] = set()
    for image, cells in ((old, old_cells - new_cells), (new, new_cells - old_cells)):
        for cell in cells:
            rowid, chain = row_of(image, cell)
            rowids.add(rowid)
            chains |= chain
    return rowids, chains


def _is_comparable(old: Image, new: Image) -> bool:
    """Whether cells of two images mean the same: equal page sizes and encodings."""
    if not old.num_pages or not new.num_pages:
        return False
    first, second = old.page(1), new.page(1)
    return old.page_size == new.page_size and all(
        first[part] == second[part] for part in (slice(20, 21), slice(44, 48), slice(56, 60))
    )


def _has_same_schema(old: Snapshot, image: Image, changed: Set[int]) -> bool:
    """Whether no page of the schema's table changed, but for counters in front of it."""
    if 1 in changed:
        first, second = old.image.page(1), image.page(1)
        if first[100:] != second[100:] or first[40:44] != second[40:44]:
            return False
    return changed.isdisjoint(old.trees[1].pages - {1})


def _shapes(
    old: Mapping[str, Table], new: Mapping[str, Table]
) -> dict[str, TableShape | None] | None:
    found = {name: table.shape for name, table in new.items()}
    before = {name: table.shape for name, table in old.items()}
    changed = {
        name: found.get(name)
        for name in sorted(before.keys() | found.keys())
        if before.get(name) != found.get(name)
    }
    return changed or None
