"""From the names that a user gives to the worlds that are checked: packages, folders, records."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.awm.join import ENVS
from rehearsal_room.scenarios.catalogue import find, folder_of
from rehearsal_room.scenarios.errors import UnknownScenario
from rehearsal_room.scenarios.format import FILES

_SIGNS = (*FILES, "server.py")  # a folder with one of these is a package, perhaps unfinished


def worlds_in(names: Iterable[str]) -> list[str]:
    """The names by which the catalogue finds the worlds; each once, in order.

    A folder without a scenario.toml is a folder of packages, unfinished ones included (hidden
    folders, which are drafts, are not), or of AWM's jsonl files. Raises UnknownScenario for a name
    that nothing has and a folder without packages, and PackageError for a folder of records that
    lacks a file.
    """
    return list(dict.fromkeys(world for name in names for world in _worlds_of(name)))


def _worlds_of(name: str) -> Iterator[str]:
    folder = Path(name)
    if not name or not _is_folder(folder):
        if folder_of(name) is None and not is_record(name):
            find(name)  # which says what is near: not after an hour, when its turn has come
        yield name
    elif _is_package(folder):
        yield name
    elif (folder / ENVS).is_file():
        yield from (f"{folder}/{record}" for record in AwmFolder(folder).names())
    else:
        inner = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        packages = [path for path in inner if path.is_dir() and _is_package(path)]
        if not packages:
            raise UnknownScenario(f"{folder}: there is no package in this folder")
        yield from map(str, packages)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # the name is too long
        return False


def _is_package(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _SIGNS)


def is_record(name: str) -> bool:
    """Whether the catalogue finds an AWM record by this name; False where it finds nothing."""
    folder = Path(name)
    if _is_folder(folder):
        try:
            text = (folder / "scenario.toml").read_text(encoding="utf-8")
            return tomllib.loads(text).get("format") == "awm"
        except (OSError, ValueError):
            return False
    return _is_folder(folder.parent) and (folder.parent / ENVS).is_file()
