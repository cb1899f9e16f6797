"""Which worlds there are, and finding one by name or by path."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from scenarios.awm.folder import AwmFolder, AwmSettings, addressed
from scenarios.awm.join import ENVS
from scenarios.errors import ScenarioError, UnknownScenario
from scenarios.format import Scenario, read

BUNDLED = Path(__file__).parent / "bundled"


class Listed(msgspec.Struct, frozen=True):
    """One world of the catalogue."""

    name: str  # what it is found by
    path: Path
    scenario: Scenario | None  # None: its package is broken
    fault: str = ""  # why


def bundled_names() -> list[str]:
    """Names of the worlds that ship with the project, sorted."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/scenario.toml"))


def worlds_folder() -> Path:
    """Where imported worlds are: $REHEARSE_WORLDS, else `worlds` below the current folder."""
    return Path(os.environ.get("REHEARSE_WORLDS") or "worlds")


def imported_names() -> list[str]:
    """Names of the worlds in the worlds folder, sorted; a bundled one's name is not found there."""
    found = {path.parent.name for path in worlds_folder().glob("[!.]*/scenario.toml")}
    return sorted(found - set(bundled_names()))


def listed() -> Iterator[Listed]:
    """Every world of the catalogue, bundled and then imported, read one by one."""
    places = [BUNDLED / name for name in bundled_names()]
    places += [worlds_folder() / name for name in imported_names()]
    for path in places:
        try:
            yield Listed(path.name, path, read(path, check_code=False))
        except ScenarioError as exc:
            yield Listed(path.name, path, None, str(exc))


def is_bundled(scenario: Scenario) -> bool:
    """Whether the package ships with the project."""
    return scenario.path.resolve().parent == BUNDLED.resolve()


def is_trusted(scenario: Scenario) -> bool:
    """Whether people wrote the scenario's code, so that it may run in the event loop's process."""
    return scenario.awm is None and scenario.written_by == "people"


def find(name: str) -> Scenario:
    """The scenario of a bundled or imported name, of a folder's path, or of a record's address
    (`<folder of AWM's files>/<name>`, see AwmFolder).

    Raises UnknownScenario when there is none, PackageError when it is broken.
    """
    if name in bundled_names():
        return read(BUNDLED / name)
    for path in (name, os.path.join(worlds_folder(), name)):
        if name and os.path.isdir(path):  # Path.is_dir raises for a name that is too long
            return read(Path(path))
    folder, _, record = name.rpartition("/")
    if folder and os.path.isfile(Path(folder, ENVS)):
        return _find_record(Path(folder), record)
    known = f"bundled are {', '.join(bundled_names())}"
    if imported := imported_names():
        known += f", and {worlds_folder()} has {len(imported)}"
    raise UnknownScenario(f"there is no scenario {name!r}: no folder of that path, and {known}")


def _find_record(folder: Path, record: str) -> Scenario:
    try:
        name, settings = addressed(record)
        stats = [(path.name, path.stat()) for path in sorted(folder.glob("gen_*.jsonl"))]
        files = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        return _records(folder, settings, files).find(name)
    except (ValueError, msgspec.ValidationError) as exc:
        raise UnknownScenario(f"{folder}: {record!r} is no record's address: {exc}") from exc


@lru_cache(maxsize=2)
def _records(folder: Path, settings: AwmSettings, files: object) -> AwmFolder:
    """The folder's index, kept as long as its files are the same."""
    return AwmFolder(folder, seeding=settings.seeding, clock=settings.clock)
