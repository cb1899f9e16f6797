"""The only writer of a run's log.

Promises:

- Records are stored in the order in which they were appended, each once.
- A record whose `flush` returned survives `kill -9` and a power cut.
- Every record appended before the block was left is stored, also when the block was cancelled.
- A folder has one writer at a time, across processes.
- The log opens after a kill at any moment, for readers without the right to write, too: it is made
  whole under another name, and is in WAL mode from its first byte to its last. A change between WAL
  and rollback journal is a transaction of its own; a kill within it leaves a rollback journal that
  a reader must undo first, and one that may only read cannot.

Appending is a list append. One task writes the waiting records as one transaction, which is one
statement (see `_insert`): a statement for each row would hand the interpreter lock over twice per
row, and in a busy event loop each handover costs up to 5 ms. Measured with 200 rows a transaction
next to a thread that never rests: 640 rows/s with a statement for each row, 19,000 with one.
"""

import math
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import aiosqlite
import anyio
import structlog

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Record, encode
from rehearsal_room.harness.log import sessions
from rehearsal_room.harness.log.drafts import remove_abandoned_drafts
from rehearsal_room.harness.log.log_file import READ_ERRORS
from rehearsal_room.harness.log.own_files import SCHEMA_QUERY, require_own_files, require_schema
from rehearsal_room.harness.log.schema import (
    LOG_NAME,
    SCHEMAS,
    EncodedRecord,
    ScenarioSnapshot,
    check_format,
    empty_log,
    log_error,
    record_of,
    row_of,
    write_atomically,
)
from rehearsal_room.harness.log.sessions import SessionMeasured

LOCK_NAME = "writer.lock"
CAPACITY = 16_384  # records in memory from which on `wait_for_room` waits
_MAX_ROWS = 2_048  # of one statement: 8 parameters each, and SQLite takes 32,766
_MIN_ROWS = 16  # of one statement
_GATHER_S = 0.005  # seconds from the first call of `flush` to the commit, so that others can join
_IDLE_COMMIT_S = 0.025  # seconds from an append to its commit when no task waits for it
_CLOSE_TIMEOUT_S = 30.0  # seconds that closing may take
_FULL_PATIENCE_S = 10.0  # seconds for which a full disk is waited for, before the run ends
_DISK_ERRORS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
_FULL_RETRY_S = 0.25  # seconds between two attempts to write to it

# Is called with a committed batch and its positions; an awaitable that it returns is awaited before
# the next commit.
CommitHandler = Callable[[list[tuple[int, Record]]], Awaitable[None] | None]
Entry = Record | EncodedRecord  # a record, or one that another process has encoded
EntryHandler = Callable[[Sequence[Entry]], None]  # is called with a committed batch


class LogConnection(Protocol):
    """The connection of a log, as far as its writer uses it (see aiosqlite.Connection). Each method
    raises sqlite3.Error."""

    async def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement for each set of parameters."""

    async def execute(self, sql: str, /) -> Any:
        """Execute a statement."""

    async def execute_fetchall(self, sql: str, /) -> Iterable[Any]:
        """The rows that a query gives."""

    async def close(self) -> None:
        """Close the connection."""


OpenDatabase = Callable[[Path], Awaitable[LogConnection]]


async def open_sqlite(path: Path) -> LogConnection:
    """The database of a log, which works in a thread of its own. Raises sqlite3.Error."""
    return await aiosqlite.connect(path, isolation_level=None)


_log = structlog.get_logger(__name__)


class LogWriter:
    """Appends records to one log. `open_log` makes it."""

    def __init__(
        self, database: LogConnection, path: Path, *, position: int, scenarios: set[str]
    ) -> None:
        self._database = database
        self._path = path
        self._scenarios = scenarios  # digests of the snapshots that are stored, or will be
        self._snapshots: list[ScenarioSnapshot] = []  # to be stored with the next commit
        self._sessions: list[SessionMeasured] = []  # the same
        self._buffer: list[Entry] = []
        self._appended = position  # of the last record appended
        self._durable = position  # of the last record committed
        self._handlers: list[CommitHandler] = []
        self._entry_handlers: list[EntryHandler] = []
        self._open = True
        self._failure: str | None = None  # the message, once writing has failed
        self._scope = anyio.CancelScope(shield=True)
        self._work = anyio.Event()  # set: there is something to write, or the writer is closing
        self._hurry = anyio.Event()  # set: a task waits for a commit
        self._committed = anyio.Event()  # replaced by a new one at each commit
        self._room = anyio.Event()  # replaced when half of the capacity is free again
        self._num_commits = 0
        self._largest_commit = 0
        self._commit_seconds = 0.0
        self._room_seconds = 0.0  # summed over the tasks that waited for room
        self._listeners_seconds = 0.0

    def append(self, record: Record) -> None:
        """Add a record, which is written soon. Raises LogError once writing has failed."""
        if not self._open:
            raise LogError(self._failure or f"{self._path}: the log is closed")
        buffer = self._buffer
        buffer.append(record)
        self._appended += 1
        if len(buffer) == 1:
            self._work.set()

    def append_encoded(self, records: Sequence[EncodedRecord]) -> int:
        """Add records that another process has encoded; return the position of the last one. Raises
        LogError once writing has failed."""
        if not self._open:
            raise LogError(self._failure or f"{self._path}: the log is closed")
        self._buffer.extend(records)
        self._appended += len(records)
        if records:
            self._work.set()
        return self._appended

    async def wait_for_room(self) -> None:
        """Return at once while fewer than `CAPACITY` records are in memory, the usual case; else
        wait until half of them are written, so that a thousand waiters wake once and not at each
        commit. Raises LogError when writing failed."""
        if self._appended - self._durable < CAPACITY:
            return
        began = time.perf_counter()
        try:
            while self._appended - self._durable >= _half():
                if self._failure is not None:
                    raise LogError(self._failure)
                self._hurry.set()
                await self._room.wait()
        finally:
            self._room_seconds += time.perf_counter() - began

    async def flush(self) -> int:
        """Wait until every record appended so far is durable; return the position of the last one.

        Waiting tasks share commits. Cancellation ends the wait; the records are written anyway.
        Raises LogError when writing failed.
        """
        target = self._appended
        while self._durable < target:
            await self._next_commit()
        return target

    def add_scenario(self, snapshot: ScenarioSnapshot) -> None:
        """Store the snapshot of a scenario, once for each package. It is durable before any record
        that is appended later."""
        if snapshot.scenario_digest not in self._scenarios:
            self._scenarios.add(snapshot.scenario_digest)
            self._snapshots.append(snapshot)
            self._work.set()

    def add_session(self, session: SessionMeasured) -> None:
        """Store what a process measured, with the last records; not once writing has failed."""
        if self._open:
            self._sessions.append(session)
            self._work.set()

    def on_commit(self, handler: CommitHandler) -> None:
        """Call `handler`, in the event loop, with each committed batch and its positions.

        Nothing is committed while a handler waits: so a slow handler slows the tasks that wait for
        room.
        """
        self._handlers.append(handler)

    def on_commit_entries(self, handler: EntryHandler) -> None:
        """Call `handler`, in the event loop, with each committed batch as it was appended: encoded
        records are not decoded for it."""
        self._entry_handlers.append(handler)

    @property
    def failed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._failure is not None

    @property
    def durable(self) -> int:
        """The position of the last record that is on disk."""
        return self._durable

    def statistics(self) -> dict[str, int | float]:
        """Counts and seconds since the log was opened, and the number of records that wait
        now. `room_s` is summed over the tasks that waited for room; `listeners_s` is how long the
        log waited for its handlers."""
        return {
            "position": self._durable,
            "waiting": self._appended - self._durable,
            "commits": self._num_commits,
            "largest_commit": self._largest_commit,
            "commit_s": self._commit_seconds,
            "room_s": self._room_seconds,
            "listeners_s": self._listeners_seconds,
        }

    def __repr__(self) -> str:
        waiting = self._appended - self._durable
        return f"<LogWriter {self._path} at {self._durable}, {waiting} waiting>"

    async def _next_commit(self) -> None:
        if self._failure is not None:
            raise LogError(self._failure)
        self._hurry.set()
        await self._committed.wait()

    def _close(self) -> None:
        """Make the writing task write the remaining records and end."""
        self._open = False
        self._scope.deadline = anyio.current_time() + _CLOSE_TIMEOUT_S
        self._work.set()
        self._hurry.set()

    async def _write(self, stop: Callable[[], None]) -> None:
        """Run the writing task. `stop` is called when a commit failed, and ends the run."""
        with self._scope:
            try:
                while await self._gather():
                    await self._commit()
            except (*READ_ERRORS, LogError, OverflowError) as exc:  # overflow: a huge position
                self._fail(f"{self._path}: the log cannot be written: {exc}", stop)
            return
        self._fail(f"{self._path}: closing the log took over {_CLOSE_TIMEOUT_S:.0f} seconds", stop)

    async def _gather(self) -> bool:
        """Wait until there is something to write, and a little longer, so that more can join; False
        when the writer is closed and everything is written."""
        while not self._buffer and not self._snapshots and not self._sessions:
            if not self._open:
                return False
            await self._work.wait()
            self._work = anyio.Event()
        if self._open and len(self._buffer) < _MAX_ROWS:
            with anyio.move_on_after(_IDLE_COMMIT_S - _GATHER_S):
                await self._hurry.wait()
            await anyio.sleep(_GATHER_S)
        return True

    async def _commit(self) -> None:
        began = time.perf_counter()
        self._hurry = anyio.Event()
        snapshots, self._snapshots = self._snapshots, []
        batch = self._buffer[:_MAX_ROWS]
        del self._buffer[:_MAX_ROWS]
        if snapshots:
            rows = [(snapshot.scenario_digest, encode(snapshot)) for snapshot in snapshots]
            await self._execute("INSERT OR IGNORE INTO scenarios VALUES (?, ?)", lambda: rows)
        first = self._durable + 1
        if batch:
            size = _statement_size(len(batch))
            # The database's thread consumes the parameters, so records are encoded there.
            await self._execute(_insert(size), lambda: _parameters(batch, first, size))
        if self._sessions:
            await self._store_sessions()
        self._durable += len(batch)
        self._num_commits += 1
        self._largest_commit = max(self._largest_commit, len(batch))
        self._commit_seconds += time.perf_counter() - began
        self._wake()
        committed = time.perf_counter()
        for entry_handler in self._entry_handlers:
            entry_handler(batch)
        if self._handlers and batch:
            numbered = [(position, _record(entry)) for position, entry in enumerate(batch, first)]
            for handler in self._handlers:
                waiting = handler(numbered)
                if waiting is not None:
                    await waiting
        self._listeners_seconds += time.perf_counter() - committed

    async def _store_sessions(self) -> None:
        rows = [sessions.row_of_session(session) for session in self._sessions]
        self._sessions = []
        await self._database.execute(sessions.MAKE_MISSING_TABLE)
        await self._execute(sessions.INSERT, lambda: rows)

    async def _execute(self, sql: str, rows: Callable[[], Iterable[Any]]) -> None:
        """Execute a statement. A full disk is waited for: space may be made. A statement that
        failed has changed nothing, so it can be repeated. Raises sqlite3.Error."""
        deadline: float | None = None  # on anyio's clock; None: the disk was not full
        while True:
            try:
                await self._database.executemany(sql, rows())
                return
            except sqlite3.OperationalError as exc:
                now = anyio.current_time()
                if exc.sqlite_errorcode != sqlite3.SQLITE_FULL or now >= (deadline or math.inf):
                    raise
            if deadline is None:
                deadline = now + _FULL_PATIENCE_S
                _log.warning("disk_full", file=str(self._path), waits_s=_FULL_PATIENCE_S)
            await anyio.sleep(_FULL_RETRY_S)

    def _fail(self, why: str, stop: Callable[[], None]) -> None:
        self._open, self._failure = False, why
        _log.info("log_failed", reason=why)  # `open_log` raises it
        self._wake()
        stop()

    def _wake(self) -> None:
        committed, self._committed = self._committed, anyio.Event()
        committed.set()
        if self._failure is not None or self._appended - self._durable < _half():
            room, self._room = self._room, anyio.Event()
            room.set()


@asynccontextmanager
async def open_log(
    folder: Path, *, resume: bool = False, open_database: OpenDatabase = open_sqlite
) -> AsyncIterator[LogWriter]:
    """Open the writer of a folder's log, until the block is left; runs on asyncio only.

    With `resume` it appends to the existing log, or makes a new one where there is none. Without
    `resume` an existing log is an error. `open_database` opens its database. When the log cannot be
    written any more, the block is cancelled and LogError is raised. Raises LogError also when the
    folder has another writer, or its file is not a log of this format.
    """
    path = folder / LOG_NAME
    with sole_writer(folder):
        if not resume and path.exists():
            raise LogError(f"{path}: a log already exists; resume it or choose another folder")
        try:
            require_own_files(path)
        except OSError as exc:
            raise log_error(path, "the log cannot be opened", exc) from exc
        remove_abandoned_drafts(folder)
        _make_log(path)
        async with _database(path, open_database) as database:
            writer = await _prepare_writer(database, path)
            _log.debug("log_opened", file=str(path), position=writer.statistics()["position"])
            failure: Exception | None = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(writer._write, tasks.cancel_scope.cancel)
                try:
                    yield writer
                except Exception as exc:  # raised below: the task group would wrap it
                    failure = exc
                finally:
                    writer._close()
            if writer._failure is not None:
                raise LogError(writer._failure) from failure
            if failure is not None:
                raise failure
            _log.debug("log_closed", file=str(path), **writer.statistics())


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock for the block. It is SQLite's own file lock: it works on every system
    and between threads, and the system frees it when the process dies."""
    lock: sqlite3.Connection | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):  # its lock could be taken all the same
            raise LogError(f"{folder}: the run folder cannot be written: it is read-only")
        # The timeout is for `has_writer`, which looks at the lock for a moment.
        require_own_files(folder / LOCK_NAME)
        lock = sqlite3.connect(folder / LOCK_NAME, timeout=0.2, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
    except (sqlite3.Error, OSError) as exc:
        if lock is not None:
            lock.close()
        if _is_locked(exc):
            raise LogError(f"{folder}: another process is writing to this run") from exc
        raise log_error(folder, "the run folder cannot be written", exc) from exc
    try:
        yield
    finally:
        lock.close()


def _is_locked(exc: Exception) -> bool:
    """Whether another connection has the lock. (The text of an error may quote any path.)"""
    code = getattr(exc, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def has_writer(folder: Path) -> bool:
    """Whether a process writes the log of a run folder now. Raises LogError."""
    path = folder / LOCK_NAME
    try:
        if not path.exists():
            return False
        require_own_files(path)
        with closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=0)
        ) as lock:
            lock.execute("SELECT 1 FROM sqlite_master").fetchall()
    except (sqlite3.Error, OSError) as exc:
        if _is_locked(exc):
            return True
        raise log_error(folder, "the lock of the log cannot be read", exc) from exc
    return False


@asynccontextmanager
async def _database(path: Path, open_database: OpenDatabase) -> AsyncIterator[LogConnection]:
    try:
        database = await open_database(path)
    except sqlite3.Error as exc:
        raise log_error(path, "the log cannot be opened", exc) from exc
    try:
        yield database
    finally:
        with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
            await database.close()


def _make_log(path: Path) -> None:
    """Make a log without records where there is none, or an empty file. Raises LogError."""
    try:
        if path.exists() and path.stat().st_size:
            return
        for suffix in ("-wal", "-shm", "-journal"):  # of a log that somebody deleted
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        write_atomically(path, empty_log())
    except OSError as exc:
        raise log_error(path, "the log cannot be made", exc) from exc


async def _prepare_writer(database: LogConnection, path: Path) -> LogWriter:
    """A writer that appends after the last record."""
    try:
        require_schema(await database.execute_fetchall(SCHEMA_QUERY), SCHEMAS)
        # Checked first: a log of another format stays as it was, byte for byte.
        check_format(path, await _value(database, "SELECT value FROM meta WHERE key = 'format'"))
        await database.execute("PRAGMA journal_mode = WAL")  # changes logs of older versions only
        await database.execute("PRAGMA synchronous = FULL")
        await database.execute("PRAGMA wal_autocheckpoint = 4000")
        position = await _value(database, "SELECT max(position) FROM events")
        digests = await database.execute_fetchall("SELECT scenario_digest FROM scenarios")
    except READ_ERRORS as exc:
        is_disk = getattr(exc, "sqlite_errorcode", 0) & 0xFF in _DISK_ERRORS
        what = "cannot be opened" if is_disk else "is not one that can be continued"
        raise log_error(path, f"the log {what}", exc) from exc
    return LogWriter(
        database, path, position=position or 0, scenarios={digest for (digest,) in digests}
    )


async def _value(database: LogConnection, sql: str) -> Any:
    for row in await database.execute_fetchall(sql):
        return row[0]
    return None


def _half() -> int:
    return max(1, CAPACITY // 2)


def _statement_size(num_rows: int) -> int:
    """The next power of two, so that a few statements suffice and stay prepared."""
    return max(_MIN_ROWS, 1 << math.ceil(math.log2(num_rows)))


@cache
def _insert(size: int) -> str:
    """One statement that inserts up to `size` rows; unused rows are filled with NULL."""
    rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * size)
    return f"INSERT INTO events SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"


def _record(entry: Entry) -> Record:
    return record_of((0, *entry)) if isinstance(entry, tuple) else entry


def _parameters(batch: list[Entry], first: int, size: int) -> Iterator[list[Any]]:
    """Yield the parameters of that statement, made only when the database asks for them."""
    values: list[Any] = []
    for position, entry in enumerate(batch, first):
        values += (position, *entry) if isinstance(entry, tuple) else row_of(position, entry)
    values += [None] * (8 * (size - len(batch)))
    yield values
