"""Opinions that were had before, in one SQLite file that several processes may use at once.

Only opinions are kept, no faults: what could not be judged is asked again. An opinion that was put
survives `kill -9`; the file is never left half made.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiosqlite
import anyio
import anyio.to_thread
import msgspec
import structlog

from harness.core.events import ModelJudgement, encode
from judge.core.case import had_again
from judge.core.errors import JudgeError

_APPLICATION = 0x52564331  # "RVC1": the file is a verdict cache of this format
_BUSY_SECONDS = 30.0  # to wait for another process's write
_CLOSING_SECONDS = 10.0
_TABLE = """CREATE TABLE opinions (
    episode TEXT NOT NULL,
    rubric TEXT NOT NULL,
    model TEXT NOT NULL,
    mode TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (episode, rubric, model, mode)) WITHOUT ROWID"""

_log = structlog.get_logger(__name__)
_decode = msgspec.msgpack.Decoder(ModelJudgement).decode


class VerdictCache:
    """An async context manager that owns its connection. The file is made where there is none.

    Entering raises JudgeError naming the file when it cannot be used; one that is something else is
    left as it is. A file that fails later is told to the log and costs questions, no verdicts.

    An opinion's key is the episode's digest (see judge.core.evidence), the rubric's version, the
    model and the judge's mode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: aiosqlite.Connection | None = None

    async def __aenter__(self) -> Self:
        try:
            # Where it cannot be opened, aiosqlite leaves a thread that may outlive the event loop.
            await anyio.to_thread.run_sync(lambda: sqlite3.connect(self._path).close())
            database = await aiosqlite.connect(
                self._path, isolation_level=None, timeout=_BUSY_SECONDS
            )
        except sqlite3.Error as exc:
            raise JudgeError(f"{self._path}: the verdict cache cannot be opened: {exc}") from exc
        try:
            await self._prepare(database)
        except BaseException:
            await _close(database)
            raise
        self._database = database
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._database is not None:
            await _close(self._database)
            self._database = None

    async def get(self, digest: str, rubric: str, model: str, mode: str) -> ModelJudgement | None:
        """The opinion as it costs now, which is nothing; None: there is none that can be read."""
        rows = await self._execute(
            "SELECT data FROM opinions WHERE (episode, rubric, model, mode) = (?, ?, ?, ?)",
            (digest, rubric, model, mode),
        )
        try:
            return _decode(rows[0][0]) if rows else None
        except (msgspec.DecodeError, TypeError):
            return None  # another version's; it is had again and replaced

    async def put(
        self, digest: str, rubric: str, model: str, mode: str, opinion: ModelJudgement
    ) -> None:
        """Keep an opinion; one without a label is not kept."""
        if opinion.label is None:
            return
        free = msgspec.structs.replace(had_again(opinion), is_cached=True)
        await self._execute(
            "INSERT OR REPLACE INTO opinions VALUES (?, ?, ?, ?, ?)",
            (digest, rubric, model, mode, encode(free)),
        )

    async def _execute(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        if self._database is None:
            raise RuntimeError("the verdict cache is used outside of its `async with`")
        try:
            return list(await self._database.execute_fetchall(sql, values))
        except sqlite3.Error as exc:
            _log.warning("verdict_cache_failed", file=str(self._path), error=str(exc))
            return []

    async def _prepare(self, database: aiosqlite.Connection) -> None:
        """Make the table in a new file; an old one is looked at before anything is changed."""
        try:
            if not await _value(database, "PRAGMA application_id"):
                await self._make(database)
            if await _value(database, "PRAGMA application_id") != _APPLICATION:
                raise JudgeError(f"{self._path}: the file is no verdict cache")
            with suppress(sqlite3.OperationalError):  # another process is at it, or it was done
                await database.execute("PRAGMA journal_mode = WAL")
            await database.execute("PRAGMA synchronous = NORMAL")
            await _value(database, "SELECT count(*) FROM opinions")
        except sqlite3.Error as exc:
            raise JudgeError(f"{self._path}: the verdict cache cannot be used: {exc}") from exc

    async def _make(self, database: aiosqlite.Connection) -> None:
        await database.execute("BEGIN IMMEDIATE")
        if not await _value(database, "SELECT count(*) FROM sqlite_master"):
            await database.execute(f"PRAGMA application_id = {_APPLICATION}")
            await database.execute(_TABLE)
        await database.execute("COMMIT")


async def _value(database: aiosqlite.Connection, sql: str) -> Any:
    for row in await database.execute_fetchall(sql):
        return row[0]
    return None


async def _close(database: aiosqlite.Connection) -> None:
    with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
        await database.close()
