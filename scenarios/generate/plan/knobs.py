"""What a person may turn when worlds are generated."""

import msgspec

from scenarios.generate.core.errors import GenerateError


class Knobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes are the median of a drawn spread; shares lie between 0 and 1.

    The defaults are the medians of AgentWorldModel-1K (arXiv:2602.10090, table of sizes).
    """

    tables: int = 18  # a world
    rows: int = 121  # of seed data, a world
    tools: int = 35  # a world
    tasks: int = 10  # a world
    steps: int = 6  # oracle calls, a task
    lookalikes: float = 0.35  # share of people and records that resemble another one
    distractors: float = 0.3  # rows that no task needs, as a share of the others
    ambiguity: float = 0.6  # share of records that are named by what must be looked up, not by id
    memory: float = 0.12  # share of tasks that need a value seen more than `window` turns before
    window: int = 3  # turns
    forbidden: float = 0.15  # share of tasks that the rules or the role forbid
    permissions: float = 0.5  # of the forbidden tasks, those that the role forbids
    noise: int = 1  # true but useless columns, a table that people look at

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"knob {name!r} must lie between {least} and {most}, not {value}")


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


def knobs_of(given: dict[str, str]) -> Knobs:
    """Knobs from `name=value` texts. Raises GenerateError for a name or value that is none.

    Example: knobs_of({"tables": "24"}) -> Knobs(tables=24)
    """
    known = Knobs.__struct_fields__
    for name in given:
        if name not in known:
            raise GenerateError(f"there is no knob {name!r}; there are {', '.join(known)}")
    for name, value in given.items():
        kind = type(getattr(Knobs(), name))
        try:
            msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as exc:
            expected = "a whole number" if kind is int else "a number"
            raise GenerateError(f"knob {name!r}: expected {expected}, found {value!r}") from exc
    try:
        return msgspec.convert(given, Knobs, strict=False)
    except msgspec.ValidationError as exc:
        raise GenerateError(f"knobs: {exc}") from exc
