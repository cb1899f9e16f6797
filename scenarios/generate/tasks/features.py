"""The measures of a task, taken from its oracle."""

import re
from typing import Any

import msgspec

from scenarios.difficulty import difficulty_of
from scenarios.format import Difficulty, TaskKind
from scenarios.generate.tasks.combined_tasks import CombinedTask
from scenarios.generate.tasks.dressed_drafts import PlayedCalls


class TaskFeatures(msgspec.Struct, frozen=True):
    """The measures of one task."""

    task: str
    kind: TaskKind
    difficulty: Difficulty
    drafts: tuple[str, ...]  # "module.function" of its parts
    calls: int
    tools: int  # different tools
    tables: int  # tables with changed rows
    lookups: int  # calls before the first call that writes
    distance: int  # the largest number of turns between seeing a value and writing it
    lookalikes: int  # rows that look right and are not
    forbidden: bool  # a part must be declined


def measure_task(task: str, kind: TaskKind, combined: CombinedTask) -> TaskFeatures:
    """Return the measures of a task; `task` is its id."""
    played = combined.played
    wrote = [outcome.wrote for outcome in played.outcomes]
    tables = len({change.table for change in played.changes})
    return TaskFeatures(
        task=task,
        kind=kind,
        difficulty=difficulty_of(len(played.calls) + tables),
        drafts=tuple(f"{part.module}.{part.function}" for part in combined.parts),
        calls=len(played.calls),
        tools=len({call.name for call in played.calls}),
        tables=tables,
        lookups=wrote.index(True) if True in wrote else len(wrote),
        distance=distance_of(played),
        lookalikes=sum(len(part.draft.spare) for part in combined.parts),
        forbidden=any(part.draft.kind == "decline" for part in combined.parts),
    )


def distance_of(played: PlayedCalls) -> int:
    """Return the largest number of turns from the last result with a value to the call that writes
    the value.

    Values that occur in no earlier result, such as those of the instruction, do not count.
    """
    most = 0
    for index, (call, outcome) in enumerate(zip(played.calls, played.outcomes, strict=True)):
        if outcome.wrote:
            for value in call.arguments.values():
                most = max(most, _turns_since(value, index, played))
    return most


def _turns_since(value: Any, index: int, played: PlayedCalls) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) < 2:
        return 0  # a single digit occurs everywhere
    pattern = re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)")
    for earlier in range(index - 1, -1, -1):
        if pattern.search(played.outcomes[earlier].text):
            return index - earlier
    return 0
