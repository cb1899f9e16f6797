"""A disk in memory for SQLite databases, whose power can fail.

What was written and not synced is lost when the power fails, except for what the seed decides: the
first so many of the lost writes, a random part of them, or half of one (a torn page). The
image that is left is put into a real folder, where the ordinary readers open it.

Source: apsw's VFS interface; SQLite's "atomic commit" (sqlite.org/atomiccommit.html) says what a
disk may do.
"""

import itertools
from pathlib import Path
from typing import Any

import apsw

from tests.devtools.simulation.parts.choices import Choices

_numbers = itertools.count(1)
_Write = tuple[int, bytes, bytes, int]  # offset, old bytes, new bytes, size of the file before


class PowerFailed(BaseException):
    """The power failed; the process that was writing does not live to see it."""


class DiskFile:
    """A file: what the process sees, and the writes that no sync has made safe."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        self.unsynced: list[_Write] = []

    def write(self, data: bytes, offset: int) -> None:
        """Write, and extend the file where needed."""
        size = len(self.content)
        end = offset + len(data)
        self.unsynced.append((offset, bytes(self.content[offset:end]), data, size))
        if offset > size:
            self.content.extend(bytes(offset - size))
        self.content[offset:end] = data

    def truncate(self, size: int) -> None:
        """Cut the file; it counts as a write of nothing over the rest."""
        self.unsynced.append((size, bytes(self.content[size:]), b"", len(self.content)))
        del self.content[size:]

    def after_power_failure(self, choices: Choices) -> bytes:
        """What is on the disk then."""
        content = bytearray(self.content)
        for offset, old, new, size in reversed(self.unsynced):
            del content[size:]
            content[offset : offset + max(len(new), len(old))] = old
            del content[size:]
        writes = self.unsynced
        fate = choices.option("lost_writes", 4, rate=0.7) if writes else 0
        if fate == 0:
            return bytes(content)
        kept = choices.option("kept_writes", len(writes) + 1, rate=0.9)
        for number, (offset, _, new, _) in enumerate(writes):
            if fate == 2 and number == kept:
                _apply(content, offset, new[: len(new) // 2], is_cut=False)
            if fate in (1, 2) and number >= kept:
                break
            if fate == 3 and choices.option("kept_write", 2, rate=0.5) == 0:
                continue
            _apply(content, offset, new, is_cut=not new)
        return bytes(content)


def _apply(content: bytearray, offset: int, data: bytes, *, is_cut: bool) -> None:
    if is_cut:
        del content[offset:]
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class CrashDisk(apsw.VFS):
    """The disk of one simulated machine."""

    def __init__(self, choices: Choices) -> None:
        self._vfs_name = f"crash{next(_numbers)}"
        super().__init__(self._vfs_name, "")
        self._choices = choices
        self._files: dict[str, DiskFile] = {}
        self._deleted: set[str] = set()
        self.is_dead = False
        self.num_writes = 0
        self._is_gone = False  # the image is made: whatever is written now is nobody's business
        self.fails_at: int | None = None  # the write or sync at which the power fails

    def connect(self, path: Path) -> apsw.Connection:
        """Open a database on this disk; its first content is the real file's."""
        connection = apsw.Connection(str(path), vfs=self._vfs_name)
        connection.pragma("locking_mode", "EXCLUSIVE")  # WAL without shared memory
        return connection

    def fail(self, folder: Path) -> None:
        """The power fails: the image that is left is put into the real folder."""
        self.is_dead = True
        for name, file in self._files.items():
            _put(folder, name, file.after_power_failure(self._choices))
        self._remove_deleted(folder)
        self._is_gone = True

    def put_down(self, folder: Path) -> None:
        """Put everything into the real folder, as an orderly end of the process does."""
        for name, file in self._files.items():
            _put(folder, name, bytes(file.content))
        self._remove_deleted(folder)
        self._is_gone = True

    def copy_to(self, folder: Path) -> None:
        """Write what a reader of this machine would see now into a folder."""
        for name, file in self._files.items():
            _put(folder, name, bytes(file.content))

    def _remove_deleted(self, folder: Path) -> None:
        for name in self._deleted - self._files.keys():
            (folder / Path(name).name).unlink(missing_ok=True)

    def step(self) -> None:
        """Count a write or a sync. Raises PowerFailed at the one that was chosen, and after it."""
        self.num_writes += 1
        if self._is_gone:
            return
        if self.is_dead or self.num_writes == self.fails_at:
            self.is_dead = True
            raise PowerFailed

    # SQLite's calls.

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if path not in self._files:
            real = Path(path)
            self._files[path] = DiskFile(real.read_bytes() if real.exists() else b"")
        return OpenFile(self, self._files[path])

    def xDelete(self, path: str, sync_folder: bool) -> None:
        self.step()
        self._files.pop(path, None)
        self._deleted.add(path)

    def xAccess(self, path: str, flags: int) -> bool:
        if path in self._files:
            return True
        return not path.endswith(".sqlite") and Path(path).exists()

    def xFullPathname(self, name: str) -> str:
        return name


def _put(folder: Path, name: str, content: bytes) -> None:
    (folder / Path(name).name).write_bytes(content)


class OpenFile:
    """An open file. Its methods are SQLite's calls (see apsw.VFSFile)."""

    def __init__(self, disk: CrashDisk, file: DiskFile) -> None:
        self._disk = disk
        self._file = file
        self._level = 0

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._file.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.step()
        self._file.write(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.step()
        self._file.truncate(size)

    def xSync(self, flags: int) -> None:
        self._disk.step()
        self._file.unsynced.clear()

    def xFileSize(self) -> int:
        return len(self._file.content)

    def xLock(self, level: int) -> None:
        self._level = level

    def xUnlock(self, level: int) -> None:
        self._level = level

    def xCheckReservedLock(self) -> bool:
        return self._level >= 2

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xClose(self) -> None:
        """The disk keeps the file."""
