"""Half-written files: a kill leaves a draft, and the next command in the folder removes it."""

import os
import signal
from pathlib import Path

import pytest

from rehearsal_room.harness.log.drafts import open_draft
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, empty_log, replacing, write_atomically
from rehearsal_room.harness.log.writer import open_log
from tests.support.forked import in_child


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the only event loop that aiosqlite supports


def _drafts(folder: Path) -> list[Path]:
    return list(folder.glob(".*"))


def _killed_while_writing(path: Path) -> None:
    def die() -> None:
        with replacing(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    before = set(os.listdir(path.parent))
    assert in_child(die) == -signal.SIGKILL
    (draft,) = set(os.listdir(path.parent)) - before
    assert (path.parent / draft).read_bytes() == b"half"


def test_the_next_write_in_the_folder_removes_an_abandoned_draft(tmp_path: Path) -> None:
    """A killed export leaves a draft under another name; a write of any file removes it, and a file
    with a similar name of somebody else stays."""
    (tmp_path / ".notes.tmp").touch()
    _killed_while_writing(tmp_path / "episodes.jsonl")
    write_atomically(tmp_path / "report.json", b"{}")
    assert sorted(os.listdir(tmp_path)) == [".notes.tmp", "report.json"]


async def test_opening_the_log_removes_an_abandoned_draft(tmp_path: Path) -> None:
    """A command that reads or continues a run removes what killed commands left half-written."""
    (tmp_path / LOG_NAME).write_bytes(empty_log())
    _killed_while_writing(tmp_path / "chats.jsonl")
    with open_reader(tmp_path):
        assert not _drafts(tmp_path)
    _killed_while_writing(tmp_path / "chats.jsonl")
    async with open_log(tmp_path, resume=True):
        assert not _drafts(tmp_path)


def test_a_draft_that_is_being_written_stays(tmp_path: Path) -> None:
    """Two commands write the same file at once: neither removes the other's draft, and the last to
    finish wins."""
    path = tmp_path / "episodes.jsonl"
    with replacing(path) as first, replacing(path) as second:
        first.write(b"first")
        second.write(b"second")
        write_atomically(tmp_path / "report.json", b"{}")
        assert len(_drafts(tmp_path)) == 2
    assert path.read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == ["episodes.jsonl", "report.json"]


@pytest.mark.parametrize("name", ["folder", ".", "", "..", "/"])
def test_a_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A path that is a folder's is refused before anything is written, also one without a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), open_draft(Path(name)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
