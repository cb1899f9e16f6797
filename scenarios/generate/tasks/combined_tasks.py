"""Combining parts into one task: its instruction, its answer and the order of its calls."""

from collections.abc import Sequence
from random import Random

import msgspec

from scenarios.generate.core.world_host import SeededWorld
from scenarios.generate.tasks.dressed_drafts import (
    PartCall,
    PlayedCalls,
    TaskPart,
    part_calls,
    part_fault,
    play_calls,
)

_LINKS = ("Then", "After that,", "Also,", "Next,", "And")


class CombinedTask(msgspec.Struct, frozen=True):
    """Parts that form one task, executed together."""

    parts: tuple[TaskPart, ...]
    order: tuple[PartCall, ...]
    played: PlayedCalls
    instruction: str
    answer: str


def play_alone(world: SeededWorld, part: TaskPart) -> PlayedCalls | str:
    """Execute a part by itself; return why it is not a valid task, if so."""
    played = play_calls(world, [part], part_calls(0, len(part.calls)))
    if isinstance(played, str):
        return played
    return part_fault(part, played) or played


def combine(
    world: SeededWorld, parts: Sequence[tuple[TaskPart, PlayedCalls]], rng: Random
) -> CombinedTask | str:
    """Return the parts as one task, or why they cannot be combined.

    A part that needs a value later begins, and ends after all others. Parts can be combined when
    none of them touches a row that another one changes, and none reads other results than by
    itself.
    """
    ordered = sorted(parts, key=lambda pair: not pair[0].later)  # stable: the memory task first
    only_parts = [part for part, _ in ordered]
    order = _call_order(only_parts)
    played = play_calls(world, only_parts, order)
    if isinstance(played, str):
        return f"together: {played}"
    if fault := _conflict([alone for _, alone in ordered], order, played):
        return f"together: {fault}"
    return CombinedTask(
        parts=tuple(only_parts),
        order=tuple(order),
        played=played,
        instruction=_instruction(only_parts, rng),
        answer=" ".join(
            part.answer for part in sorted(only_parts, key=lambda part: bool(part.later))
        ),
    )


def _call_order(parts: Sequence[TaskPart]) -> list[PartCall]:
    first = parts[0]
    if not first.later:
        return [call for i, part in enumerate(parts) for call in part_calls(i, len(part.calls))]
    hold = first.draft.hold
    between = [call for i, part in enumerate(parts) if i for call in part_calls(i, len(part.calls))]
    return [*part_calls(0, hold), *between, *part_calls(0, len(first.calls), hold)]


def _conflict(
    alone: Sequence[PlayedCalls], order: Sequence[PartCall], together: PlayedCalls
) -> str | None:
    """How one part affects another; None: no part does."""
    touched: dict[tuple[object, ...], int] = {}
    for index, played in enumerate(alone):
        for change in played.changes:
            row = (change.table, *change.key)
            if change.before is not None and touched.setdefault(row, index) != index:
                return f"two parts change a row of {change.table}"
    if len(together.changes) != sum(len(played.changes) for played in alone):
        return "the parts change other rows than by themselves"
    for position, outcome in zip(order, together.outcomes, strict=True):
        by_itself = alone[position.part].outcomes[position.call]
        if not outcome.wrote and outcome.text != by_itself.text:
            return "a part reads what another one changes"
    return None


def _instruction(parts: Sequence[TaskPart], rng: Random) -> str:
    asks = [part.ask for part in parts]
    later = [part.later for part in parts if part.later]
    links = [rng.choice(_LINKS) for _ in asks[1:]]
    rest = [f"{link} {_lower_first(ask)}" for link, ask in zip(links, asks[1:], strict=True)]
    return " ".join([asks[0], *rest, *later])


def _lower_first(sentence: str) -> str:
    """A sentence as it follows a word. Example: "Cancel it." -> "cancel it." """
    return sentence[:1].lower() + sentence[1:]
