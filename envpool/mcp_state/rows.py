"""Rows out of an image, read by SQLite: the tables, their rows, and what differs in two images."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from rehearsal_room.envpool.mcp_state.image import Image
from rehearsal_room.envpool.mcp_state.types import RowValues, RowWrite, TableShape
from rehearsal_room.envpool.store.guarded_vfs import GuardedVFS
from rehearsal_room.envpool.store.overlay import Overlay, OverlayFile
from rehearsal_room.envpool.store.template import TableSchema, tables_of

_DAY = 2_451_544.5  # 2000-01-01 as a Julian day: no row depends on the time
_ENCODINGS = {2: "utf-16-le", 3: "utf-16-be"}  # by the number in the first page; else UTF-8
_encode = msgspec.msgpack.Encoder().encode  # 1 and 1.0, 0.0 and -0.0 are equal, but not their bytes

_MODULE = re.compile(r"\busing\s+['\"`\[]?(\w+)", re.IGNORECASE)

Identity = Any  # of a row: its rowid, or its key where there are no rowids


class Table(msgspec.Struct, frozen=True):
    """A table, and what tells whether a later one of this name is the same."""

    shape: TableShape
    schema: TableSchema
    sql: str
    root: int  # 0: it is a virtual table
    parts: tuple[int, ...] = ()  # the roots of a virtual table's own tables
    reads_others: bool = False  # it is a virtual table that shows other tables' rows


class ImageFile(OverlayFile):
    """The open file of one connection that reads an image."""

    __slots__ = ("image",)

    def __init__(self) -> None:
        super().__init__((), Overlay({}, 0, 0))
        self.image = Image()

    def show(self, image: Image) -> None:
        """Read this image from the next statement on."""
        if image is not self.image:
            self.image = image
            self.invalidate()

    def xRead(self, amount: int, offset: int) -> bytes:
        if not self.image.num_pages:
            return b""
        index, within = divmod(offset, self.image.chunk)
        chunks = self.image.chunks
        if index:
            return chunks[index][within : within + amount] if index < len(chunks) else b""
        if offset >= 100:
            return chunks[0][within : within + amount]
        # The reader shows no journal, so the database is shown as one that keeps none (18 and 19).
        page, stamp = chunks[0], self._stamp
        head = page[:18] + b"\1\1" + page[20:24] + stamp + page[28:92] + stamp + page[96:100]
        return (head + page[100 : max(offset + amount, 100)])[offset : offset + amount]

    def xFileSize(self) -> int:
        return self.image.num_pages * self.image.page_size

    def xWrite(self, data: bytes, offset: int) -> None:
        raise apsw.ReadOnlyError("an image is not written")


class _MissingModule:
    """Stands in for a module of virtual tables that this SQLite lacks."""

    def Create(self, *_: object) -> tuple[str, object]:
        return "CREATE TABLE missing (value)", self

    Connect = Create

    def BestIndex(self, *_: object) -> None:
        pass

    def Disconnect(self) -> None:
        pass

    Destroy = Disconnect


class ImageConnection:
    """A connection that reads images, one after the other."""

    def __init__(self, vfs: GuardedVFS, path: Path) -> None:
        self.file = ImageFile()
        self._vfs, self._path = vfs, path
        self._connection: apsw.Connection | None = None  # None: it is not open

    def show(self, image: Image, *, fresh: bool = False) -> None:
        """Read this image from now on. `fresh`: its schema may be another one."""
        if fresh:
            self.close()
        self.file.show(image)

    def close(self) -> None:
        """Close the connection; the next statement opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def execute(self, sql: str, bindings: tuple[Any, ...] = ()) -> apsw.Cursor:
        """A statement, which has the time that GuardedVFS allows it."""
        self._vfs.restart_timer()
        return self._open().execute(sql, bindings)

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = self._vfs.connect(self.file)
            self._connection.execute("PRAGMA query_only=ON").fetchall()
            self._connection.execute("PRAGMA cell_size_check=ON").fetchall()
            self._connection.execute("PRAGMA cache_size=-1024").fetchall()
        return self._connection

    def tables(self) -> dict[str, Table]:
        """The tables of the image."""
        if not self.file.image.num_pages:
            return {}
        found = {
            str(name): (int(root or 0), str(sql))
            for name, root, sql in self.execute(
                "SELECT name, rootpage, sql FROM sqlite_schema WHERE type = 'table'"
            )
        }
        tables = {}
        for name, schema in self._schemas().items():
            root, sql = found[name]
            types = {
                str(column): str(kind)
                for _, column, kind, *_ in self.execute(f"PRAGMA table_xinfo({_quoted(name)})")
            }
            columns = tuple((column, types[column]) for column in schema.columns)
            shape = TableShape(name, columns, schema.key, schema.without_rowid)
            parts = tuple(found[part][0] for part in schema.shadows)
            others = not root and re.search(r"\bcontent\s*=", sql, re.IGNORECASE) is not None
            tables[name] = Table(shape, schema, sql, root, parts, others or not (root or parts))
        return tables

    def _schemas(self) -> dict[str, TableSchema]:
        """The tables that can be read. One whose module is not there is left out; the tables in
        which that module keeps its rows are seen as any other's."""
        missing: list[str] = []
        while True:
            connection = self._open()
            try:
                tables = tables_of(connection, self._path)
                break
            except apsw.SQLError as exc:
                module = str(exc).rpartition("no such module: ")[2]
                if module == str(exc) or module in missing:
                    raise
                missing.append(module)
                connection.create_module(module, _MissingModule())  # type: ignore[arg-type]
        virtual = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND rootpage = 0"
        for name, sql in self.execute(virtual).fetchall():
            used = _MODULE.search(str(sql))
            if name in tables and not (
                used and used[1] not in missing and self._is_readable(tables[name])
            ):
                del tables[name]
        return tables

    def _is_readable(self, schema: TableSchema) -> bool:
        """Whether a virtual table shows anything: an index of a dropped table does not."""
        try:
            self.execute(f"{schema.select_all} LIMIT 1").fetchall()
        except apsw.SQLError:
            return False
        except UnicodeDecodeError:
            pass
        return True

    def rows(self, table: Table, rowids: Iterable[int] | None = None) -> Iterator[RowValues]:
        """Rowid (or None) and values of the rows of a table, or of those with these rowids. A text
        that is not Unicode comes as its bytes."""
        schema, where = table.schema, ""
        bindings: tuple[Any, ...] = ()
        if rowids is not None:
            where = f" WHERE {schema.order} IN (SELECT value FROM json_each(?))"
            bindings = (msgspec.json.encode(list(rowids)).decode(),)
        try:
            yield from self.execute(schema.select_identified + where, bindings).fetchall()
        except UnicodeDecodeError:
            yield from self._decoded(schema, where, bindings)

    def _decoded(
        self, schema: TableSchema, where: str, bindings: tuple[Any, ...]
    ) -> Iterator[RowValues]:
        """The same where a text is not Unicode."""
        number = int.from_bytes(self.file.image.page(1)[56:60], "big")
        encoding = _ENCODINGS.get(number, "utf-8")
        names = [_quoted(column) for column in schema.columns]
        listed = ", ".join(
            f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name}), typeof({name}) = 'text'"
            for name in names
        )
        rowid = "NULL" if schema.without_rowid else schema.order
        sql = f"SELECT {rowid}, {listed} FROM {_quoted(schema.name)}{where}"
        for found, *values in self.execute(sql, bindings):
            pairs = zip(values[::2], values[1::2], strict=True)
            yield (found, *(_text(value, encoding) if text else value for value, text in pairs))

    def identified(
        self, table: Table, rowids: Iterable[int] | None = None
    ) -> dict[Identity, RowValues]:
        """The same rows, by rowid or key."""
        if not table.schema.without_rowid:
            return {row[0]: row[1:] for row in self.rows(table, rowids)}
        key = table.shape.key
        return {tuple(row[1 + at] for at in key): row[1:] for row in self.rows(table)}


def row_writes(
    table: TableShape,
    old: dict[Identity, RowValues],
    new: dict[Identity, RowValues],
    *,
    every: bool = False,
) -> list[RowWrite]:
    """The rows that differ, or every row: deleted ones first, then changed ones, then new ones,
    each by rowid or key. Written in this order they give equal pages in every process."""
    groups: tuple[list[RowWrite], ...] = ([], [], [])
    differing = [
        identity
        for identity in old.keys() | new.keys()
        if every or _encode(old.get(identity)) != _encode(new.get(identity))
    ]
    for identity in sorted(differing, key=_order):
        before, after = old.get(identity), new.get(identity)
        rowid = identity if isinstance(identity, int) else None
        group = groups[0 if after is None else 1 if before is not None else 2]
        group.append(RowWrite(table.name, rowid, before, after))
    return [write for group in groups for write in group]


def _order(identity: Identity) -> tuple[int, bytes]:
    return (identity, b"") if isinstance(identity, int) else (0, _encode(identity))


def _text(value: bytes, encoding: str) -> str | bytes:
    try:
        return value.decode(encoding)
    except UnicodeDecodeError:
        return value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def image_vfs() -> GuardedVFS:
    """A file system for the connections of one reader. The caller unregisters it."""
    return GuardedVFS(_DAY)
