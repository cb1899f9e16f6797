"""What the stages hand on: parts of a world that is not one yet.

Fields are read as models write them: a list where one text was asked for, a text where an object
was. What cannot be taken is a fault that the model is told.
"""

import re
from typing import Any, Literal

import msgspec

from scenarios.awm.names import normalised, package_name
from scenarios.format import AwmSample, AwmTable, Call, Difficulty

Kind = Literal["change", "question", "decline"]


class Seed(msgspec.Struct, frozen=True):
    """A scenario in words."""

    name: str
    description: str


class Idea(msgspec.Struct, frozen=True):
    """A scenario that was found fit."""

    name: str  # as written
    description: str
    score: int = 0  # 1 to 10: how much of it can be a database
    categories: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""
    origin: Literal["seed", "model"] = "seed"

    @property
    def key(self) -> str:
        """Its package's name.

        Example: "City Bike Hire" -> "city_bike_hire"
        """
        return package_name(normalised(self.name))


class Actor(msgspec.Struct, frozen=True):
    """Who acts in a world."""

    name: str = "Sam Porter"
    role: str = "staff"

    @property
    def id(self) -> str:
        """What the tools know them by.

        Example: "Noor Haddad" -> "noor.haddad"
        """
        return slug(self.name).replace("-", ".") or "user"


class TaskDraft(msgspec.Struct, frozen=True):
    """A task before it was proved."""

    id: str
    kind: Kind
    instruction: str

    @property
    def function(self) -> str:
        """The name of its verifier."""
        return self.id.replace("-", "_")


class Brief(msgspec.Struct, frozen=True):
    """What the stage `tasks` gives."""

    user: Actor
    policy: str
    tasks: tuple[TaskDraft, ...]


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A parameter of a tool that is specified."""

    type: Any = "string"
    required: bool = True
    description: str = ""
    enum: tuple[Any, ...] = ()


class ToolDraft(msgspec.Struct, frozen=True):
    """A tool that is specified."""

    name: str
    description: str
    parameters: dict[str, Parameter] = {}
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class Proven(msgspec.Struct, frozen=True):
    """A task that was solved: with its verifier, and the solution as its oracle."""

    task: TaskDraft
    verifier: str  # the source of its function, with imports
    oracle: tuple[Call, ...]
    answer: str
    difficulty: Difficulty
    mutants: int
    caught: int


class Draft(msgspec.Struct, frozen=True):
    """A world as far as it is made."""

    idea: Idea
    brief: Brief
    tables: tuple[AwmTable, ...] = ()
    samples: tuple[AwmSample, ...] = ()
    tools: tuple[ToolDraft, ...] = ()
    code: str = ""
    proven: tuple[Proven, ...] = ()

    @property
    def schema(self) -> tuple[str, ...]:
        """The statements of the schema."""
        return tuple(text for table in self.tables for text in (table.ddl, *table.indexes))

    @property
    def data(self) -> tuple[str, ...]:
        """The statements of the data."""
        return tuple(text for sample in self.samples for text in sample.insert_statements)


def slug(text: str) -> str:
    """A task's id made of a text.

    Example: "Refund the late parcel!" -> "refund-the-late-parcel"
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words[:6])[:60].strip("-")
