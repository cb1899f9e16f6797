"""The worlds that the viewer knows: those of the catalogue, and packages given by path."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.run_trust import isolated_unless_own
from rehearsal_room.scenarios.catalogue import bundled_names, catalogue_entries, find
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.viewer.reading.open_runs import NotHereError, run_id

_Stamp = tuple[tuple[str, int, int], ...]  # name, time and size of each file


class WorldLine(msgspec.Struct, frozen=True):
    """A world in the list."""

    name: str  # by which it is addressed
    title: str
    version: str
    description: str
    tables: int
    tools: int
    tasks: int
    source: str  # bundled, or the folder
    error: str | None = None


class Catalogue:
    """The worlds by their names."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = {run_id(folder): folder for folder in folders}
        self._known: dict[str, tuple[_Stamp, Scenario]] = {}

    def add(self, folder: Path) -> None:
        """Show the world in a folder, too."""
        self._folders[run_id(folder)] = folder

    def find(self, name: str) -> Scenario:
        """The world of a name. Raises ScenarioError."""
        folder = self._folders.get(name)
        if folder is None and ("/" in name or name.startswith(".")):
            raise NotHereError(f"there is no world {name!r} here")
        return self._read(name if folder is None else str(folder))

    def _read(self, source: str) -> Scenario:
        """The world of a name or path, read again only where a file of it has changed."""
        known = self._known.get(source)
        if known is not None and known[0] == _stamp_of(known[1].path):
            return known[1]
        scenario = find(source)
        self._known[source] = _stamp_of(scenario.path), scenario
        return scenario

    def hosting(self, name: str) -> Settings:
        """The settings that host the world: in this process where the user has named its folder, or
        it is the user's own (see harness.setup.run_trust); else in workers."""
        return isolated_unless_own(Settings(), [] if name in self._folders else [name])

    def source(self, name: str) -> str:
        """What commands call the world: its name, or its folder."""
        folder = self._folders.get(name)
        return name if folder is None else str(folder)

    def lines(self) -> list[WorldLine]:
        """The list of worlds."""
        found = []
        for name, folder in self._folders.items():
            try:
                found.append(_line(name, self._read(str(folder)), str(folder)))
            except ScenarioError as exc:
                found.append(WorldLine(name, "", "", "", 0, 0, 0, str(folder), str(exc)))
        bundled = set(bundled_names())
        for one in catalogue_entries():
            source = "bundled" if one.name in bundled else str(one.path)
            if one.scenario is None:
                found.append(WorldLine(one.name, "", "", "", 0, 0, 0, source, one.fault))
            else:
                found.append(_line(one.name, one.scenario, source))
        return found


def tasks_of(scenario: Scenario) -> list[dict[str, Any]]:
    """The tasks of a world."""
    return [
        {
            "id": task.id,
            "instruction": task.instruction,
            "kind": task.kind,
            "difficulty": task.difficulty,
            "tags": task.tags,
            "answer": task.answer,
            "calls": len(task.oracle),
            "is_dialogue": task.is_dialogue,
        }
        for task in scenario.tasks
    ]


def _line(name: str, scenario: Scenario, source: str) -> WorldLine:
    return WorldLine(
        name,
        scenario.title,
        scenario.version,
        scenario.description,
        scenario.schema_sql.upper().count("CREATE TABLE"),
        _num_tools(scenario),
        len(scenario.tasks),
        source,
    )


def _stamp_of(path: Path) -> _Stamp:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in files)


def _num_tools(scenario: Scenario) -> int:
    """How many tools its file defines, without running it; 0: it has no such file."""
    try:
        text = (scenario.path / "tools.py").read_text(encoding="utf-8")
    except OSError:
        return 0
    lines = text.splitlines()
    return sum(line.startswith("def ") and not line.startswith("def _") for line in lines)
