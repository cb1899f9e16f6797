"""Dialogues that are left out, and the line about them on standard error.

Where a world is named, its dialogues are played with --dialogue or by their own names only. A
surface that cannot carry what a user says leaves out those that were named, too.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.scenarios.format import Scenario, Task

Key = TypeVar("Key")


def num_left_out(names: Sequence[str], tasks: Iterable[tuple[Scenario, Task]]) -> int:
    """How many dialogues the worlds among the names have that are not among the tasks.

    Example: ["shop_support", "flight_desk:late"] -> 8, those of shop_support
    """
    chosen = set[tuple[str, str]]()
    worlds: dict[str, Scenario] = {}
    for scenario, task in tasks:
        chosen.add((scenario.digest, task.id))
        worlds[scenario.digest] = scenario
    whole = [name for name in names if ":" not in name]
    return sum(
        task.must_be_chosen and (digest, task.id) not in chosen
        for digest, scenario in worlds.items()
        if any(_is_of(name, scenario) for name in whole)
        for task in scenario.tasks
    )


def without_dialogues(
    tasks: Mapping[Key, tuple[Scenario, Task]],
) -> dict[Key, tuple[Scenario, Task]]:
    """The tasks that have no user."""
    return {name: one for name, one in tasks.items() if one[1].user is None}


def left_out_line(count: int, why: str) -> str:
    """Say how many dialogues are left out, and what to do; empty: none are.

    Example: (8, "--dialogue plays them, too") -> "8 dialogues left out: --dialogue plays them, too"
    """
    return f"{plural(count, 'dialogue')} left out: {why}" if count else ""


def report_left_out(count: int, why: str) -> None:
    """Write the line to standard error, if there is one."""
    if line := left_out_line(count, why):
        sys.stderr.write(f"{line}\n")


def _is_of(name: str, scenario: Scenario) -> bool:
    return name == scenario.name or Path(name).absolute() == scenario.path.absolute()
