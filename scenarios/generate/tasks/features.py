"""What a task asks of an agent, measured on its oracle."""

import re
from typing import Any

import msgspec

from scenarios.difficulty import difficulty_of
from scenarios.format import Difficulty, TaskKind
from scenarios.generate.tasks.combined_tasks import Joined
from scenarios.generate.tasks.dressed_drafts import Shown


class Features(msgspec.Struct, frozen=True):
    """One task, measured."""

    task: str
    kind: TaskKind
    difficulty: Difficulty
    drafts: tuple[str, ...]  # "module.function" of its parts
    calls: int
    tools: int  # distinct
    tables: int  # with changed rows
    lookups: int  # calls before the first that writes
    distance: int  # the most turns between seeing a value and writing it
    lookalikes: int  # rows that look right and are not
    forbidden: bool  # a part must be declined


def features_of(task: str, kind: TaskKind, joined: Joined) -> Features:
    """Measure a task."""
    shown = joined.shown
    wrote = [outcome.wrote for outcome in shown.outcomes]
    tables = len({change.table for change in shown.changes})
    return Features(
        task=task,
        kind=kind,
        difficulty=difficulty_of(len(shown.calls) + tables),
        drafts=tuple(f"{part.module}.{part.function}" for part in joined.parts),
        calls=len(shown.calls),
        tools=len({call.name for call in shown.calls}),
        tables=tables,
        lookups=wrote.index(True) if True in wrote else len(wrote),
        distance=distance_of(shown),
        lookalikes=sum(len(part.draft.spare) for part in joined.parts),
        forbidden=any(part.draft.kind == "decline" for part in joined.parts),
    )


def distance_of(shown: Shown) -> int:
    """The most turns between the last sight of a value and the call that writes it.

    Values that no result before shows, such as those of the instruction, do not count.
    """
    most = 0
    for index, (call, outcome) in enumerate(zip(shown.calls, shown.outcomes, strict=True)):
        if outcome.wrote:
            for value in call.arguments.values():
                most = max(most, _turns_since(value, index, shown))
    return most


def _turns_since(value: Any, index: int, shown: Shown) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) < 2:
        return 0  # one digit stands everywhere
    pattern = re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)")
    for place in range(index - 1, -1, -1):
        if pattern.search(shown.outcomes[place].text):
            return index - place
    return 0
