"""What a synthesis is handed: a model that writes, and worlds to try out what it wrote.

Nothing here knows of endpoints, workers or processes; whoever starts a synthesis brings those. No
code that a model wrote is executed in the process of these modules: they read texts, and ask a
`Bench`.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec

from scenarios.api import Row, RowChange
from scenarios.checks import Finding
from scenarios.format import Call, Scenario


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation with the author."""

    role: Literal["system", "user", "assistant"]
    text: str


class Purpose(msgspec.Struct, frozen=True):
    """What a request is for: what its cost is booked under."""

    stage: str  # classify, invent, tasks, schema, data, tools, code, verify, solve or embed
    about: str = ""  # the scenario; empty: of all


class Said(msgspec.Struct, frozen=True):
    """An answer, or in `fault` why it is none: it was cut off, or empty."""

    text: str
    fault: str = ""


class Author(Protocol):
    """The model that writes worlds."""

    async def say(self, turns: Sequence[Turn], purpose: Purpose, *, seed: int) -> Said:
        """Its answer. Raises OutOfBudget, and SynthesisError when none can be had."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """A vector for each text, by which likeness is told. Raises as `say`."""


class ToolShape(msgspec.Struct, frozen=True):
    """A tool as it is hosted."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON schema of its arguments


class Made(msgspec.Struct, frozen=True):
    """What one call gave. `error` None: it succeeded."""

    call: Call
    text: str
    error: str | None = None
    changed: bool = False  # whether it changed rows


class Play(msgspec.Struct, frozen=True):
    """Calls and an answer on a fresh world, and what the task's verifier says of the end."""

    made: tuple[Made, ...]
    answer: str
    digest: str  # of the end state
    changes: tuple[RowChange, ...]  # net
    findings: tuple[Finding, ...] = ()
    fault: str = ""  # of the verifier or the world; empty: none
    unfinished: str = ""  # why whoever played came to no answer; empty: it did

    @property
    def calls(self) -> tuple[Call, ...]:
        """What was called."""
        return tuple(made.call for made in self.made)

    @property
    def completed(self) -> bool:
        """Whether the verifier accepts it."""
        accepted = bool(self.findings) and all(finding.passed for finding in self.findings)
        return accepted and not self.fault and not self.unfinished


class Probed(msgspec.Struct, frozen=True):
    """What came of calling every tool with arguments that fit its schema, and some that do not."""

    calls: int
    faults: tuple[str, ...] = ()  # calls that broke a tool, one a tool
    dead: tuple[str, ...] = ()  # tools of which no call succeeded, with what they said


class Trial(msgspec.Struct, frozen=True):
    """What came of the solution with one mistake. Equivalent mutants end as the solution does."""

    mutants: int  # without the equivalents
    caught: int
    equivalents: int = 0
    survivors: tuple[str, ...] = ()  # the mistakes that were accepted
    faults: tuple[str, ...] = ()  # mistakes after which the verifier itself fails, and how


class Unhostable(Exception):
    """A package cannot be hosted. `kind` says which part of it is at fault."""

    def __init__(self, kind: Literal["seed", "tools", "verifier", "host"], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Hosted(Protocol):
    """A package whose code runs somewhere safe."""

    @property
    def tools(self) -> Sequence[ToolShape]:
        """Its tools."""

    def rows(self) -> dict[str, list[Row]]:
        """The rows of its start state by table."""

    async def probe(self, *, seed: int) -> Probed:
        """Call every tool."""

    async def play(self, task_id: str, calls: Sequence[Call], answer: str) -> Play:
        """Make the calls, in order, then answer."""

    async def solve(self, task_id: str, *, seed: int) -> Play:
        """Have the solver try the task. Raises as `Author.say`."""

    async def try_mutants(self, task_id: str, solution: Play) -> Trial:
        """Play the solution with each single mistake."""


class Bench(Protocol):
    """Where packages are tried out."""

    def host(self, scenario: Scenario) -> AbstractAsyncContextManager[Hosted]:
        """The package, hosted for as long as the block. Entering it raises Unhostable."""
