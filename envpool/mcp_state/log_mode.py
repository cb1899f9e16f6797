"""Databases that keep a write-ahead log: it has the pages that a call changed, so the file need not
be compared as a whole.

The mode is a mark in the file, so the copy of a seed is put into it before its server starts.
SQLite moves the log into the file when the last connection closes, which a server that connects for
each call does each time. `HeldLog` has the lock that every connection in this mode has, so that no
close is the last one. The lock keeps others from leaving the mode or locking the file for
themselves, and from nothing else. A copy that a server makes of its file alone lacks the log.

Source: sqlite.org/fileformat2.html, section 1.3.3, and sqlite.org/wal.html.
"""

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_MODE = 18  # the offset of the two bytes that tell the mode
_ROLLBACK, _WAL = b"\1\1", b"\2\2"
_SHARED = (0x40000002, 510)  # the bytes of a database that readers lock: offset and length


def keep_log(path: Path) -> None:
    """Put a database that nobody has open into the mode, unless it is missing, empty, another file,
    or has a journal that is to be rolled back. Raises OSError."""
    if not path.is_file() or path.is_symlink() or path.with_name(f"{path.name}-journal").exists():
        return
    with path.open("r+b") as file:
        head = file.read(_MODE + 2)
        if head[: len(_MAGIC)] == _MAGIC and head[_MODE:] == _ROLLBACK:
            file.seek(_MODE)
            file.write(_WAL)


def has_log(header: bytes) -> bool:
    """Whether a database with this beginning is in the mode."""
    return header[_MODE : _MODE + 2] == _WAL


class HeldLog:
    """Keeps the log of a database from being moved into its file when connections close."""

    def __init__(self) -> None:
        self._fd: int | None = None  # with the lock; None: there is none

    def hold(self, fd: int) -> None:
        """Lock an open database while it is in the mode, and let go of another one, or of one that
        has left it. Nothing happens where its server has locked it, or the system has no locks of
        open files (Linux has)."""
        is_logged = has_log(os.pread(fd, _MODE + 2, 0))
        if self._fd is not None:
            if is_logged and os.path.sameopenfile(fd, self._fd):
                return
            self.release()
        if not is_logged or not hasattr(fcntl, "F_OFD_SETLK"):
            return
        self._fd = os.dup(fd)
        try:
            _lock(self._fd, fcntl.F_RDLCK)
        except OSError:
            self.release()
        else:
            if not has_log(os.pread(fd, _MODE + 2, 0)):  # it left the mode before the lock
                self.release()

    def release(self) -> None:
        """Let go of it. Nothing happens if it is not held."""
        if self._fd is not None:
            with suppress(OSError):
                _lock(self._fd, fcntl.F_UNLCK)
            os.close(self._fd)
            self._fd = None


def _lock(fd: int, kind: int) -> None:
    """A lock of an open file: closing the same file elsewhere in the process keeps it."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, *_SHARED, 0))
