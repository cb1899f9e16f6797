"""Temporary folders that do not stay for good when their process is killed.

    $TMPDIR/rehearse-world-5hx2/
        .rehearse-owner        locked as long as its owner lives
        it/                    the folder that the owner uses

The kernel ends a lock with its process, also after `kill -9`, and the process that makes the next
folder removes those without a lock. Only folders that have the file, and are the user's own, are
ever removed.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "rehearse-"
OWNER = ".rehearse-owner"


@contextmanager
def own_folder(what: str) -> Iterator[Path]:
    """A new, empty folder for this process, `what` in its name; it is removed when the block is
    left, or by another process when this one was killed."""
    remove_left_over()
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{what}-", ignore_cleanup_errors=True
    ) as outer:
        file = _locked(Path(outer))
        try:
            inner = Path(outer, "it")
            inner.mkdir(0o700)
            yield inner
        finally:
            os.close(file)


def remove_left_over() -> None:
    """Remove the folders whose owners were killed."""
    try:
        with os.scandir(tempfile.gettempdir()) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for path in found:
        if (file := _lock_of_dead(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(file)


def _locked(folder: Path) -> int:
    """The lock of a new folder. It has its name only once it is locked: until then, the folder is
    not one that can be left over."""
    early = folder / f"{OWNER}-new"
    file = os.open(early, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a file system without locks, on which nobody removes it either
        fcntl.flock(file, fcntl.LOCK_EX)
    early.rename(folder / OWNER)
    return file


def _lock_of_dead(path: str) -> int | None:
    """The lock of a folder whose owner has ended; None: it lives, or the folder is not ours."""
    with suppress(OSError):
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        file = os.open(f"{path}/{OWNER}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return None
        return file
    return None
