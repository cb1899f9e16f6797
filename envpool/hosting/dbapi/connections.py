"""Connections for the code in a world: the interface of the stdlib's `sqlite3`, over slots.

They begin transactions, count rows, adapt parameters and raise as `sqlite3` of Python 3.11 does,
with its own exception classes and texts, so that SQLAlchemy's pysqlite dialect and code that calls
`sqlite3.connect` work unchanged. One difference is intended: a statement is read to its end when it
is executed, so no cursor holds a lock, and what fails later in `sqlite3` fails here at once.

Not available: backup, blobopen, (de)serialize, load_extension, and a connection's own authorizer,
progress handler and trace callback. They raise sqlite3.NotSupportedError.
"""

import importlib
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from rehearsal_room.envpool.hosting.dbapi.cursors import Cursor
from rehearsal_room.envpool.hosting.dbapi.database import WorldDatabase
from rehearsal_room.envpool.hosting.dbapi.errors import as_sqlite3
from rehearsal_room.envpool.hosting.dbapi.slots import Slot
from rehearsal_room.envpool.hosting.dbapi.statements import CHANGE, FOREIGN_KEYS, PLAIN, SCHEMA

_BEGINS = {
    "": "BEGIN",
    "DEFERRED": "BEGIN DEFERRED",
    "IMMEDIATE": "BEGIN IMMEDIATE",
    "EXCLUSIVE": "BEGIN EXCLUSIVE",
}


class Connection:
    """A connection to the world in which the call runs; isinstance reports `sqlite3.Connection`.

    It outlives calls: in the next call it is a connection to that call's world.
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
        self, source: WorldDatabase, *, isolation_level: str | None = "", detect_types: int = 0
    ) -> None:
        self.row_factory: Callable[[Any, Any], Any] | None = None
        self.text_factory: Callable[[bytes], Any] = str
        self.detect_types = detect_types
        self.closed = False
        self.settings: list[Callable[[Slot], object]] | None = []  # None: setup has ended
        self.source = source
        self._slot: Slot | None = None
        self._own_settings: tuple[Callable[[Slot], object], ...] = ()
        self._initial_changes = 0
        self._level: str | None = None
        self._begin: str | None = None
        self.isolation_level = isolation_level
        source.new_connections.append(weakref.WeakMethod(self.end_setup))

    def __repr__(self) -> str:
        return f"<Connection to a world [{'closed' if self.closed else self._slot}]>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # generated listeners check isinstance(…, sqlite3.Connection)
        return sqlite3.Connection

    # The slot --------------------------------------------------------------------------------

    def slot(self) -> Slot:
        """The slot of this connection. Raises sqlite3.ProgrammingError when it is closed."""
        slot = self._slot
        if slot is None:
            if self.closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            slot = self._slot = self.source.acquire(self.drop_slot)
            for setting in self._own_settings:
                slot.plain = False
                setting(slot)
            slot.save_defaults()
            self._initial_changes = slot.connection.total_changes()
        return slot

    def drop_slot(self) -> None:
        """Forget a closed slot; the next statement gets another one, with the same settings."""
        self._slot = None

    def end_setup(self) -> None:
        """End the setup: settings so far stay with the connection, later ones end with a call."""
        if self.settings is not None:
            self._own_settings, self.settings = tuple(self.settings), None
            if self._slot is not None:
                self._slot.save_defaults()

    def _configure(self, setting: Callable[[Slot], object]) -> None:
        slot = self.slot()
        if self.settings is not None:
            self.settings.append(setting)
        slot.dirty = True
        slot.plain = False
        setting(slot)

    def before_statement(self, slot: Slot, sql: str, kind: int) -> bool:
        """Do what must precede a statement of this kind; return whether a transaction was begun."""
        if kind == CHANGE:
            if self._begin is not None and not slot.connection.in_transaction:
                self._execute_control(slot, self._begin)
                return True
        elif kind == SCHEMA:
            slot.statements.clear()
            self.source.note_schema_change()
        elif kind == FOREIGN_KEYS:
            slot.foreign_keys_changed = True
            if self.settings is not None:
                self.settings.append(lambda slot: _set_foreign_keys(slot, sql))
        elif kind != PLAIN:
            slot.statements.clear()
            slot.dirty = True
            if self.settings is not None:
                self.settings.append(lambda slot: slot.execute(sql).fetchall())
        return False

    # Transactions ----------------------------------------------------------------------------

    @property
    def isolation_level(self) -> str | None:
        """The word after BEGIN; None: no transaction begins implicitly."""
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
            return  # no transaction was begun
        slot = self.slot()
        if slot.connection.in_transaction:
            self._execute_control(slot, statement)

    def restart_transaction(self, slot: Slot) -> None:
        """Begin the transaction again, to release the lock that preparing a statement took:
        `sqlite3` prepares a statement first, and then begins."""
        slot.execute("ROLLBACK")
        self._execute_control(slot, self._begin or "BEGIN")

    def schema_may_differ(self) -> bool:
        """Whether another connection may have changed the schema in this call."""
        return self.source.schema_has_changed

    def _execute_control(self, slot: Slot, statement: str) -> None:
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
        """Release the slot; an open transaction is rolled back."""
        self.closed = True
        slot, self._slot = self._slot, None
        if slot is not None:
            self.source.release(slot)

    def __del__(self) -> None:
        if self._slot is not None:
            self.close()

    # Statements ------------------------------------------------------------------------------

    def cursor(self, factory: "Callable[[Connection], Any] | None" = None) -> Any:
        """A cursor of this connection."""
        self.slot()
        cursor = Cursor(self) if factory is None else factory(self)
        if self.row_factory is not None:
            cursor.row_factory = self.row_factory
        return cursor

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
        return self.slot().connection.total_changes() - self._initial_changes

    def iterdump(self) -> Iterator[str]:
        """The database as SQL text, a statement at a time."""
        lines: Iterator[str] = importlib.import_module("sqlite3.dump")._iterdump(self)
        return lines

    def interrupt(self) -> None:
        """Do nothing: statements are read to their end, so none is running."""
        self.slot()

    # Functions -------------------------------------------------------------------------------

    def create_function(
        self, name: str, narg: int, func: Callable[..., Any] | None, *, deterministic: bool = False
    ) -> None:
        """Let SQL call a Python function; None removes it."""
        self._configure(
            lambda slot: slot.connection.create_scalar_function(
                name, func, narg, deterministic=deterministic
            )
        )

    def create_aggregate(self, name: str, n_arg: int, aggregate_class: Any) -> None:
        """Let SQL call a class with `step` and `finalize`; None removes it."""
        factory = None if aggregate_class is None else lambda: _Aggregate(aggregate_class())
        self._configure(
            lambda slot: slot.connection.create_aggregate_function(name, factory, n_arg)
        )

    def create_window_function(self, name: str, num_params: int, aggregate_class: Any, /) -> None:
        """Let SQL call a class with `step`, `inverse`, `value` and `finalize` over a window."""
        factory: Any = None if aggregate_class is None else lambda: _Aggregate(aggregate_class())
        self._configure(
            lambda slot: slot.connection.create_window_function(name, factory, num_params)
        )

    def create_collation(self, name: str, callback: Callable[[str, str], int] | None, /) -> None:
        """Let SQL order texts by a Python function; None removes it."""
        self._configure(lambda slot: slot.connection.create_collation(name, callback))

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise sqlite3.NotSupportedError("this is not available in a world")

    backup = blobopen = serialize = deserialize = _refuse
    enable_load_extension = load_extension = _refuse
    set_authorizer = set_progress_handler = set_trace_callback = getlimit = setlimit = _refuse


def _set_foreign_keys(slot: Slot, pragma: str) -> None:
    slot.foreign_keys_changed = True
    slot.execute(pragma).fetchall()


class _Aggregate:
    """An aggregate or window function of a Python class, as apsw calls it."""

    def __init__(self, instance: Any) -> None:
        self.step = instance.step
        self.final = instance.finalize
        self.value = getattr(instance, "value", None)
        self.inverse = getattr(instance, "inverse", None)


class Sqlite3Module:
    """The module that SQLAlchemy uses as `sqlite3`; its `connect` returns our connections."""

    def __init__(self, source: WorldDatabase) -> None:
        self.source = source

    def connect(
        self,
        *_: Any,
        isolation_level: str | None = "",
        detect_types: int = 0,
        **__: Any,
    ) -> Connection:
        """A connection to the current world; the database's name is ignored."""
        return Connection(self.source, isolation_level=isolation_level, detect_types=detect_types)

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)
