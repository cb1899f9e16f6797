"""Faults of the disk under the log: it is full for a while, or slow."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio

from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Delay, DiskFull
from rehearsal_room.harness.core.events import FaultInjected
from rehearsal_room.harness.log.writer import LogConnection, OpenDatabase


def faulty_database(open_database: OpenDatabase, injector: Injector) -> OpenDatabase:
    """A function that opens a log's database, whose disk is hit by faults."""

    async def opened(path: Path) -> LogConnection:
        return FaultyDatabase(await open_database(path), injector)

    return opened


class FaultyDatabase:
    """A log's database on a faulty disk. It implements harness.log.writer.LogConnection."""

    def __init__(self, inner: LogConnection, injector: Injector) -> None:
        self._inner = inner
        self._injector = injector
        self._num_commits = 0
        self._full_until = 0.0  # on anyio's clock
        self._full_for = 0.0  # seconds that the disk is full; 0: it is not

    async def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement for each set of parameters: a commit. Raises sqlite3.Error."""
        slow, full = self._injector.fault("disk.slow"), self._injector.fault("disk.full")
        self._raise_while_full()
        self._num_commits += 1
        if isinstance(full, DiskFull) and self._injector.hits("disk.full", self._num_commits):
            self._full_until = anyio.current_time() + full.seconds
            self._full_for = full.seconds
            self._raise_while_full()
        if isinstance(slow, Delay) and self._injector.hits("disk.slow", self._num_commits):
            await anyio.sleep(slow.seconds)
            self._injector.report(FaultInjected("disk.slow", seconds=slow.seconds))
        result = await self._inner.executemany(sql, parameters)
        if self._full_for:
            event = FaultInjected("disk.full", retried=True, seconds=self._full_for)
            self._full_for = 0.0
            self._injector.report(event)
        return result

    async def execute(self, sql: str, /) -> Any:
        """Execute a statement."""
        return await self._inner.execute(sql)

    async def execute_fetchall(self, sql: str, /) -> Iterable[Any]:
        """The rows that a query gives."""
        return await self._inner.execute_fetchall(sql)

    async def close(self) -> None:
        """Close the connection."""
        await self._inner.close()

    def _raise_while_full(self) -> None:
        if self._full_for and anyio.current_time() < self._full_until:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
