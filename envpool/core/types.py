"""The words of the pool's boundary: tools, results, states, and the Protocol of a world.

A call that fails is data. `ToolResult.error` tells the causes apart:

    unknown_tool   the agent named a tool that is not there
    arguments      the agent's arguments do not fit the tool's schema
    refused        the tool said no: a business rule, or what was named does not exist
    timeout        the call ran past its limit
    internal       the tool itself broke: the world's fault, not the agent's
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from scenarios.api import RowChange

ToolError = Literal["unknown_tool", "arguments", "refused", "timeout", "internal"]
WORLD_FAULTS: frozenset[ToolError | None] = frozenset({"timeout", "internal"})  # not the agent's


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as MCP describes it."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON schema of the arguments, an object


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one call gave and what it did.

    `text` is what the agent reads. `changes` are the rows that the call changed, net; `digest`
    is the state's after it. A failed call has changed nothing.
    """

    text: str
    error: ToolError | None = None  # None: the call succeeded
    changes: tuple[RowChange, ...] = ()
    digest: str = ""

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


class Env(Protocol):
    """One leased world. Whoever leased it gives it back by leaving its `async with`."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools, in the order in which they are shown."""

    @property
    def start_digest(self) -> str:
        """The state's digest at the start; equal for every lease of one scenario."""

    @property
    def digest(self) -> str:
        """The state's digest now."""

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        """Execute one call, once: a call id asked again is answered from memory.

        Raises WorldError when the world as a whole can no longer be used.
        """

    def state(self) -> StoredState:
        """The state now, as changed pages."""

    def fork(self) -> "Env":
        """A second world that goes on from this one's state."""

    def reset(self) -> None:
        """Back to the start."""
