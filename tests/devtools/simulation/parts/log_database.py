"""The log's database without a thread: statements run in the event loop, after a virtual delay."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import apsw

from tests.devtools.simulation.parts.choices import Choices
from tests.devtools.simulation.parts.crash_disk import CrashDisk

_SLOW = 0.05  # share of the statements that take long
_LONGEST_S = 2.0


class SimulatedDatabase:
    """What harness.log.writer uses of an aiosqlite connection."""

    def __init__(self, disk: CrashDisk, path: Path, choices: Choices) -> None:
        self._connection = disk.connect(path)
        self._choices = choices

    async def executemany(self, sql: str, parameters: Iterable[Any]) -> None:
        """Execute a statement for each set of parameters. Raises sqlite3.Error."""
        await self._delay()
        for values in parameters:
            self._execute(sql, tuple(values))

    async def execute(self, sql: str) -> None:
        """Execute a statement. Raises sqlite3.Error."""
        self._execute(sql, ())

    async def execute_fetchall(self, sql: str) -> list[Any]:
        """The rows that a query gives. Raises sqlite3.Error."""
        return self._execute(sql, ())

    async def close(self) -> None:
        """Close the database, which writes its journal back."""
        try:
            self._connection.close()
        except apsw.Error as exc:
            raise _error_of(exc) from exc

    async def _delay(self) -> None:
        seconds = self._choices.amount("slow_commit", _LONGEST_S, rate=_SLOW)
        await anyio.sleep(0.001 + seconds)

    def _execute(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return list(self._connection.execute(sql, values))
        except apsw.Error as exc:
            raise _error_of(exc) from exc


def _error_of(exc: apsw.Error) -> sqlite3.OperationalError:
    """The error that the sqlite3 module raises in its place."""
    error = sqlite3.OperationalError(str(exc))
    error.sqlite_errorcode = getattr(exc, "extendedresult", sqlite3.SQLITE_ERROR)
    return error
