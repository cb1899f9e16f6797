"""The state of a server that keeps it in a PostgreSQL database.

PostgreSQL never changes a row in place: each version of a row has a place in the table's file
(ctid) and the transaction that wrote it (xmin), and these two name it for as long as the table
keeps this file. So a reading asks, from cheap to dear: whether any transaction ended since the last
one (`pg_current_snapshot`); whether the schema is another one; how many rows each table has, and
how many of them are of later transactions; and only then for rows. Each step is exact.

A table without a primary key has no lasting name for a row. Its rows are numbered in the order of
their values at the start; a row that comes later takes the number that an equal row had at the
start, or the next one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

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

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Version = str  # of a row: its ctid, and its xmin behind it, such as "(0,7)742"
Sequence = tuple[int, bool]  # the last value, and whether it was used
MAX_ROWS = 1_000_000
MAX_WRITTEN = 10_000  # rows of the tables that are put back; more take longer than a new process
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
    versions: dict[Identity, Version]


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
        self._at_start: dict[str, Rows] = {}  # the tables as they were then, or were filled since
        self._filled: tuple[str, ...] = ()  # the tables that were filled since the last reading
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
                found, touched = self._tables(cursor, old, tables, is_same=is_same)
        self.snapshot = PgSnapshot(str(seen), found, old.sequences)
        self._stamp = stamp
        if self._start_stamp is None:
            self._start_stamp, self._at_start = stamp, dict(found)
        self._at_start.update({name: found[name] for name in self._filled if name in found})
        self._filled = ()
        return _compared(old.tables, found, touched)

    def _tables(
        self, cursor: Cursor, old: PgSnapshot, tables: Mapping[str, PgTable], *, is_same: bool
    ) -> tuple[dict[str, Rows], dict[str, set[Identity]]]:
        """The rows of all tables, and the rows that may differ in those tables of which some were
        read. A table without changes is the same object as before. `is_same`: no type has changed,
        such as the words of an enum."""
        found: dict[str, Rows] = {}
        touched: dict[str, set[Identity]] = {}
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
            elif not table.shape.key:
                found[name] = self._whole(cursor, table)
            else:
                count = counts[name][0]
                found[name], touched[name] = _later(cursor, known[name], old.seen, count)
            if len(found[name].rows) > MAX_ROWS:
                raise WorldError(
                    f"the table {table.quoted} of the server's database {self.name} has more than "
                    f"{MAX_ROWS:,} rows"
                )
        return found, touched

    def _whole(self, cursor: Cursor, table: PgTable) -> Rows:
        """All rows of a table."""
        sql = f"SELECT {_VERSION}, {table.columns} FROM ONLY {table.quoted}"
        read = [_row(one) for one in cursor.execute(sql)]
        if table.shape.key:
            rows = {_identity(table, values): values for _, values in read}
            return Rows(table, rows, {_identity(table, values): one for one, values in read})
        name = table.shape.name
        before, start = self.snapshot.tables.get(name), self._start.tables.get(name)
        return _numbered(table, read, before, start)

    def put_back(self, start: PgSnapshot) -> bool:
        """Write the rows and sequences at the start under the running server, in one transaction;
        False: that cannot be, since the schema changed, a lock is held, the role may not turn
        triggers off, or the tables are large.

        A table that changed is emptied and filled in the order that its rows had: what reads it
        without an order reads the same."""
        now = self.snapshot.tables
        if self._stamp != self._start_stamp or now.keys() != start.tables.keys():
            return False
        changed = {name for name, one in now.items() if one is not self._at_start.get(name)}
        try:
            with self._transaction("") as cursor:
                cursor.execute("SET LOCAL session_replication_role = 'replica'")
                cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}")
                if catalog_stamp(cursor) != self._start_stamp:
                    return False
                tables = [start.tables[name] for name in _with_referring(cursor, now, changed)]
                if sum(len(one.rows) for one in tables) > MAX_WRITTEN:
                    return False
                if tables:
                    names = ", ".join(f"ONLY {one.table.quoted}" for one in tables)
                    cursor.execute(f"TRUNCATE {names}")
                for one in tables:
                    _fill(cursor, one)
                for (schema, name), value in start.sequences.items():
                    place = f"{quoted(schema)}.{quoted(name)}"
                    cursor.execute(
                        "SELECT pg_catalog.setval(%s::regclass, %s, %s)", (place, *value)
                    )
                stamp = catalog_stamp(cursor)
        except psycopg.Error:
            return False
        self._start_stamp, self._stamp = stamp, None  # the tables have other files
        self._filled = tuple(one.table.shape.name for one in tables)
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


_VERSION = "ctid::text || xmin::text"
_REFERRING = "SELECT conrelid::int8, confrelid::int8 FROM pg_constraint WHERE contype = 'f'"
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
        found[at] = count, later
    return {name: found[at] for at, name in enumerate(known)}


def _later(cursor: Cursor, old: Rows, seen: str, count: int) -> tuple[Rows, set[Identity]]:
    """The rows of a table with a key, of which some were written or removed since the transactions
    `seen`, and which rows these are. `count`: how many there are now."""
    table = old.table
    sql = f"SELECT {_VERSION}, {table.columns} FROM ONLY {table.quoted}"
    come: dict[Identity, tuple[Version, RowValues]] = {}
    for version, values in map(
        _row, cursor.execute(f"{_escaped(sql)} WHERE {_LATER}", (_oldest(seen),))
    ):
        identity = _identity(table, values)
        if old.versions.get(identity) != version:
            come[identity] = version, values
    gone = come.keys() & old.versions.keys()  # each was replaced by a version with its key
    if len(gone) != len(old.versions) + len(come) - count:
        sql = f"SELECT string_agg({_VERSION}, ' ') FROM ONLY {table.quoted}"
        ((text,),) = cursor.execute(sql).fetchall()
        there = set(str(text).split())
        gone = {one for one, version in old.versions.items() if version not in there}
    rows, versions = dict(old.rows), dict(old.versions)
    for identity in gone:
        del rows[identity], versions[identity]
    for identity, (version, values) in come.items():
        rows[identity], versions[identity] = values, version
    return Rows(table, rows, versions), gone | come.keys()


def _escaped(sql: str) -> str:
    """A part of a statement that has parameters."""
    return sql.replace("%", "%%")


def _row(one: tuple[Any, ...]) -> tuple[Version, RowValues]:
    """The version and the values of a row that was read."""
    values = one[1:]
    if any(type(value) is float for value in values):
        values = tuple(_plain(value) if type(value) is float else value for value in values)
    return one[0], values


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
    read: list[tuple[Version, RowValues]],
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
    numbered: dict[Identity, RowValues] = {}
    versions: dict[Identity, Version] = {}
    for version, values in sorted(read, key=lambda one: _order(one[1])):
        if free[values]:
            number = free[values].pop(0)
        else:
            number, following = following, following + 1
        numbered[number], versions[number] = values, version
    return Rows(table, numbered, versions)


def _compared(
    old: Mapping[str, Rows], new: Mapping[str, Rows], touched: Mapping[str, set[Identity]]
) -> Reading:
    """What differs, where only some rows of the tables `touched` may."""
    writes: list[RowWrite] = []
    shapes: dict[str, TableShape | None] = {}
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is after:
            continue
        first = before.table.shape if before else None
        second = after.table.shape if after else None
        if first != second:
            shapes[name] = second
        old_rows, new_rows = before.rows if before else {}, after.rows if after else {}
        if name in touched:
            old_rows = {one: old_rows[one] for one in touched[name] & old_rows.keys()}
            new_rows = {one: new_rows[one] for one in touched[name] & new_rows.keys()}
        shape = second or first
        assert shape is not None
        writes += row_writes(shape, old_rows, new_rows, every=first != second)
    return Reading(tuple(writes), shapes or None)


def _with_referring(
    cursor: Cursor, tables: Mapping[str, Rows], changed: Collection[str]
) -> list[str]:
    """The changed tables, and those whose foreign keys refer to them: they are emptied together."""
    names = {one.table.oid: name for name, one in tables.items()}
    found, added = set[str](), set(changed)
    referring = cursor.execute(_REFERRING, prepare=True).fetchall() if changed else []
    while added:
        found |= added
        added = {
            names[by] for by, to in referring if names.get(to) in added and by in names
        } - found
    return sorted(found)


def _fill(cursor: Cursor, start: Rows) -> None:
    """Write a table's rows at the start, in their order. Raises psycopg.Error."""
    table = start.table
    stored = [at for at, computed in enumerate(table.generated) if not computed]
    names = ", ".join(quoted(table.shape.columns[at][0]) for at in stored)
    with cursor.copy(f"COPY {table.quoted} ({names}) FROM STDIN") as copy:
        for identity in sorted(start.versions, key=lambda one: _place(start.versions[one])):
            values = start.rows[identity]
            copy.write_row([_written(values[at], table.types[at]) for at in stored])


def _place(version: Version) -> tuple[int, ...]:
    """Where a version is in the table's file: page, and number in the page."""
    return tuple(map(int, version[1:].partition(")")[0].split(",")))


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
