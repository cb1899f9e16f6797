"""A log opens for every reader, with all that a kill can leave beside it."""

import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.harness.log import log_file
from rehearsal_room.harness.log.log_file import LogFile
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, empty_log
from rehearsal_room.harness.log.writer import open_log
from tests.support.episode_logs import WORLD, whole
from tests.support.forked import in_child

_OTHER_USER = 65_534
EPISODES = ["e0", "e1"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the only event loop that aiosqlite supports


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user of the system can enter; tmp_path is closed to others."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


async def _write(folder: Path) -> None:
    async with open_log(folder) as log:
        log.add_scenario(WORLD)
        for episode in EPISODES:
            for record in whole(episode):
                log.append(record)


async def _write_and_copy_live(folder: Path) -> None:
    """Leave a folder as a kill does: with commits in the -wal file alone."""
    live = folder / "live"
    async with open_log(live) as log:
        for episode in EPISODES:
            for record in whole(episode):
                log.append(record)
        await log.flush()
        for path in live.glob(f"{LOG_NAME}*"):
            shutil.copyfile(path, folder / path.name)
    shutil.rmtree(live)
    assert (folder / f"{LOG_NAME}-wal").stat().st_size > 8192


def _episodes(folder: Path) -> list[str]:
    with open_reader(folder) as reader:
        return [row.episode for row in reader.episodes()]


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _read_without_the_right_to_write(folder: Path) -> int:
    """Read the log in a child that may not write to its folder; returns the exit status."""

    def read() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(_OTHER_USER, _OTHER_USER, _OTHER_USER)
            os.setresuid(_OTHER_USER, _OTHER_USER, _OTHER_USER)
        assert not os.access(folder, os.W_OK)
        assert _episodes(folder) == EPISODES

    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    return in_child(read)


async def test_another_user_reads_a_finished_log(folder: Path) -> None:
    """A reader who may not write reads a finished log, and the folder stays as it was."""
    await _write(folder)
    before = _contents(folder)
    assert _read_without_the_right_to_write(folder) == 0
    assert _contents(folder) == before


@pytest.mark.parametrize("lost", [(), ("-shm",)], ids=["all", "without -shm"])
async def test_another_user_reads_a_killed_log(folder: Path, lost: tuple[str, ...]) -> None:
    """A reader who may not write reads what a kill left, commits in the -wal file included."""
    await _write_and_copy_live(folder)
    for suffix in lost:
        (folder / f"{LOG_NAME}{suffix}").unlink()
    assert _read_without_the_right_to_write(folder) == 0


async def test_reading_applies_what_a_kill_left(tmp_path: Path) -> None:
    """A reader who may write leaves the log as one plain file, which can be copied alone."""
    await _write_and_copy_live(tmp_path)
    assert _episodes(tmp_path) == EPISODES
    assert os.listdir(tmp_path) == [LOG_NAME]
    (tmp_path / "alone").mkdir()
    shutil.copyfile(tmp_path / LOG_NAME, tmp_path / "alone" / LOG_NAME)
    assert _episodes(tmp_path / "alone") == EPISODES


def _leave_a_hot_journal(path: Path) -> None:
    """Die in the middle of a transaction with a rollback journal, as a switch from WAL is one."""

    def die() -> None:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("PRAGMA cache_spill = 1")
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN")
        database.execute("UPDATE events SET data = zeroblob(100000)")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == -signal.SIGKILL
    assert path.with_name(f"{LOG_NAME}-journal").stat().st_size > 0


@pytest.mark.parametrize("may_write", [True, False])
async def test_a_hot_journal_of_an_older_version_is_undone(
    tmp_path: Path, may_write: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was killed while it had a rollback journal opens, for every reader; one who may
    not write leaves the journal to others."""
    await _write(tmp_path)
    _leave_a_hot_journal(tmp_path / LOG_NAME)
    before = _contents(tmp_path)
    monkeypatch.setattr(log_file, "_may_write", lambda path: may_write)
    assert _episodes(tmp_path) == EPISODES
    assert (_contents(tmp_path) == before) is not may_write


async def test_a_log_that_changes_under_an_unlocked_reader_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader without locks notices a writer that began later, and gives what is there now."""
    await _write(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(log_file, "_may_write", lambda path: False)
        with open_reader(tmp_path) as reader:
            assert len(reader.records_after(0)) == 10
            async with open_log(tmp_path, resume=True) as log:
                for record in whole("e2"):
                    log.append(record)
                await log.flush()
                assert len(reader.records_after(0)) == 15
            assert [row.episode for row in reader.episodes()] == [*EPISODES, "e2"]


async def test_a_log_has_no_rollback_journal_from_its_first_byte(tmp_path: Path) -> None:
    """A new log is in WAL mode before it has its name, and stays so when it is closed."""
    (tmp_path / LOG_NAME).write_bytes(empty_log())
    modes = []
    for _ in range(2):
        with closing(LogFile(tmp_path / LOG_NAME)) as file:
            modes += file.rows("PRAGMA journal_mode")
        async with open_log(tmp_path, resume=True):
            pass
    assert modes == [("wal",), ("wal",)]


async def test_what_a_deleted_log_left_is_not_applied_to_a_new_one(tmp_path: Path) -> None:
    """The -wal file of a log that somebody deleted is removed when a new log begins."""
    await _write_and_copy_live(tmp_path)
    (tmp_path / LOG_NAME).unlink()
    async with open_log(tmp_path, resume=True):
        pass
    assert _episodes(tmp_path) == []
