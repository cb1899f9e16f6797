"""Temporary folders of processes that were killed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rehearsal_room.envpool.core.own_folder import OWNER, own_folder
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from tests.support.desk_worlds import desk

_OWNER = """\
import sys
from rehearsal_room.envpool.core.own_folder import own_folder
with own_folder("world") as folder:
    (folder / "ops.db").write_text("rows")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def owner() -> tuple["subprocess.Popen[str]", Path]:
    """Another process with a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_goes_with_the_next_one(temporary: Path) -> None:
    """What `kill -9` leaves is removed by who makes the next folder, and nothing else is: not the
    folder of a process that lives, and no folder or link of the user's with such a name."""
    killed, left = owner()
    living, used = owner()
    mine = temporary / "rehearse-world-my_notes"
    mine.mkdir()
    (mine / "notes.md").write_text("mine")
    link = temporary / "rehearse-world-link"
    try:
        killed.kill()
        killed.communicate()
        assert (left / "ops.db").is_file()
        link.symlink_to(left.parent)
        with own_folder("world") as folder:
            assert os.listdir(folder) == []
            assert not left.parent.exists()
            assert (used / "ops.db").is_file()
            assert (mine / "notes.md").is_file() and link.is_symlink()
    finally:
        living.communicate("")
    assert sorted(os.listdir(temporary)) == [link.name, mine.name]


def test_a_folder_whose_owner_was_not_recorded_stays(temporary: Path) -> None:
    """A process may be killed before it has its lock, and another's file may have its name."""
    early, other = temporary / "rehearse-world-early", temporary / "rehearse-world-other"
    early.mkdir()
    (early / f"{OWNER}-new").write_bytes(b"")
    other.mkdir()
    (other / OWNER).symlink_to(early / f"{OWNER}-new")
    with own_folder("world"):
        assert early.is_dir() and other.is_dir()


async def test_a_servers_folder_has_its_owner(temporary: Path, tmp_path: Path) -> None:
    """The folders of a world's processes are removed in this way, those of the client too."""
    scenario = desk(tmp_path)
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        assert locked(temporary) == {"rehearse-world", "rehearse-mcp"}
    assert locked(temporary) == set()


def locked(folder: Path) -> set[str]:
    """The kinds of folders with an owner."""
    return {path.parent.name.rpartition("-")[0] for path in folder.glob(f"rehearse-*/{OWNER}")}
