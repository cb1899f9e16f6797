"""Reading the files of a suite's checkout or package, which are the user's.

What cannot be read raises PackageError with one sentence: which file, what is wrong with it, and
what to do.
"""

import ast
import hashlib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.errors import PackageError

_ADVICE = "is the checkout complete and unchanged? (`git lfs pull` brings large files)"


def file_bytes(path: Path) -> bytes:
    """What a file contains."""
    try:
        return path.read_bytes()
    except OSError as exc:
        raise PackageError(f"{path}: it cannot be read ({exc.strerror}); {_ADVICE}") from exc


def file_text(path: Path) -> str:
    r"""A file's text, with `\n` at the end of each line."""
    try:
        text = file_bytes(path).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise PackageError(f"{path}: it is not UTF-8 text ({exc}); {_ADVICE}") from exc
    return text.replace("\r\n", "\n").replace("\r", "\n")


def file_json(path: Path) -> Any:
    """The value in a JSON file."""
    text = file_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:  # also a number of thousands of digits
        raise PackageError(f"{path}: it is not JSON ({exc}); {_ADVICE}") from exc


def file_code(path: Path) -> ast.Module:
    """The code in a Python file, which is not executed."""
    text = file_text(path)
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise PackageError(f"{path}: it is not Python ({exc}); {_ADVICE}") from exc


def project_version(root: Path) -> str:
    """The version that the pyproject.toml of a checkout names."""
    path = root / "pyproject.toml"
    text = file_text(path)
    try:
        project = tomllib.loads(text).get("project")
    except (ValueError, RecursionError) as exc:
        raise PackageError(f"{path}: it is not TOML ({exc}); {_ADVICE}") from exc
    version = project.get("version") if isinstance(project, dict) else None
    if not isinstance(version, str):
        raise PackageError(f"{path}: it names no version (`version` in `[project]`); {_ADVICE}")
    return version


def digest_of_files(root: Path, files: Iterable[Path]) -> str:
    """The digest of files below a folder: names, lengths and contents, in this order."""
    found = hashlib.blake2b(digest_size=16)
    for file in files:
        data = file_bytes(file)
        found.update(f"{file.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()
