"""The results of the stages: the parts of a world that is being written.

Fields accept what models commonly write: a list where one text was requested, or a text where an
object was. Any other value is a fault, which the model is asked to correct.
"""

import re
from typing import Any, Literal

import msgspec

from rehearsal_room.scenarios.awm.names import normalize_name, package_name
from rehearsal_room.scenarios.format import AwmSample, AwmTable, Call, Difficulty

DraftKind = Literal["change", "question", "decline"]


class SeedScenario(msgspec.Struct, frozen=True):
    """A scenario in words, from the seeds or from the model."""

    name: str
    description: str


class ScenarioIdea(msgspec.Struct, frozen=True):
    """A scenario that was accepted by the classifier."""

    name: str  # as it was written
    description: str
    score: int = 0  # 1 to 10: how much of it can be represented by a database
    categories: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""
    origin: Literal["seed", "model"] = "seed"

    @property
    def key(self) -> str:
        """The name of its package.

        Example: "City Bike Hire" -> "city_bike_hire"
        """
        return package_name(normalize_name(self.name))


class UserDraft(msgspec.Struct, frozen=True):
    """The user for whom the agent acts."""

    name: str = "Sam Porter"
    role: str = "staff"

    @property
    def id(self) -> str:
        """The id of the user in the tools.

        Example: "Noor Haddad" -> "noor.haddad"
        """
        return slug(self.name).replace("-", ".") or "user"


class TaskDraft(msgspec.Struct, frozen=True):
    """A task that is not proved yet."""

    id: str
    kind: DraftKind
    instruction: str
    functions: tuple[str, ...] = ()  # that it uses, or in a decline asks for
    rule: int = 0  # of a decline: the number of the rule that forbids it; 0: it is not known

    @property
    def function(self) -> str:
        """The name of its verifier's function."""
        return self.id.replace("-", "_")


class RuleDraft(msgspec.Struct, frozen=True):
    """One rule of the policy."""

    text: str
    functions: tuple[str, ...] = ()  # that enforce it or that it is about


class TaskPlan(msgspec.Struct, frozen=True):
    """The result of the stage `tasks`: the user, the rules and the tasks."""

    user: UserDraft
    policy: str
    tasks: tuple[TaskDraft, ...]
    functions: tuple[str, ...] = ()  # the core functions, by name; empty: none are named
    rules: tuple[RuleDraft, ...] = ()  # of the policy, in order


class ToolParameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A parameter of a specified tool."""

    type: Any = "string"
    required: bool = True
    description: str = ""
    enum: tuple[Any, ...] = ()
    minimum: int | float | None = None  # of a number
    maximum: int | float | None = None


class ToolDraft(msgspec.Struct, frozen=True):
    """The specification of a tool."""

    name: str
    description: str
    parameters: dict[str, ToolParameter] = {}
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class ProvenTask(msgspec.Struct, frozen=True):
    """A task that a solver completed, with its verifier, and the solution as its oracle."""

    task: TaskDraft
    verifier: str  # the source of its function, with imports
    oracle: tuple[Call, ...]
    answer: str
    difficulty: Difficulty
    mutants: int
    caught: int


class WorldDraft(msgspec.Struct, frozen=True):
    """A world as far as it is written."""

    idea: ScenarioIdea
    plan: TaskPlan = msgspec.field(name="brief")  # digests of stage records contain this name
    tables: tuple[AwmTable, ...] = ()
    samples: tuple[AwmSample, ...] = ()
    tools: tuple[ToolDraft, ...] = ()
    code: str = ""
    proven: tuple[ProvenTask, ...] = ()

    @property
    def schema(self) -> tuple[str, ...]:
        """The statements of the schema."""
        return tuple(text for table in self.tables for text in (table.ddl, *table.indexes))

    @property
    def data(self) -> tuple[str, ...]:
        """The statements of the data."""
        return tuple(text for sample in self.samples for text in sample.insert_statements)


def slug(text: str) -> str:
    """A task's id for a text.

    Example: "Refund the late parcel!" -> "refund-the-late-parcel"
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words[:6])[:60].strip("-")
