"""The state of a server that keeps it in a PostgreSQL database.

PostgreSQL never changes a row in place: each version of a row has a place in the table's file
(ctid) and the transaction that wrote it (xmin), and these two name it for as long as the table keeps
this file. So a reading asks, from cheap to dear: whether any transaction ended since the last one
(`pg_current_snapshot`); whether the schema is another one; how many rows each table has, and how
many of them are of later transactions; and only then for rows. Each step is exact.

A table without a primary key has no lasting name for a row. Its rows are numbered in the order of
their values at the start; a row that comes later takes the number that an equal row had at the
start, or the next one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.postgres_catalog import (
    Cursor,
    PgTable,
    Stamp,
    catalog_stamp,
    quoted,
    tables_of,
)
from rehearsal_room.envpool.mcp_state.rows import Identity, row_writes
from rehearsal_room.envpool.mcp_state.types import Reading, RowValues, RowWrite, TableShape

Connection = psycopg.Connection[tuple[Any, ...]]
Sequence = tuple[int, bool]  # the last value, and whether it was used
MAX_ROWS = 1_000_000
_NOTHING = Reading()
_LOCK_MS = 200
_SNAPSHOT = "SELECT pg_catalog.pg_current_snapshot()::text"
_SEQUENCES = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n
ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND n.nspname !~ '^pg_' ORDER BY 1, 2
"""


class Rows(msgspec.Struct, frozen=True):
    """The rows of one table."""

    table: PgTable
    rows: dict[Identity, RowValues]
    versions: dict[str, tuple[str, Identity]]  # by ctid: xmin, and the row


class PgSnapshot(msgspec.Struct, frozen=True):
    """A state that was read. Readers share it."""

    seen: str  # the transactions that had ended, as PostgreSQL writes them
    tables: dict[str, Rows]
    sequences: dict[tuple[str, str], Sequence]  # by schema and name


EMPTY = PgSnapshot("", {}, {})


class PostgresReader:
    """Reads the database of a server. It implements envpool.mcp_state.types.StateReader.

    `connection` is one of its own, in autocommit. `since` is the snapshot of another copy of the
    same database, at its start: the first reading has what differs from it. Raises WorldError. Not
    to be used by two threads at a time.
    """

    def __init__(self, connection: Connection, *, since: PgSnapshot | None = None) -> None:
        self._connection = connection
        self.name = connection.info.dbname
        self.snapshot = EMPTY
        self._stamp: Stamp | None = None  # of the schema at the last reading
        self._start_stamp: Stamp | None = None  # at the first one
        self._start = since or EMPTY
        if since is None:
            self.read()
            with self._readable():
                sequences = self._sequences()
            self.snapshot = msgspec.structs.replace(self.snapshot, sequences=sequences)
            self._start = self.snapshot
        else:
            self.snapshot = msgspec.structs.replace(since, seen=f"{since.seen} elsewhere")

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """The tables, as of the last reading."""
        return tuple(one.table.shape for one in self.snapshot.tables.values())

    def all_rows(self) -> Iterator[tuple[str, int | None, RowValues]]:
        """Table, rowid and values of every row, as of the last reading."""
        for name, table in self.snapshot.tables.items():
            for identity, values in table.rows.items():
                yield name, identity if isinstance(identity, int) else None, values

    def read(self) -> Reading:
        """The net changes since the last reading."""
        old = self.snapshot
        with self._readable():
            if self._connection.execute(_SNAPSHOT, prepare=True).fetchone() == (old.seen,):
                return _NOTHING
            with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
                ((seen,),) = cursor.execute(_SNAPSHOT, prepare=True).fetchall()
                stamp = catalog_stamp(cursor)
                is_same = stamp == self._stamp
                if is_same:
                    tables = {name: one.table for name, one in old.tables.items()}
                else:
                    tables = tables_of(cursor, self.name)
                found = self._tables(cursor, old, tables, is_same=is_same)
        self.snapshot = PgSnapshot(str(seen), found, old.sequences)
        self._stamp = stamp
        self._start_stamp = self._start_stamp or stamp
        return _compared(old.tables, found)

    def _tables(
        self, cursor: Cursor, old: PgSnapshot, tables: Mapping[str, PgTable], *, is_same: bool
    ) -> dict[str, Rows]:
        """The rows of all tables; those of a table without changes are the same object as before.
        `is_same`: no type has changed, such as the words of an enum."""
        found: dict[str, Rows] = {}
        known = {
            name: old.tables[name]
            for name, table in tables.items()
            if name in old.tables
            and old.tables[name].table == table
            and (is_same or all(table.types))
        }
        counts = _counts(cursor, known, old.seen) if known else {}
        for name, table in tables.items():
            if name not in known:
                found[name] = self._whole(cursor, table)
            elif counts[name] == (len(known[name].versions), 0):
                found[name] = known[name]
            else:
                found[name] = self._later(cursor, known[name], old.seen, counts[name][0])
            if len(found[name].rows) > MAX_ROWS:
                raise WorldError(
                    f"the table {table.quoted} of the server's database {self.name} has more than "
                    f"{MAX_ROWS:,} rows"
                )
        return found

    def _whole(self, cursor: Cursor, table: PgTable) -> Rows:
        """All rows of a table."""
        sql = f"SELECT ctid::text, xmin::text, {table.columns} FROM ONLY {table.quoted}"
        read = [_row(one) for one in cursor.execute(sql)]
        if table.shape.key:
            rows = {_identity(table, values): values for _, _, values in read}
            versions = {ctid: (xmin, _identity(table, values)) for ctid, xmin, values in read}
            return Rows(table, rows, versions)
        name = table.shape.name
        before, start = self.snapshot.tables.get(name), self._start.tables.get(name)
        return _numbered(table, read, before, start)

    def _later(self, cursor: Cursor, old: Rows, seen: str, count: int) -> Rows:
        """The rows of a table of which some were written or removed."""
        table = old.table
        if not table.shape.key:
            return self._whole(cursor, table)
        sql = f"SELECT ctid::text, xmin::text, {table.columns} FROM ONLY {table.quoted}"
        read = cursor.execute(f"{_escaped(sql)} WHERE {_LATER}", (_oldest(seen),))
        come: dict[str, tuple[str, RowValues]] = {}
        for ctid, xmin, values in map(_row, read):
            if old.versions.get(ctid, ("",))[0] != xmin:
                come[ctid] = (xmin, values)
        rows, versions = dict(old.rows), dict(old.versions)
        for ctid in _gone(cursor, old, come, count):
            del rows[versions.pop(ctid)[1]]
        for ctid, (xmin, values) in come.items():
            identity = _identity(table, values)
            rows[identity], versions[ctid] = values, (xmin, identity)
        return Rows(table, rows, versions)

    def put_back(self, start: PgSnapshot) -> bool:
        """Write the rows and sequences at the start under the running server, in one transaction;
        False: that cannot be, since the schema changed, a lock is held, or the role may not turn
        triggers off."""
        now = self.snapshot.tables
        if self._stamp != self._start_stamp or now.keys() != start.tables.keys():
            return False
        try:
            with self._transaction("") as cursor:
                cursor.execute("SET LOCAL session_replication_role = 'replica'")
                cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}")
                for name, table in now.items():
                    if table.rows is not start.tables[name].rows:
                        _delete(cursor, table, start.tables[name])
                for name, table in now.items():
                    if table.rows is not start.tables[name].rows:
                        _insert(cursor, table, start.tables[name])
                for (schema, name), value in start.sequences.items():
                    place = f"{quoted(schema)}.{quoted(name)}"
                    cursor.execute("SELECT pg_catalog.setval(%s::regclass, %s, %s)", (place, *value))
        except (psycopg.Error, _Moved):
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _sequences(self) -> dict[tuple[str, str], Sequence]:
        found: dict[tuple[str, str], Sequence] = {}
        for schema, name in self._connection.execute(_SEQUENCES).fetchall():
            sql = f"SELECT last_value, is_called FROM {quoted(schema)}.{quoted(name)}"
            ((value, is_called),) = self._connection.execute(sql).fetchall()
            found[schema, name] = value, is_called
        return found

    @contextmanager
    def _transaction(self, how: str) -> Iterator[Cursor]:
        with self._connection.cursor() as cursor:
            cursor.execute(f"BEGIN {how}")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if not self._connection.closed:
                    self._connection.rollback()
                raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as exc:
            raise WorldError(
                f"the server's database {self.name} cannot be read: {first_line(exc)}"
            ) from exc


class _Moved(Exception):
    """A row is not where it was."""


_LATER = "pg_catalog.age(xmin) <= pg_catalog.age(%s::xid)"


def _oldest(seen: str) -> str:
    """The transaction before which all had ended. PostgreSQL writes 64 bits, and rows have 32."""
    return str(int(seen.partition(":")[0]) % 2**32)


def _counts(cursor: Cursor, known: Mapping[str, Rows], seen: str) -> dict[str, tuple[int, int]]:
    """By table: its rows, and those of them that later transactions wrote."""
    sql = " UNION ALL ".join(
        f"SELECT {at}, count(*), count(*) FILTER (WHERE {_LATER}) FROM ONLY "
        + _escaped(rows.table.quoted)
        for at, rows in enumerate(known.values())
    )
    found: dict[int, tuple[int, int]] = {}
    oldest = (_oldest(seen),) * len(known)
    for at, count, later in cursor.execute(sql, oldest, prepare=True).fetchall():
        found[at] = count, later  # type: ignore[index,assignment]
    return {name: found[at] for at, name in enumerate(known)}


def _gone(
    cursor: Cursor, old: Rows, come: Mapping[str, tuple[str, RowValues]], count: int
) -> list[str]:
    """The places of the versions that are no longer there."""
    number = len(old.versions) + len(come) - count
    if not number:
        return []
    keys = {_identity(old.table, values) for _, values in come.values()} & old.rows.keys()
    if len(keys) == number:  # each was replaced by a version with its key
        return [ctid for ctid, (_, identity) in old.versions.items() if identity in keys]
    sql = f"SELECT ctid::text, xmin::text FROM ONLY {old.table.quoted}"
    there = dict(cursor.execute(sql).fetchall())  # type: ignore[arg-type]
    return [ctid for ctid, (xmin, _) in old.versions.items() if there.get(ctid) != xmin]


def _escaped(sql: str) -> str:
    """A part of a statement that has parameters."""
    return sql.replace("%", "%%")


def _row(one: tuple[Any, ...]) -> tuple[str, str, RowValues]:
    """Place, transaction and values of a row that was read."""
    ctid, xmin, *values = one
    return ctid, xmin, tuple(_plain(value) if type(value) is float else value for value in values)


def _plain(value: float) -> float | str:
    """A float as the mirror can hold it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value + 0.0  # -0.0 becomes 0.0


def _identity(table: PgTable, values: RowValues) -> Identity:
    return tuple(values[at] for at in table.shape.key)


def _order(values: RowValues) -> tuple[tuple[str, str], ...]:
    return tuple((type(value).__name__, repr(value)) for value in values)


def _numbered(
    table: PgTable,
    read: list[tuple[str, str, RowValues]],
    before: Rows | None,
    start: Rows | None,
) -> Rows:
    """The rows of a table without a key: they have the numbers of equal rows, as far as there are
    such, and those that came have others."""
    same_shape = before is not None and before.table.shape == table.shape
    known = before.rows if before is not None and same_shape else {}
    first = start.rows if start is not None and start.table.shape == table.shape else {}
    free: defaultdict[RowValues, list[int]] = defaultdict(list)
    for rows in (known, first):
        for number, values in sorted(rows.items()):
            if number not in free[values]:
                free[values].append(number)
    following = max((*known, *first, 0)) + 1
    rows: dict[Identity, RowValues] = {}  # type: ignore[no-redef]
    versions: dict[str, tuple[str, Identity]] = {}
    for ctid, xmin, values in sorted(read, key=lambda one: _order(one[2])):
        if free[values]:
            number = free[values].pop(0)
        else:
            number, following = following, following + 1
        rows[number], versions[ctid] = values, (xmin, number)
    return Rows(table, rows, versions)


def _compared(old: Mapping[str, Rows], new: Mapping[str, Rows]) -> Reading:
    writes: list[RowWrite] = []
    shapes: dict[str, TableShape | None] = {}
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is after:
            continue
        first, second = before and before.table.shape, after and after.table.shape
        if first != second:
            shapes[name] = second
        old_rows, new_rows = before.rows if before else {}, after.rows if after else {}
        shape = second or first
        assert shape is not None
        writes += row_writes(shape, old_rows, new_rows, every=first != second)
    return Reading(tuple(writes), shapes or None)


def _delete(cursor: Cursor, now: Rows, start: Rows) -> None:
    """Remove the rows that are not those of the start. Raises psycopg.Error and _Moved."""
    places = [
        ctid
        for ctid, (_, identity) in now.versions.items()
        if start.rows.get(identity) != now.rows[identity]
    ]
    if places:
        cursor.execute(f"DELETE FROM ONLY {_escaped(now.table.quoted)} WHERE ctid = ANY(%s::tid[])", (places,))
        if cursor.rowcount != len(places):
            raise _Moved


def _insert(cursor: Cursor, now: Rows, start: Rows) -> None:
    """Insert the rows of the start that are missing. Raises psycopg.Error."""
    table = now.table
    stored = [at for at, computed in enumerate(table.generated) if not computed]
    missing = [
        [_written(values[at], table.types[at]) for at in stored]
        for identity, values in start.rows.items()
        if now.rows.get(identity) != values
    ]
    if missing:
        names = ", ".join(quoted(table.shape.columns[at][0]) for at in stored)
        sql = _escaped(f"INSERT INTO {table.quoted} ({names})")
        marks = ", ".join(["%s"] * len(stored))
        cursor.executemany(f"{sql} OVERRIDING SYSTEM VALUE VALUES ({marks})", missing)


def _written(value: Any, kind: str) -> str | bytes | None:
    """A value as PostgreSQL reads it for a column of this type."""
    if value is None or isinstance(value, bytes):
        return value
    if kind == "bool":
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def first_line(error: Exception) -> str:
    """What PostgreSQL says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
