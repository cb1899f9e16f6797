"""Read-only SQL on one state of a world: a query of a person, with limits.

Nothing outside of the database can be reached: only SELECT is allowed, no PRAGMA, no ATTACH, no
loading of extensions; time, rows, the size of a value and the sum of a result's values are limited.
"""

import sqlite3
import time
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.viewer.reading.plain import plain

_SECONDS = 2.0
_MAX_ROWS = 1_000
_MAX_VALUE = 1_000_000  # bytes of one value
_MAX_SUM = 8_000_000  # bytes of all values of a result
_MAX_COLUMNS = 500  # of a result: each may be a value
_MAX_SQL = 100_000  # characters
_STEPS = 5_000  # instructions of SQLite's machine between two looks at the clock
_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile"})


class SqlRows(msgspec.Struct, frozen=True):
    """The result of a query."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool
    seconds: float


def query(database: sqlite3.Connection, sql: str) -> SqlRows:
    """The rows of a query. Raises SettingsError for what is not a query, and for one that takes too
    long."""
    if len(sql) > _MAX_SQL:
        raise SettingsError(f"sql: the query is too long (at most {_MAX_SQL:,} characters)")
    began = time.monotonic()
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
    database.execute("PRAGMA temp_store = MEMORY")
    database.set_authorizer(_authorize)
    database.set_progress_handler(lambda: time.monotonic() - began > _SECONDS, _STEPS)
    try:
        cursor = database.execute(sql)
        if cursor.description is None:
            raise SettingsError("sql: only SELECT is possible here: the world is read, not changed")
        columns = [str(column[0]) for column in cursor.description]
        rows, is_cut = _bounded(cursor)
    except (sqlite3.Error, sqlite3.Warning) as exc:
        raise SettingsError(f"sql: {_reason(exc)}") from exc
    except UnicodeError as exc:
        raise SettingsError(f"sql: a text cannot be read: {exc}") from exc
    finally:
        database.set_authorizer(None)
        database.set_progress_handler(None, 0)
    shown = [plain(row) for row in rows]
    return SqlRows(columns, shown, is_cut, time.monotonic() - began)


def _bounded(cursor: sqlite3.Cursor) -> tuple[list[tuple[Any, ...]], bool]:
    """The first rows of a result, as far as they fit, and whether there are more."""
    rows: list[tuple[Any, ...]] = []
    left = _MAX_SUM
    for row in cursor:
        left -= sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) == _MAX_ROWS or left < 0:
            return rows, True
        rows.append(row)
    return rows, False


def _reason(exc: Exception) -> str:
    text = str(exc)
    if text == "interrupted":
        return f"the query took longer than {_SECONDS:g} seconds and was stopped"
    if text in ("not authorized", "authorization denied") or "prohibited" in text:
        return f"only SELECT on the world's tables is possible here ({text})"
    return text


def _authorize(
    action: int, first: str | None, second: str | None, database: str | None, source: str | None
) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
