"""The reader of a server's folder against the folder itself."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.folder_reader import FolderReader
from rehearsal_room.envpool.mcp_state.types import Reading
from tests.support.budgets import examples

Rows = dict[str, tuple[Any, ...]]

_NAMES = ("a.md", "b", "sub", "sub/c.txt", "sub/d", "sub/d/naïve name.txt", "ops.db", "ops.db-wal")
_names = st.sampled_from(_NAMES)
_contents = st.sampled_from([b"", b"one", b"two", b"\0one", b"\xff", "é".encode(), b"x" * 900])


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _rewrite_secretly(path: Path, content: bytes) -> None:
    """Same size, same times: only the inode's change time tells."""
    found = path.stat()
    with path.open("r+b") as file:
        file.write((content * 900)[: found.st_size])
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def _rename(path: Path, content: bytes) -> None:
    path.rename(path.with_name("b"))


def _replace(path: Path, content: bytes) -> None:
    other = path.with_name("~new")
    other.write_bytes(content)
    other.replace(path)


def _remove(path: Path, content: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _folder(path: Path, content: bytes) -> None:
    path.mkdir()


def _link(path: Path, content: bytes) -> None:
    path.symlink_to("/etc" if content else "a.md")


def _hard_link(path: Path, content: bytes) -> None:
    path.with_name("a.md").hardlink_to(path)


def _pipe(path: Path, content: bytes) -> None:
    os.mkfifo(path)


_actions = st.sampled_from(
    [
        *(_write, _write, _write, _rewrite_secretly, _rewrite_secretly, _append, _rename),
        *(_replace, _remove, _folder, _folder, _link, _hard_link, _pipe),
    ]
)


def _found(root: Path) -> Rows:
    """What the folder has, read in the plainest way."""
    rows: Rows = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if name in ("ops.db", "ops.db-wal"):
            continue
        if path.is_symlink():
            rows[name] = (name, "link", os.readlink(path), None)
        elif path.is_dir():
            rows[name] = (name, "folder", None, None)
        elif path.is_file():
            content = path.read_bytes()
            try:
                text = content.decode() if b"\0" not in content else None
            except UnicodeDecodeError:
                text = None
            rows[name] = (name, "file", text, None if text is not None else content)
        else:
            rows[name] = (name, "other", None, None)
    return rows


def _follow(reader: FolderReader, rows: Rows) -> None:
    for write in reader.read().writes:
        assert write.table == "files" and write.rowid is None
        assert write.before != write.after
        if write.before is not None:
            assert rows.pop(write.before[0]) == write.before
        if write.after is not None:
            assert write.after[0] not in rows
            rows[write.after[0]] = write.after


@pytest.mark.timeout(600)  # in the long profile
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(_actions, _names, _contents), max_size=30))
def test_the_changes_add_up_to_what_the_folder_has(actions: list[Any]) -> None:
    """Whatever a server does to its files, at once after the last reading too and with times set
    back: the rows that the reader reports add up to the folder, but for the declared database."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "data")
        root.mkdir()
        (root / "sub").mkdir()
        (root / "sub" / "c.txt").write_text("start")
        with closing(FolderReader(root, leave_out=["ops.db"])) as reader:
            rows = {row[0]: row for _, _, row in reader.all_rows()}
            assert rows == _found(root)
            for act, name, content in actions:
                is_pipe = (root / name).exists() and not (root / name).is_file()
                if not (is_pipe and act in (_write, _append)):  # opening it would wait
                    with suppress(OSError):
                        act(root / name, content)
                _follow(reader, rows)
                assert rows == _found(root)
            assert {row[0]: row for _, _, row in reader.all_rows()} == rows
            with closing(FolderReader(root, leave_out=["ops.db"], since={})) as second:
                others: Rows = {}
                _follow(second, others)
                assert others == rows


def _sparse(root: Path) -> None:
    (root / "big").touch()
    os.truncate(root / "big", 2 * 2**30)


def _many(root: Path) -> None:
    for number in range(101):
        (root / str(number)).touch()


def _deep(root: Path) -> None:
    root.joinpath(*["d"] * 70).mkdir(parents=True)


def _bad_name(root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT))


def _moved(root: Path) -> None:
    root.rename(root.with_name("elsewhere"))
    root.symlink_to(root.with_name("elsewhere"))


def _parent_moved(root: Path) -> None:
    parent = root.parent
    parent.rename(parent.with_name("elsewhere"))
    parent.symlink_to(parent.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (_sparse, "data have more than 268,435,456 bytes"),
        (_many, "data has more than 100 files"),
        (_deep, "is over 64 folders deep"),
        (_bad_name, "has a name that is not UTF-8"),
        (shutil.rmtree, "data is gone"),
        (_moved, "cannot be read: "),
        (_parent_moved, "is another one"),
    ],
)
def test_a_harmed_folder_is_one_clear_error(
    tmp_path: Path, harm: Callable[[Path], None], sentence: str
) -> None:
    """What a server makes of its folder ends in a WorldError that says it, and nothing outside of
    the folder is read."""
    root = tmp_path / "scratch" / "data"
    root.mkdir(parents=True)
    (root / "a").write_text("1")
    with closing(FolderReader(root, max_files=100)) as reader:
        harm(root)
        with pytest.raises(WorldError, match=sentence):
            reader.read()


def test_links_pipes_and_sockets_are_rows_and_are_not_opened(tmp_path: Path) -> None:
    """A link out of the folder shows its target's name only, and pipes and sockets do not make the
    reader wait."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "data"
    root.mkdir()
    with closing(FolderReader(root)) as reader:
        (root / "out").symlink_to("../secret")
        (root / "up").symlink_to("..")
        os.mkfifo(root / "pipe")
        folder = os.open(root, os.O_DIRECTORY)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{folder}/socket")  # a shorter path than a socket's limit
        os.close(folder)
        assert sorted(write.after for write in reader.read().writes if write.after) == [
            ("out", "link", "../secret", None),
            ("pipe", "other", None, None),
            ("socket", "other", None, None),
            ("up", "link", "..", None),
        ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    """A file without permission is a WorldError that names it."""
    (tmp_path / "a").write_text("1")
    (tmp_path / "a").chmod(0)
    with pytest.raises(WorldError, match="a cannot be read: Permission denied"):
        FolderReader(tmp_path)


def test_an_episode_starts_from_anothers_snapshot(tmp_path: Path) -> None:
    """A reader that is opened with the snapshot of an equal folder holds no content twice, and its
    first reading has what differs."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    for number in range(5):
        (first / f"{number}.md").write_text(f"note {number}")
    snapshot = FolderReader(first).snapshot
    shutil.copytree(first, second)
    (second / "3.md").write_text("other")
    with closing(FolderReader(second, since=snapshot)) as reader:
        (write,) = reader.read().writes
        assert (write.before, write.after) == (
            ("3.md", "file", "note 3", None),
            ("3.md", "file", "other", None),
        )
        assert reader.snapshot["1.md"].row is snapshot["1.md"].row
        assert reader.read() == Reading()


def test_a_folder_that_comes_later_is_empty_first(tmp_path: Path) -> None:
    """A folder that the server makes with its first write is empty before."""
    with closing(FolderReader(tmp_path / "data")) as reader:
        assert ([*reader.all_rows()], reader.read()) == ([], Reading())
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "a").write_text("1")
        assert [write.after for write in reader.read().writes] == [("a", "file", "1", None)]
