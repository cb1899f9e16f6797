"""A user that a model plays: what it is asked, what it does, and how it goes on."""

from collections.abc import Sequence
from typing import Any

import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Reply, UserTurn, Window
from rehearsal_room.harness.users.simulated import MAX_CALLS, SimulatedUser
from rehearsal_room.scenarios.core.dialogue import ModelUser

pytestmark = pytest.mark.anyio
TOOLS = (ToolSpec("look", "Look.", {"type": "object"}), ToolSpec("book", "Book.", {}))
USER = ModelUser("You are Ada.", tools=("look",), stops=("###STOP###",))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Model:
    """A model with planned replies, which remembers what it was shown."""

    name = "m"

    def __init__(self, *replies: Reply | PolicyError) -> None:
        self._replies = list(replies)
        self.windows: list[Window] = []

    async def reply_to(self, window: Window, seed: int | None) -> Reply:
        """The next reply."""
        self.windows.append(window)
        reply = self._replies.pop(0) if self._replies else Reply("###STOP###")
        if isinstance(reply, PolicyError):
            raise reply
        return reply


class World:
    """A world that notes the calls of the user."""

    def __init__(self) -> None:
        self.calls: list[AgentCall] = []
        self.results: list[ToolResult] = []

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Note a call."""
        self.calls.append(AgentCall(name, arguments, f"u{len(self.calls)}"))
        self.results.append(ToolResult("a red light"))
        return self.results[-1]


def call(name: str, arguments: Any = None, id: str = "x1") -> Reply:
    return Reply(calls=(AgentCall(name, {} if arguments is None else arguments, id),))


def user_of(model: Model) -> SimulatedUser:
    return SimulatedUser(USER, TOOLS, model, 7)  # type: ignore[arg-type]


def roles(window: Window) -> Sequence[str]:
    return [message.role for message in window.messages]


async def test_it_acts_and_then_speaks() -> None:
    """It reads its prompt and the agent's words, and has its own tools alone."""
    model, world = Model(call("look"), Reply("It is red.")), World()
    user = user_of(model)
    assert user.hidden == ("look",)
    assert await user.reply("What do you see?", world) == UserTurn("It is red.")
    assert [one.name for one in world.calls] == ["look"]
    assert [tool.name for tool in model.windows[0].tools] == ["look"]
    assert roles(model.windows[0]) == ["system", "user"]
    assert roles(model.windows[1]) == ["system", "user", "assistant", "tool"]
    assert model.windows[1].messages[-1].content == "a red light"


async def test_it_ends_the_talk() -> None:
    """With one of the words that the task names."""
    turn = await user_of(Model(Reply("Thanks. ###STOP###"))).reply("Done.", World())
    assert (turn.ended, turn.text) == (True, "Thanks. ###STOP###")


async def test_it_goes_on_after_an_interruption() -> None:
    """A user that is made again and resumed turns is shown what the first one would be."""
    first, world = Model(call("look"), Reply("It is red.")), World()
    user = user_of(first)
    turn = await user.reply("What do you see?", world)
    await user.reply("And now?", world)
    second = Model()
    again = user_of(second)
    logged = UserTurn(turn.text, calls=tuple(world.calls), results=tuple(world.results))
    again.keep("What do you see?", logged)
    await again.reply("And now?", World())
    assert roles(second.windows[0]) == roles(first.windows[-1])
    texts = [message.content for message in second.windows[0].messages]
    assert texts == [message.content for message in first.windows[-1].messages]


async def test_it_has_no_other_tools() -> None:
    """The agent's tools are unknown to it, and arguments that are not an object are none."""
    model, world = Model(call("book"), call("look", "{"), Reply("Red.")), World()
    await user_of(model).reply("Look, please.", world)
    assert [(one.name, one.arguments) for one in world.calls] == [("look", {})]
    assert model.windows[1].messages[-1].content == "There is no tool 'book'."


async def test_its_failures_are_not_the_agents() -> None:
    """A model that cannot answer, or never speaks, breaks the world."""
    with pytest.raises(WorldError, match="the user's model could not answer: no key"):
        await user_of(Model(PolicyError("no key"))).reply("Hello.", World())
    with pytest.raises(WorldError, match=f"more than {MAX_CALLS} calls without"):
        await user_of(Model(*[call("look")] * MAX_CALLS)).reply("Hello.", World())
