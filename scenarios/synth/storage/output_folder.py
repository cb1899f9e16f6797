"""What a synthesis leaves on disk, so that whoever is killed goes on, and everybody can look.

    OUT/
      synthesis.toml              how it began
      ideas.json                  the scenarios that were kept, and why others were not
      ledger.jsonl                every request that was answered, with its cost
      stages/<world>/<stage>.json what each stage gave: its attempts, their faults, the best answer
      worlds/<world>/             the packages
      awm/                        AWM's eight files, with `--format awm`
      report.json

Each file is written whole or not at all. A stage whose input has changed (somebody has edited the
file of the stage before it) is made again, and so is one whose file was deleted.
"""

import fcntl
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w

from scenarios.decode_errors import field_sentence
from scenarios.errors import SynthesisError
from scenarios.synth.core.attempts import Attempt

T = TypeVar("T")
_encode = msgspec.json.Encoder(order="deterministic").encode


class Record(msgspec.Struct, frozen=True):
    """What a stage gave. `value` is null where nothing could be made of any answer."""

    stage: str
    inputs: str  # digest of what it was made from
    prompt: str  # version and digest
    ok: bool
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...] = ()
    answer: str = ""  # the best answer as it came, where the stage did not hold
    value: Any = None


class Folder:
    """One synthesis on disk. Raises SynthesisError, naming the file, where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.worlds = path / "worlds"
        self.awm = path / "awm"

    def begin(self, settings: Mapping[str, Any], may_change: frozenset[str]) -> None:
        """Make the folder, or find that what is there began alike."""
        file = self.path / "synthesis.toml"
        told = {key: value for key, value in settings.items() if value is not None}
        if self.path.exists() and not self.path.is_dir():
            raise SynthesisError(f"{self.path}: it is no folder")
        if file.exists():
            self._compare(file, told, may_change)
        elif self.path.is_dir() and any(path.name[0] != "." for path in self.path.iterdir()):
            raise SynthesisError(
                f"{self.path}: it has no synthesis.toml, so it is something else's folder"
            )
        write_whole(file, tomli_w.dumps(told).encode())
        self._sweep()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A block in which no other process works here. Raises SynthesisError where one does."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        except OSError as exc:
            raise SynthesisError(f"{self.path}: the folder cannot be used: {exc}") from exc
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SynthesisError(f"{self.path}: another process is at work there") from None
            yield

    def _sweep(self) -> None:
        """Remove what a killed process was about to write."""
        shutil.rmtree(self.path / ".drafts", ignore_errors=True)
        for left in self.worlds.glob(".*"):
            shutil.rmtree(left, ignore_errors=True)

    def _compare(self, file: Path, told: Mapping[str, Any], may_change: frozenset[str]) -> None:
        try:
            began = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise SynthesisError(f"{file}: the settings cannot be read: {exc}") from exc
        for key in sorted({*began, *told} - may_change):
            if began.get(key) != told.get(key):
                raise SynthesisError(
                    f"{file}: {key}: it began with {began.get(key)!r}, and {told.get(key)!r} is "
                    "asked for now: keep it, or take a new folder"
                )

    def stage_file(self, world: str, stage: str) -> Path:
        """Where a stage's record is."""
        return self.path / "stages" / world / f"{stage}.json"

    def drafts(self, world: str) -> Path:
        """Where packages of a world that is being made are tried out."""
        return self.path / ".drafts" / world

    def clear_drafts(self, world: str) -> None:
        """Remove them."""
        shutil.rmtree(self.drafts(world), ignore_errors=True)
        parent = self.drafts(world).parent
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()

    def record(self, world: str, stage: str) -> Record | None:
        """A stage's record; None: there is none."""
        return read_json(self.stage_file(world, stage), Record)

    def keep(self, world: str, record: Record, stage: str = "") -> None:
        """Write a stage's record."""
        write_json(self.stage_file(world, stage or record.stage), record)


def digest_of(*parts: Any) -> str:
    """A digest of data, equal for equal data."""
    return blake2b(_encode(parts), digest_size=12).hexdigest()


def value_of(record: Record, kind: type[T], file: Path) -> T:
    """A record's value. Raises SynthesisError naming the file and the field."""
    try:
        return msgspec.convert(record.value, kind)
    except msgspec.ValidationError as exc:
        raise SynthesisError(f"{file}: value: {field_sentence(str(exc))}") from exc


def read_json(file: Path, kind: type[T]) -> T | None:
    """A file's value; None: there is no file. Raises SynthesisError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.ValidationError as exc:
        fault = field_sentence(str(exc))
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as exc:
        fault = str(exc)
    raise SynthesisError(f"{file}: {fault} (delete the file to have it made again)")


def write_json(file: Path, value: Any) -> None:
    """Write a value, whole, for people too. Raises SynthesisError."""
    write_whole(file, msgspec.json.format(_encode(value), indent=1) + b"\n")


def write_whole(file: Path, data: bytes) -> None:
    """Write a file, whole or not at all. Raises SynthesisError."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(file)
    except OSError as exc:
        fresh.unlink(missing_ok=True)
        raise SynthesisError(f"{file}: it cannot be written: {exc}") from exc
