"""Cursors of connections to a world: each statement is executed and its rows are read at once."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

import apsw

from rehearsal_room.envpool.hosting.dbapi.errors import as_sqlite3
from rehearsal_room.envpool.hosting.dbapi.rows import (
    FetchedRows,
    convert_rows,
    statement_info,
    stdlib_cursor,
)
from rehearsal_room.envpool.hosting.dbapi.slots import Slot, StatementInfo
from rehearsal_room.envpool.hosting.dbapi.statements import (
    CHANGE,
    is_empty,
    is_more_than_one,
    kind_of,
    statements_of,
)

_MAX_STATEMENTS = 2000  # that a slot remembers; hosted code may produce texts without end
_PARAMETER_ERRORS = (apsw.BindingsError, TypeError, KeyError, OverflowError, UnicodeError)
_COMMON_TYPES = frozenset({tuple, dict, list})


class CursorConnection(Protocol):
    """What a cursor needs of its connection (see envpool.hosting.dbapi.connections)."""

    detect_types: int
    text_factory: Callable[[bytes], Any]
    closed: bool

    def slot(self) -> Slot:
        """The connection's slot. Raises sqlite3.ProgrammingError when the connection is closed."""

    def before_statement(self, slot: Slot, sql: str, kind: int) -> bool:
        """Do what must precede a statement of this kind; return whether a transaction was begun."""

    def restart_transaction(self, slot: Slot) -> None:
        """Begin the transaction that was just begun again, so that it holds no lock."""

    def schema_may_differ(self) -> bool:
        """Whether the slot's view of the world's schema may be outdated."""

    def commit(self) -> None:
        """Commit the open transaction, if there is one."""


class Cursor:
    """The result of a statement, read completely; isinstance reports `sqlite3.Cursor`."""

    __slots__ = (
        "__weakref__",
        "_closed",
        "_next",
        "_num_changed",
        "_rows",
        "arraysize",
        "connection",
        "description",
        "lastrowid",
        "row_factory",
        "rowcount",
    )

    def __init__(self, connection: CursorConnection) -> None:
        self.connection = connection
        self.row_factory: Callable[[Any, Any], Any] | None = None
        self.arraysize = 1
        self.description: tuple[Any, ...] | None = None
        self.lastrowid: int | None = None
        self.rowcount = -1
        self._rows: FetchedRows = []
        self._next = 0  # index of the first row that was not fetched yet
        self._num_changed = -1  # `rowcount` after all rows have been fetched
        self._closed = False

    def __repr__(self) -> str:
        return f"<Cursor in a world [{len(self._rows) - self._next} rows to fetch]>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return sqlite3.Cursor

    def execute(self, sql: str, parameters: Any = (), /) -> "Cursor":
        """Execute one statement. Raises sqlite3.Error."""
        slot = self._begin_statement()
        if type(parameters) not in _COMMON_TYPES and not _is_sequence(parameters):
            raise sqlite3.ProgrammingError("parameters are of unsupported type")
        info = slot.statements.get(sql)
        if info is None:
            self._execute_new(slot, sql, parameters)
            return self
        began = self.connection.before_statement(slot, sql, info.kind) if info.kind else False
        try:
            self._rows = slot.execute(sql, parameters).fetchall()
        except Exception as exc:
            fault = as_sqlite3(exc, slot.connection, sql, parameters)
            if began and isinstance(exc, _PARAMETER_ERRORS):
                self.connection.restart_transaction(slot)
            raise fault from None
        self._finish(slot, info)
        return self

    def _begin_statement(self) -> Slot:
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed cursor.")
        slot = self.connection.slot()
        self._rows, self._next, self._num_changed = [], 0, -1
        self.description, self.rowcount = None, -1
        return slot

    def _execute_new(self, slot: Slot, sql: str, parameters: Any) -> None:
        """Execute a statement that the slot does not know yet, and record its columns."""
        if not isinstance(sql, str):
            raise TypeError(f"execute() argument 1 must be str, not {type(sql).__name__}")
        if is_empty(sql):
            return
        kind, many = kind_of(sql), is_more_than_one(sql)
        if self.connection.schema_may_differ() and not slot.connection.in_transaction:
            _refresh_schema(slot)  # in a transaction it would take the lock
        began = self.connection.before_statement(slot, sql, kind)
        info: StatementInfo | None = None

        def trace(cursor: Any, _sql: str, _parameters: Any) -> bool:
            nonlocal info
            if info is None:  # else it is called for a comment after the statement
                info = statement_info(kind, cursor.get_description(), self.connection.detect_types)
            return not many

        cursor = slot.connection.cursor()
        cursor.exec_trace = trace
        try:
            self._rows = cursor.execute(sql, parameters, can_cache=False).fetchall()
        except Exception as exc:
            cursor.close(True)  # the traceback keeps it alive, and with it the statement's lock
            fault = as_sqlite3(exc, slot.connection, sql, parameters)
            of_parameters = isinstance(exc, _PARAMETER_ERRORS)
            prepared = info is not None or of_parameters
            if prepared and many:
                fault = sqlite3.ProgrammingError("You can only execute one statement at a time.")
            if began and (many or not prepared):
                slot.execute("ROLLBACK")
            elif began and of_parameters:
                self.connection.restart_transaction(slot)
            raise fault from None
        if info is not None:
            if len(slot.statements) >= _MAX_STATEMENTS:
                slot.statements.clear()
            slot.statements[sql] = info
            self._finish(slot, info)

    def _finish(self, slot: Slot, info: StatementInfo) -> None:
        connection = self.connection
        self.description = info.description
        self.lastrowid = slot.connection.last_insert_rowid()
        if info.kind == CHANGE:
            self._num_changed = slot.connection.changes()
            self.rowcount = 0 if self._rows else self._num_changed
        if self._rows and (connection.text_factory is not str or connection.detect_types):
            self._rows = convert_rows(self._rows, info, connection.text_factory)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "Cursor":
        """Execute a statement that changes rows, once for each set of parameters."""
        slot = self._begin_statement()
        if isinstance(sql, str) and kind_of(sql) != CHANGE:
            text = "executemany() can only execute DML statements."
            raise sqlite3.ProgrammingError(text)
        lastrowid, num_changed = self.lastrowid, 0
        self.connection.before_statement(slot, sql, CHANGE)
        try:
            for one in parameters:
                self.execute(sql, one)
                num_changed += self._num_changed
        finally:
            self.lastrowid = lastrowid
        self._rows, self.description, self._num_changed = [], None, num_changed
        self.rowcount = num_changed
        return self

    def executescript(self, script: str, /) -> "Cursor":
        """Commit, then execute every statement of a script; no transaction is begun."""
        if not isinstance(script, str):
            raise TypeError(f"executescript() argument must be str, not {type(script).__name__}")
        slot = self._begin_statement()
        self.connection.commit()
        for statement in statements_of(script):
            kind = kind_of(statement)
            if kind != CHANGE:
                self.connection.before_statement(slot, statement, kind)
            try:
                slot.execute(statement).fetchall()
            except Exception as exc:
                raise as_sqlite3(exc, slot.connection, statement, ()) from None
        return self

    def fetchone(self) -> Any:
        """The next row; None after the last."""
        rows = self._open_rows()
        if self._next >= len(rows):
            return None
        row = rows[self._next]
        self._next += 1
        if self._next == len(rows):
            self._all_fetched()
        return row if self.row_factory is None else self._make_row(row)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows, at most `size` (default: `arraysize`) of them."""
        rows = self._open_rows()
        fetched = rows[self._next : self._next + (self.arraysize if size is None else size)]
        self._next += len(fetched)
        if self._next == len(rows):
            self._all_fetched()
        return fetched if self.row_factory is None else [self._make_row(row) for row in fetched]

    def fetchall(self) -> list[Any]:
        """The rows that were not fetched yet."""
        rows = self._open_rows()
        if self._next:
            rows = rows[self._next :]
        self._rows, self._next = [], 0
        self._all_fetched()
        return rows if self.row_factory is None else [self._make_row(row) for row in rows]

    def __iter__(self) -> "Cursor":
        return self

    def __next__(self) -> Any:
        if self._next >= len(self._open_rows()):
            raise StopIteration
        return self.fetchone()

    def _open_rows(self) -> FetchedRows:
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed cursor.")
        if self.connection.closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        return self._rows

    def _all_fetched(self) -> None:
        if self._num_changed >= 0:
            self.rowcount = self._num_changed

    def _make_row(self, row: tuple[Any, ...]) -> Any:
        factory: Any = self.row_factory
        if isinstance(factory, type) and issubclass(factory, sqlite3.Row):
            assert self.description is not None
            return factory(stdlib_cursor(tuple(column[0] for column in self.description)), row)
        return factory(self, row)

    def close(self) -> None:
        """Forget the rows; the cursor cannot be used after this."""
        self._closed = True
        self._rows = []

    def setinputsizes(self, sizes: Any, /) -> None:
        """Do nothing, as in `sqlite3`."""

    def setoutputsize(self, size: Any, column: Any = None, /) -> None:
        """Do nothing, as in `sqlite3`."""


def _is_sequence(parameters: Any) -> bool:
    return isinstance(parameters, dict) or (
        hasattr(parameters, "__getitem__") and hasattr(parameters, "__len__")
    )


def _refresh_schema(slot: Slot) -> None:
    """Let SQLite notice another connection's new schema.

    It does so when it runs a statement, not when it prepares one, which would then have the columns
    of the old schema.
    """
    with suppress(apsw.Error):  # when locked, the statement itself raises the error
        slot.execute("SELECT 1 FROM sqlite_schema LIMIT 0")
