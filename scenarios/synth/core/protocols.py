"""The Protocols that a synthesis needs: a model that writes worlds, and a host that tries them out.

These modules know no endpoints, workers or processes: the caller of a synthesis passes the
implementations. Code that a model wrote is never executed in this process: these modules read
texts, and ask a `DraftHost` to run the code.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec

from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Call, Scenario


class PromptMessage(msgspec.Struct, frozen=True):
    """One message of a conversation with the author model."""

    role: Literal["system", "user", "assistant"]
    text: str


class RequestPurpose(msgspec.Struct, frozen=True):
    """The purpose of a request; the ledger books its cost under it."""

    stage: str  # classify, invent, tasks, schema, data, tools, code, verify, solve or embed
    about: str = ""  # the scenario; empty: all scenarios


class ModelAnswer(msgspec.Struct, frozen=True):
    """An answer; `fault` has the reason it cannot be used: it was cut off, or it is empty."""

    text: str
    fault: str = ""


class AuthorModel(Protocol):
    """The model that writes worlds."""

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: RequestPurpose, *, seed: int
    ) -> ModelAnswer:
        """The model's answer. Raises OutOfBudget, and SynthesisError when it gives none."""

    async def embed(self, texts: Sequence[str], purpose: RequestPurpose) -> list[list[float]]:
        """A vector for each text, for comparing texts. Raises like `answer`."""


class ToolShape(msgspec.Struct, frozen=True):
    """The interface of a hosted tool."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON schema of its arguments


class CallResult(msgspec.Struct, frozen=True):
    """A call and its result. `error` None: the call succeeded."""

    call: Call
    text: str
    error: str | None = None
    changed: bool = False  # whether it changed rows


class JudgedRun(msgspec.Struct, frozen=True):
    """Calls and an answer on a fresh world, with the findings of the task's verifier."""

    results: tuple[CallResult, ...]
    answer: str
    digest: str  # of the end state
    changes: tuple[RowChange, ...]  # net
    findings: tuple[Finding, ...] = ()
    fault: str = ""  # of the verifier or the world; empty: none
    unfinished: str = ""  # why the solver gave no answer; empty: it gave one

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls, in order."""
        return tuple(result.call for result in self.results)

    @property
    def completed(self) -> bool:
        """Whether the verifier accepts the run."""
        accepted = bool(self.findings) and all(finding.passed for finding in self.findings)
        return accepted and not self.fault and not self.unfinished


class UnprovenTool(msgspec.Struct, frozen=True):
    """A tool of which no call succeeded, neither at the start nor after other tools' writes."""

    name: str
    calls: int  # how many were tried
    call: str  # the call with the most advanced refusal; empty: none fits the schema
    refusal: str


class ProbeResult(msgspec.Struct, frozen=True):
    """The result of calling every tool, with arguments that fit its schema and some that do not."""

    calls: int
    faults: tuple[str, ...] = ()  # calls that broke a tool, one per tool
    unproven: tuple[UnprovenTool, ...] = ()


class Temptation(msgspec.Struct, frozen=True):
    """What a task invites that must be declined; its mutants are made from this."""

    functions: tuple[str, ...] = ()  # that it asks for; empty: it is not known
    rule: str = ""  # the rule that forbids it; empty: it is not known
    other_rules: tuple[str, ...] = ()  # which do not forbid it


class MutantResult(msgspec.Struct, frozen=True):
    """The result of running a solution's mutants: the solution with one mistake each.

    An equivalent mutant ends in the same state as the solution.
    """

    mutants: int  # without the equivalent ones
    caught: int
    equivalents: int = 0
    survivors: tuple[str, ...] = ()  # the mistakes that the verifier accepted
    faults: tuple[str, ...] = ()  # mistakes after which the verifier itself fails, and how


class Unhostable(Exception):
    """A package cannot be hosted. `kind` names the part of it that is at fault."""

    def __init__(self, kind: Literal["seed", "tools", "verifier", "host"], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class HostedDraft(Protocol):
    """A hosted package of a world that is being written; its code runs in a sandbox."""

    @property
    def tools(self) -> Sequence[ToolShape]:
        """The tools."""

    def rows(self) -> dict[str, list[Row]]:
        """The rows of the start state by table."""

    async def probe(self, *, seed: int) -> ProbeResult:
        """Call every tool with varied arguments."""

    async def call(self, calls: Sequence[Call]) -> tuple[CallResult, ...]:
        """Make the calls on a fresh world, in order; fewer results where one broke the world."""

    async def run(self, task_id: str, calls: Sequence[Call], answer: str) -> JudgedRun:
        """Make the calls on a fresh world, in order, then answer."""

    async def solve(self, task_id: str, *, seed: int) -> JudgedRun:
        """Let the solver try the task. Raises like `AuthorModel.answer`."""

    async def try_mutants(
        self,
        task_id: str,
        solution: JudgedRun,
        temptation: Temptation | None = None,
        *,
        named: str = "",
    ) -> MutantResult:
        """Run the solution with each single mistake; a decline's with what it invites, too. Of the
        answer's values only those in the text `named` are altered, if it has some of them."""


class DraftHost(Protocol):
    """Hosts the packages of worlds that are being written."""

    def host(self, scenario: Scenario) -> AbstractAsyncContextManager[HostedDraft]:
        """The package, hosted for the length of the block. Entering raises Unhostable."""
