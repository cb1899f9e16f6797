"""The worlds and tasks that may be run: a file that the gate writes and `--allow` reads.

    {"format": "rehearsal.allow-list.1", "worlds": [
      {"name": "library", "digest": "4f1c…", "tasks": ["pay-fine", "renew-emma"]}]}

A world counts as long as its package is the one that was checked: by its digest.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from harness.core.errors import SettingsError
from harness.log.schema import write_atomically
from scenarios.format import Scenario, Task


class AllowedWorld(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One world that passed, with its sound tasks."""

    name: str
    digest: str
    tasks: tuple[str, ...]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["rehearsal.allow-list.1"]
    worlds: tuple[AllowedWorld, ...]


class AllowList:
    """What may be run, as a file says."""

    def __init__(self, path: Path, worlds: Iterable[AllowedWorld]) -> None:
        self._path = path
        self._digests: dict[str, set[str]] = {}  # by name
        self._tasks: dict[str, set[str]] = {}  # by digest
        for world in worlds:
            self._digests.setdefault(world.name, set()).add(world.digest)
            self._tasks.setdefault(world.digest, set()).update(world.tasks)

    def __repr__(self) -> str:
        return f"<AllowList {self._path} [{len(self._tasks)} worlds]>"

    def sound(self, scenario: Scenario, tasks: Iterable[Task], *, named: bool) -> tuple[Task, ...]:
        """Those of the tasks that may be run.

        Raises SettingsError for a world that is not listed, and for a task that is not where it
        was asked for by name.
        """
        listed = self._tasks.get(scenario.digest)
        if listed is None:
            raise SettingsError(f"allow: {self._path} {self._why_not(scenario)}")
        tasks = tuple(tasks)
        bad = [task.id for task in tasks if task.id not in listed]
        if named and bad:
            raise SettingsError(
                f"allow: {self._path} does not list task {bad[0]!r} of scenario "
                f"{scenario.name!r}: it did not pass the gate"
            )
        return tuple(task for task in tasks if task.id in listed)

    def _why_not(self, scenario: Scenario) -> str:
        if scenario.name in self._digests:
            return (
                f"lists another package as scenario {scenario.name!r}: "
                "it has changed since it was checked"
            )
        return f"does not list scenario {scenario.name!r}: it did not pass the gate"


def read_allow_list(path: Path) -> AllowList:
    """The list in a file. Raises SettingsError naming file and field."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as exc:
        raise SettingsError(f"allow: {path} cannot be read: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"allow: {path} is no allow-list: {exc}") from exc
    return AllowList(path, found.worlds)


def write_allow_list(path: Path, worlds: Iterable[AllowedWorld]) -> None:
    """Write a list, whole or not at all. Raises SettingsError."""
    data = msgspec.json.encode(_File("rehearsal.allow-list.1", tuple(worlds)))
    try:
        write_atomically(path, msgspec.json.format(data, indent=1) + b"\n")
    except OSError as exc:
        raise SettingsError(f"allow-list: {path} cannot be written: {exc}") from exc
