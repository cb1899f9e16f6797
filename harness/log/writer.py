"""The one writer of a run's log.

What is kept:

- Records are stored in the order in which they were appended, each once.
- A record whose `flush` returned survives `kill -9` and a power cut.
- Whatever was appended before the block was left is stored, also when it was cancelled.
- A folder has one writer at a time, across processes.

Appending is a list append. One task drains what has gathered as one transaction, which is one
statement (see `_insert`): a statement for each row would hand the interpreter lock over twice a
row, and in a busy event loop each time costs up to 5 ms. Measured with 200 rows a transaction next
to a thread that never rests: 640 rows/s that way, 19,000 this way.
"""

import math
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import aiosqlite
import anyio
import structlog

from harness.core.errors import LogError
from harness.core.events import Record, encode
from harness.log.schema import FORMAT, LOG_NAME, SCHEMA, ScenarioSnapshot, log_error, row_of

LOCK_NAME = "writer.lock"
CAPACITY = 16_384  # records that may wait; beyond it `wait_for_room` waits
_LARGEST = 2_048  # rows of one statement: 8 parameters each, and SQLite takes 32,766
_SMALLEST = 16
_GATHER = 0.005  # seconds from the first wish to flush to the commit, for others to join
_LINGER = 0.025  # seconds until a commit when nobody waits for it
_LAST_COMMIT = 30.0  # seconds that closing may take

# Takes a committed batch with its positions; what it may give is awaited before the next commit.
CommitHandler = Callable[[list[tuple[int, Record]]], Awaitable[None] | None]

_log = structlog.get_logger(__name__)


class LogWriter:
    """Appends to one log. Made by `open_log`."""

    def __init__(
        self, database: aiosqlite.Connection, path: Path, *, position: int, mounted: set[str]
    ) -> None:
        self._database = database
        self._path = path
        self._mounted = mounted
        self._mounts: list[ScenarioSnapshot] = []
        self._buffer: list[Record] = []
        self._appended = position  # of the last record appended
        self._durable = position  # of the last record committed
        self._handlers: list[CommitHandler] = []
        self._open = True
        self._failure: str | None = None  # why nothing can be written any more
        self._scope = anyio.CancelScope(shield=True)
        self._work = anyio.Event()  # there is something to write, or it is time to end
        self._hurry = anyio.Event()  # somebody waits
        self._committed = anyio.Event()  # replaced by a new one at each commit
        self._room = anyio.Event()  # replaced when half of the capacity is free again
        self._num_commits = 0
        self._largest_commit = 0
        self._commit_seconds = 0.0

    def append(self, record: Record) -> None:
        """Take a record to be written soon. Raises LogError once writing has failed."""
        if not self._open:
            raise LogError(self._failure or f"{self._path}: the log is closed")
        buffer = self._buffer
        buffer.append(record)
        self._appended += 1
        if len(buffer) == 1:
            self._work.set()

    async def wait_for_room(self) -> None:
        """Return at once while less than `CAPACITY` records are in memory, as they mostly are;
        else wait until half of them are written, so that a thousand waiters wake once, not at
        each commit."""
        if self._appended - self._durable < CAPACITY:
            return
        while self._appended - self._durable >= _half():
            if self._failure is not None:
                raise LogError(self._failure)
            self._hurry.set()
            await self._room.wait()

    async def flush(self) -> int:
        """Wait until everything appended so far is durable; gives the last one's position.

        Waiters share commits. Cancelled, it stops waiting and takes nothing back. Raises LogError
        when writing failed.
        """
        wanted = self._appended
        while self._durable < wanted:
            await self._next_commit()
        return wanted

    def mount(self, world: ScenarioSnapshot) -> None:
        """Store what a world is, once for each package. It is durable before any record that is
        appended after."""
        if world.scenario_digest not in self._mounted:
            self._mounted.add(world.scenario_digest)
            self._mounts.append(world)
            self._work.set()

    def on_commit(self, handler: CommitHandler) -> None:
        """Call `handler`, in the event loop, with each committed batch and its positions.

        While it waits nothing is committed: so a slow listener slows who waits for room.
        """
        self._handlers.append(handler)

    def statistics(self) -> dict[str, int | float]:
        """Counts since the log was opened, and what waits now."""
        return {
            "position": self._durable,
            "waiting": self._appended - self._durable,
            "commits": self._num_commits,
            "largest_commit": self._largest_commit,
            "commit_s": self._commit_seconds,
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
        """Let the writing task write what is left, and end."""
        self._open = False
        self._scope.deadline = anyio.current_time() + _LAST_COMMIT
        self._work.set()
        self._hurry.set()

    async def _write(self, stop: Callable[[], None]) -> None:
        """The writing task. `stop` ends the run when a commit failed."""
        with self._scope:
            try:
                while await self._gather():
                    await self._commit()
            except (sqlite3.Error, LogError) as exc:
                self._fail(f"{self._path}: the log cannot be written: {exc}", stop)
            return
        self._fail(f"{self._path}: closing the log took over {_LAST_COMMIT:.0f} seconds", stop)

    async def _gather(self) -> bool:
        """Wait for something to write and a little longer; False when there will be no more."""
        while not self._buffer and not self._mounts:
            if not self._open:
                return False
            await self._work.wait()
            self._work = anyio.Event()
        if self._open and len(self._buffer) < _LARGEST:
            with anyio.move_on_after(_LINGER - _GATHER):
                await self._hurry.wait()
            await anyio.sleep(_GATHER)
        return True

    async def _commit(self) -> None:
        began = time.perf_counter()
        self._hurry = anyio.Event()
        mounts, self._mounts = self._mounts, []
        batch = self._buffer[:_LARGEST]
        del self._buffer[:_LARGEST]
        if mounts:
            await self._database.executemany(
                "INSERT OR IGNORE INTO worlds VALUES (?, ?)",
                [(world.scenario_digest, encode(world)) for world in mounts],
            )
        first = self._durable + 1
        if batch:
            size = _statement_size(len(batch))
            # The parameters are made, and so the records encoded, in the database's thread.
            await self._database.executemany(_insert(size), _parameters(batch, first, size))
        self._durable += len(batch)
        self._num_commits += 1
        self._largest_commit = max(self._largest_commit, len(batch))
        self._commit_seconds += time.perf_counter() - began
        self._wake()
        if self._handlers and batch:
            numbered = list(enumerate(batch, first))
            for handler in self._handlers:
                waiting = handler(numbered)
                if waiting is not None:
                    await waiting

    def _fail(self, why: str, stop: Callable[[], None]) -> None:
        self._open, self._failure = False, why
        _log.error("log_failed", reason=why)
        self._wake()
        stop()

    def _wake(self) -> None:
        committed, self._committed = self._committed, anyio.Event()
        committed.set()
        if self._failure is not None or self._appended - self._durable < _half():
            room, self._room = self._room, anyio.Event()
            room.set()


@asynccontextmanager
async def open_log(folder: Path, *, resume: bool = False) -> AsyncIterator[LogWriter]:
    """The writer of a folder's log, until the block is left; runs on asyncio.

    With `resume` it goes on behind what is there, or begins when nothing is. Without, a log that
    is there is an error. When the log cannot be written any more, the block is cancelled and
    LogError raised. Raises LogError also when the folder has another writer, or its log is none.
    """
    path = folder / LOG_NAME
    with _sole_writer(folder):
        if not resume and path.exists():
            raise LogError(f"{path}: there is a log already; resume it, or name another folder")
        async with _database(path) as database:
            writer = await _prepared(database, path)
            _log.debug("log_opened", file=str(path), position=writer.statistics()["position"])
            failure: Exception | None = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(writer._write, tasks.cancel_scope.cancel)
                try:
                    yield writer
                except Exception as exc:  # raised again below: the task group would wrap it
                    failure = exc
                finally:
                    writer._close()
            if writer._failure is not None:
                raise LogError(writer._failure) from failure
            if failure is not None:
                raise failure
            await _tidy(database)
            _log.debug("log_closed", file=str(path), **writer.statistics())


@contextmanager
def _sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. It is SQLite's own file lock: it works on every system and between
    threads, and the system frees it when the process dies."""
    lock: sqlite3.Connection | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(folder / LOCK_NAME, timeout=0, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
    except (sqlite3.Error, OSError) as exc:
        if lock is not None:
            lock.close()
        if "locked" in str(exc):
            raise LogError(f"{folder}: another process is writing to this run") from exc
        raise log_error(folder, "the run folder cannot be written", exc) from exc
    try:
        yield
    finally:
        lock.close()


@asynccontextmanager
async def _database(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    try:
        database = await aiosqlite.connect(path, isolation_level=None)
    except sqlite3.Error as exc:
        raise log_error(path, "the log cannot be opened", exc) from exc
    try:
        yield database
    finally:
        with anyio.move_on_after(_LAST_COMMIT, shield=True):
            await database.close()


async def _prepared(database: aiosqlite.Connection, path: Path) -> LogWriter:
    """A writer that goes on behind the last record; the tables are made where there are none."""
    try:
        await database.execute("PRAGMA page_size = 8192")  # of a new file; 4096 costs 15 % more
        await database.execute("PRAGMA journal_mode = WAL")
        await database.execute("PRAGMA synchronous = FULL")
        await database.execute("PRAGMA wal_autocheckpoint = 4000")
        if await _value(database, "SELECT count(*) FROM sqlite_master") == 0:
            await database.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                await database.execute(statement)
            await database.execute("COMMIT")
        found = await _value(database, "SELECT value FROM meta WHERE key = 'format'")
        if found != FORMAT:
            raise LogError(f"{path}: the log has format {found}; this program writes {FORMAT}")
        position = await _value(database, "SELECT max(position) FROM events")
        mounted = await database.execute_fetchall("SELECT scenario_digest FROM worlds")
    except sqlite3.Error as exc:
        raise log_error(path, "the file is no log that can be continued", exc) from exc
    return LogWriter(
        database, path, position=position or 0, mounted={digest for (digest,) in mounted}
    )


async def _tidy(database: aiosqlite.Connection) -> None:
    """Make the finished log one plain file, which can be read where nothing can be written. While
    somebody reads it that cannot be, and it stays as good as it is."""
    with suppress(sqlite3.OperationalError), anyio.move_on_after(_LAST_COMMIT, shield=True):
        await database.execute("PRAGMA busy_timeout = 100")
        await database.execute("PRAGMA journal_mode = DELETE")


async def _value(database: aiosqlite.Connection, sql: str) -> Any:
    for row in await database.execute_fetchall(sql):
        return row[0]
    return None


def _half() -> int:
    return max(1, CAPACITY // 2)


def _statement_size(num_rows: int) -> int:
    """The next power of two: so that a handful of statements stay prepared."""
    return max(_SMALLEST, 1 << math.ceil(math.log2(num_rows)))


@cache
def _insert(size: int) -> str:
    """One statement that inserts up to `size` rows; what is to spare is filled with NULL."""
    rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * size)
    return f"INSERT INTO events SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"


def _parameters(batch: list[Record], first: int, size: int) -> Iterator[list[Any]]:
    """The parameters of that statement, made when they are asked for."""
    values: list[Any] = []
    for position, record in enumerate(batch, first):
        values += row_of(position, record)
    values += [None] * (8 * (size - len(batch)))
    yield values
