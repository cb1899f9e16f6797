"""The hook that connects hosted code's engines and connections to the scenario's WorldDatabase.

`create_engine` ignores its URL and its keywords, as AWM's own patch of the code does, and
`sqlite3.connect` its path; only ":memory:" stays a separate database. While a `Hook` is entered,
every module from which code can import these functions is patched. Otherwise `sqlite3` is the
stdlib's, which is what verifiers use.
"""

import sqlite3
import sqlite3.dbapi2
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any

import sqlalchemy
import sqlalchemy.engine
import sqlalchemy.engine.create
import sqlalchemy.event
import sqlalchemy.event.api
import sqlalchemy.ext.asyncio
import sqlalchemy.ext.asyncio.engine
import sqlalchemy.future
import sqlalchemy.future.engine
from sqlalchemy import Engine
from sqlalchemy.orm import close_all_sessions
from sqlalchemy.pool import Pool
from sqlalchemy.pool.base import ConnectionPoolEntry

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.dbapi.connections import Connection, Sqlite3Module
from rehearsal_room.envpool.hosting.dbapi.database import CallEffects, WorldDatabase
from rehearsal_room.envpool.store.overlay import Overlay

_create_engine = sqlalchemy.create_engine
_connect = sqlite3.connect
_listen = sqlalchemy.event.listen
_EVENTS = (sqlalchemy.event, sqlalchemy.event.api)
_PRIVATE_PATHS = ("", ":memory:")  # paths of private databases in memory
_ENGINES = (
    sqlalchemy,
    sqlalchemy.engine,
    sqlalchemy.engine.create,
    sqlalchemy.future,
    sqlalchemy.future.engine,
)
_FROM_CONFIG = (sqlalchemy, sqlalchemy.engine, sqlalchemy.engine.create)
_REGISTRIES: tuple[dict[Any, Any], ...] = (sqlite3.adapters, sqlite3.converters)
_ORIGINALS = tuple(dict(registry) for registry in _REGISTRIES)
_ASYNC = (sqlalchemy.ext.asyncio, sqlalchemy.ext.asyncio.engine)


class WorldPool(Pool):
    """The connections of one engine, as many as are in use at once; code never waits for one."""

    def __init__(self, creator: Any, **keywords: Any) -> None:
        super().__init__(creator, **keywords)
        self._free: list[ConnectionPoolEntry] = []

    def _do_get(self) -> ConnectionPoolEntry:
        if self._free:
            return self._free.pop()
        record = self._create_connection()
        connection = record.dbapi_connection
        if isinstance(connection, Connection):
            connection.end_setup()
        return record

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        self._free.append(record)

    def recreate(self) -> "WorldPool":
        self.logger.info("Pool recreating")
        return WorldPool(self._creator, dialect=self._dialect, _dispatch=self.dispatch)

    def dispose(self) -> None:
        """Close the connections that are not in use."""
        while self._free:
            self._free.pop().close()

    def status(self) -> str:
        return f"WorldPool [{len(self._free)} connections free]"


class Hook:
    """The hook of one database. One call runs between `enter` and `leave`.

    What the code registers with `sqlite3` (adapters, converters) and its listeners to all of
    SQLAlchemy's engines or sessions are active in its own calls only. `close()` removes them.
    As a context manager, it runs its block in a fresh world.
    """

    def __init__(self, database: WorldDatabase) -> None:
        self.database = database
        module = Sqlite3Module(database)

        def connect(path: Any = "", *args: Any, **keywords: Any) -> Any:
            if path in _PRIVATE_PATHS:
                return _connect(path, *args, **keywords)
            return module.connect(path, *args, **keywords)

        def create_engine(*_: Any, **__: Any) -> Engine:
            return _create_engine("sqlite://", module=module, poolclass=WorldPool)

        replaced = [
            (owner, name, getattr(owner, name), new)
            for owners, name, new in (
                (_ENGINES, "create_engine", create_engine),
                (_FROM_CONFIG, "engine_from_config", create_engine),
                (_ASYNC, "create_async_engine", _no_async_engine),
                (_ASYNC, "async_engine_from_config", _no_async_engine),
                ((sqlite3, sqlite3.dbapi2), "connect", connect),
                (_EVENTS, "listen", self._listen),
                (_EVENTS, "listens_for", self._listens_for),
            )
            for owner in owners
        ]
        # For each module: its names, what the hook sets of them, and what was there before.
        self._replaced = [
            (
                vars(module),
                {name: new for owner, name, _, new in replaced if owner is module},
                {name: old for owner, name, old, _ in replaced if owner is module},
            )
            for module in {id(owner): owner for owner, *_ in replaced}.values()
        ]
        self._registered: tuple[dict[Any, Any], ...] = ({}, {})
        self._listeners: list[tuple[Any, str, Callable[..., Any]]] = []
        self._entered = False

    def __repr__(self) -> str:
        return f"<Hook of {self.database!r}>"

    def enter(self, overlay: Overlay) -> None:
        """Begin a call on this world (see WorldDatabase.enter)."""
        self.database.enter(overlay)
        self._entered = True
        for names, new, _ in self._replaced:
            names.update(new)
        for registry, own in zip(_REGISTRIES, self._registered, strict=True):
            if own:
                registry.update(own)

    def leave(self) -> CallEffects:
        """End the call: close its open sessions (see WorldDatabase.leave)."""
        for names, _, old in self._replaced:
            names.update(old)
        if any(map(dict.__ne__, _REGISTRIES, _ORIGINALS)):
            self._store_registered()
        close_all_sessions()
        effects = self.database.leave()
        self._entered = False
        return effects

    def close(self) -> None:
        """Remove the listeners that would outlive the code."""
        for target, event, listener in self._listeners:
            sqlalchemy.event.remove(target, event, listener)
        self._listeners.clear()

    def __enter__(self) -> "Hook":
        self.enter(self.database.fresh_overlay())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def _listens_for(self, target: Any, event: str, *args: Any, **keywords: Any) -> Any:
        def decorate(listener: Callable[..., Any]) -> Callable[..., Any]:
            self._listen(target, event, listener, *args, **keywords)
            return listener

        return decorate

    def _listen(
        self, target: Any, event: str, listener: Callable[..., Any], *args: Any, **keywords: Any
    ) -> None:
        """sqlalchemy.event.listen. All hosted code shares SQLAlchemy's classes, so a listener to
        one of them is active in calls of this code only."""
        if isinstance(target, type) and target.__module__.startswith("sqlalchemy."):
            original = listener

            @wraps(original)
            def listener(*arguments: Any, **named: Any) -> Any:
                return original(*arguments, **named) if self._entered else None

            self._listeners.append((target, event, listener))
        _listen(target, event, listener, *args, **keywords)

    def _store_registered(self) -> None:
        self._registered = tuple(
            {key: value for key, value in registry.items() if originals.get(key) is not value}
            for registry, originals in zip(_REGISTRIES, _ORIGINALS, strict=True)
        )
        for registry, originals in zip(_REGISTRIES, _ORIGINALS, strict=True):
            registry.clear()
            registry.update(originals)


def _no_async_engine(*_: Any, **__: Any) -> Any:
    raise ToolsetError(
        "server.py: create_async_engine: asynchronous engines are not supported; AWM's worlds use "
        "synchronous engines"
    )
