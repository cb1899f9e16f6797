"""The checksums of a folder's files, stored beside them, so that damage is found before a file is
used: a flipped byte in a weight loads, trains, and is noticed only when the loss is not a number.

    checksums.json   {"weights.distcp": [4096, 2774217316], …}: bytes and CRC-32 of each file,
                     those in folders too: "adapter/adapter_config.json"

A CRC finds what disks and interrupted copies do, and costs a fifth of a second per gigabyte.
Somebody who changes a file on purpose can change its checksum, too.
"""

import zlib
from pathlib import Path

import msgspec

from rehearsal_room.learner.core.errors import DamagedError
from rehearsal_room.scenarios.files import UNREADABLE

CHECKSUMS_NAME = "checksums.json"
_CHUNK = 1 << 22  # bytes
_Checksums = dict[str, tuple[int, int]]  # by file name: bytes and CRC-32


def write_checksums(folder: Path) -> None:
    """Store the checksums of all files of a folder in it. Raises OSError."""
    found = {
        path.relative_to(folder).as_posix(): _checksum(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != CHECKSUMS_NAME
    }
    (folder / CHECKSUMS_NAME).write_bytes(msgspec.json.encode(found))


def has_checksums(folder: Path) -> bool:
    """Whether a folder has the checksums of its files."""
    return (folder / CHECKSUMS_NAME).exists()


def check_checksums(folder: Path) -> None:
    """Raise DamagedError, which names the file, where a file is missing or is not as it was
    written. A folder without checksums, as earlier versions wrote them, is taken as it is."""
    path = folder / CHECKSUMS_NAME
    if not has_checksums(folder):
        return
    try:
        expected = msgspec.json.decode(path.read_bytes(), type=_Checksums)
    except (OSError, *UNREADABLE) as exc:
        raise DamagedError(f"{path}: the file is damaged: {exc}") from exc
    for name, (size, checksum) in expected.items():
        file = folder.joinpath(*(part for part in Path(name).parts if part not in ("/", "..")))
        try:
            found_size, found = _checksum(file)
        except (OSError, ValueError) as exc:  # the name has a NUL
            why = getattr(exc, "strerror", None) or exc
            raise DamagedError(f"{file}: cannot be read: {why}") from exc
        if found_size != size:
            raise DamagedError(
                f"{file}: the file is damaged: it has {found_size:,} bytes, and {size:,} were"
                " written"
            )
        if found != checksum:
            raise DamagedError(
                f"{file}: the file is damaged: its checksum is {found:08x}, and it was"
                f" {checksum:08x} when the file was written"
            )


def _checksum(path: Path) -> tuple[int, int]:
    size = checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return size, checksum
