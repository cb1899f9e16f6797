"""Parts joined to one task: what is asked for, in which order, with which calls."""

from collections.abc import Sequence
from random import Random

import msgspec

from scenarios.generate.core.world_host import Stage
from scenarios.generate.tasks.dressed_drafts import Part, Shown, Turn, fault_of, play, turns_of

_LINKS = ("Then", "After that,", "Also,", "Next,", "And")


class Joined(msgspec.Struct, frozen=True):
    """Parts that make one task, played together."""

    parts: tuple[Part, ...]
    turns: tuple[Turn, ...]
    shown: Shown
    instruction: str
    answer: str


def alone(stage: Stage, part: Part) -> Shown | str:
    """A part played by itself; or why it is no sound task."""
    shown = play(stage, [part], turns_of(0, len(part.calls)))
    if isinstance(shown, str):
        return shown
    return fault_of(part, shown) or shown


def joined(stage: Stage, parts: Sequence[tuple[Part, Shown]], rng: Random) -> Joined | str:
    """The parts as one task; or why they do not go together.

    A part that holds a value for later begins, and ends after all others. Parts go together when
    none of them touches a row that another one changes, or reads otherwise than by itself.
    """
    ordered = sorted(parts, key=lambda pair: not pair[0].later)  # stable: the memory task first
    turns = _turns([part for part, _ in ordered])
    shown = play(stage, [part for part, _ in ordered], turns)
    if isinstance(shown, str):
        return f"together: {shown}"
    if fault := _clash([shown for _, shown in ordered], turns, shown):
        return f"together: {fault}"
    bare = [part for part, _ in ordered]
    return Joined(
        parts=tuple(bare),
        turns=tuple(turns),
        shown=shown,
        instruction=_instruction(bare, rng),
        answer=" ".join(part.answer for part in sorted(bare, key=lambda part: bool(part.later))),
    )


def _turns(parts: Sequence[Part]) -> list[Turn]:
    first = parts[0]
    if not first.later:
        return [turn for i, part in enumerate(parts) for turn in turns_of(i, len(part.calls))]
    hold = first.draft.hold
    between = [turn for i, part in enumerate(parts) if i for turn in turns_of(i, len(part.calls))]
    return [*turns_of(0, hold), *between, *turns_of(0, len(first.calls), hold)]


def _clash(alone: Sequence[Shown], turns: Sequence[Turn], together: Shown) -> str | None:
    """What one part does to another; None: nothing."""
    touched: dict[tuple[object, ...], int] = {}
    for index, shown in enumerate(alone):
        for change in shown.changes:
            row = (change.table, *change.key)
            if change.before is not None and touched.setdefault(row, index) != index:
                return f"two parts change a row of {change.table}"
    if len(together.changes) != sum(len(shown.changes) for shown in alone):
        return "the parts change other rows than by themselves"
    for turn, outcome in zip(turns, together.outcomes, strict=True):
        by_itself = alone[turn.part].outcomes[turn.place]
        if not outcome.wrote and outcome.text != by_itself.text:
            return "a part reads what another one changes"
    return None


def _instruction(parts: Sequence[Part], rng: Random) -> str:
    asks = [part.ask for part in parts]
    later = [part.later for part in parts if part.later]
    links = [rng.choice(_LINKS) for _ in asks[1:]]
    rest = [f"{link} {_lowered(ask)}" for link, ask in zip(links, asks[1:], strict=True)]
    return " ".join([asks[0], *rest, *later])


def _lowered(sentence: str) -> str:
    """A sentence that goes on. Example: "Cancel it." -> "cancel it." """
    return sentence[:1].lower() + sentence[1:]
