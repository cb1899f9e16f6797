"""A server's database file: what is committed in it, without a lock and without a write.

A reading must not be torn by a commit of the server. A commit in rollback mode first makes a
journal, then writes the change counter and the pages, then ends the journal; so pages are whole
where the counter before them equals the counter after them, and no journal begins or ends between.
A commit in WAL mode adds frames to the log; pages in the file are replaced only by pages of frames.

It cannot tell the pages of an open transaction where the server keeps no journal on disk
(`journal_mode` MEMORY or OFF) and SQLite's cache is too small for the transaction.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.image import Image, compared, patched
from rehearsal_room.envpool.mcp_state.journals import (
    WAL_HEADER,
    Frames,
    frames_after,
    is_hot,
    originals,
    wal_page_size,
)
from rehearsal_room.envpool.mcp_state.log_mode import HeldLog

MAX_BYTES = 512 * 2**20
_MAGIC = b"SQLite format 3\0"
_TRIES = 60
_PAUSE = 0.02  # seconds between two tries, at most
_CLOCK = 50_000_000  # ns; the times of files are at least this exact
_NO_FRAMES = Frames({}, 0, WAL_HEADER, b"")


class Look(msgspec.Struct, frozen=True):
    """What tells cheaply whether something was committed."""

    file: tuple[int, ...]  # inode, size, times
    counter: bytes  # of the file's changes
    journal: tuple[object, ...] | None  # None: no transaction has begun
    wal: bytes  # the log's header; empty: there is no log


class Seen(msgspec.Struct, frozen=True):
    """Up to where a file was read."""

    look: Look
    is_certain: bool  # a later change changes the look: the file was older than its times are exact
    wal_end: int
    wal_checksum: bytes


class Captured(msgspec.Struct, frozen=True):
    """The committed pages, and which of them are not as they were."""

    image: Image
    changed: set[int] | None  # None: the pages have another size


class DatabaseFile:
    """Reads the committed pages of a database that a server writes."""

    def __init__(
        self, path: Path, max_bytes: int = MAX_BYTES, *, held_log: HeldLog | None = None
    ) -> None:
        """`held_log` keeps the database's log, if it has one; None: it may be moved into the file.
        The caller releases it."""
        self.path = path
        self._folder = os.path.realpath(path.parent)
        self._max_bytes = max_bytes
        self._held_log = held_log
        self._seen: Seen | None = None
        self._is_removed = False

    def capture(self, old: Image) -> Captured | None:
        """The pages now, and where they differ from `old`, the pages of the last reading. None: all
        are as they were. Raises WorldError."""
        try:
            for number in range(_TRIES):
                with self._opened("") as fd:
                    if fd is None:
                        if self._is_removed:
                            self._is_removed, self._seen = False, None
                            return Captured(Image(), None)
                        if old.num_pages or self._seen:
                            raise WorldError(f"the server's database {self.path} is gone")
                        return None
                    self._is_removed = False
                    if self._held_log is not None:
                        self._held_log.hold(fd)
                    found = self._try(fd, old)
                if found is not None:
                    return None if found.changed == set() else found
                time.sleep(min(_PAUSE, 0.001 * number))
        except OSError as exc:
            raise WorldError(
                f"the server's database {self.path} cannot be read: {exc.strerror}"
            ) from exc
        raise WorldError(
            f"the server's database {self.path} was written during each of {_TRIES} readings; "
            "a server must be idle when it has answered"
        )

    def remove(self) -> None:
        """Remove the database, which the next reading expects. Raises OSError."""
        for end in ("", "-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        self._is_removed = True

    def forget(self) -> None:
        """Compare the whole file at the next reading."""
        self._seen = None

    def _try(self, fd: int, old: Image) -> Captured | None:
        """One attempt; None: the server was writing."""
        with self._opened("-wal") as wal:
            if wal is not None:
                self._check_size(os.fstat(wal).st_size)
            began, look = time.time_ns(), self._look(fd, wal)
            if look is None:
                return None
            seen = self._seen
            if seen and not seen.look.wal and wal_page_size(look.wal) == old.page_size:
                # The log has begun since.
                blank = msgspec.structs.replace(seen.look, wal=look.wal)
                seen = Seen(blank, seen.is_certain, WAL_HEADER, look.wal[24:32])
            if seen and seen.is_certain and seen.look == look:
                if wal is None or not look.wal:
                    return Captured(old, set())
                frames = frames_after(wal, look.wal, seen.wal_end, seen.wal_checksum)
                if os.pread(wal, WAL_HEADER, 0) != look.wal:
                    return None
                self._seen = Seen(look, True, frames.end, frames.checksum)
                if not frames.num_pages:
                    return Captured(old, set())
                return self._with_frames(old, frames)
            return self._compare(fd, wal, old, look, began)

    def _with_frames(self, old: Image, frames: Frames) -> Captured:
        self._check_size(frames.num_pages * old.page_size)
        image = patched(old, frames.pages, frames.num_pages)
        changed = frames.pages.keys() | set(range(frames.num_pages + 1, old.num_pages + 1))
        return Captured(image, set(changed))

    def _compare(
        self, fd: int, wal: int | None, old: Image, look: Look, began: int
    ) -> Captured | None:
        """Compare the whole file."""
        size = look.file[1]
        header = os.pread(fd, 100, 0)
        page_size = self._page_size(header, size)
        pages: dict[int, bytes] = {}
        num_pages, frames = size // page_size, _NO_FRAMES
        if wal is not None and look.wal and size:
            if wal_page_size(look.wal) != page_size:
                raise WorldError(f"{self.path}-wal is not the log of {self.path}")
            frames = frames_after(wal, look.wal, WAL_HEADER, look.wal[24:32])
            if frames.num_pages:
                pages, num_pages = frames.pages, frames.num_pages
        elif look.journal:
            with self._opened("-journal") as journal:
                if journal is None:
                    return None
                length = os.fstat(journal).st_size
                self._check_size(length)
                pages, num_pages = originals(os.pread(journal, length, 0), page_size)
        self._check_size(num_pages * page_size)
        same_size = old.page_size == page_size
        image, changed = compared(fd, old if same_size else Image(), pages, page_size, num_pages)
        after = self._look(fd, wal)
        if after is None or after.counter != look.counter or after.journal != look.journal:
            return None
        if after.wal != look.wal or after.file[:2] != look.file[:2]:
            return None
        end, checksum = frames.end, frames.checksum or look.wal[24:32]
        if wal is not None and look.wal and frames_after(wal, look.wal, end, checksum).pages:
            return None
        is_certain = look.file[3] < began - _CLOCK and after.file == look.file
        self._seen = Seen(look, is_certain, end, checksum)
        return Captured(image, changed if same_size or not old.num_pages else None)

    def _look(self, fd: int, wal: int | None) -> Look | None:
        """None: the counter changed meanwhile."""
        found = os.fstat(fd)
        self._check_size(found.st_size)
        counter = os.pread(fd, 4, 24)
        journal = self._journal()
        header = os.pread(wal, WAL_HEADER, 0) if wal is not None else b""
        if wal_page_size(header) is None:
            header = b""
        if os.pread(fd, 4, 24) != counter:
            return None
        times = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return Look(times, counter, journal, header)

    def _journal(self) -> tuple[object, ...] | None:
        """What identifies the hot journal; None: there is none."""
        with self._opened("-journal") as journal:
            if journal is None:
                return None
            header = os.pread(journal, 28, 0)
            if not is_hot(header):
                return None
            found = os.fstat(journal)
            return found.st_ino, found.st_size, found.st_mtime_ns, header

    def _page_size(self, header: bytes, size: int) -> int:
        if not size:
            return Image().page_size
        page_size = int.from_bytes(header[16:18], "big")
        page_size = 65536 if page_size == 1 else page_size
        if header[:16] != _MAGIC or page_size < 512 or page_size & (page_size - 1):
            raise WorldError(f"the server's file {self.path} is not an SQLite database")
        return page_size

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise WorldError(
                f"the server's database {self.path} has {size:,} bytes; "
                f"the limit is {self._max_bytes:,} bytes"
            )

    @contextmanager
    def _opened(self, suffix: str) -> Iterator[int | None]:
        """The open file, or None where it does not exist. Links are not followed, and devices and
        pipes are not opened."""
        path = f"{self.path}{suffix}"
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        if not stat.S_ISREG(found.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
            raise WorldError(f"the server's file {path} is {kind}, which is not read")
        if not suffix and os.path.realpath(self.path.parent) != self._folder:
            raise WorldError(f"the folder of the server's file {path} has become another one")
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            yield fd
        finally:
            os.close(fd)
