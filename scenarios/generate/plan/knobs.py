"""The knobs of the generator: the settings of a world's size and difficulty."""

import msgspec

from scenarios.generate.core.errors import GenerateError
from scenarios.nearest import did_you_mean


class Knobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A size is the median of a random distribution; a share is between 0 and 1.

    The defaults are the medians of AgentWorldModel-1K (arXiv:2602.10090, table of sizes).
    """

    tables: int = 18  # per world
    rows: int = 121  # seed rows per world
    tools: int = 35  # per world
    tasks: int = 10  # per world
    steps: int = 6  # oracle calls per task
    lookalikes: float = 0.35  # share of people and records that resemble another one
    distractors: float = 0.3  # rows that no task needs, as a share of the others
    ambiguity: float = 0.6  # share of records named by something to look up, instead of their id
    memory: float = 0.12  # share of tasks that need a value seen more than `window` turns before
    window: int = 3  # turns
    forbidden: float = 0.15  # share of tasks that the rules or the role forbid
    permissions: float = 0.5  # share of the forbidden tasks that the role forbids
    noise: int = 1  # irrelevant columns in the first table of each module

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"knob {name!r} must be between {least} and {most}, not {value}")


_BOUNDS: dict[str, tuple[float, float]] = {
    "tables": (8, 60),
    "rows": (40, 2_000),
    "tools": (10, 120),
    "tasks": (1, 100),
    "steps": (1, 40),
    "lookalikes": (0, 1),
    "distractors": (0, 10),
    "ambiguity": (0, 1),
    "memory": (0, 1),
    "window": (1, 30),
    "forbidden": (0, 1),
    "permissions": (0, 1),
    "noise": (0, 6),
}


def knobs_of(texts: dict[str, str]) -> Knobs:
    """Return knobs from name -> text. Raises GenerateError for an unknown name or a wrong value.

    Example: knobs_of({"tables": "24"}) -> Knobs(tables=24)
    """
    known = Knobs.__struct_fields__
    for name in texts:
        if name not in known:
            hint = did_you_mean(name, known) or f"; knobs: {', '.join(known)}"
            raise GenerateError(f"knob {name!r} not found{hint}")
    for name, value in texts.items():
        kind = type(getattr(Knobs(), name))
        try:
            msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as exc:
            expected = "a whole number" if kind is int else "a number"
            raise GenerateError(f"knob {name!r}: expected {expected}, found {value!r}") from exc
    try:
        return msgspec.convert(texts, Knobs, strict=False)
    except msgspec.ValidationError as exc:
        raise GenerateError(f"knobs: {exc}") from exc
