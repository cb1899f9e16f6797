"""The stdlib's `sqlite3`, as code in a world sees it: its connections and cursors over a slot.

They begin transactions, count rows, adapt parameters and raise as `sqlite3` of Python 3.11 does,
with its own exception classes and texts, so that SQLAlchemy's pysqlite dialect and code that calls
`sqlite3.connect` work unchanged. One difference is meant: a statement is read to its end when it
is executed, so no cursor holds a lock, and what fails later in `sqlite3` fails here at once.

Not to be had: backup, blobopen, (de)serialize, load_extension, and a connection's own authorizer,
progress handler and trace callback. They raise sqlite3.NotSupportedError.
"""

import importlib
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol

import apsw

from envpool.hosting.faults import as_sqlite3
from envpool.hosting.slots import Known, Slot
from envpool.hosting.sqltext import (
    CHANGE,
    KEYS,
    PLAIN,
    SCHEMA,
    is_empty,
    is_more_than_one,
    kind_of,
    statements_of,
)

_BEGINS = {
    "": "BEGIN",
    "DEFERRED": "BEGIN DEFERRED",
    "IMMEDIATE": "BEGIN IMMEDIATE",
    "EXCLUSIVE": "BEGIN EXCLUSIVE",
}
_MAX_KNOWN = 2000  # statements that a slot knows; hosted code may invent texts without end

_OF_PARAMETERS = (apsw.BindingsError, TypeError, KeyError, OverflowError, UnicodeError)
_USUAL = frozenset({tuple, dict, list})

Rows = list[tuple[Any, ...]]


class Source(Protocol):
    """Where connections get their slots."""

    def lend(self, connection: "Connection") -> Slot:
        """A slot for this connection alone."""

    def take_back(self, slot: Slot) -> None:
        """The slot that was lent; its connection is closed or gone."""

    made: "list[weakref.ref[Connection]]"  # since the last call
    has_moved: bool  # in the current call, a statement ran that may have changed the schema

    def schema_moved(self) -> None:
        """A statement that may change the schema is about to run."""


class Connection:
    """A connection to the world in which the call runs; `sqlite3.Connection` to whoever asks.

    It outlives calls: in the next one it is a connection to that call's world.
    """

    Warning = sqlite3.Warning
    Error = sqlite3.Error
    InterfaceError = sqlite3.InterfaceError
    DatabaseError = sqlite3.DatabaseError
    InternalError = sqlite3.InternalError
    OperationalError = sqlite3.OperationalError
    ProgrammingError = sqlite3.ProgrammingError
    IntegrityError = sqlite3.IntegrityError
    DataError = sqlite3.DataError
    NotSupportedError = sqlite3.NotSupportedError

    def __init__(
        self, source: Source, *, isolation_level: str | None = "", detect_types: int = 0
    ) -> None:
        self.row_factory: Callable[[Any, Any], Any] | None = None
        self.text_factory: Callable[[bytes], Any] = str
        self.detect_types = detect_types
        self.closed = False
        self.settings: list[Callable[[Slot], object]] | None = []  # None: settled
        self.source = source
        self._slot: Slot | None = None
        self._settled: tuple[Callable[[Slot], object], ...] = ()
        self._num_before = 0
        self._level: str | None = None
        self._begin: str | None = None
        self.isolation_level = isolation_level
        source.made.append(weakref.ref(self))

    def __repr__(self) -> str:
        return f"<Connection to a world [{'closed' if self.closed else self._slot}]>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # generated listeners ask isinstance(…, sqlite3.Connection)
        return sqlite3.Connection

    # The slot --------------------------------------------------------------------------------

    def slot(self) -> Slot:
        """The slot that serves this connection. Raises sqlite3.ProgrammingError once closed."""
        slot = self._slot
        if slot is None:
            if self.closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            slot = self._slot = self.source.lend(self)
            for setting in self._settled:
                slot.plain = False
                setting(slot)
            slot.settle()
            self._num_before = slot.connection.total_changes()
        return slot

    def lose_slot(self) -> None:
        """The slot is gone; the next statement gets another, with the same settings."""
        self._slot = None

    def settle(self) -> None:
        """What has been set so far belongs to the connection; what is set later, to a call."""
        if self.settings is not None:
            self._settled, self.settings = tuple(self.settings), None
            if self._slot is not None:
                self._slot.settle()

    def _set(self, setting: Callable[[Slot], object]) -> None:
        slot = self.slot()
        if self.settings is not None:
            self.settings.append(setting)
        slot.stained = True
        slot.plain = False
        setting(slot)

    def before(self, slot: Slot, sql: str, kind: int) -> bool:
        """What precedes a statement of this kind; whether a transaction was begun."""
        if kind == CHANGE:
            if self._begin is not None and not slot.connection.in_transaction:
                self._control(slot, self._begin)
                return True
        elif kind == SCHEMA:
            slot.known.clear()
            self.source.schema_moved()
        elif kind == KEYS:
            slot.keys_moved = True
            if self.settings is not None:
                self.settings.append(lambda slot: _set_keys(slot, sql))
        elif kind != PLAIN:
            slot.known.clear()
            slot.stained = True
            if self.settings is not None:
                self.settings.append(lambda slot: slot.execute(sql).fetchall())
        return False

    # Transactions ----------------------------------------------------------------------------

    @property
    def isolation_level(self) -> str | None:
        """The word after BEGIN; None: no transaction is begun by itself."""
        return self._level

    @isolation_level.setter
    def isolation_level(self, level: str | None) -> None:
        if level is not None:
            if not isinstance(level, str):
                raise TypeError("isolation_level must be str or None")
            if level.upper() not in _BEGINS:
                raise ValueError(
                    "isolation_level string must be '', 'DEFERRED', 'IMMEDIATE', or 'EXCLUSIVE'"
                )
            level = level.upper()
        self._level = level
        self._begin = None if level is None else _BEGINS[level]
        if level is None and self._slot is not None:
            self.commit()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.slot().connection.in_transaction

    def commit(self) -> None:
        """Commit the open transaction, if there is one."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        self._end("ROLLBACK")

    def _end(self, statement: str) -> None:
        if self._slot is None and not self.closed:
            return  # nothing was begun
        slot = self.slot()
        if slot.connection.in_transaction:
            self._control(slot, statement)

    def begin_anew(self, slot: Slot) -> None:
        """The transaction that was begun, as if nothing had been prepared in it, which takes a
        lock: `sqlite3` prepares a statement first, and then begins."""
        slot.execute("ROLLBACK")
        self._control(slot, self._begin or "BEGIN")

    def _control(self, slot: Slot, statement: str) -> None:
        try:
            slot.execute(statement)
        except Exception as exc:
            raise as_sqlite3(exc, slot.connection, statement, ()) from None

    def __enter__(self) -> "Connection":
        self.slot()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.rollback()
            return
        try:
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def close(self) -> None:
        """Give the slot back; an open transaction is rolled back."""
        self.closed = True
        slot, self._slot = self._slot, None
        if slot is not None:
            self.source.take_back(slot)

    def __del__(self) -> None:
        if self._slot is not None:
            self.close()

    # Statements ------------------------------------------------------------------------------

    def cursor(self, factory: "Callable[[Connection], Any] | None" = None) -> Any:
        """A cursor of this connection."""
        self.slot()
        made = Cursor(self) if factory is None else factory(self)
        if self.row_factory is not None:
            made.row_factory = self.row_factory
        return made

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Execute a statement on a new cursor, which is returned."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement for each set of parameters, on a new cursor, which is returned."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, script: str, /) -> Any:
        """Commit, then execute every statement of a script, on a new cursor, which is returned."""
        return self.cursor().executescript(script)

    @property
    def total_changes(self) -> int:
        """Rows changed since the connection was made."""
        return self.slot().connection.total_changes() - self._num_before

    def iterdump(self) -> Iterator[str]:
        """The database as SQL text, a statement at a time."""
        lines: Iterator[str] = importlib.import_module("sqlite3.dump")._iterdump(self)
        return lines

    def interrupt(self) -> None:
        """Nothing runs that could be stopped: statements are read to their end."""
        self.slot()

    # Functions -------------------------------------------------------------------------------

    def create_function(
        self, name: str, narg: int, func: Callable[..., Any] | None, *, deterministic: bool = False
    ) -> None:
        """Let SQL call a Python function; None takes it away."""
        self._set(
            lambda slot: slot.connection.create_scalar_function(
                name, func, narg, deterministic=deterministic
            )
        )

    def create_aggregate(self, name: str, n_arg: int, aggregate_class: Any) -> None:
        """Let SQL call a class with `step` and `finalize`; None takes it away."""
        factory = None if aggregate_class is None else lambda: _Aggregate(aggregate_class())
        self._set(lambda slot: slot.connection.create_aggregate_function(name, factory, n_arg))

    def create_window_function(self, name: str, num_params: int, aggregate_class: Any, /) -> None:
        """Let SQL call a class with `step`, `inverse`, `value` and `finalize` over a window."""
        factory: Any = None if aggregate_class is None else lambda: _Aggregate(aggregate_class())
        self._set(lambda slot: slot.connection.create_window_function(name, factory, num_params))

    def create_collation(self, name: str, callback: Callable[[str, str], int] | None, /) -> None:
        """Let SQL order texts by a Python function; None takes it away."""
        self._set(lambda slot: slot.connection.create_collation(name, callback))

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise sqlite3.NotSupportedError("this is not to be had in a world")

    backup = blobopen = serialize = deserialize = _refused
    enable_load_extension = load_extension = _refused
    set_authorizer = set_progress_handler = set_trace_callback = getlimit = setlimit = _refused


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

    def __init__(self, connection: Connection) -> None:
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
        if self.connection.source.has_moved and not slot.connection.in_transaction:
            _look_again(slot)  # not within a transaction, whose lock it would hold
        begun = self.connection.before(slot, sql, kind)
        known: Known | None = None

        def look(cursor: Any, _sql: str, _parameters: Any) -> bool:
            nonlocal known
            if known is None:  # else it is asked about a comment behind the statement
                known = _known(kind, cursor.get_description(), self.connection.detect_types)
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
            self._rows = _shaped(self._rows, known, connection.text_factory)

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
            return factory(_twin(tuple(column[0] for column in self.description)), row)
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


def _set_keys(slot: Slot, pragma: str) -> None:
    slot.keys_moved = True
    slot.execute(pragma).fetchall()


@lru_cache(maxsize=256)
def _twin(names: tuple[str, ...]) -> sqlite3.Cursor:
    """A cursor of the stdlib with these columns: sqlite3.Row takes no other."""
    columns = ", ".join('NULL AS "' + name.replace('"', '""') + '"' for name in names)
    return sqlite3.connect(":memory:", check_same_thread=False).execute(f"SELECT {columns}")


def _known(kind: int, columns: Iterable[tuple[str, str | None]], detect_types: int) -> Known:
    """What a statement with these columns (name, declared type) gives."""
    description, converters = [], []
    for name, declared in columns:
        converter = None
        if detect_types & sqlite3.PARSE_COLNAMES and name.endswith("]") and "[" in name:
            name, _, kind_of_column = name[:-1].partition("[")
            name = name.rstrip(" ") if name.endswith(" ") else name
            converter = _converter(kind_of_column)
        if converter is None and detect_types & sqlite3.PARSE_DECLTYPES and declared:
            converter = _converter(declared.replace("(", " ").split(" ")[0])
        description.append((name, None, None, None, None, None, None))
        converters.append(converter)
    return Known(kind, tuple(description) or None, tuple(converters))


def _converter(declared: str) -> Callable[[bytes], Any] | None:
    found: Callable[[bytes], Any] | None = sqlite3.converters.get(declared.upper())
    return found


def _shaped(rows: Rows, known: Known, text_factory: Callable[[bytes], Any]) -> Rows:
    """Rows as the connection's converters and text factory make them."""
    return [
        tuple(
            _value(value, converter, text_factory)
            for value, converter in zip(row, known.converters, strict=True)
        )
        for row in rows
    ]


def _value(
    value: Any, converter: Callable[[bytes], Any] | None, text_factory: Callable[[bytes], Any]
) -> Any:
    if converter is not None and value is not None:
        return converter(value if isinstance(value, bytes) else str(value).encode())
    if isinstance(value, str) and text_factory is not str:
        return text_factory(value.encode())
    return value


class _Aggregate:
    """An aggregate or window function of a Python class, as apsw calls it."""

    def __init__(self, instance: Any) -> None:
        self.step = instance.step
        self.final = instance.finalize
        self.value = getattr(instance, "value", None)
        self.inverse = getattr(instance, "inverse", None)


class Module:
    """What SQLAlchemy takes for the module `sqlite3`: its connections are ours."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def connect(
        self,
        *_: Any,
        isolation_level: str | None = "",
        detect_types: int = 0,
        **__: Any,
    ) -> Connection:
        """A connection to the current world, whatever database is named."""
        return Connection(self.source, isolation_level=isolation_level, detect_types=detect_types)

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)
