"""The mirror of a server's state: its rows in our own store, so that they have digests, changed
rows and stored states like those of every other world.

The mirror has the server's tables with their columns, types and keys, and nothing else of its
schema: no triggers, constraints or indexes, which would act a second time on what the server did.
A reader (envpool.mcp_state) says which rows a call has changed; the mirror writes them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import apsw

from rehearsal_room.envpool.core.errors import SeedError
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.mcp_state.types import Reading, RowWrite, TableShape
from rehearsal_room.envpool.store.changes import change_order
from rehearsal_room.envpool.store.digest import sum_after_change
from rehearsal_room.envpool.store.overlay import PAGE, Overlay, OverlayFile, OverlayVFS
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.store.template import (
    RowValues,
    TableSchema,
    Template,
    make_vfs,
    tables_of,
    template_of,
)
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario

Rows = Iterable[tuple[str, int | None, RowValues]]  # table, rowid (None: it has none), values
_PLAIN_TYPE = re.compile(r"[\w ]+(?:\(\d+(?: ?, ?\d+)?\))?", re.ASCII)
_ROWIDS = ("rowid", "oid", "_rowid_")
_EMPTY = TableShape("no_state", (("nothing", ""),), (), without_rowid=False)


class MirrorStates(States):
    """The states of a server's world, and the mirror's one connection that writes.

    `shapes` and `rows` are the state at the start. Raises SeedError.
    """

    def __init__(
        self,
        scenario: Scenario,
        tools: Iterable[ToolSpec],
        shapes: Sequence[TableShape],
        rows: Rows,
    ) -> None:
        vfs = make_vfs(scenario)
        try:
            template = _template(shapes, rows, vfs, scenario)
        except apsw.Error as exc:  # two tables of one name, say: of a database and of the folder
            vfs.unregister()
            raise SeedError(f"{scenario.path}: the state cannot be mirrored: {exc}") from exc
        except BaseException:
            vfs.unregister()
            raise
        super().__init__(scenario, template, tools, vfs)
        self._file = OverlayFile(template.pages, template.overlay())
        self._writer = vfs.connect(self._file)
        self._has_seen_others = False  # the writer knows another schema than the template's

    def apply(self, overlay: Overlay, reading: Reading) -> tuple[RowChange, ...]:
        """Write what a reading found into a world; returns the net changes, by table and key."""
        if not reading.writes and reading.shapes is None:
            return ()
        self._point_at(overlay)
        before = self._tables_of(overlay)
        with self._writer:
            after = before
            if reading.shapes is not None:
                self._has_seen_others = True
                self._reshape(before, reading.shapes)
                after = tables_of(self._writer, self.scenario.path)
            _write(self._writer, reading.writes, before, after)
        changes, overlay.total = _net(reading.writes, before, after, overlay.total)
        return changes

    def close(self) -> None:
        self._writer.close()
        super().close()

    def _point_at(self, overlay: Overlay) -> None:
        """Write this world from now on. A schema that is not the template's gets a connection of
        its own: SQLite tells schemas apart by a count of changes, which two may share."""
        is_other = self._has_changed_schema(overlay)
        if is_other or self._has_seen_others:
            self._writer.close()
            self._writer = self._vfs.connect(self._file)
        self._has_seen_others = is_other
        self._file.reload(overlay)

    def _tables_of(self, overlay: Overlay) -> dict[str, TableSchema]:
        if self._has_changed_schema(overlay):
            return tables_of(self._writer, self.scenario.path)
        return self.template.tables

    def _reshape(
        self, known: dict[str, TableSchema], shapes: Mapping[str, TableShape | None]
    ) -> None:
        """Make, drop, or make again the tables whose shapes changed: all their rows are writes."""
        for name, shape in shapes.items():
            if name in known:
                self._writer.execute(f"DROP TABLE {_quoted(name)}")
            if shape is not None:
                self._writer.execute(_ddl(shape))


def _template(
    shapes: Sequence[TableShape], rows: Rows, vfs: OverlayVFS, scenario: Scenario
) -> Template:
    file = OverlayFile((), Overlay({}, 0, 0))
    connection = vfs.connect(file)
    try:
        with connection:
            for shape in shapes or (_EMPTY,):
                connection.execute(_ddl(shape))
            tables = tables_of(connection, scenario.path)
            inserts = {name: _insert_sql(table) for name, table in tables.items()}
            for name, rowid, values in rows:
                connection.execute(inserts[name], _bindings(tables[name], rowid, values))
    finally:
        connection.close()
    world = file.current
    pages = tuple(world.pages.get(number, b"\0" * PAGE) for number in range(world.num_pages))
    return template_of(pages, vfs, scenario.path / "scenario.toml")


def _write(
    connection: apsw.Connection,
    writes: Sequence[RowWrite],
    before: dict[str, TableSchema],
    after: dict[str, TableSchema],
) -> None:
    """First what is gone, then what has come: a key may have moved from one row to another."""
    for write in writes:
        table = after.get(write.table)
        if write.before is not None and table is not None and table == before.get(write.table):
            connection.execute(_delete_sql(table), _identity(table, write.rowid, write.before))
    for write in writes:
        if write.after is not None:
            table = after[write.table]
            connection.execute(_insert_sql(table), _bindings(table, write.rowid, write.after))


def _net(
    writes: Sequence[RowWrite],
    before: dict[str, TableSchema],
    after: dict[str, TableSchema],
    total: int,
) -> tuple[tuple[RowChange, ...], int]:
    """The changes by table and key, and the row sum after them."""
    olds: dict[tuple[str, RowValues], RowValues] = {}
    news: dict[tuple[str, RowValues], RowValues] = {}
    for write in writes:
        if write.before is not None:
            total = sum_after_change(total, write.table, write.before, None)
            olds[write.table, before[write.table].key_of(write.rowid, write.before)] = write.before
        if write.after is not None:
            total = sum_after_change(total, write.table, None, write.after)
            news[write.table, after[write.table].key_of(write.rowid, write.after)] = write.after
    changes = [
        RowChange(
            row[0],
            row[1],
            before[row[0]].as_dict(olds.get(row)) if row in olds else None,
            after[row[0]].as_dict(news.get(row)) if row in news else None,
        )
        for row in olds.keys() | news.keys()
        if repr(olds.get(row)) != repr(news.get(row)) or before[row[0]] != after[row[0]]
    ]
    return tuple(sorted(changes, key=change_order)), total


def _ddl(shape: TableShape) -> str:
    """The statement that makes a table of the mirror."""
    columns = [f"{_quoted(name)} {_type(kind)}".rstrip() for name, kind in shape.columns]
    if shape.key:
        names = ", ".join(_quoted(shape.columns[position][0]) for position in shape.key)
        columns.append(f"PRIMARY KEY ({names})")
    tail = " WITHOUT ROWID" if shape.without_rowid else ""
    return f"CREATE TABLE {_quoted(shape.name)} ({', '.join(columns)}){tail}"


def _type(kind: str) -> str:
    """A column's type as declared, as far as it is a plain one: it decides how values compare."""
    return kind if _PLAIN_TYPE.fullmatch(kind) else ""


def _insert_sql(table: TableSchema) -> str:
    names = [*map(_quoted, table.columns)]
    if not table.without_rowid:
        names.insert(0, _rowid_of(table))
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {_quoted(table.name)} ({', '.join(names)}) VALUES ({marks})"


def _delete_sql(table: TableSchema) -> str:
    if not table.without_rowid:
        return f"DELETE FROM {_quoted(table.name)} WHERE {_rowid_of(table)} = ?"
    where = " AND ".join(f"{_quoted(table.columns[position])} IS ?" for position in table.key)
    return f"DELETE FROM {_quoted(table.name)} WHERE {where}"


def _identity(table: TableSchema, rowid: int | None, row: RowValues) -> RowValues:
    return tuple(row[position] for position in table.key) if table.without_rowid else (rowid,)


def _bindings(table: TableSchema, rowid: int | None, row: RowValues) -> RowValues:
    return row if table.without_rowid else (rowid, *row)


def _rowid_of(table: TableSchema) -> str:
    taken = {column.lower() for column in table.columns}
    return next(word for word in _ROWIDS if word not in taken)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
