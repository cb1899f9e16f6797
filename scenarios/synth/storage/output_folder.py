"""The output folder of a synthesis: a killed run can be resumed from it, and people can read it.

    OUT/
      synthesis.toml              the settings of the first run
      ideas.json                  the scenarios that were kept, and why others were not
      ledger.jsonl                every answered request, with its cost
      stages/<world>/<stage>.json the result of each stage: attempts, their faults, the best answer
      worlds/<world>/             the packages
      awm/                        AWM's eight files, with `--format awm`
      report.json

Each file is written completely or not at all. A stage runs again if its input has changed (a user
has edited the file of an earlier stage) or if its file was deleted.
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

from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.synth.core.attempts import AttemptSummary

T = TypeVar("T")
_encode = msgspec.json.encode  # in the order in which fields stand: that of parameters counts


class StageRecord(msgspec.Struct, frozen=True):
    """The result of a stage. `value` is null where no answer could be used."""

    stage: str
    inputs: str  # digest of the stage's inputs
    prompt: str  # version and digest
    ok: bool
    attempts: tuple[AttemptSummary, ...]
    notes: tuple[str, ...] = ()
    answer: str = ""  # the text of the best answer, if the stage failed
    value: Any = None


class SynthesisFolder:
    """The folder of one synthesis. Raises SynthesisError, naming the file, if it is unusable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.worlds = path / "worlds"
        self.awm = path / "awm"

    def begin(self, settings: Mapping[str, Any], may_change: frozenset[str]) -> None:
        """Make the folder, or check that its first run had the same settings.

        Only settings in `may_change` may differ.
        """
        file = self.path / "synthesis.toml"
        present = {key: value for key, value in settings.items() if value is not None}
        if self.path.exists() and not self.path.is_dir():
            raise SynthesisError(f"{self.path}: it is not a folder; choose another one")
        if file.exists():
            self._compare(file, present, may_change)
        elif self.path.is_dir() and any(path.name[0] != "." for path in self.path.iterdir()):
            raise SynthesisError(
                f"{self.path}: it is not empty and has no synthesis.toml; choose another folder"
            )
        write_atomically(file, tomli_w.dumps(present).encode())
        self._remove_partial_files()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for the block. Raises SynthesisError if another process has locked it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        except OSError as exc:
            raise SynthesisError(f"{self.path}: the folder cannot be used: {exc}") from exc
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SynthesisError(f"{self.path}: another process is working there") from None
            yield

    def _remove_partial_files(self) -> None:
        """Remove the partial files of a killed process."""
        shutil.rmtree(self.path / ".drafts", ignore_errors=True)
        for leftover in self.worlds.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def _compare(self, file: Path, settings: Mapping[str, Any], may_change: frozenset[str]) -> None:
        try:
            first = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise SynthesisError(f"{file}: the settings cannot be read: {exc}") from exc
        for key in sorted({*first, *settings} - may_change):
            if first.get(key) != settings.get(key):
                raise SynthesisError(
                    f"{file}: {key}: the first run had {first.get(key)!r}, this one has "
                    f"{settings.get(key)!r}: use the same value, or choose a new folder"
                )

    def stage_file(self, world: str, stage: str) -> Path:
        """The path of a stage's record."""
        return self.path / "stages" / world / f"{stage}.json"

    def drafts(self, world: str) -> Path:
        """The folder for the packages of a world that is being written."""
        return self.path / ".drafts" / world

    def clear_drafts(self, world: str) -> None:
        """Remove the packages of a world that is being written."""
        shutil.rmtree(self.drafts(world), ignore_errors=True)
        parent = self.drafts(world).parent
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()

    def record(self, world: str, stage: str) -> StageRecord | None:
        """A stage's record; None: there is none."""
        return read_json(self.stage_file(world, stage), StageRecord)

    def save(self, world: str, record: StageRecord, stage: str = "") -> None:
        """Write a stage's record."""
        write_json(self.stage_file(world, stage or record.stage), record)


def input_digest(*parts: Any) -> str:
    """A digest of a stage's inputs, equal for equal data in an equal order."""
    return blake2b(_encode(parts), digest_size=12).hexdigest()


def record_value(record: StageRecord, kind: type[T], file: Path) -> T:
    """A record's value. Raises SynthesisError naming the file and the field."""
    try:
        return msgspec.convert(record.value, kind)
    except msgspec.ValidationError as exc:
        raise SynthesisError(f"{file}: value: {field_sentence(str(exc), kind)}") from exc


def read_json(file: Path, kind: type[T]) -> T | None:
    """A file's value; None: there is no file. Raises SynthesisError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.ValidationError as exc:
        fault = field_sentence(str(exc), kind)
    except (OSError, *UNREADABLE) as exc:
        fault = str(exc)
    raise SynthesisError(f"{file}: {fault} (delete the file, and a rerun writes it again)")


def write_json(file: Path, value: Any) -> None:
    """Write a value as indented JSON, completely or not at all. Raises SynthesisError."""
    write_atomically(file, msgspec.json.format(_encode(value), indent=1) + b"\n")


def write_atomically(file: Path, data: bytes) -> None:
    """Write a file, completely or not at all. Raises SynthesisError."""
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
