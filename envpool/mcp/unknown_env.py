"""What leased worlds share whose server keeps their state to itself."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.refusals import refusal
from rehearsal_room.envpool.core.types import (
    ServerRequest,
    StoredState,
    ToolErrorKind,
    ToolResult,
    ToolSpec,
)
from rehearsal_room.envpool.mcp.unknown_pool import UnknownPool
from rehearsal_room.envpool.mcp.unknown_states import UNKNOWN
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Task

_REMEMBERED = 8  # call ids whose results a lease remembers


class UnknownEnv(ABC):
    """A leased world. With `check` and `reset` it implements envpool.core.types.Env, as far as a
    server can.

    A subclass sets `_broken` where the world can no longer be used: every later use raises it.
    """

    awaits = True  # a call takes as long as the server does
    start_digest = ""
    digest = ""  # unknown

    def __init__(
        self, pool: UnknownPool, name: str, tools: Sequence[ToolSpec], broken: str = ""
    ) -> None:
        self._pool = pool
        self._name = name  # what a message calls the world
        self._tools = tools
        self._broken = broken  # why the world can no longer be used; empty: it is usable
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()  # call id -> its result

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} [{self._broken or 'live'}]>"

    @abstractmethod
    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        """The findings on a task, made in the live world. Raises WorldError."""

    @abstractmethod
    def reset(self) -> None:
        """Return to the start. Raises WorldError where that cannot be."""

    @abstractmethod
    async def _execute(
        self, name: str, arguments: dict[str, Any]
    ) -> tuple[str, ToolErrorKind | None]:
        """The text of a call of a known tool, and why it failed (None: it did not). Raises
        WorldError."""

    def _asked(self) -> tuple[ServerRequest, ...]:
        """What the server asked during the call that has just ended."""
        return ()

    async def _renew_tools(self) -> None:
        """Learn which tools there are now, where the server says that they changed; one that says
        no such thing has those of the start."""
        return

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the server listed last."""
        return self._tools

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        self._raise_if_broken()
        if call_id in self._answered:
            return self._answered[call_id]
        self._pool.num_calls += 1
        await self._renew_tools()
        refused = refusal(self._tools, name, arguments)
        text, error = refused or await self._execute(name, arguments)
        asked = () if refused else self._asked()
        result = self._answered[call_id] = ToolResult(text, error, asked=asked)
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return result

    def state(self) -> StoredState:
        """Unknown. Raises WorldError when the world is broken."""
        self._raise_if_broken()
        return UNKNOWN

    def fork(self) -> "UnknownEnv":
        """Not available: raises WorldError."""
        raise WorldError(f"a world of {self._name} cannot be forked: its state is unknown")

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise WorldError(self._broken)
