"""Types at the boundary of a pool: tools, results, states, and the Protocol of a leased world.

A call that fails is data. `ToolResult.error` distinguishes the causes:

    unknown_tool   the agent named a tool that does not exist
    arguments      the agent's arguments do not match the tool's schema
    refused        the tool refused: a business rule, or a named object that does not exist
    timeout        the call ran past its limit
    internal       the tool itself broke: the world's fault, not the agent's
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Task

ToolErrorKind = Literal["unknown_tool", "arguments", "refused", "timeout", "internal"]
WORLD_FAULTS: frozenset[ToolErrorKind | None] = frozenset(
    {"timeout", "internal"}
)  # not the agent's


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as MCP describes it."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON schema of the arguments, an object
    # What a benchmark's own runner sends beside them, as in {"response": {...}}; None: nothing.
    fields: dict[str, Any] | None = None


class ServerRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the server of a world asked its client during a call, and what it was answered (see
    envpool.mcp.asks)."""

    method: str  # as MCP names it: "elicitation/create"
    params: dict[str, Any]
    answer: dict[str, Any] | None = None  # the result that the server got; None: it was refused
    refusal: str = ""  # the sentence that it got instead


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result of one call and its effect on the world.

    `text` is what the agent reads. `changes` are the net row changes of the call; `digest` is the
    digest of the state after it. A failed call has changed nothing.
    """

    text: str
    error: ToolErrorKind | None = None  # None: the call succeeded
    changes: tuple[RowChange, ...] = ()
    digest: str = ""
    # A fault on purpose, or who edited a fork, answered in the world's place: no tool was executed.
    injected: bool = False
    asked: tuple[ServerRequest, ...] = ()  # what the world's server asked during the call
    # Among the results of its reply, where the world answers several calls in an order of its own;
    # None: they are in the order of the calls.
    place: int | None = None

    @property
    def is_error(self) -> bool:
        """MCP's `isError`."""
        return self.error is not None


class StoredState(msgspec.Struct, frozen=True, gc=False):
    """A world's state as its difference from the template: the pages that changed.

    The pages rebuild the state exactly; the digest is the state's (see envpool.store.digest).
    """

    template: str  # the template's digest
    pages: dict[int, bytes]  # page number (from 1) -> the page's bytes
    num_pages: int  # the database's size in pages
    digest: str


class SentCall(msgspec.Struct, frozen=True):
    """A call of a reply, before it is made."""

    name: str
    arguments: Any
    call_id: str  # with which it will be made
    sent_id: str = ""  # that the model's server gave it; empty: none


@runtime_checkable
class TakesTogether(Protocol):
    """A leased world to which all calls of one reply are handed together."""

    def announce(self, calls: Sequence[SentCall]) -> None:
        """These calls come next, one after the other. The world may make them all with the first;
        where they are not made so, each is made by itself."""


@runtime_checkable
class Recalls(Protocol):
    """A leased world whose server may make ids and times of its own."""

    @property
    def num_own_ids(self) -> int:
        """How many of them stood for logged ones."""

    def expect(self, logged: ToolResult | None) -> None:
        """The next call was made before, with this result: its ids and times stand for those that
        the server makes now. None: it was not."""


@runtime_checkable
class WritesRules(Protocol):
    """A leased world that writes the rules of an episode from its state, where its suite says so
    (see scenarios.core.suite_record)."""

    async def rules(self, task: Task) -> str:
        """The rules of a task that begins in the state now. Raises WorldError."""


class Env(Protocol):
    """One leased world. The task that leased it returns it by leaving its `async with` block."""

    @property
    def awaits(self) -> bool:
        """Whether a call can suspend the calling task, so that a time limit can cut it off."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools, in the order in which the agent sees them."""

    @property
    def start_digest(self) -> str:
        """The state's digest at the start; equal for every lease of one scenario."""

    @property
    def digest(self) -> str:
        """The state's digest now."""

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        """Execute one call, once: a repeated call id returns the remembered result.

        Raises WorldError when the world as a whole can no longer be used.
        """

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        """The findings that only this live world can give, before its lease ends.

        Empty where the verifier of the task reads the stored state. A world whose state is unknown
        (an MCP server) makes the checks of the task as tool calls. Raises WorldError when the world
        breaks during a check.
        """

    def state(self) -> StoredState:
        """The state now, as changed pages."""

    def fork(self) -> "Env":
        """A second world that continues from this one's state."""

    def reset(self) -> None:
        """Return to the start."""
