"""The knobs of the generator: the settings of a world's size and difficulty."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.validation import explain

_Share = Annotated[float, Meta(ge=0, le=1)]


class Knobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A size is the median of a random distribution; a share is between 0 and 1.

    The defaults are the medians of AgentWorldModel-1K (arXiv:2602.10090, table of sizes).
    """

    tables: Annotated[int, Meta(ge=8, le=60, description="Tables per world.")] = 18
    rows: Annotated[int, Meta(ge=40, le=2_000, description="Seed rows per world.")] = 121
    tools: Annotated[int, Meta(ge=10, le=120, description="Tools per world.")] = 35
    tasks: Annotated[int, Meta(ge=1, le=100, description="Tasks per world.")] = 10
    steps: Annotated[
        int, Meta(ge=1, le=40, description="Oracle calls per task, as far as situations have them.")
    ] = 6
    lookalikes: Annotated[
        _Share, Meta(description="Share of people and records that resemble another one.")
    ] = 0.35
    distractors: Annotated[
        float,
        Meta(ge=0, le=10, description="Rows that no task needs, as a share of the other rows."),
    ] = 0.3
    memory: Annotated[
        _Share,
        Meta(description="Share of tasks that need a value seen more than `window` turns before."),
    ] = 0.12
    window: Annotated[
        int, Meta(ge=1, le=30, description="Number of turns to which `memory` refers.")
    ] = 3
    forbidden: Annotated[
        _Share, Meta(description="Share of tasks that the rules or the role forbid.")
    ] = 0.15
    permissions: Annotated[
        _Share, Meta(description="Share of the forbidden tasks that the role forbids.")
    ] = 0.5
    terse: Annotated[
        _Share, Meta(description="Share of tasks in one or two sentences, as AWM's are.")
    ] = 0.0
    dialogue: Annotated[
        _Share, Meta(description="Share of tasks in which the agent must talk with the user.")
    ] = 0.0
    noise: Annotated[
        int,
        Meta(ge=0, le=6, description="Irrelevant columns in the first table of each module."),
    ] = 1


def knobs_of(texts: dict[str, str]) -> Knobs:
    """Knobs from name -> text. Raises GenerateError for an unknown name or a wrong value.

    Example: knobs_of({"tables": "24"}) -> Knobs(tables=24)
    """
    known = Knobs.__struct_fields__
    for name in texts:
        if name not in known:
            hint = did_you_mean(name, known) or f"; knobs: {', '.join(known)}"
            raise GenerateError(f"knob {name!r} not found{hint}")
    try:
        return msgspec.convert(texts, Knobs, strict=False)
    except msgspec.ValidationError as exc:
        name, _, fault = explain(exc, texts, Knobs).partition(": ")
        raise GenerateError(f"knob {name!r}: {fault}") from exc
