"""Faults of the disk under the log: a slow one costs time, a full one is waited for."""

import sqlite3
from pathlib import Path

import pytest
import structlog

from rehearsal_room.harness.chaos.disk import faulty_database
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import FaultInjected
from rehearsal_room.harness.log import writer
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log, open_sqlite
from tests.support.chaos import chaos_of, injecting
from tests.support.episode_logs import whole


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def write(folder: Path, injector: Injector) -> list[FaultInjected]:
    """Write two episodes, each durable before the next; returns the faults."""
    opened = open_log(folder, open_database=faulty_database(open_sqlite, injector))
    async with injecting(injector) as faults, opened as log:
        for name in ("a", "b"):
            for record in whole(name):
                log.append(record)
            await log.flush()
    assert sum(fault.seconds for fault in faults) <= log.statistics()["commit_s"] + 0.001
    return faults


async def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement that failed is made again: every record is stored, once and in order."""
    monkeypatch.setattr(writer, "_FULL_RETRY_S", 0.01)
    injector = Injector(chaos_of({"disk": {"full": {"at": [0.0], "seconds": 0.03}}}))
    with structlog.testing.capture_logs() as lines:
        faults = await write(tmp_path, injector)
    assert faults == [FaultInjected("disk.full", retried=True, seconds=0.03)]
    assert [line["event"] for line in lines].count("disk_full") == 1
    with open_reader(tmp_path) as reader:
        records = [record for _, record in reader.records_after(0)]
    assert records == [*whole("a"), *whole("b")]


async def test_a_disk_that_stays_full_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its patience the log gives up with one sentence; what was durable stays."""
    monkeypatch.setattr(writer, "_FULL_RETRY_S", 0.01)
    monkeypatch.setattr(writer, "_FULL_PATIENCE_S", 0.05)
    injector = Injector(chaos_of({"disk": {"full": {"at": [0.0], "seconds": 60}}}))
    with pytest.raises(LogError, match=r"the log cannot be written: database or disk is full"):
        await write(tmp_path, injector)
    with open_reader(tmp_path) as reader:
        assert reader.records_after(0) == []


async def test_another_error_of_the_disk_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a full disk may get better by itself."""

    class Broken:
        async def executemany(self, sql: str, parameters: object, /) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    log = writer.LogWriter(Broken(), tmp_path, position=0, scenarios=set())  # type: ignore[arg-type]
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        await log._execute("", list)


async def test_a_slow_disk_costs_time_only(tmp_path: Path) -> None:
    """Every commit takes longer, and all records are stored."""
    injector = Injector(chaos_of({"disk": {"slow": {"share": 1.0, "seconds": 0.02}}}))
    faults = await write(tmp_path, injector)
    assert set(faults) == {FaultInjected("disk.slow", seconds=0.02)}
    assert len(faults) >= 2
    with open_reader(tmp_path) as reader:
        assert len(reader.records_after(0)) == len(whole("a") + whole("b"))
