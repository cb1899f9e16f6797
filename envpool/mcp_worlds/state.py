"""The declared state of one running server: it is read after each call, and put back at a reset."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, overload

import apsw
import msgspec

from rehearsal_room.envpool.mcp_state.folder_reader import Entries, FolderReader
from rehearsal_room.envpool.mcp_state.image import Image
from rehearsal_room.envpool.mcp_state.sqlite_reader import Snapshot, SqliteReader
from rehearsal_room.envpool.mcp_state.types import (
    Reading,
    RowValues,
    RowWrite,
    StateReader,
    TableShape,
)
from rehearsal_room.envpool.mcp_worlds.databases import DatabaseReader
from rehearsal_room.envpool.mcp_worlds.places import Places

# What programs keep for themselves below their home, which is not the state of a world.
NOT_STATE = (".npm", ".cache", "__pycache__", "node_modules", ".local/share/fastmcp")
_BUSY_MS = 100
_ROLLBACK = b"\1\1"  # the journal's mode, in the file's header (fileformat2.html §1.3.3)
Row = tuple[str, int | None, RowValues]  # table, rowid, values


class Start(msgspec.Struct, frozen=True):
    """The state in which every server of a world starts."""

    databases: tuple[Snapshot, ...] = ()
    folder: Entries | None = None
    postgres: Any = None  # a snapshot of its reader; None: there is none


class ServerState:
    """What a server keeps in its databases and its folder, without the tables that do not count.

    `start`: the state of another server at its start, from which the first reading has what
    differs. `ignore_files`: patterns of paths in the folder that do not count either.
    `holds_logs`: see envpool.mcp_state.log_mode. Raises WorldError where it cannot be read.
    """

    def __init__(
        self,
        places: Places,
        ignore: Iterable[str],
        start: Start | None,
        ignore_files: Sequence[str] = (),
        *,
        holds_logs: bool = False,
    ) -> None:
        self._places = places
        self._ignored = frozenset(ignore)
        self._stack = ExitStack()
        self._databases: list[SqliteReader] = []
        self._folder: FolderReader | None = None
        for number, path in enumerate(places.databases):
            known = None if start is None else start.databases[number]
            reader = SqliteReader(path, since=known, holds_log=holds_logs)
            self._databases.append(self._stack.enter_context(closing(reader)))
        if (folder := places.folder) is not None:
            since = None if start is None else start.folder
            left_out = (*NOT_STATE, *_below(folder, places.databases))
            self._folder = FolderReader(
                folder, leave_out=left_out, ignore=ignore_files, since=since
            )
        self._ignored_files = {} if self._folder is None else self._folder.ignored()
        self._postgres: DatabaseReader | None = None
        if places.postgres is not None:
            self._postgres = places.postgres.reader(None if start is None else start.postgres)

    def _readers(self) -> Iterator[tuple[str, StateReader]]:
        """The readers, and what is in front of the names of their tables."""
        for reader in self._databases:
            yield f"{reader.path.stem}_" if len(self._databases) > 1 else "", reader
        if self._folder is not None:
            yield "", self._folder
        if self._postgres is not None:
            yield "", self._postgres

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """The tables, as of the last reading."""
        return tuple(
            _named(shape, prefix)
            for prefix, reader in self._readers()
            for shape in reader.shapes
            if f"{prefix}{shape.name}" not in self._ignored
        )

    def all_rows(self) -> Iterator[Row]:
        """Every row, as of the last reading."""
        for prefix, reader in self._readers():
            for table, rowid, values in reader.all_rows():
                if f"{prefix}{table}" not in self._ignored:
                    yield f"{prefix}{table}", rowid, self._shown(values)

    def read(self) -> Reading:
        """What has changed since the last reading. Raises WorldError."""
        writes: list[RowWrite] = []
        shapes: dict[str, TableShape | None] = {}
        for prefix, reader in self._readers():
            found = reader.read()
            writes += [
                RowWrite(
                    f"{prefix}{write.table}",
                    write.rowid,
                    self._shown(write.before),
                    self._shown(write.after),
                )
                for write in found.writes
                if f"{prefix}{write.table}" not in self._ignored
            ]
            for table, shape in (found.shapes or {}).items():
                if f"{prefix}{table}" not in self._ignored:
                    shapes[f"{prefix}{table}"] = shape and _named(shape, prefix)
        return Reading(tuple(writes), shapes or None)

    @overload
    def _shown(self, values: RowValues) -> RowValues: ...
    @overload
    def _shown(self, values: RowValues | None) -> RowValues | None: ...
    def _shown(self, values: RowValues | None) -> RowValues | None:
        """A row in which the servers' folder has the same name in every process."""
        if values is None:
            return None
        shown = self._places.shown
        return tuple(shown(value) if isinstance(value, str) else value for value in values)

    @property
    def without_log(self) -> list[str]:
        """The databases that are not in the mode of a write-ahead log, by name."""
        readers = self._databases
        return [one.path.name for one in readers if one.snapshot.tables and not one.has_log]

    def start(self) -> Start:
        """The state now, as the start of other servers. Raises WorldError."""
        return Start(
            tuple(reader.snapshot for reader in self._databases),
            None if self._folder is None else self._folder.snapshot,
            None if self._postgres is None else self._postgres.snapshot,
        )

    def put_back(self, start: Start) -> bool:
        """Write the state at the start under the running server. False: that cannot be done, or an
        ignored file has changed, and the next episode could see it."""
        if self._postgres and start.postgres and not self._postgres.put_back(start.postgres):
            return False
        try:
            if self._folder is not None and self._folder.ignored() != self._ignored_files:
                return False
            for reader, snapshot in zip(self._databases, start.databases, strict=True):
                if snapshot.image.num_pages:
                    _overwrite(reader.path, snapshot.image)
                else:  # the server made it later; one that keeps it open is found by the proof
                    reader.remove()
            if self._folder is not None and start.folder is not None:
                _rewrite(self._folder.path, self._folder.snapshot, start.folder)
        except (apsw.Error, OSError):
            return False
        return True

    def close(self) -> None:
        """Release what the readers hold."""
        self._stack.close()


def _named(shape: TableShape, prefix: str) -> TableShape:
    return msgspec.structs.replace(shape, name=f"{prefix}{shape.name}") if prefix else shape


def _below(folder: Path, databases: Sequence[Path]) -> tuple[str, ...]:
    """The paths of those databases that are in a folder, from it."""
    return tuple(
        path.relative_to(folder).as_posix() for path in databases if path.is_relative_to(folder)
    )


def _rewrite(folder: Path, now: Entries, start: Entries) -> None:
    """Make the files of a folder those of its start. Raises OSError."""
    other = [path for path in now if path not in start or start[path].row != now[path].row]
    for path in sorted(other, reverse=True):  # what is in a folder before the folder
        if now[path].row[1] != "folder":
            (folder / path).unlink()
        elif path not in start or start[path].row[1] != "folder":
            (folder / path).rmdir()
    for path in sorted(start):
        if path in other or path not in now:
            _, kind, text, data = start[path].row
            if kind == "folder":
                (folder / path).mkdir(exist_ok=True)
            elif kind == "link":
                (folder / path).symlink_to(text or os.fsdecode(data))
            else:
                (folder / path).write_bytes(data if text is None else text.encode())


def _overwrite(path: Path, image: Image) -> None:
    """Write an image over a database that others have open, as one transaction of SQLite's backup,
    which makes them read everything again. A log that this fills is emptied. Raises apsw.Error."""
    with (
        closing(apsw.Connection(":memory:")) as source,
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as target,
    ):
        target.set_busy_timeout(_BUSY_MS)
        source.deserialize("main", plain_database(image))
        with target.backup("main", source, "main") as backup:
            backup.step()
        target.set_busy_timeout(0)  # another reader may keep the log
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def plain_database(image: Image) -> bytes:
    """The content of a database file that needs no write-ahead log beside it."""
    content = bytearray(image.whole())
    content[18:20] = _ROLLBACK
    return bytes(content)
