"""Stored judgements of models, in one SQLite file that several processes may use at once.

Only judgements with a label are stored, no faults: a case without a label is asked again. A
judgement that was stored survives `kill -9`; the file is never left half initialized.
"""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import aiosqlite
import anyio
import anyio.to_thread
import msgspec
import structlog
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.core.events import ModelJudgement, encode
from rehearsal_room.harness.log.own_files import SCHEMA_QUERY, require_own_files, require_schema
from rehearsal_room.judge.core.case import without_cost
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.scenarios.files import UNREADABLE

_APPLICATION = 0x52564332  # "RVC2": the file is a verdict cache of this format
_BUSY_SECONDS = 30.0  # to wait for another process's write
_CLOSING_SECONDS = 10.0
_ANSWER = "answer"  # the mode of an answer to a benchmark's own question, which has no label
_TABLE = """CREATE TABLE judgements (
    episode TEXT NOT NULL,
    rubric TEXT NOT NULL,
    model TEXT NOT NULL,
    mode TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (episode, rubric, model, mode)) WITHOUT ROWID"""

_log = structlog.get_logger(__name__)
_decode = msgspec.msgpack.Decoder(ModelJudgement).decode


class VerdictCache(AsyncContextManagerMixin):
    """An async context manager that owns its connection. The file is created where it is missing.

    Entering raises JudgeError, which names the file, when it cannot be used; a file of another kind
    is not changed. When the file fails later, that is logged, and costs requests but no verdicts.

    The key of a judgement is the episode's digest (see judge.core.evidence), the rubric's version,
    the model and the judge's mode. That of an answer is the question and the model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: aiosqlite.Connection | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        database = await self._connect()
        try:
            await self._prepare(database)
            self._database = database
            yield self
        finally:
            self._database = None
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await database.close()

    async def get(self, digest: str, rubric: str, model: str, mode: str) -> ModelJudgement | None:
        """The stored judgement, at no cost; None: there is none that can be read."""
        rows = await self._execute(
            "SELECT data FROM judgements WHERE (episode, rubric, model, mode) = (?, ?, ?, ?)",
            (digest, rubric, model, mode),
        )
        try:
            return _decode(rows[0][0]) if rows else None
        except (TypeError, *UNREADABLE):
            return None  # written by another version: the model is asked again, and it is replaced

    async def put(
        self, digest: str, rubric: str, model: str, mode: str, judgement: ModelJudgement
    ) -> None:
        """Store a judgement; one without a label is not stored."""
        if judgement.label is None:
            return
        stored = msgspec.structs.replace(without_cost(judgement), is_cached=True)
        await self._execute(
            "INSERT OR REPLACE INTO judgements VALUES (?, ?, ?, ?, ?)",
            (digest, rubric, model, mode, encode(stored)),
        )

    async def get_answer(self, model: str, question: str) -> str | None:
        """The stored answer of a model to the question with this digest; None: there is none."""
        rows = await self._execute(
            "SELECT data FROM judgements WHERE (episode, rubric, model, mode) = (?, '', ?, ?)",
            (question, model, _ANSWER),
        )
        return rows[0][0].decode(errors="surrogatepass") if rows else None

    async def put_answer(self, model: str, question: str, answer: str) -> None:
        """Store a model's answer to the question with this digest."""
        await self._execute(
            "INSERT OR REPLACE INTO judgements VALUES (?, '', ?, ?, ?)",
            (question, model, _ANSWER, answer.encode(errors="surrogatepass")),
        )

    async def drop_answer(self, model: str, question: str) -> None:
        """Forget a model's answer to the question with this digest."""
        await self._execute(
            "DELETE FROM judgements WHERE (episode, rubric, model, mode) = (?, '', ?, ?)",
            (question, model, _ANSWER),
        )

    async def _execute(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        if self._database is None:
            raise RuntimeError("the verdict cache is used outside of its `async with`")
        try:
            return list(await self._database.execute_fetchall(sql, values))
        except sqlite3.Error as exc:
            _log.warning("verdict_cache_failed", file=str(self._path), error=str(exc))
            return []

    async def _connect(self) -> aiosqlite.Connection:
        try:
            require_own_files(self._path.resolve())
            # Where it cannot be opened, aiosqlite leaves a thread that may outlive the event loop.
            await anyio.to_thread.run_sync(lambda: sqlite3.connect(self._path).close())
            return await aiosqlite.connect(self._path, isolation_level=None, timeout=_BUSY_SECONDS)
        except (sqlite3.Error, OSError) as exc:
            raise JudgeError(f"{self._path}: the verdict cache cannot be opened: {exc}") from exc

    async def _prepare(self, database: aiosqlite.Connection) -> None:
        """Create the table in a new file. An old file is checked before anything is changed."""
        try:
            if not await _value(database, "PRAGMA application_id"):
                await self._create(database)
            if await _value(database, "PRAGMA application_id") != _APPLICATION:
                raise JudgeError(f"{self._path}: the file is not a verdict cache of this version")
            with suppress(sqlite3.OperationalError):  # another process does it, or it is done
                await database.execute("PRAGMA journal_mode = WAL")
            await database.execute("PRAGMA synchronous = NORMAL")
            require_schema(await database.execute_fetchall(SCHEMA_QUERY), (_TABLE,))
            await _value(database, "SELECT count(*) FROM judgements")
        except (sqlite3.Error, OSError) as exc:
            raise JudgeError(f"{self._path}: the verdict cache cannot be used: {exc}") from exc

    async def _create(self, database: aiosqlite.Connection) -> None:
        await database.execute("BEGIN IMMEDIATE")
        if not await _value(database, "SELECT count(*) FROM sqlite_master"):
            await database.execute(f"PRAGMA application_id = {_APPLICATION}")
            await database.execute(_TABLE)
        await database.execute("COMMIT")


async def _value(database: aiosqlite.Connection, sql: str) -> Any:
    for row in await database.execute_fetchall(sql):
        return row[0]
    return None
