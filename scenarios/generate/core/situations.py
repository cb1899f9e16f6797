"""Situations: the authored tasks of generated worlds.

A situation is a function that inserts the rows that it needs into a world and returns a Draft.
`situation` registers it, with the modules without which it makes no sense. The functions stand in
scenarios/generate/situations; scenarios/generate/README.md explains how to write one.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.core.task_drafts import Draft

DraftKind = Literal["change", "question", "decline"]
Because = Literal["policy", "permission"]
Write = Callable[[Any], "Draft | Callable[[], Draft | None] | None"]  # of a Maker
_registered: dict[str, "Situation"] = {}


class Situation(msgspec.Struct, frozen=True):
    """One authored situation."""

    id: str  # group and function, such as "returns.late_but_promised"; draws depend on it
    modules: tuple[str, ...]  # those that it needs besides staff, parties and catalogue
    write: Write  # Maker -> Draft; or a function that returns it once all rows exist; or None
    kind: DraftKind
    because: Because  # decline: what forbids the request
    memory: bool  # a value that is read early is needed late
    steps: int  # about the number of the oracle's calls
    trades: tuple[str, ...]  # only in these; empty: in all that have the modules
    without: tuple[str, ...]  # trades in which it makes no sense
    rare: bool  # whether people seldom ask for this
    common: bool = False  # whether people ask for this all the time
    weight: float = 1.0  # below 1: few others have its kind and length, so it would be everywhere
    dialogue: bool = False  # its drafts have a talk; drawn by the knob `dialogue` only


def situation(
    *modules: str,
    kind: DraftKind = "change",
    because: Because = "policy",
    memory: bool = False,
    steps: int = 6,
    trades: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    rare: bool = False,
    common: bool = False,
    weight: float = 1.0,
    dialogue: bool = False,
) -> Callable[[Write], Write]:
    """Register a function as a situation. Raises ModuleError when its id exists.

    The group in its id is the file's name, or GROUP where the file defines it.

    Example: @situation("returns", "orders", kind="decline", steps=7)
    """

    def register(write: Write) -> Write:
        group = getattr(write, "__globals__", {}).get("GROUP", write.__module__.rpartition(".")[2])
        name = f"{group}.{write.__name__}"
        known = _registered.get(name)
        if known is not None and known.write.__module__ != write.__module__:
            raise ModuleError(f"two situations have the id {name!r}")
        _registered[name] = Situation(
            name,
            modules,
            write,
            kind,
            because,
            memory,
            steps,
            trades,
            without,
            rare=rare,
            common=common,
            weight=weight,
            dialogue=dialogue,
        )
        return write

    return register


def registered_situations() -> dict[str, Situation]:
    """The situations of all files that were imported, by id."""
    return dict(sorted(_registered.items()))
