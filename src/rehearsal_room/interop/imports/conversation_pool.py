"""The pool of conversations whose world is unknown: a call gives the result in the file."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.mcp.unknown_pool import UnknownPool
from rehearsal_room.envpool.mcp.unknown_states import UNKNOWN
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.interop.imports.conversations import ImportedConversation
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

NO_RESULT = "The conversation has no result of this call."


class ConversationTask(Task, frozen=True, kw_only=True):
    """The task of a conversation, and which one it is: several may be tries of one task."""

    conversation: ImportedConversation


def unknown_task(conversation: ImportedConversation, task_id: str) -> ConversationTask:
    """The task of a conversation: what was asked; nobody has a solution."""
    return ConversationTask(
        id=task_id,
        instruction=conversation.instruction,
        difficulty="unrated",
        kind="open",
        answer="",
        conversation=conversation,
    )


class ConversationPool(UnknownPool):
    """Leases the worlds of conversations. It implements envpool.store.pool_protocol.Pool.

    `tools` are those of each scenario, by its digest.
    """

    why_not_verified = "it was imported, so its state is unknown"

    def __init__(self, tools: Mapping[str, Sequence[ToolSpec]]) -> None:
        super().__init__()
        self._tools = tools

    def __repr__(self) -> str:
        return f"<ConversationPool [{len(self._tools)} scenarios, {self.num_live} live]>"

    async def host(self, scenario: Scenario) -> States:
        """Read access to the states: only the tools are known."""
        return self.hosted(scenario)

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """The world of the task's conversation."""
        assert isinstance(task, ConversationTask), "a conversation is one of a task"
        return self._lease(task.conversation)

    def _tools_of(self, scenario: Scenario) -> Iterable[ToolSpec]:
        return self._tools[scenario.digest]

    @asynccontextmanager
    async def _lease(self, conversation: ImportedConversation) -> AsyncIterator[Env]:
        with self._counted():
            yield _RecordedEnv(conversation)


class _RecordedEnv:
    """Gives the results of one conversation, in its order."""

    awaits = False
    start_digest = ""
    digest = ""

    def __init__(self, conversation: ImportedConversation) -> None:
        self.tools = conversation.tools
        self._conversation = conversation
        self.reset()

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        """The next result; the world answers nothing that the file does not have."""
        result = next(self._results, None)
        return ToolResult(NO_RESULT, "internal") if result is None else result

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        """None: nothing can be checked."""
        return ()

    def state(self) -> StoredState:
        """Unknown."""
        return UNKNOWN

    def fork(self) -> Env:
        """Raises WorldError: the state is unknown."""
        raise WorldError("the world of an imported conversation cannot be forked")

    def reset(self) -> None:
        """Give the results again, from the first."""
        self._results = iter(list(_results(self._conversation)))


def _results(conversation: ImportedConversation) -> Iterable[ToolResult | None]:
    """The results that a world gave: those of the agent's calls and of the user's, in order."""
    for turn in conversation.turns:
        if isinstance(turn.decision, Act):
            yield from (one for one in turn.results if one is None or not one.injected)
        if turn.user is not None:
            yield from turn.user.results
