"""Near misses: plausible wrong turns of a task, each with the label that its episode must get.

A package may have a file near_misses.toml. Only the gate reads it; a run never does. It belongs to
the package's digest.

    [[near_miss]]
    task = "cancel-duplicate"
    why = "cancels the earlier order, which is packed"
    label = "partially_completed"
    calls = [ { name = "cancel_order", arguments = { order_id = 1041 } } ]
    answer = "Order 1041 is cancelled."

A fault raises PackageError with a sentence that names the file, the line, the task and the field.
"""

from typing import Literal

import msgspec

from rehearsal_room.scenarios.files import read_text
from rehearsal_room.scenarios.format import NEAR_MISSES, Call, Scenario
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.task_tables import TaskTables
from rehearsal_room.scenarios.value_checks import json_fault

WrongLabel = Literal["partially_completed", "agent_error", "environment_error"]


class NearMiss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wrong turn: calls and an answer that do not complete the task."""

    task: str  # its id
    why: str  # the wrong turn, in one line
    label: WrongLabel  # what the judge must say of it
    answer: str  # the wrong episode's final answer; empty: it gives none
    calls: tuple[Call, ...] = ()


class _NearMisses(msgspec.Struct, forbid_unknown_fields=True):
    """The content of near_misses.toml."""

    near_miss: tuple[NearMiss, ...]


def near_misses_of(scenario: Scenario) -> tuple[NearMiss, ...]:
    """The near misses of a package; none where it has no such file. Raises PackageError."""
    path = scenario.path / NEAR_MISSES
    if scenario.awm is not None or not path.exists():
        return ()
    word = "near miss of task"
    tables = TaskTables(path, read_text(path), table="near_miss", key="task", word=word)
    misses = tables.convert(_NearMisses).near_miss
    ids = [task.id for task in scenario.tasks]
    for index, miss in enumerate(misses):
        if fault := _fault(miss, ids):
            raise tables.fault(index, fault)
    return misses


def _fault(miss: NearMiss, ids: list[str]) -> str | None:
    """What is wrong with one near miss; None: nothing."""
    if miss.task not in ids:
        return f"task: the package has no such task{did_you_mean(miss.task, ids)}"
    if not miss.why.strip() or "\n" in miss.why.strip():
        return "why: must be one line that names the wrong turn"
    if not miss.calls and not miss.answer.strip():
        return "it has neither calls nor an answer"
    for number, call in enumerate(miss.calls):
        if fault := json_fault(call.arguments):
            return f"calls[{number}].arguments{fault}"
    return None
