"""Users whom a model plays, at an endpoint of its own.

The model reads its prompt, hears the agent as its partner, and may call the user's own tools before
it speaks. It ends the talk with one of the words that the task names. What the user said and did is
in the log, so an episode that goes on after an interruption asks nothing again.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply, UserTurn, Window
from rehearsal_room.harness.policies.openai import OpenAIPolicy
from rehearsal_room.harness.users.base import EpisodeUser, UserWorld
from rehearsal_room.harness.users.reworded import RewordedUser, Wordings
from rehearsal_room.harness.users.scripted import TaskUsers
from rehearsal_room.scenarios.core.dialogue import ModelUser, UserAutomaton
from rehearsal_room.scenarios.format import Scenario, Task

MAX_CALLS = 30  # of the user, before it speaks
_SEEDS = 2**31


class SimulatedUsers(AsyncContextManagerMixin):
    """Makes the users of a run, those of tasks without a model too (harness.users.base.UserSource).
    An async context manager that owns the connections to the model."""

    def __init__(self, model: OpenAIPolicy, *, rewords: bool = False) -> None:
        self._model = model
        self._others = TaskUsers()
        self._wordings = Wordings(model) if rewords else None

    def __repr__(self) -> str:
        return f"<SimulatedUsers {self._model.name}>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._model:
            yield self

    async def preflight(self) -> None:
        """Check that the model's server answers. Raises ModelServerError."""
        await self._model.preflight()

    def user(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec], *, seed: int
    ) -> EpisodeUser | None:
        """The user of an episode; None: its task is not a dialogue."""
        if isinstance(task.user, ModelUser):
            return SimulatedUser(task.user, tools, self._model, seed % _SEEDS)
        if isinstance(task.user, UserAutomaton) and self._wordings is not None:
            return RewordedUser(task.user, self._wordings)
        return self._others.user(scenario, task, tools, seed=seed)


class SimulatedUser:
    """The user of one episode."""

    def __init__(
        self, user: ModelUser, tools: Sequence[ToolSpec], model: OpenAIPolicy, seed: int
    ) -> None:
        self.hidden = user.tools
        self._stops = user.stops
        self._tools = tuple([tool for tool in tools if tool.name in user.tools])
        self._model = model
        self._seed = seed
        self._messages = [Message("system", user.prompt)]

    def keep(self, text: str, turn: UserTurn) -> None:
        """Remember a turn that is logged already."""
        self._hear(text)
        for call, result in zip(turn.calls, turn.results, strict=False):
            self._remember(call, result)
        self._messages.append(Message("assistant", turn.text))

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Ask the model what the user does and says. Raises WorldError where it cannot answer."""
        self._hear(text)
        for _ in range(MAX_CALLS):
            reply = await self._asked()
            if not reply.calls:
                self._messages.append(Message("assistant", reply.text))
                return UserTurn(reply.text, ended=any(stop in reply.text for stop in self._stops))
            for call in reply.calls:
                arguments = call.arguments if isinstance(call.arguments, dict) else {}
                if call.name in self.hidden:
                    result = await world.call(call.name, arguments)
                else:
                    result = ToolResult(f"There is no tool {call.name!r}.", "unknown_tool")
                self._remember(call, result)
        raise WorldError(f"the user made more than {MAX_CALLS} calls without saying a word")

    async def _asked(self) -> Reply:
        try:
            return await self._model.reply_to(
                Window(tuple(self._messages), self._tools), self._seed
            )
        except PolicyError as exc:
            raise WorldError(f"the user's model could not answer: {exc}") from exc

    def _hear(self, text: str) -> None:
        self._messages.append(Message("user", text))

    def _remember(self, call: AgentCall, result: ToolResult) -> None:
        self._messages.append(Message("assistant", "", (call,)))
        self._messages.append(Message("tool", result.text, call_id=call.id))
