"""Drafts: files that are being written, each beside the file whose place it will take.

A draft is named `.NAME.PID-RANDOM.tmp`. Its writer holds a lock on it until it has its final name,
and the system frees the lock when the writer is killed. So a draft without a lock is abandoned, and
the next command that writes into the folder, or opens the log in it, removes it.
"""

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_DRAFT = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.tmp")


@contextmanager
def open_draft(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new draft of `path`, opened and locked; unless it was finished, it is removed when
    the block is left. Raises OSError."""
    draft, file = _new_draft(path)
    try:
        with file:
            yield draft, file
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def finish_draft(draft: Path, file: BinaryIO, path: Path) -> None:
    """Give a draft its final name, durably. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())
    draft.replace(path)  # still locked
    _sync_folder(path.parent)


def remove_abandoned_drafts(folder: Path) -> None:
    """Remove the drafts that killed processes left in a folder; a folder that cannot be read or
    changed stays as it is."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _DRAFT.fullmatch(name):
                _remove_if_abandoned(folder / name)


def _new_draft(path: Path) -> tuple[Path, BinaryIO]:
    if path.is_dir():  # also ".", which has no name
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    while True:
        draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = draft.open("xb")
        with suppress(OSError):  # a file system without locks: its drafts are never removed
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return draft, file
        file.close()  # another process took it for abandoned before it was locked


def _remove_if_abandoned(draft: Path) -> None:
    with suppress(OSError), draft.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
