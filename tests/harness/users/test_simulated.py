"""A user that a model plays: what it is asked, what it does, and how it goes on."""

from collections.abc import Sequence
from typing import Any

import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Reply, UserAct, UserTurn, Window
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

    def is_over(self, acts: Sequence[UserAct]) -> bool:
        """Never."""
        return False


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
    assert await user.reply("What do you see?", world) == UserTurn(
        "It is red.", acts=(UserAct(("x1",)),)
    )
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


async def test_what_it_says_beside_its_calls_is_kept() -> None:
    """A message with two calls and a text is one message, in the next request and after an
    interruption; arguments are written as they were."""
    calls = (AgentCall("look", {"at": "é"}, "x1"), AgentCall("look", {}, "x2"))
    first, world = Model(Reply("I look. ###STOP###", calls), Reply("Red.")), World()
    turn = await user_of(first).reply("Look, please.", world)
    assert turn.acts == (UserAct(("x1", "x2"), "I look. ###STOP###"),)
    shown = first.windows[-1].messages[2:]
    assert [(one.role, one.content) for one in shown] == [
        ("assistant", "I look. ###STOP###"),
        ("tool", "a red light"),
        ("tool", "a red light"),
    ]
    assert [(one.id, one.arguments) for one in shown[0].calls] == [
        ("x1", '{"at": "\\u00e9"}'),
        ("x2", "{}"),
    ]
    second = Model()
    again = user_of(second)
    logged = UserTurn(
        turn.text, calls=tuple(world.calls), results=tuple(world.results), acts=turn.acts
    )
    again.keep("Look, please.", logged)
    await again.reply("And now?", World())
    assert second.windows[0].messages[:5] == first.windows[-1].messages


async def test_it_does_not_answer_to_nothing() -> None:
    """An empty reply of the agent counts as one that its model did not give."""
    with pytest.raises(PolicyError, match="the agent's reply is empty"):
        await user_of(Model()).reply(" ", World())


async def test_its_failures_are_not_the_agents() -> None:
    """A model that cannot answer, sends nothing or what cannot be read, or never speaks, breaks the
    world."""
    with pytest.raises(WorldError, match="the user's model could not answer: no key"):
        await user_of(Model(PolicyError("no key"))).reply("Hello.", World())
    with pytest.raises(WorldError, match="arguments of the user's call of 'look' are not an"):
        await user_of(Model(call("look", "{"))).reply("Hello.", World())
    with pytest.raises(WorldError, match="answered with an empty text"):
        await user_of(Model(Reply(" "))).reply("Hello.", World())
    with pytest.raises(WorldError, match=f"calls in {MAX_CALLS} messages without"):
        await user_of(Model(*[call("look")] * MAX_CALLS)).reply("Hello.", World())
