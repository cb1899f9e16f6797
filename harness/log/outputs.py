"""Files that the user names for results: written into what is there, as a shell's `>` would.

A regular file is replaced whole (see harness.log.schema.replacing). A link, a FIFO or a device
stays what it is: the result is written through the link, or into it. Files of a run folder are not
written like this: a link there could lead anywhere.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rehearsal_room.harness.log.schema import replacing


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield the file into which a result is written; a FIFO waits for a reader. Raises OSError."""
    if _is_replaceable(path):
        with replacing(path) as file:
            yield file
        return
    with path.open("wb") as file:
        yield file


def write_output(path: Path, data: bytes) -> None:
    """Write a result into the file that the user names (see `writing`). Raises OSError."""
    with writing(path) as file:
        file.write(data)


def _is_replaceable(path: Path) -> bool:
    """Whether there is a regular file, or nothing."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def own_path(path: Path) -> Path:
    """The path of a result in a run's folder, which the user has not named: a link there, which
    could lead anywhere, or a FIFO or device is removed. Raises OSError."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            path.unlink()
    return path
