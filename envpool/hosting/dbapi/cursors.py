"""Cursors of connections to a world: one statement at a time, executed, read whole and told."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

import apsw

from envpool.hosting.dbapi.errors import as_sqlite3
from envpool.hosting.dbapi.rows import Rows, known_of, shaped, twin
from envpool.hosting.dbapi.slots import Known, Slot
from envpool.hosting.dbapi.statements import (
    CHANGE,
    is_empty,
    is_more_than_one,
    kind_of,
    statements_of,
)

_MAX_KNOWN = 2000  # statements that a slot knows; hosted code may invent texts without end
_OF_PARAMETERS = (apsw.BindingsError, TypeError, KeyError, OverflowError, UnicodeError)
_USUAL = frozenset({tuple, dict, list})


class Connected(Protocol):
    """What a cursor needs of its connection (see envpool.hosting.dbapi.connections)."""

    detect_types: int
    text_factory: Callable[[bytes], Any]
    closed: bool

    def slot(self) -> Slot:
        """The slot that serves it. Raises sqlite3.ProgrammingError once closed."""

    def before(self, slot: Slot, sql: str, kind: int) -> bool:
        """Do what precedes a statement of this kind; whether a transaction was begun."""

    def begin_anew(self, slot: Slot) -> None:
        """Put the transaction that was just begun back to where it held no lock."""

    def schema_may_differ(self) -> bool:
        """Whether the slot may not know the world's schema."""

    def commit(self) -> None:
        """Commit the open transaction, if there is one."""


class Cursor:
    """The result of a statement, read whole; `sqlite3.Cursor` to whoever asks."""

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

    def __init__(self, connection: Connected) -> None:
        self.connection = connection
        self.row_factory: Callable[[Any, Any], Any] | None = None
        self.arraysize = 1
        self.description: tuple[Any, ...] | None = None
        self.lastrowid: int | None = None
        self.rowcount = -1
        self._rows: Rows = []
        self._next = 0  # of the rows: the first that was not fetched yet
        self._num_changed = -1  # what `rowcount` is once the rows have been fetched
        self._closed = False

    def __repr__(self) -> str:
        return f"<Cursor in a world [{len(self._rows) - self._next} rows to fetch]>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return sqlite3.Cursor

    def execute(self, sql: str, parameters: Any = (), /) -> "Cursor":
        """Execute one statement. Raises sqlite3.Error."""
        slot = self._ready()
        if type(parameters) not in _USUAL and not _is_sequence(parameters):
            raise sqlite3.ProgrammingError("parameters are of unsupported type")
        known = slot.known.get(sql)
        if known is None:
            self._first(slot, sql, parameters)
            return self
        begun = self.connection.before(slot, sql, known.kind) if known.kind else False
        try:
            self._rows = slot.execute(sql, parameters).fetchall()
        except Exception as exc:
            fault = as_sqlite3(exc, slot.connection, sql, parameters)
            if begun and isinstance(exc, _OF_PARAMETERS):
                self.connection.begin_anew(slot)
            raise fault from None
        self._done(slot, known)
        return self

    def _ready(self) -> Slot:
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed cursor.")
        slot = self.connection.slot()
        self._rows, self._next, self._num_changed = [], 0, -1
        self.description, self.rowcount = None, -1
        return slot

    def _first(self, slot: Slot, sql: str, parameters: Any) -> None:
        """Execute a statement that this slot does not know, and learn what it gives."""
        if not isinstance(sql, str):
            raise TypeError(f"execute() argument 1 must be str, not {type(sql).__name__}")
        if is_empty(sql):
            return
        kind, many = kind_of(sql), is_more_than_one(sql)
        if self.connection.schema_may_differ() and not slot.connection.in_transaction:
            _look_again(slot)  # not within a transaction, whose lock it would hold
        begun = self.connection.before(slot, sql, kind)
        known: Known | None = None

        def look(cursor: Any, _sql: str, _parameters: Any) -> bool:
            nonlocal known
            if known is None:  # else it is asked about a comment behind the statement
                known = known_of(kind, cursor.get_description(), self.connection.detect_types)
            return not many

        cursor = slot.connection.cursor()
        cursor.exec_trace = look
        try:
            self._rows = cursor.execute(sql, parameters, can_cache=False).fetchall()
        except Exception as exc:
            cursor.close(True)  # which the traceback keeps alive, and with it the statement's lock
            fault = as_sqlite3(exc, slot.connection, sql, parameters)
            of_parameters = isinstance(exc, _OF_PARAMETERS)
            prepared = known is not None or of_parameters
            if prepared and many:
                fault = sqlite3.ProgrammingError("You can only execute one statement at a time.")
            if begun and (many or not prepared):
                slot.execute("ROLLBACK")
            elif begun and of_parameters:
                self.connection.begin_anew(slot)
            raise fault from None
        if known is not None:
            if len(slot.known) >= _MAX_KNOWN:
                slot.known.clear()
            slot.known[sql] = known
            self._done(slot, known)

    def _done(self, slot: Slot, known: Known) -> None:
        connection = self.connection
        self.description = known.description
        self.lastrowid = slot.connection.last_insert_rowid()
        if known.kind == CHANGE:
            self._num_changed = slot.connection.changes()
            self.rowcount = 0 if self._rows else self._num_changed
        if self._rows and (connection.text_factory is not str or connection.detect_types):
            self._rows = shaped(self._rows, known, connection.text_factory)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "Cursor":
        """Execute a statement that changes rows, once for each set of parameters."""
        slot = self._ready()
        if isinstance(sql, str) and kind_of(sql) != CHANGE:
            text = "executemany() can only execute DML statements."
            raise sqlite3.ProgrammingError(text)
        lastrowid, num_changed = self.lastrowid, 0
        self.connection.before(slot, sql, CHANGE)
        try:
            for given in parameters:
                self.execute(sql, given)
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
        slot = self._ready()
        self.connection.commit()
        for statement in statements_of(script):
            kind = kind_of(statement)
            if kind != CHANGE:
                self.connection.before(slot, statement, kind)
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
        return row if self.row_factory is None else self._made(row)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows, `size` (else `arraysize`) of them at most."""
        rows = self._open_rows()
        given = rows[self._next : self._next + (self.arraysize if size is None else size)]
        self._next += len(given)
        if self._next == len(rows):
            self._all_fetched()
        return given if self.row_factory is None else [self._made(row) for row in given]

    def fetchall(self) -> list[Any]:
        """The rows that were not fetched yet."""
        rows = self._open_rows()
        if self._next:
            rows = rows[self._next :]
        self._rows, self._next = [], 0
        self._all_fetched()
        return rows if self.row_factory is None else [self._made(row) for row in rows]

    def __iter__(self) -> "Cursor":
        return self

    def __next__(self) -> Any:
        if self._next >= len(self._open_rows()):
            raise StopIteration
        return self.fetchone()

    def _open_rows(self) -> Rows:
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed cursor.")
        if self.connection.closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        return self._rows

    def _all_fetched(self) -> None:
        if self._num_changed >= 0:
            self.rowcount = self._num_changed

    def _made(self, row: tuple[Any, ...]) -> Any:
        factory: Any = self.row_factory
        if isinstance(factory, type) and issubclass(factory, sqlite3.Row):
            assert self.description is not None
            return factory(twin(tuple(column[0] for column in self.description)), row)
        return factory(self, row)

    def close(self) -> None:
        """Forget the rows; the cursor cannot be used after this."""
        self._closed = True
        self._rows = []

    def setinputsizes(self, sizes: Any, /) -> None:
        """Nothing, as in `sqlite3`."""

    def setoutputsize(self, size: Any, column: Any = None, /) -> None:
        """Nothing, as in `sqlite3`."""


def _is_sequence(parameters: Any) -> bool:
    return isinstance(parameters, dict) or (
        hasattr(parameters, "__getitem__") and hasattr(parameters, "__len__")
    )


def _look_again(slot: Slot) -> None:
    """Have SQLite notice another connection's new schema: it does when it runs a statement, not
    when it prepares one, whose columns would be those of the old schema."""
    with suppress(apsw.Error):  # locked: then the statement itself will say so
        slot.execute("SELECT 1 FROM sqlite_schema LIMIT 0")
