"""The world of an episode at any turn, from the log alone: the start's database with the changed
rows of the calls until then.

No tool runs and no package is needed. The digest of the result is compared with the logged one;
where they differ (a tool changed the schema, a table's rows are not tracked), the state is shown
as not exact, except at the end, of which the log has the pages themselves.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.envpool.store.digest import hex_digest, rows_sum
from rehearsal_room.envpool.store.overlay import PAGE
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.scenarios.api import RowChange

_MAX_CHECKED = 50_000  # rows of a world whose digest is computed
_MOST_BYTES = 2**31  # of a world's database
_MAGIC = b"SQLite format 3\0"
UNKNOWN = (
    "the state of this world is unknown: the worlds of an MCP server do not reveal their rows, so"
    " only calls and results can be shown"
)


class TableShape(msgspec.Struct, frozen=True):
    """A table of a world."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[int, ...]  # positions of the primary key's columns
    references: tuple[str | None, ...]  # of each column, as `table.column`
    by_rowid: bool  # the rowid identifies a row
    has_rowid: bool

    def key_of(self, rowid: Any, row: Sequence[Any]) -> tuple[Any, ...]:
        """The key of a row, as changes of the log have it."""
        if self.by_rowid:
            return (rowid,)
        key = tuple(row[position] for position in self.key)
        return (*key, rowid) if None in key and self.has_rowid else key

    @property
    def select(self) -> str:
        """SQL that selects every row, its rowid (or NULL) in front."""
        rowid = "rowid" if self.has_rowid else "NULL"
        order = "rowid" if self.has_rowid else ", ".join(quoted(self.columns[p]) for p in self.key)
        listed = ", ".join(map(quoted, self.columns))
        return f"SELECT {rowid}, {listed} FROM {quoted(self.name)} ORDER BY {order}"


def changes_until(trajectory: Trajectory, turn: int, *, after: int = 0) -> tuple[RowChange, ...]:
    """The net changes of the turns from `after` on, before `turn`."""
    steps = trajectory.steps[after:turn]
    return net_changes(result.changes for step in steps for result in step.executed_results)


def digest_at(trajectory: Trajectory, turn: int) -> str:
    """The logged digest of the state after so many turns; empty: it is not known."""
    for step in reversed(trajectory.steps[:turn]):
        for result in reversed(step.executed_results):
            if result.digest:
                return result.digest
    return trajectory.started.start_digest


@contextmanager
def logged_world(
    trajectory: Trajectory, world: ScenarioSnapshot | None, turn: int
) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """The database after so many turns, and whether it is exactly the logged state. Raises
    SettingsError where the state is unknown."""
    if world is None or not world.image.startswith(_MAGIC) or not trajectory.started.start_digest:
        raise SettingsError(UNKNOWN)
    with closing(opened(world.image)) as database:
        if (origin := trajectory.started.origin) is not None:
            apply_changes(database, origin.changes)
        apply_changes(database, changes_until(trajectory, turn))
        expected = digest_at(trajectory, turn)
        if matches(database, expected):
            yield database, True
            return
        ended = trajectory.ended
        if turn < len(trajectory.steps) or ended is None or ended.state is None:
            yield database, False
            return
    with closing(opened(image_of(world.image, ended.state))) as database:
        yield database, True


def opened(image: bytes) -> sqlite3.Connection:
    """A database in memory, of the bytes of its file."""
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    database.deserialize(image)
    return database


def image_of(template: bytes, state: StoredState) -> bytes:
    """The file of a stored state: the template's pages with those that changed. Raises
    sqlite3.DatabaseError for a state that no database has."""
    if not 0 <= state.num_pages * PAGE <= _MOST_BYTES:
        raise sqlite3.DatabaseError(f"it has {state.num_pages:,} pages")
    image = bytearray(template[: state.num_pages * PAGE].ljust(state.num_pages * PAGE, b"\0"))
    for number, page in state.pages.items():
        if number < 1 or len(page) != PAGE:
            raise sqlite3.DatabaseError(f"page {number} has {len(page):,} bytes")
        if number <= state.num_pages:
            image[(number - 1) * PAGE : number * PAGE] = page
    return bytes(image)


def shapes_of(database: sqlite3.Connection) -> dict[str, TableShape]:
    """The tables of a database, by name."""
    kinds = database.execute(
        "SELECT l.name, l.wr FROM pragma_table_list AS l JOIN sqlite_schema AS s"
        " ON s.name = l.name AND s.type = 'table' WHERE l.schema = 'main'"
        " AND l.type IN ('table', 'virtual') AND l.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " ORDER BY l.name"
    ).fetchall()
    return {name: _shape(database, name, bool(without)) for name, without in kinds}


def _shape(database: sqlite3.Connection, name: str, without_rowid: bool) -> TableShape:
    found = database.execute(
        "SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1", (name,)
    ).fetchall()
    foreign = {
        column: f"{table}.{to}" if to else str(table)
        for column, table, to in database.execute(
            'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (name,)
        )
    }
    keyed = sorted((pk, position) for position, (_, _, pk) in enumerate(found) if pk)
    origins = database.execute("SELECT origin FROM pragma_index_list(?)", (name,)).fetchall()
    has_key_index = ("pk",) in origins
    return TableShape(
        name,
        tuple(column for column, _, _ in found),
        tuple(kind for _, kind, _ in found),
        tuple(position for _, position in keyed),
        tuple(foreign.get(column) for column, _, _ in found),
        by_rowid=not without_rowid and not has_key_index,
        has_rowid=not without_rowid,
    )


def apply_changes(database: sqlite3.Connection, changes: Iterable[RowChange]) -> None:
    """Make the changed rows what they became; nothing else follows from it."""
    listed = list(changes)
    if not listed:
        return
    shapes = shapes_of(database)
    triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
    for (name,) in database.execute(triggers).fetchall():
        database.execute(f"DROP TRIGGER {quoted(name)}")
    database.execute("PRAGMA ignore_check_constraints = ON")
    for change in listed:
        if (shape := shapes.get(change.table)) is None:  # a tool made the table
            shape = shapes[change.table] = _made(database, change)
        where, values = _identity(shape, change.key)
        database.execute(f"DELETE FROM {quoted(shape.name)} WHERE {where}", values)
    for change in listed:
        if change.after is not None:
            _insert(database, shapes[change.table], change)


def matches(database: sqlite3.Connection, digest: str) -> bool:
    """Whether the rows of a database have this digest; taken for granted where there are too many
    of them."""
    total = number = 0
    for shape in shapes_of(database).values():
        rows = [tuple(row[1:]) for row in database.execute(shape.select)]
        number += len(rows)
        if number > _MAX_CHECKED:
            return True
        total += rows_sum(shape.name, rows)
    return hex_digest(total & ((1 << 128) - 1)) == digest


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _made(database: sqlite3.Connection, change: RowChange) -> TableShape:
    columns = tuple(change.after or change.before or {})
    listed = ", ".join(map(quoted, columns)) or "nothing"
    database.execute(f"CREATE TABLE {quoted(change.table)} ({listed})")
    return _shape(database, change.table, without_rowid=False)


def _identity(shape: TableShape, key: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    if shape.by_rowid or len(key) > len(shape.key):
        return "rowid = ?", (key[-1],)
    where = " AND ".join(f"{quoted(shape.columns[position])} IS ?" for position in shape.key)
    return where, key


def _insert(database: sqlite3.Connection, shape: TableShape, change: RowChange) -> None:
    row = dict(change.after or {})
    names = [quoted(name) for name in row]
    values = list(row.values())
    is_alias = len(shape.key) == 1 and shape.types[shape.key[0]].upper() == "INTEGER"
    if shape.by_rowid and not is_alias:
        names.insert(0, "rowid")
        values.insert(0, change.key[0])
    marks = ", ".join("?" * len(values))
    sql = f"INSERT OR REPLACE INTO {quoted(shape.name)} ({', '.join(names)}) VALUES ({marks})"
    database.execute(sql, values)
