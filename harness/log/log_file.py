"""The file of a log, opened for any reader, with all that a kill can leave beside it.

A log is a SQLite database in WAL mode: beside `episodes.sqlite` are a `-wal` file, with commits
that are not yet in the database, and a `-shm` file, the index of the first. Both are there while a
process has the log open, and after a kill; the last process that closes the log removes them. A
`-journal` file is left of a killed command of an older version.

    the reader may write     SQLite does what is left to do (undo a journal, apply a `-wal` file),
                             under its own locks; queries can change nothing
    it may not (another user's run, a disk mounted read-only):
      the database alone     nothing else has to be read, so the file is read as it is
      `-wal` and `-shm`      both are read, with SQLite's locks
      `-wal` or `-journal`   a private copy is made, and opened as if by a reader who may write

A file that is read without locks can change, since a writer may begin. So its stamps are compared
after every query; when they differ, the log is opened again and the query repeated.

Somebody else may have made the files: see rehearsal_room.harness.log.own_files.
"""

import os
import shutil
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.harness.log.drafts import remove_abandoned_drafts
from rehearsal_room.harness.log.own_files import (
    SCHEMA_QUERY,
    SUFFIXES,
    require_own_files,
    require_schema,
)
from rehearsal_room.harness.log.schema import SCHEMAS, check_format

# What SQLite's reports of a file that cannot be read become: the text of a message that quotes the
# file's own bytes need not be UTF-8.
READ_ERRORS = (sqlite3.Error, UnicodeDecodeError, OSError)
_Stamps = tuple[tuple[int, int, int] | None, ...]  # inode, size, time of each file; None: not there


class LogFile:
    """Answers queries from one log; any thread may use it, one at a time. Raises READ_ERRORS, and
    LogError for a log of another format."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = ExitStack()  # of the connection, and of the copy that it reads
        self._stamps: _Stamps | None = None  # None: SQLite's locks protect the reading
        try:
            self._connection = self._open()
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, *params: Any) -> list[Any]:
        """The rows that a query gives."""
        while True:
            try:
                rows = self._connection.execute(sql, params).fetchall()
            except READ_ERRORS:
                if self._is_unchanged():
                    raise
            else:
                if self._is_unchanged():
                    return rows
            self.close()
            self._connection = self._open()

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def _is_unchanged(self) -> bool:
        return self._stamps is None or self._stamps == _stamps_of(self._path)

    def _open(self) -> sqlite3.Connection:
        self._stamps = None
        require_own_files(self._path)
        if _may_write(self._path):
            remove_abandoned_drafts(self._path.parent)
            return self._connect(self._path, "mode=rw")
        stamps = _stamps_of(self._path)
        _, wal, shm, journal = stamps
        if journal is None and wal is not None and shm is not None:
            return self._connect(self._path, "mode=ro")
        self._stamps = stamps
        if journal is None and not (wal and wal[1]):
            return self._connect(self._path, "mode=ro&immutable=1")
        return self._connect(self._copy(), "mode=rw")

    def _copy(self) -> Path:
        """The path of a copy of the log with what is beside it."""
        folder = self._stack.enter_context(own_folder("log"))
        for suffix in ("", "-wal", "-journal"):
            source = self._path.with_name(self._path.name + suffix)
            if source.exists():
                shutil.copyfile(source, folder / source.name)
        return folder / self._path.name

    def _connect(self, path: Path, options: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?{options}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        self._stack.enter_context(closing(connection))
        connection.execute("PRAGMA query_only = ON")
        found = connection.execute(SCHEMA_QUERY).fetchall()
        try:
            require_schema(found, SCHEMAS)
        except OSError:
            self._check_format(connection, found)
            raise
        return connection

    def _check_format(self, connection: sqlite3.Connection, schema: list[Any]) -> None:
        """Raise LogError for a log of another format, which has other tables. Only a plain table is
        read for it."""
        for kind, name, sql in schema:
            if (kind, name) == ("table", "meta") and str(sql).startswith("CREATE TABLE "):
                query = "SELECT value FROM meta WHERE key = 'format'"
                for (value,) in connection.execute(query).fetchmany(1):
                    check_format(self._path, str(value))


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _stamps_of(path: Path) -> _Stamps:
    return tuple(_stamp_of(path.with_name(path.name + suffix)) for suffix in SUFFIXES)


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)
