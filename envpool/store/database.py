"""The Db of tools and the State of verifiers, over one apsw connection.

No statement stays half-read: a cursor that is kept alive would hold its read transaction open, and
the connection would then show that world to the calls of other worlds. Tracebacks keep frames alive
with their cursors, and so do monitors, profilers and debuggers. So what may be half-read is closed
here, and never left to the last reference.
"""

from collections.abc import Sequence
from typing import Any

import apsw

from rehearsal_room.scenarios.api import Row, RowChange, SqlValue, User


class Database:
    """Rows as dicts, from one connection. It implements scenarios.api.Db."""

    __slots__ = ("_connection", "_execute", "_names", "now", "user")

    def __init__(self, connection: apsw.Connection, now: str, user: User) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._names: dict[str, tuple[str, ...]] = {}  # SQL text -> its columns' names
        self.now = now
        self.user = user

    def all(self, sql: str, /, *params: SqlValue) -> list[Row]:
        cursor = self._execute(sql, params)
        try:
            names = self._names.get(sql)
            if names is None:
                first = cursor.fetchone()
                if first is None:
                    return []
                names = self._remember_columns(sql, cursor)
                return [dict(zip(names, row, strict=True)) for row in (first, *cursor)]
            return [dict(zip(names, row, strict=True)) for row in cursor]
        except BaseException:
            cursor.close(True)
            raise

    def one(self, sql: str, /, *params: SqlValue) -> Row | None:
        cursor = self._execute(sql, params)
        try:
            row = cursor.fetchone()
            if row is None:
                return None
            names = self._names.get(sql) or self._remember_columns(sql, cursor)
        finally:
            cursor.close(True)
        return dict(zip(names, row, strict=True))

    def value(self, sql: str, /, *params: SqlValue) -> Any:
        cursor = self._execute(sql, params)
        try:
            row = cursor.fetchone()
        finally:
            cursor.close(True)
        return None if row is None else row[0]

    def run(self, sql: str, /, *params: SqlValue) -> int:
        self._execute(sql, params)
        return self._connection.changes()

    def insert(self, table: str, /, **values: SqlValue) -> int:
        columns = ", ".join(map(_quoted, values))
        marks = ", ".join("?" * len(values))
        sql = f"INSERT INTO {_quoted(table)} ({columns}) VALUES ({marks})"
        self._execute(sql, tuple(values.values()))
        return self._connection.last_insert_rowid()

    def execute(self, sql: str, params: Sequence[SqlValue] = (), /) -> list[tuple[Any, ...]]:
        cursor = self._execute(sql, params)
        try:
            return cursor.fetchall()
        except BaseException:
            cursor.close(True)
            raise

    def _remember_columns(self, sql: str, cursor: apsw.Cursor) -> tuple[str, ...]:
        names = tuple(str(column[0]) for column in cursor.get_description())
        self._names[sql] = names
        return names


class StateView(Database):
    """One state of a world, read-only. It implements scenarios.api.State."""

    __slots__ = ("changes",)

    def __init__(self, connection: apsw.Connection, now: str, user: User) -> None:
        super().__init__(connection, now, user)
        self.changes: tuple[RowChange, ...] = ()


def _quoted(name: str) -> str:
    """A name as SQL has it. Tools may pass on names of columns that an agent chose."""
    return '"' + name.replace('"', '""') + '"'
