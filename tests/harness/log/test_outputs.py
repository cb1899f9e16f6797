"""Files that the user names for results."""

import os
import threading
from pathlib import Path

import pytest

from rehearsal_room.harness.log.outputs import write_output, writing


def test_a_regular_file_is_replaced_whole(tmp_path: Path) -> None:
    """A failure leaves the old file."""
    path = tmp_path / "out.json"
    write_output(path, b"old")
    with pytest.raises(RuntimeError), writing(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    write_output(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_written_through(tmp_path: Path, exists: bool) -> None:
    """The link stays a link, and its target has the result; an absent target is made."""
    (tmp_path / "big").mkdir()
    target, link = tmp_path / "big" / "t.json", tmp_path / "link.json"
    if exists:
        target.write_bytes(b"something longer")
    link.symlink_to("big/t.json")
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_fifo_and_a_device_stay(tmp_path: Path) -> None:
    """Who reads the FIFO gets the result, and a device swallows it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    write_output(fifo, b"new")
    reader.join(10)
    assert (got, fifo.is_fifo()) == ([b"new"], True)
    before = os.lstat("/dev/null")
    write_output(Path("/dev/null"), b"new")
    assert os.lstat("/dev/null").st_rdev == before.st_rdev
