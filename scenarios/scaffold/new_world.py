"""A new scenario package from a template: small, complete, and ready to be changed.

The template, in the folder `world`, is a package that passes the gate. Its comments lead from file
to file.
"""

import shutil
import tempfile
from pathlib import Path

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import BUNDLED
from rehearsal_room.scenarios.value_checks import NAME

TEMPLATE = Path(__file__).parent / "world"
_TEMPLATE_NAME = "my_world"
_MAX_NAME = 64  # characters: the name is part of paths and of episode ids


def write_world(name: str, parent: Path) -> Path:
    """Write a new package `name` below a folder, which is made where it is missing; returns its
    folder. It is there whole or not at all. Raises PackageError."""
    check_name(name)
    if is_taken(parent / name):
        raise PackageError(
            f"new world: {parent / name} exists already; choose another name or folder"
        )
    try:
        return copied(TEMPLATE, _TEMPLATE_NAME, name, parent)
    except OSError as exc:
        raise PackageError(f"new world: {parent / name} cannot be written: {exc}") from exc


def is_taken(path: Path) -> bool:
    """Whether there is something at a path, be it a broken link."""
    return path.exists() or path.is_symlink()


def copied(template: Path, template_name: str, name: str, parent: Path) -> Path:
    """Copy the files of a template into a new folder `name`, in which they have that name in place
    of the template's; a file's ending `.txt` is left out. Returns the folder. Raises OSError."""
    folder = parent / name
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as made:
        draft = Path(made, name)
        draft.mkdir()
        for path in template.iterdir():
            if path.is_file():
                text = path.read_text(encoding="utf-8").replace(template_name, name)
                (draft / path.name.removesuffix(".txt")).write_text(text, encoding="utf-8")
        shutil.move(draft, folder)
    return folder


def check_name(name: str) -> None:
    """Check the name of a new world. Raises PackageError."""
    if not NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise PackageError(
            f"new world: {name!r} is not a name of a world; expected lower-case letters, digits "
            f"and _, a letter first, at most {_MAX_NAME} characters, for example animal_clinic"
        )
    if (BUNDLED / name).is_dir():
        raise PackageError(
            f"new world: {name!r} is the name of a bundled world, which would hide yours; choose "
            "another name"
        )
