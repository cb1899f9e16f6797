"""Folders that are either complete or absent.

A folder is written under another name in the same parent folder (`.NAME.partial`), flushed to disk,
and renamed. A process that is killed leaves at most the partial folder, which no reader opens and
which the next writer of the same folder removes. The checksums of its files are stored in it (see
`learner.core.checksums`).
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch.distributed.checkpoint.api import CheckpointException

from rehearsal_room.learner.core.checksums import write_checksums
from rehearsal_room.learner.core.errors import CheckpointError

_CUT_SHORT = "a file of it is damaged or was cut short"


@contextmanager
def write_atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write into; at the end of the block it becomes `folder`.

    Raises CheckpointError when the folder cannot be written or exists already; then nothing of it
    remains on disk.
    """
    partial = partial_path(folder)
    try:
        if folder.exists():
            raise CheckpointError(f"{folder}: the folder exists already and is never overwritten")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        write_checksums(partial)
        _fsync_tree(partial)
        partial.rename(folder)
        _fsync(folder.parent)
    except (OSError, SafetensorError, CheckpointException) as exc:
        raise CheckpointError(f"{folder}: cannot be written: {reason(exc)}") from exc
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_atomically(folder: Path) -> None:
    """Remove a folder; no reader can mistake a half-removed one for a complete one."""
    partial = partial_path(folder)
    folder.rename(partial)
    shutil.rmtree(partial, ignore_errors=True)


def partial_path(folder: Path) -> Path:
    """The path that a folder has while it is written or removed."""
    return folder.with_name(f".{folder.name}.partial")


def reason(exc: BaseException) -> str:
    """The cause of an error, in one line.

    torch's checkpoint code wraps one failure per process in its exception; the checks of a
    config.json put the field on one line and the fault on the next.
    """
    if isinstance(exc, CheckpointException):
        return "; ".join(reason(failure) for failure, _ in exc.failures.values())
    if isinstance(exc, OSError) and exc.errno == EINVAL:  # torch maps a file
        return _CUT_SHORT
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    if isinstance(exc, StrictDataclassError):
        return " ".join(str(exc).split())
    message = (str(exc) or type(exc).__name__).splitlines()[0]
    if isinstance(exc, EOFError) or "deserializing" in message or "miniz" in message:
        return _CUT_SHORT
    if "unexpected pos" in message:  # torch's archive writer raises this when a write was cut short
        return f"a file could not be written completely; is the disk full? ({message})"
    return message


def _fsync_tree(folder: Path) -> None:
    """Flush a folder and everything in it to disk."""
    for path in [*folder.rglob("*"), folder]:
        _fsync(path)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
