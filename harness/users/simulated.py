"""Users whom a model plays, at an endpoint of its own.

The model reads its prompt, hears the agent as its partner, and may call the user's own tools before
it speaks. It ends the talk with one of the words that the task names, or by a tool. What the user
said and did is in the log, so an episode that goes on after an interruption asks nothing again.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import (
    AgentCall,
    Message,
    Reply,
    UserAct,
    UserTurn,
    Window,
)
from rehearsal_room.harness.dialects.base import after_thought, result_text
from rehearsal_room.harness.policies.openai import OpenAIPolicy
from rehearsal_room.harness.users.base import EpisodeUser, UserWorld
from rehearsal_room.harness.users.reworded import RewordedUser, Wordings
from rehearsal_room.harness.users.scripted import TaskUsers
from rehearsal_room.scenarios.core.dialogue import ModelUser, ModelUserWithTool, UserAutomaton
from rehearsal_room.scenarios.format import Scenario, Task

MAX_CALLS = 100  # messages of the user with calls, before it speaks
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
        if isinstance(task.user, ModelUserWithTool):
            return UserWithTool(task.user, tools, self._model)
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
        self._user = user
        self._tools = tuple([tool for tool in tools if tool.name in user.tools])
        self._model = model
        self._seed = seed
        self._messages = [Message("system", user.prompt)]

    def keep(self, text: str, turn: UserTurn) -> None:
        """Remember a turn that is logged already."""
        self._hear(text)
        at = 0
        for act in turn.acts or [UserAct((call.id,)) for call in turn.calls]:
            end = at + len(act.ids)
            self._remember(act, turn.calls[at:end], turn.results[at:end])
            at = end
        if turn.text:
            self._messages.append(Message("assistant", turn.text))

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Ask the model what the user does and says. Raises WorldError where it cannot answer, and
        PolicyError for an empty text, to which nobody can answer."""
        if not text.strip():
            raise PolicyError("the agent's reply is empty")
        self._hear(text)
        acts: list[UserAct] = []
        for _ in range(MAX_CALLS):
            reply = await self._asked()
            said = after_thought(reply.text)
            if not reply.calls:
                if not said.strip():
                    raise WorldError("the user's model answered with an empty text")
                self._messages.append(Message("assistant", said))
                ended = any(stop in said for stop in self._user.stops)
                return UserTurn(said, ended=ended, acts=tuple(acts))
            act = UserAct(tuple([call.id for call in reply.calls]), said)
            self._remember(act, reply.calls, [await self._act(one, world) for one in reply.calls])
            acts.append(act)
            if world.is_over(acts):
                return UserTurn("", ended=True, acts=tuple(acts))
        raise WorldError(f"the user made calls in {MAX_CALLS} messages without saying a word")

    async def _act(self, call: AgentCall, world: UserWorld) -> ToolResult:
        if not isinstance(call.arguments, dict):
            raise WorldError(f"the arguments of the user's call of {call.name!r} are not an object")
        return await world.call(call.name, call.arguments)

    async def _asked(self) -> Reply:
        fields = {"tool_choice": "auto"} if self._tools else None
        window = Window(tuple(self._messages), self._tools, fields=fields)
        try:
            return await self._model.reply_to(window, self._seed)
        except PolicyError as exc:
            raise WorldError(f"the user's model could not answer: {exc}") from exc

    def _hear(self, text: str) -> None:
        self._messages.append(Message("user", text))

    def _remember(
        self, act: UserAct, calls: Sequence[AgentCall], results: Sequence[ToolResult]
    ) -> None:
        sent = [
            AgentCall(call.name, json.dumps(call.arguments), id)
            for id, call in zip(act.ids, calls, strict=False)
        ]
        self._messages.append(Message("assistant", act.text, tuple(sent)))
        for id, result in zip(act.ids, results, strict=False):
            self._messages.append(Message("tool", result_text(result), call_id=id))


class UserWithTool:
    """The user of one episode, who ends the talk by a tool (see ModelUserWithTool)."""

    def __init__(
        self, user: ModelUserWithTool, tools: Sequence[ToolSpec], model: OpenAIPolicy
    ) -> None:
        self.hidden = user.tools
        self._user = user
        self._tools = tuple([tool for tool in tools if tool.name in user.tools])
        self._model = model
        earlier = [Message(one.role, one.text) for one in user.earlier]
        self._messages = [Message("system", user.prompt), *earlier]

    def keep(self, text: str, turn: UserTurn) -> None:
        """Remember a turn that is logged already."""
        self._messages += [Message("user", text), Message("assistant", turn.text)]

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Ask the model what the user says, or whether the talk is over. A call that fails ends
        nothing: the model is asked again, without the tool, and does not see the call. Raises
        WorldError where it cannot answer."""
        self._messages.append(Message("user", text))
        reply = await self._asked(self._tools)
        acts: tuple[UserAct, ...] = ()
        if reply.calls:
            acts = (UserAct(tuple([call.id for call in reply.calls]), reply.text),)
            results = [await self._act(call, world) for call in reply.calls]
            if not all(result.is_error for result in results) or world.is_over(acts):
                return UserTurn("", ended=True, acts=acts)
            reply = await self._asked(())
        said = reply.said
        if reply.calls or said is None:
            raise WorldError("the user's model answered with neither a text nor the tool it has")
        self._messages.append(Message("assistant", said))
        return UserTurn(said, acts=acts)

    async def _act(self, call: AgentCall, world: UserWorld) -> ToolResult:
        if call.name != self._user.ends_by or not isinstance(call.arguments, dict):
            raise WorldError(f"the user's model called {call.name!r}, which it cannot do so")
        return await world.call(call.name, call.arguments)

    async def _asked(self, tools: tuple[ToolSpec, ...]) -> Reply:
        try:
            return await self._model.reply_to(Window(tuple(self._messages), tools), None)
        except PolicyError as exc:
            raise WorldError(f"the user's model could not answer: {exc}") from exc
