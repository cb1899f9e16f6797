"""A suite's checkout or package, which is the user's: where it is, whether it is the release whose
rules are played here, its files, and what our listing programs print in its interpreter.

What cannot be read raises PackageError with one sentence: which file, what is wrong with it, and
what to do.
"""

import ast
import hashlib
import json
import os
import subprocess  # nosec B404
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.errors import PackageError

_HARMLESS = ("HOME", "LANG", "PATH")  # variables that our programs get: no keys
_ADVICE = "is the checkout complete and unchanged? (`git lfs pull` brings large files)"


def checkout_at(
    folder: str, suite: str, name: str, url: str, *holds: str, flag: str = "--suite-path"
) -> Path:
    """The folder of a checkout of the benchmark `name`, which has one of the folders or files
    `holds`. Raises PackageError where none is named, and for another folder."""
    if not folder:
        raise PackageError(
            f"suite {suite} needs a checkout of {name}: clone {url} and name its folder with {flag}"
        )
    root = Path(folder).absolute()
    if not any((root / one).exists() for one in holds):
        raise PackageError(f"{folder}: there is no checkout of {name} (no {holds[0]}) here")
    return root


def require_release(
    where: Path, name: str, version: str, release: str, is_same: Callable[[], bool], advice: str
) -> None:
    """Refuse another release of a benchmark, and one whose code or data were changed (`is_same` is
    asked): its scores would not compare. Raises PackageError."""
    if version == release and is_same():
        return
    what = "has other code or data" if version == release else f"is {version}"
    raise PackageError(
        f"{where}: this {name} {what}, and its scores would not compare with those of {release}: "
        f"{advice}"
    )


def printed_by(
    python: str,
    script: Path,
    *arguments: str,
    what: str,
    advice: str,
    given: str = "",
    has_user_packages: bool = False,
) -> Any:
    """The JSON value that our program `script` prints in the user's interpreter, without keys.
    `what` it does, as in "list the tasks"; `given`: its input; `has_user_packages`: whether it may
    import what the user installed for all interpreters. Raises PackageError."""
    try:
        done = subprocess.run(  # nosec B603
            [python, *(() if has_user_packages else ("-I",)), str(script), *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={name: os.environ[name] for name in _HARMLESS if name in os.environ},
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PackageError(f"{python} cannot be started: {exc}") from exc
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PackageError(f"{python} cannot {what} ({last}): {advice}")
    try:
        return json.loads(done.stdout)
    except ValueError as exc:
        raise PackageError(f"{python} does not {what}: {advice}") from exc


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
