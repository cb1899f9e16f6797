"""The measures of a task, taken from its oracle."""

import re
from typing import Any

import msgspec

from rehearsal_room.scenarios.format import Difficulty, TaskKind, difficulty_of
from rehearsal_room.scenarios.generate.tasks.dressed_drafts import DressedDraft, PlayedCalls
from rehearsal_room.scenarios.generate.tasks.purposes import purposes_of


class TaskFeatures(msgspec.Struct, frozen=True):
    """The measures of one task."""

    task: str
    kind: TaskKind
    difficulty: Difficulty
    situation: str  # the id of its template
    voice: str  # who speaks: email, colleague, chat or note
    purposes: int  # requests that do not depend on each other
    calls: int
    tools: int  # different tools
    tables: int  # tables with changed rows
    lookups: int  # calls before the first call that writes
    distance: int  # the largest number of turns between seeing a value and writing it
    lookalikes: int  # rows that look right and are not
    forbidden: bool  # it, or a part of it, must be declined
    paraphrased: bool | None = None  # whether a model's wording took its place; None: none asked


def measure_task(task: str, dressed: DressedDraft, played: PlayedCalls) -> TaskFeatures:
    """The measures of a task; `task` is its id."""
    wrote = [outcome.wrote for outcome in played.outcomes]
    tables = len({change.table for change in played.changes})
    return TaskFeatures(
        task=task,
        kind=dressed.draft.kind,
        difficulty=difficulty_of(len(played.calls) + tables),
        situation=dressed.situation,
        voice=dressed.voice,
        purposes=purposes_of(dressed.ask, played.calls, played.outcomes).count,
        calls=len(played.calls),
        tools=len({call.name for call in played.calls}),
        tables=tables,
        lookups=wrote.index(True) if True in wrote else len(wrote),
        distance=distance_of(played),
        lookalikes=len(dressed.spare),
        forbidden=bool(dressed.reasons),
    )


def distance_of(played: PlayedCalls) -> int:
    """The largest number of turns from the last result with a value to the call that writes
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
