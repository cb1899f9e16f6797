"""The catalogue of scenarios: listing them, and finding one by name or by path."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.awm.folder import AwmFolder, AwmSettings, parse_address
from rehearsal_room.scenarios.awm.join import ENVS
from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.errors import ScenarioError, UnknownScenario
from rehearsal_room.scenarios.format import BUNDLED, Scenario, read
from rehearsal_room.scenarios.nearest import did_you_mean


class CatalogueEntry(msgspec.Struct, frozen=True):
    """One scenario of the catalogue."""

    name: str  # `find` finds it by this name
    path: Path
    scenario: Scenario | None  # None: its package is broken
    fault: str = ""  # why it is broken


def bundled_names() -> list[str]:
    """The names of the scenarios that ship with the project, sorted."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/scenario.toml"))


def worlds_folder() -> Path:
    """The folder of imported scenarios: $REHEARSE_WORLDS, else `worlds` below the current
    folder."""
    return Path(os.environ.get("REHEARSE_WORLDS") or "worlds")


def imported_names() -> list[str]:
    """The names of the scenarios in the worlds folder, sorted, without those that have the
    name of a bundled scenario: `find` prefers the bundled one."""
    found = {path.parent.name for path in worlds_folder().glob("[!.]*/scenario.toml")}
    return sorted(found - set(bundled_names()))


def catalogue_entries() -> Iterator[CatalogueEntry]:
    """Yield every scenario of the catalogue, the bundled ones first, reading them one by one."""
    folders = [BUNDLED / name for name in bundled_names()]
    folders += [worlds_folder() / name for name in imported_names()]
    for path in folders:
        try:
            yield CatalogueEntry(path.name, path, read(path, check_code=False))
        except ScenarioError as exc:
            yield CatalogueEntry(path.name, path, None, str(exc))


def is_bundled(scenario: Scenario) -> bool:
    """Whether the package ships with the project: it lies in our own folder of worlds, reached by
    no link that leads elsewhere, and its files there are those from which it was read. Its name
    proves nothing."""
    folder = scenario.path.resolve()
    if folder.parent != BUNDLED.resolve():
        return False
    try:
        return read(folder, check_code=False).digest == scenario.digest
    except ScenarioError:
        return False


def is_trusted(scenario: Scenario, *, strict: bool = False) -> bool:
    """Whether the scenario's code may run in the event loop's process, with the user's rights.

    Never a record's, nor a package's that says that a model wrote it. `strict` (`--sandbox
    required`): only that of bundled packages, whatever a package says about itself; otherwise the
    user who names a package trusts it.
    """
    if scenario.awm is not None or scenario.written_by == "model":
        return False
    return not strict or not scenario.has_code or is_bundled(scenario)


def find(name: str) -> Scenario:
    """The scenario with a bundled or imported name, at a folder's path, or at a record's
    address (`<folder of AWM's files>/<name>`, see AwmFolder).

    Raises UnknownScenario when there is none, PackageError when it is broken.
    """
    if (found := folder_of(name)) is not None:
        return read(found)
    folder, _, record = name.rpartition("/")
    if folder and os.path.isfile(Path(folder, ENVS)):
        return _find_record(Path(folder), record)
    raise UnknownScenario(f"scenario {name!r} not found{_hint(name)}")


def folder_of(name: str) -> Path | None:
    """The package's folder by the name that `find` takes; None: no folder has it."""
    if name in bundled_names():
        return BUNDLED / name
    for path in (name, os.path.join(worlds_folder(), name)):
        if name and os.path.isdir(path):  # Path.is_dir raises for a name that is too long
            return Path(path)
    return None


def _hint(name: str) -> str:
    """The nearest names; where no name is near, the names that exist."""
    imported = imported_names()
    if near := did_you_mean(name, [*bundled_names(), *imported]):
        return near
    more = f", and {worlds_folder()} has {len(imported)} more" if imported else ""
    return (
        f": no folder has this path, and no scenario this name; bundled scenarios are "
        f"{', '.join(bundled_names())}{more}"
    )


def _find_record(folder: Path, record: str) -> Scenario:
    try:
        name, settings = parse_address(record)
        stats = [(path.name, path.stat()) for path in sorted(folder.glob("gen_*.jsonl"))]
        files = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        return _records(folder, settings, files).find(name)
    except (ValueError, msgspec.ValidationError) as exc:
        fault = field_sentence(str(exc), AwmSettings)
        raise UnknownScenario(
            f"{folder}: {record!r} is not the address of a record: {fault}"
        ) from exc


@lru_cache(maxsize=2)
def _records(folder: Path, settings: AwmSettings, files: object) -> AwmFolder:
    """The folder's index, cached as long as its files stay the same."""
    return AwmFolder(folder, seeding=settings.seeding, clock=settings.clock)
