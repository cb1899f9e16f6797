"""Reading text, TOML and JSON files. What is wrong is one sentence: file, field, fault.

The error is a PackageError unless the caller names a class of its own.
"""

import json
import os
import stat
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import CodeType
from typing import Any, TypeVar

import msgspec

from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.validation import explain

_MAX_BYTES = 2**26  # of a file in a folder that somebody else may have made
_MAX_COMPILED = 8  # texts whose code is kept
_compiled_lock = Lock()
_latest_code: dict[tuple[str | bytes, str], CodeType] = {}
# What msgspec raises for bytes or a text that cannot be read: also where it is not UTF-8, or where
# lists are nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")
MakeError = Callable[[str], Exception]  # an exception class; it is called with the sentence


def own_fault(path: Path, *, most: int = _MAX_BYTES) -> str:
    """Why a file may not be read, or written, as a part of the folder that the user named: it leads
    elsewhere, would block, or is larger than any that we write. Empty: it may, or is not there."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as exc:
        return str(exc)
    if stat.S_ISLNK(found.st_mode):
        return "this is a link, and only files in the folder itself are used"
    if not stat.S_ISREG(found.st_mode):
        return "this is not a regular file"
    return f"this is larger than {most:,} bytes" if found.st_size > most else ""


def load_toml(
    path: Path, kind: type[T], *, error: MakeError = PackageError, own: bool = False
) -> T:
    """The content of a TOML file, as the type that it must have; `own`: see `read_toml`."""
    return convert_toml(path, read_toml(path, error=error, own=own), kind, error=error)


def convert_toml(
    path: Path, table: dict[str, Any], kind: type[T], *, error: MakeError = PackageError
) -> T:
    """The tables that `read_toml` read from a file, as the type that they must have."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as exc:
        raise error(f"{path}: {explain(exc, table, kind)}") from exc


def read_toml(path: Path, *, error: MakeError = PackageError, own: bool = False) -> dict[str, Any]:
    """The tables of a TOML file, not checked further. `own`: the user named the folder that it is
    in, and not the file (see `own_fault`)."""
    if own and (fault := own_fault(path)):
        raise error(f"{path}: {fault}")
    try:
        return parse_toml(path, read_text(path))
    except PackageError as exc:
        raise error(str(exc)) from exc


def read_text(path: Path, *, exact: bool = False) -> str:
    """A file's text, without a byte order mark; `exact` keeps the mark and the line ends, for
    untrusted code."""
    encoding = "utf-8" if exact else "utf-8-sig"
    try:
        with path.open(encoding=encoding, newline="" if exact else None) as file:
            return file.read()
    except FileNotFoundError:
        raise PackageError(f"{path}: the file is missing") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise PackageError(f"{path}: the file cannot be read as UTF-8 text: {exc}") from exc


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """The tables of a TOML file's text."""
    try:
        return tomllib.loads(text)
    except ValueError as exc:  # also an integer of thousands of digits
        raise PackageError(f"{path}: not valid TOML: {exc}") from exc
    except RecursionError as exc:
        raise PackageError(f"{path}: not valid TOML: it is nested too deeply") from exc


def parse_json(path: Path, text: str) -> Any:
    """The value of a JSON file's text."""
    try:
        return json.loads(text)
    except ValueError as exc:  # also an integer of thousands of digits
        raise PackageError(f"{path}: not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise PackageError(f"{path}: not valid JSON: it is nested too deeply") from exc


def convert(path: Path, value: Any, kind: type[T]) -> T:
    """A value that was read from a file as this type, checked."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        raise PackageError(f"{path}: {field_sentence(str(exc), kind)}") from exc


def compiled(text: str | bytes, path: str) -> CodeType:
    """The code of a text, which names `path` as its file. That of the latest few texts is
    kept: a package is checked, and then hosted, often twice in a row. Raises what `compile` raises.
    """
    with _compiled_lock:
        code = _latest_code.get((text, path))
    if code is None:
        bare = text.removeprefix("\ufeff") if isinstance(text, str) else text  # as files are read
        code = compile(bare, path, "exec", dont_inherit=True)
        keep_compiled(text, path, code)
    return code


def keep_compiled(text: str | bytes, path: str, code: CodeType) -> None:
    """Keep the code of a text that another process of the same Python has compiled."""
    with _compiled_lock:
        _latest_code[text, path] = code
        if len(_latest_code) > _MAX_COMPILED:
            del _latest_code[next(iter(_latest_code))]


def python_fault(text: str, path: str = "<package>") -> str | None:
    """Why a text is not valid Python, with the line in front; None: it is valid.

    Nothing is executed; `compiled` has the code of a valid text afterwards.

    Example: "x =" -> "line 1: invalid syntax"
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in generated code is not a fault
            compiled(text, path)
    except SyntaxError as exc:
        return f"line {exc.lineno}: {exc.msg}" if exc.lineno else str(exc.msg)
    except ValueError as exc:  # a zero byte, in some versions of Python
        return f"not valid Python: {exc}"
    except (RecursionError, MemoryError):
        return "not valid Python: it is nested too deeply"
    return None
