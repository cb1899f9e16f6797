"""Folders that are there whole or not at all.

A folder is written under another name beside its place (`.NAME.partial`), brought to the disk, and
renamed. Whoever is killed leaves at most the partial one, which nobody reads and the next writer of
the same folder removes.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch.distributed.checkpoint.api import CheckpointException

from learner.core.errors import CheckpointError


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """Gives a new folder to write into, which becomes `folder` at the end of the block.

    Raises CheckpointError when it cannot be written or is there already; then nothing is left.
    """
    partial = partial_of(folder)
    try:
        if folder.exists():
            raise CheckpointError(f"{folder}: it is there already, and is never written twice")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        _sync(partial)
        partial.rename(folder)
        _sync_one(folder.parent)
    except (OSError, SafetensorError, CheckpointException) as exc:
        raise CheckpointError(f"{folder}: it cannot be written: {reason(exc)}") from exc
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def removed_whole(folder: Path) -> None:
    """Remove a folder so that no reader takes a half of it for the whole."""
    gone = partial_of(folder)
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def partial_of(folder: Path) -> Path:
    """Where a folder is while it is written or removed."""
    return folder.with_name(f".{folder.name}.partial")


def reason(exc: BaseException) -> str:
    """What went wrong, in one line. torch's checkpoints wrap it, one failure for each process;
    checks of a config.json tell the field in one line and the fault in the next."""
    if isinstance(exc, CheckpointException):
        return "; ".join(reason(failure) for failure, _ in exc.failures.values())
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    if isinstance(exc, StrictDataclassError):
        return " ".join(str(exc).split())
    told = (str(exc) or type(exc).__name__).splitlines()[0]
    if "unexpected pos" in told:  # so torch's archives say that they could write no further
        return f"a file could not be written to its end; is the disk full? ({told})"
    return told


def _sync(folder: Path) -> None:
    """Bring a folder and what is in it to the disk."""
    for path in [*folder.rglob("*"), folder]:
        _sync_one(path)


def _sync_one(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
