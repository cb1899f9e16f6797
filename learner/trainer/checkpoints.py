"""Checkpoints to resume from: all that decides what comes next, so that a run that was killed goes
on to the same numbers as one that was not.

    checkpoints/
        checkpoint-000004/    whole: written beside, brought to the disk, renamed
            checkpoint.json   the manifest: step, model, the feed's place
            .metadata, *.distcp   weights, optimiser, random numbers: torch's distributed checkpoint
        .checkpoint-000005.partial/   what a kill left; nobody reads it

The tensors can be read by another number of processes than wrote them; random numbers are then
drawn anew.
"""

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import msgspec
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader

from learner.core.atomic_dirs import partial_of, reason, removed_whole, written_whole
from learner.core.errors import CheckpointError
from learner.model.distributed import Processes

_MANIFEST = "checkpoint.json"
_NAME = re.compile(r"checkpoint-(\d{6,})")
_STORAGE = frozenset(
    ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache")
)
_BROKEN = (EOFError, UnpicklingError)  # what a file that was cut short says


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which model a checkpoint is of, weights aside."""

    folder: str  # it was opened from, for messages
    architecture: str
    num_parameters: int
    digest: str  # of the weights' names and shapes, of the configuration, of the tokenizer

    def __str__(self) -> str:
        size = f"{self.num_parameters:,} parameters, digest {self.digest[:8]}"
        return f"{self.folder} ({self.architecture}, {size})"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in a checkpoint beside tensors."""

    step: int  # batches that were trained
    model: Identity
    place: bytes  # where the feed is; whoever saved it knows what it means
    processes: int  # that wrote it
    format: Literal[1] = 1


def identity_of(model: nn.Module, folder: Path) -> Identity:
    """The identity of a model that was opened from a folder; ask before the model is sharded."""
    shapes = sorted((name, tuple(weight.shape)) for name, weight in model.named_parameters())
    digest = hashlib.sha256(repr(shapes).encode())
    digest.update(_computed(model))
    tokenizer = folder / "tokenizer.json"
    if tokenizer.is_file():
        digest.update(tokenizer.read_bytes())
    size = sum(weight.numel() for weight in model.parameters())
    return Identity(str(folder), type(model).__name__, size, digest.hexdigest())


def save(root: Path, state: dict[str, Any], manifest: Manifest, processes: Processes) -> None:
    """Write the next checkpoint. All processes call it, with the same folder on a shared disk.

    Raises CheckpointError (disk full, no permission); then the checkpoints before are as they were.
    """
    folder = root / f"checkpoint-{_last_number(root) + 1:06}"
    partial = partial_of(folder)
    with ExitStack() as stack, _explained(folder, "written"):
        problem = None
        if processes.rank == 0:
            try:
                stack.enter_context(written_whole(folder))
                (partial / _MANIFEST).write_bytes(msgspec.json.encode(manifest))
            except (CheckpointError, OSError) as exc:
                problem = exc
        _agree(processes, problem)
        with _quiet():
            state_dict_saver.save(state, checkpoint_id=partial, no_dist=processes.size == 1)


def load(folder: Path, state: dict[str, Any], processes: Processes) -> None:
    """Read a checkpoint's tensors into the tensors of `state`. Raises CheckpointError."""
    with _explained(folder, "read"), _quiet():
        FileSystemReader(folder).read_metadata()  # where this fails, `load` logs tracebacks
        state_dict_loader.load(state, checkpoint_id=folder, no_dist=processes.size == 1)


def read_manifest(folder: Path, model: Identity) -> Manifest:
    """What a checkpoint says of itself.

    Raises CheckpointError when it cannot be read, or is one of another model.
    """
    try:
        manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as exc:
        raise CheckpointError(f"{folder / _MANIFEST}: it cannot be read: {reason(exc)}") from exc
    if (manifest.model.architecture, manifest.model.digest) != (model.architecture, model.digest):
        raise CheckpointError(
            f"{folder}: it is a checkpoint of the model {manifest.model}, not of {model}"
        )
    return manifest


def newest(root: Path) -> Path | None:
    """The last checkpoint that is whole; None: there is none."""
    folders = _checkpoints(root)
    return folders[-1] if folders else None


def keep_newest(root: Path, keep: int) -> None:
    """Remove all but the last `keep` checkpoints (at least one is kept), and what kills left.

    Raises CheckpointError.
    """
    try:
        for folder in _checkpoints(root)[: -max(1, keep)]:
            removed_whole(folder)
        for partial in root.glob(".checkpoint-*.partial"):
            shutil.rmtree(partial)
    except OSError as exc:
        raise CheckpointError(f"{root}: old checkpoints stay: {reason(exc)}") from exc


def _computed(model: nn.Module) -> bytes:
    """What a transformers model's configuration says beside shapes: another base of the rotary
    embedding is another model. What says where and how it is stored or run is left out."""
    config = getattr(model, "config", None)
    if config is None:
        return b""
    told = {name: value for name, value in config.to_diff_dict().items() if name not in _STORAGE}
    return json.dumps(told, sort_keys=True, default=str).encode()


def _checkpoints(root: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    folders = root.iterdir() if root.is_dir() else iter(())
    found = [(int(match[1]), path) for path in folders if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _last_number(root: Path) -> int:
    last = newest(root)
    return int(last.name.rpartition("-")[2]) if last else 0


def _agree(processes: Processes, problem: Exception | None) -> None:
    """Raise what went wrong in one process in all of them, or some would wait for the others."""
    if problem is not None and processes.size == 1:
        raise problem
    for rank, words in enumerate(processes.gathered(problem and str(problem))):
        if words:
            raise (
                CheckpointError(words)
                if rank == processes.rank
                else CheckpointError(f"process {rank}: {words}")
            )


@contextmanager
def _explained(folder: Path, done: str) -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, OSError, RuntimeError, ValueError, KeyError, CheckpointException) as exc:
        raise CheckpointError(f"{folder}: it cannot be {done}: {reason(exc)}") from exc


@contextmanager
def _quiet() -> Iterator[None]:
    """One process is what is wanted here; torch warns of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
