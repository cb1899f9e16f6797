"""Tasks that a run leaves out by name: entries of a benchmark whose ground truth is known to be
wrong, for example."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.format import Scenario, Task

_MOST = 1 << 20  # bytes of a file of names


def expanded(values: Sequence[str]) -> tuple[str, ...]:
    """The names of tasks, those of files included: one in each line; empty lines, and those that
    begin with #, are left out. Raises SettingsError."""
    names: list[str] = []
    for value in values:
        path = Path(value)
        if not path.is_file():
            names.append(value)
            continue
        try:
            with path.open(encoding="utf-8-sig") as file:
                lines = file.read(_MOST).splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            raise SettingsError(f"exclude: {path} cannot be read: {exc}") from exc
        listed = [line.strip() for line in lines]
        names += [line for line in listed if line and not line.startswith("#")]
    return tuple(dict.fromkeys(names))


def without(
    tasks: Sequence[tuple[Scenario, Task]], names: Sequence[str]
) -> list[tuple[Scenario, Task]]:
    """The tasks without those of these names: TASK, SCENARIO:TASK, or an entry of a benchmark by
    its own id. Raises SettingsError for a name that no task has.

    Example: "live_multiple_862-181-3" leaves out the task live_multiple_862_181_3
    """
    left_out = {_plain(name): name for name in names}
    kept, found, known = [], set[str](), dict[str, str]()
    for scenario, task in tasks:
        own = {_plain(task.id), _plain(f"{scenario.name}:{task.id}")}
        known[_plain(task.id)] = task.id
        hit = own & left_out.keys()
        found |= hit
        if not hit:
            kept.append((scenario, task))
    for plain, name in left_out.items():
        if plain not in found:
            close = get_close_matches(plain, known, 1)
            hint = f" (did you mean {known[close[0]]!r}?)" if close else ""
            raise SettingsError(f"exclude: none of the tasks is called {name!r}{hint}")
    return kept


def _plain(name: str) -> str:
    return re.sub(r"[^\w:]", "_", name.lower())
