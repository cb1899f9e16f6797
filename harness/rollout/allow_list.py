"""The scenarios and tasks that may be run: a file that the gate writes and `--allow` reads.

    {"format": "rehearsal.allow-list.1", "worlds": [
      {"name": "library", "digest": "4f1c…", "tasks": ["pay-fine", "renew-emma"]}]}

An entry holds for the package with this digest only: the one that was checked.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Scenario, Task


class AllowedWorld(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario that passed the gate, with its tasks that passed."""

    name: str
    digest: str
    tasks: tuple[str, ...]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["rehearsal.allow-list.1"]
    worlds: tuple[AllowedWorld, ...]


class AllowList:
    """The scenarios and tasks that an allow-list file permits."""

    def __init__(self, path: Path, worlds: Iterable[AllowedWorld]) -> None:
        self._path = path
        self._digests: dict[str, set[str]] = {}  # by name
        self._tasks: dict[str, set[str]] = {}  # by digest
        for world in worlds:
            self._digests.setdefault(world.name, set()).add(world.digest)
            self._tasks.setdefault(world.digest, set()).update(world.tasks)

    def __repr__(self) -> str:
        return f"<AllowList {self._path} [{len(self._tasks)} worlds]>"

    def permitted(
        self, scenario: Scenario, tasks: Iterable[Task], *, named: bool
    ) -> tuple[Task, ...]:
        """The tasks among `tasks` that may be run.

        Raises SettingsError for a scenario that is not listed. With `named` (the user asked for
        these tasks by name) a task that is not listed is an error, too.
        """
        listed = self._tasks.get(scenario.digest)
        if listed is None:
            raise SettingsError(f"allow: {self._path} {self._refusal(scenario)}")
        tasks = tuple(tasks)
        unlisted = [task.id for task in tasks if task.id not in listed]
        if named and unlisted:
            raise SettingsError(
                f"allow: {self._path} does not list task {unlisted[0]!r} of scenario "
                f"{scenario.name!r}: it did not pass the gate"
            )
        return tuple(task for task in tasks if task.id in listed)

    def _refusal(self, scenario: Scenario) -> str:
        if scenario.name in self._digests:
            return (
                f"lists another package for scenario {scenario.name!r}: "
                "the scenario has changed since it was checked"
            )
        return f"does not list scenario {scenario.name!r}: it did not pass the gate"


def read_allow_list(path: Path) -> AllowList:
    """Read an allow-list from a file. Raises SettingsError naming file and field."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as exc:
        raise SettingsError(f"allow: {path} cannot be read: {exc.strerror}") from exc
    except UNREADABLE as exc:
        raise SettingsError(f"allow: {path} is not an allow-list: {exc}") from exc
    return AllowList(path, found.worlds)


def write_allow_list(path: Path, worlds: Iterable[AllowedWorld]) -> None:
    """Write an allow-list, either completely or not at all. Raises SettingsError."""
    data = msgspec.json.encode(_File("rehearsal.allow-list.1", tuple(worlds)))
    try:
        write_output(path, msgspec.json.format(data, indent=1) + b"\n")
    except OSError as exc:
        raise SettingsError(f"allow-list: {path} cannot be written: {exc}") from exc
