"""An index of the rows of a jsonl file, so that each row can be read by itself.

The files of AgentWorldModel-1K have up to 237 MB. Each is read once, line by line, and the index
keeps only the position of a row. A line that cannot be read is a fault and does not stop the rest.
"""

import re
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import msgspec

from rehearsal_room.scenarios.awm.names import name_fault, normalize_name
from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.errors import PackageError, RecordError
from rehearsal_room.scenarios.files import UNREADABLE

MAX_LINE = 64 * 2**20  # bytes; the longest of the released data has about 200 KB
MAX_FAULTS = 1000  # broken lines in one file

T = TypeVar("T")


class RowPosition(msgspec.Struct, frozen=True, gc=False):
    """The position of one row in its file."""

    name: str  # of the scenario, normalised
    line: int  # from 1
    offset: int  # bytes
    size: int  # bytes
    task: int | None = None  # verifiers: the index of the task


class LineFault(msgspec.Struct, frozen=True, gc=False):
    """A line that cannot be read; `name` None: its scenario is not known."""

    line: int
    reason: str
    name: str | None = None


class RowIndex(msgspec.Struct, frozen=True):
    """The rows of a file by scenario, in the file's order, and the lines that cannot be read."""

    rows: dict[str, list[RowPosition]]
    faults: list[LineFault]


class _Key(msgspec.Struct, gc=False):
    scenario: str


class _NameKey(msgspec.Struct, gc=False):
    scenario: str = msgspec.field(name="name")


class _TaskKey(msgspec.Struct, gc=False):
    scenario: str
    task_idx: int | float | str


KeyedBy = Literal["name", "scenario", "task"]  # task: scenario and task_idx
_Keys = _Key | _NameKey | _TaskKey
_DECODERS: dict[KeyedBy, msgspec.json.Decoder[_Keys]] = {
    "name": msgspec.json.Decoder(_NameKey),
    "scenario": msgspec.json.Decoder(_Key),
    "task": msgspec.json.Decoder(_TaskKey),
}


def index_of(path: Path, keyed_by: KeyedBy) -> RowIndex:
    """The index of a file, reading it once. Raises PackageError when it is unreadable."""
    index = RowIndex({}, [])
    try:
        with path.open("rb") as file:
            for line, offset, raw in _lines(file):
                found = _row(keyed_by, line, offset, raw)
                if isinstance(found, RowPosition):
                    index.rows.setdefault(found.name, []).append(found)
                else:
                    index.faults.append(found)
                    _check_faults(path, index.faults)
    except FileNotFoundError:
        raise PackageError(f"{path}: the file is missing") from None
    except OSError as exc:
        raise PackageError(f"{path}: the file cannot be read: {exc}") from exc
    return index


def _check_faults(path: Path, faults: list[LineFault]) -> None:
    if len(faults) > MAX_FAULTS:
        raise PackageError(
            f"{path}: not a file of AWM: more than {MAX_FAULTS} lines are not valid rows; "
            f"the first is line {faults[0].line}: {faults[0].reason}"
        )


def read_row(folder: Path, file: str, row: RowPosition, kind: type[T]) -> T:
    """One row as a type that names the fields of interest. Raises RecordError."""
    try:
        with (folder / file).open("rb") as stream:
            stream.seek(row.offset)
            return msgspec.json.decode(stream.read(row.size), type=kind)
    except msgspec.ValidationError as exc:
        raise RecordError(folder, file, row.line, field_sentence(str(exc))) from exc
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as exc:
        raise RecordError(folder, file, row.line, _not_json(exc)) from exc


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield every line that is not blank: its number, offset and bytes (at most MAX_LINE + 1)."""
    line = offset = 0
    while raw := file.readline(MAX_LINE + 1):
        line += 1
        start = 3 if line == 1 and raw.startswith(b"\xef\xbb\xbf") else 0  # a byte order mark
        if text := raw[start:].rstrip():
            yield line, offset + start, text
        offset += len(raw)
        while len(raw) > MAX_LINE and not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE + 1)
            offset += len(raw)


def _row(keyed_by: KeyedBy, line: int, offset: int, raw: bytes) -> RowPosition | LineFault:
    field = "name" if keyed_by == "name" else "scenario"
    try:
        if len(raw) > MAX_LINE:
            return LineFault(line, f"longer than {MAX_LINE} bytes", _name_in(raw, field))
        key = _DECODERS[keyed_by].decode(raw)
    except msgspec.ValidationError as exc:
        return LineFault(line, field_sentence(str(exc)), _name_in(raw, field))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return LineFault(line, _not_json(exc), _name_in(raw, field))
    if fault := name_fault(key.scenario):
        return LineFault(line, f"{field}: {fault}")
    name = normalize_name(key.scenario)
    if not isinstance(key, _TaskKey):
        return RowPosition(name, line, offset, len(raw))
    task = _task_index(key.task_idx)
    if task is None:
        return LineFault(
            line, f"task_idx: {reprlib.repr(key.task_idx)} is not the number of a task", name
        )
    return RowPosition(name, line, offset, len(raw), task)


def _task_index(value: int | float | str) -> int | None:
    """A task's index, which may be written as text. None: the value is not an index."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\s*[0-9]{1,9}\s*", value, re.ASCII) else None
    return int(value) if value >= 0 and value == value // 1 else None


def _name_in(raw: bytes, field: str) -> str | None:
    """The scenario of a broken line, as far as it is known: the first value of a field called
    `field`. (Inside of a text the quotes would have a backslash in front.)"""
    pattern = rb'(?<!\\)"%b"\s*:\s*("(?:[^"\\]|\\.)*")' % field.encode()
    found = re.search(pattern, raw)
    if found is None:
        return None
    try:
        written = msgspec.json.decode(found[1], type=str)
    except UNREADABLE:
        return None
    return None if name_fault(written) else normalize_name(written)


def _not_json(exc: Exception) -> str:
    match exc:
        case RecursionError():
            return "not valid JSON: it is nested too deeply"
        case OSError():
            return f"it cannot be read: {exc}"
        case UnicodeDecodeError():
            return f"not UTF-8: {exc.reason}"
    fault = str(exc).removeprefix("JSON is malformed: ")
    return f"not valid JSON: {fault[:1].lower()}{fault[1:]}"
