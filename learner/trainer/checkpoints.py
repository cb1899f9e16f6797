"""Checkpoints to resume from. They hold everything that determines the next numbers, so a killed
and resumed run gets the same numbers as an uninterrupted one.

    checkpoints/
        checkpoint-000004/    complete: written under another name, flushed to disk, renamed
            checkpoint.json   the manifest: step, model, training progress
            .metadata, *.distcp   weights, optimiser, random states: torch's distributed checkpoint
            checksums.json        of all of them
        .checkpoint-000005.partial/   left by a kill; never read

The tensors can be read by a different number of processes than wrote them; the random states are
then not restored.

A checkpoint is data and may come from anybody, but torch keeps its metadata and its numbers as
pickles, which can name any function. They are read with the classes of the format only.
"""

import hashlib
import json
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final, Literal

import msgspec
import torch
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader

from rehearsal_room.learner.core.atomic_dirs import (
    partial_path,
    reason,
    remove_atomically,
    write_atomic_folder,
)
from rehearsal_room.learner.core.checksums import (
    CHECKSUMS_NAME,
    check_checksums,
    has_checksums,
)
from rehearsal_room.learner.core.errors import CheckpointError, DamagedError
from rehearsal_room.learner.model.adapters import base_digest
from rehearsal_room.learner.model.distributed import Processes
from rehearsal_room.scenarios.files import UNREADABLE

_MANIFEST = "checkpoint.json"
_NAME = re.compile(r"checkpoint-(\d{6,})")
_STORAGE = frozenset(
    ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache")
)
_DAMAGED = (  # raised for a file that was cut short or holds other bytes
    *(EOFError, UnpicklingError, OSError, RuntimeError, ValueError, KeyError, TypeError),
    *(AttributeError, IndexError, CheckpointException),
)
_FORMAT: Final = 2
_PLAIN_VALUES = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
# What the metadata of a checkpoint is made of.
_METADATA_MODULES = ("torch.distributed.checkpoint.metadata",)
_METADATA = {
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("pathlib", "PosixPath"),
    ("pathlib", "PurePosixPath"),
    ("pathlib", "WindowsPath"),
    ("pathlib._local", "PosixPath"),
    ("collections", "OrderedDict"),
}


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Identifies the model of a checkpoint, apart from its weights."""

    folder: str  # from which it was opened; for messages
    architecture: str
    num_parameters: int
    digest: str  # of the weights' names and shapes, the configuration, and the tokenizer
    base: str = ""  # checksum of the weights that are not trained; empty: all are trained

    def __str__(self) -> str:
        size = f"{self.num_parameters:,} parameters, digest {self.digest[:8]}"
        return f"{self.folder} ({self.architecture}, {size})"


class CheckpointManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a checkpoint besides tensors."""

    step: int  # batches trained
    model: Identity
    progress: bytes  # the caller's own state, opaque here
    processes: int  # the number of processes that wrote it
    format: Literal[2] = _FORMAT


def identity_of(model: nn.Module, folder: Path) -> Identity:
    """The identity of a model that was opened from a folder; to be computed before sharding."""
    shapes = sorted((name, tuple(weight.shape)) for name, weight in model.named_parameters())
    digest = hashlib.sha256(repr(shapes).encode())
    digest.update(_config_bytes(model))
    tokenizer = folder / "tokenizer.json"
    if tokenizer.is_file():
        digest.update(tokenizer.read_bytes())
    size = sum(weight.numel() for weight in model.parameters())
    name = type(model).__name__
    return Identity(str(folder), name, size, digest.hexdigest(), base_digest(model))


def save(
    root: Path, state: dict[str, Any], manifest: CheckpointManifest, processes: Processes
) -> None:
    """Write the next checkpoint. All processes must call it, with the same folder on a shared disk.

    Raises CheckpointError (disk full, no permission); the earlier checkpoints are then unchanged.
    """
    folder = root / f"checkpoint-{_last_number(root) + 1:06}"
    partial = partial_path(folder)
    with ExitStack() as stack, _as_errors(folder, "written", CheckpointError):
        problem = None
        if processes.rank == 0:
            try:
                stack.enter_context(write_atomic_folder(folder))
                (partial / _MANIFEST).write_bytes(msgspec.json.encode(manifest))
            except (CheckpointError, OSError) as exc:
                problem = exc
        _raise_in_all(processes, problem)
        with _quiet():
            state_dict_saver.save(state, checkpoint_id=partial, no_dist=processes.size == 1)


def load(folder: Path, state: dict[str, Any], processes: Processes) -> None:
    """Read a checkpoint's tensors into the tensors of `state`. Raises DamagedError."""
    with _as_errors(folder, "read", DamagedError), _quiet(), _without_code():
        reader = _DataReader(folder)
        reader.read_metadata()  # first, because on failure `load` logs tracebacks
        state_dict_loader.load(state, storage_reader=reader, no_dist=processes.size == 1)


class _DataReader(FileSystemReader):
    """Reads the metadata of a checkpoint that names no function."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        path = self._get_metadata_path(kwargs.get("rank"))
        with self.fs.create_stream(path, "rb") as file:
            _MetadataUnpickler(file).load()
        return super().read_metadata(*args, **kwargs)


class _MetadataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The class that a pickle names. Raises UnpicklingError for one that the format lacks."""
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return super().find_class(module, name)
        if "." in name or (module not in _METADATA_MODULES and (module, name) not in _METADATA):
            raise UnpicklingError(f"its metadata names {module}.{name}, which the format lacks")
        found = super().find_class(module, name)
        if module in _METADATA_MODULES and getattr(found, "__module__", "") != module:
            raise UnpicklingError(f"its metadata names {module}.{name}, which the format lacks")
        return found


@contextmanager
def _without_code() -> Iterator[None]:
    """A block in which torch.load reads tensors and plain values only."""
    before = os.environ.get(_PLAIN_VALUES)
    os.environ[_PLAIN_VALUES] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PLAIN_VALUES]
        else:
            os.environ[_PLAIN_VALUES] = before


def read_manifest(folder: Path, model: Identity) -> CheckpointManifest:
    """The manifest of a checkpoint.

    Raises DamagedError when it cannot be read, and CheckpointError when it has another format or is
    of another model.
    """
    path = folder / _MANIFEST
    try:
        data = path.read_bytes()
        found = msgspec.json.decode(data, type=_Format).format
        if found != _FORMAT:
            raise CheckpointError(
                f"{folder}: the checkpoint has format {found}, and this version reads only format"
                f" {_FORMAT}: start a new run"
            )
        manifest = msgspec.json.decode(data, type=CheckpointManifest)
    except (OSError, *UNREADABLE) as exc:
        raise DamagedError(f"{path}: cannot be read: {reason(exc)}") from exc
    if (manifest.model.architecture, manifest.model.digest) != (model.architecture, model.digest):
        raise CheckpointError(
            f"{folder}: this is a checkpoint of the model {manifest.model}, not of {model}"
        )
    if manifest.model.base != model.base:
        raise CheckpointError(
            f"{folder}: its adapters belong to other weights (checksum {manifest.model.base}) than"
            f" those of {model.folder} ({model.base}): put back the model that the run started with"
        )
    return manifest


def newest_first(root: Path) -> list[Path]:
    """The complete checkpoints. Their files may be damaged (see `check_checksums`)."""
    folders = root.iterdir() if root.is_dir() else iter(())
    found = [(int(match[1]), path) for path in folders if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def keep_newest(root: Path, keep: int) -> None:
    """Remove all checkpoints that are older than the newest `keep` undamaged ones (at least one is
    kept), and partial folders.

    Raises CheckpointError.
    """
    folders, keep = newest_first(root), max(1, keep)
    good = 0
    try:
        for folder in folders if len(folders) > keep else ():
            if good >= keep:
                remove_atomically(folder)
            else:
                good += is_whole(folder)
        for partial in root.glob(".checkpoint-*.partial"):
            shutil.rmtree(partial)
    except OSError as exc:
        raise CheckpointError(f"{root}: old checkpoints cannot be removed: {reason(exc)}") from exc


def check_files(folder: Path, root: Path) -> None:
    """Raise DamagedError where a file of a checkpoint below `root` is not as it was written, or
    where it has no checksums though an older one has: earlier versions wrote none at all."""
    folders = newest_first(root)
    older = folders[folders.index(folder) + 1 :]
    if not has_checksums(folder) and any(map(has_checksums, older)):
        raise DamagedError(f"{folder / CHECKSUMS_NAME}: the file is missing")
    check_checksums(folder)


def is_whole(folder: Path) -> bool:
    """Whether the files of a checkpoint are known to be as they were written."""
    try:
        check_checksums(folder)
    except DamagedError:
        return False
    return has_checksums(folder)


class _Format(msgspec.Struct, frozen=True):
    """The part of a manifest that every version of it has."""

    format: int


def _config_bytes(model: nn.Module) -> bytes:
    """A transformers model's configuration, without the fields about storage and execution. It
    holds more than shapes: another base of the rotary embedding makes another model."""
    config = getattr(model, "config", None)
    if config is None:
        return b""
    fields = {name: value for name, value in config.to_diff_dict().items() if name not in _STORAGE}
    return json.dumps(fields, sort_keys=True, default=str).encode()


def _last_number(root: Path) -> int:
    found = newest_first(root)
    return int(found[0].name.rpartition("-")[2]) if found else 0


def _raise_in_all(processes: Processes, problem: Exception | None) -> None:
    """Raise the problem of one process in all of them, or some would wait forever for the
    others."""
    if problem is not None and processes.size == 1:
        raise problem
    for rank, message in enumerate(processes.gather(problem and str(problem))):
        if message:
            raise (
                CheckpointError(message)
                if rank == processes.rank
                else CheckpointError(f"process {rank}: {message}")
            )


@contextmanager
def _as_errors(folder: Path, action: str, kind: type[CheckpointError]) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as exc:
        raise kind(f"{folder}: cannot be {action}: {reason(exc)}") from exc


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's warning about a checkpoint without torch.distributed: a single process is
    intended here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
