"""The state of a server that keeps it in files: each file, folder and link is a row.

    {scratch}/notes/a.md            ->  ("notes/a.md", "file", "# A\\n", None)
    {scratch}/logo.png              ->  ("logo.png", "file", None, b"\\x89PNG...")
    {scratch}/latest -> notes/a.md  ->  ("latest", "link", "notes/a.md", None)

A file is read again where its size, its times or its inode changed, and also where it was changed
so shortly before the last reading that a later change may have left its times as they are. Not
seen: modes, owners and times, and what a server writes through a mapping of a file (mmap) after the
file was read, until the kernel gives the file a new time.
"""

import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.rows import row_writes
from rehearsal_room.envpool.mcp_state.types import Reading, RowValues, TableShape

MAX_BYTES = 256 * 2**20  # of all files together
MAX_FILES = 50_000
_MAX_DEPTH = 64
_CLOCK = 50_000_000  # ns; the times of files are at least this exact
_TRIES = 20
SHAPE = TableShape(
    "files",
    (("path", "TEXT"), ("kind", "TEXT"), ("text", "TEXT"), ("data", "BLOB")),
    (0,),
    without_rowid=True,
)
_DATABASE_FILES = ("", "-wal", "-shm", "-journal")


class Entry(msgspec.Struct, frozen=True):
    """A file, folder or link as it was read."""

    row: RowValues  # path, kind (file, folder, link, other), text, data
    marks: tuple[int, ...]  # inode, mode, size, times
    is_certain: bool  # a later change changes the marks


Entries = dict[str, Entry]  # by path, from the folder, with slashes


class FolderReader:
    """Reads the folder of a server. It implements envpool.mcp_state.types.StateReader.

    `leave_out` are paths in it that are not read, such as declared databases; what SQLite keeps
    beside these is left out as well. `ignore` are patterns of further paths, in which `*` also
    stands for slashes. `since` is a snapshot of an equal folder (see SqliteReader). A
    folder that does not exist yet is empty. Links are not followed; pipes, sockets and devices
    (kind `other`) are not opened. Raises WorldError.
    """

    def __init__(
        self,
        path: Path,
        *,
        leave_out: Collection[str] = (),
        ignore: Collection[str] = (),
        since: Entries | None = None,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        self.path = path
        self._leave_out = {f"{name}{end}" for name in leave_out for end in _DATABASE_FILES}
        self._ignore = tuple(ignore)
        self._max_bytes, self._max_files = max_bytes, max_files
        self._parent = os.path.realpath(path.parent)
        self._num_bytes = 0
        self.snapshot: Entries = since or {}
        if since is None:
            self.read()

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """The one table."""
        return (SHAPE,)

    def all_rows(self) -> Iterator[tuple[str, int | None, RowValues]]:
        """Every row, as of the last reading."""
        for entry in self.snapshot.values():
            yield SHAPE.name, None, entry.row

    def read(self) -> Reading:
        """The net changes since the last reading."""
        old, new = self.snapshot, self._entries()
        self.snapshot = new
        before = {name: one.row for name, one in old.items() if new.get(name) is not one}
        after = {name: one.row for name, one in new.items() if old.get(name) is not one}
        return Reading(tuple(row_writes(SHAPE, before, after)))

    def ignored(self) -> dict[str, tuple[int, ...]]:
        """The marks of each ignored file, by path: they change when the file is written. Raises
        OSError."""
        found: dict[str, tuple[int, ...]] = {}
        if self._ignore and self.path.is_dir():
            self._mark("", False, found)
        return found

    def _mark(self, prefix: str, is_ignored: bool, found: dict[str, tuple[int, ...]]) -> None:
        with os.scandir(self.path / prefix) as entries:
            for entry in entries:
                path = prefix + entry.name
                if path in self._leave_out:
                    continue
                of_it = is_ignored or self._is_ignored(path)
                with suppress(FileNotFoundError):  # it was there a moment ago
                    if entry.is_dir(follow_symlinks=False):
                        self._mark(f"{path}/", of_it, found)
                    elif of_it:
                        found[path] = _marks(entry.stat(follow_symlinks=False))

    def _is_ignored(self, path: str) -> bool:
        return any(fnmatchcase(path, one) for one in self._ignore)

    def close(self) -> None:
        """Nothing is held."""

    def _entries(self) -> Entries:
        self._num_bytes = 0
        found: Entries = {}
        try:
            if os.path.realpath(self.path.parent) != self._parent:
                raise WorldError(f"the folder around the server's {self.path} is another one")
            try:
                fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                if self.snapshot:
                    raise WorldError(f"the server's folder {self.path} is gone") from None
                return found
            try:
                self._scan(fd, "", found)
            finally:
                os.close(fd)
        except OSError as exc:
            raise WorldError(
                f"the server's folder {self.path} cannot be read: {exc.strerror}"
            ) from exc
        return found

    def _scan(self, fd: int, prefix: str, found: Entries) -> None:
        if prefix.count("/") > _MAX_DEPTH:
            raise WorldError(f"the server's folder {self.path} is over {_MAX_DEPTH} folders deep")
        with os.scandir(fd) as entries:
            for entry in sorted(entries, key=lambda one: os.fsencode(one.name)):
                path = prefix + entry.name
                if path in self._leave_out or self._is_ignored(path):
                    continue
                try:
                    one = self._entry(fd, entry.name, path, entry.stat(follow_symlinks=False))
                    found[path] = one
                    if len(found) > self._max_files:
                        raise WorldError(
                            f"the server's folder {self.path} has more than "
                            f"{self._max_files:,} files"
                        )
                    if one.row[1] == "folder":
                        self._scan_below(fd, entry.name, f"{path}/", found)
                except FileNotFoundError:
                    found.pop(path, None)  # it was there a moment ago
                except OSError as exc:
                    raise WorldError(
                        f"the server's file {self.path}/{path} cannot be read: {exc.strerror}"
                    ) from exc

    def _scan_below(self, fd: int, name: str, prefix: str, found: Entries) -> None:
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        try:
            self._scan(below, prefix, found)
        finally:
            os.close(below)

    def _entry(self, fd: int, name: str, path: str, found: os.stat_result) -> Entry:
        """A file, folder or link; as it was read before, where it is unchanged."""
        marks = _marks(found)
        known = self.snapshot.get(path)
        if stat.S_ISREG(found.st_mode):
            self._count(found.st_size)
        if known and known.is_certain and known.marks == marks:
            return known
        began = time.time_ns()
        row: RowValues
        if stat.S_ISREG(found.st_mode):
            marks, content = self._content(fd, name, path)
            row = (path, "file", *_text_or_data(content))
        elif stat.S_ISLNK(found.st_mode):
            row = (path, "link", *_text_or_data(os.fsencode(os.readlink(name, dir_fd=fd))))
        else:
            row = (path, "folder" if stat.S_ISDIR(found.st_mode) else "other", None, None)
        if not known and not _is_text(path):
            raise WorldError(f"the server's folder {self.path} has a name that is not UTF-8")
        if known and known.row == row:
            row = known.row  # its content is held once
        return Entry(row, marks, marks[-1] < began - _CLOCK)

    def _content(self, fd: int, name: str, path: str) -> tuple[tuple[int, ...], bytes]:
        """What a file holds, and its marks."""
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
        try:
            for _ in range(_TRIES):
                before = os.fstat(file)
                if not stat.S_ISREG(before.st_mode):
                    break
                content = os.pread(file, min(before.st_size, self._max_bytes) + 1, 0)
                if _marks(os.fstat(file)) == _marks(before) and len(content) == before.st_size:
                    return _marks(before), content
                time.sleep(0.001)
        finally:
            os.close(file)
        raise WorldError(
            f"the server's file {self.path}/{path} was written during each of {_TRIES} readings; "
            "a server must be idle when it has answered"
        )

    def _count(self, size: int) -> None:
        self._num_bytes += size
        if self._num_bytes > self._max_bytes:
            raise WorldError(
                f"the files in the server's folder {self.path} have more than "
                f"{self._max_bytes:,} bytes"
            )


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _text_or_data(content: bytes) -> tuple[str | None, bytes | None]:
    try:
        return (None, content) if b"\0" in content else (content.decode(), None)
    except UnicodeDecodeError:
        return None, content


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
