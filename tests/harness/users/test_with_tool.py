"""A user who ends the talk by a tool: when it is offered, what is shown, and what ends nothing."""

from collections.abc import Sequence

import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply, UserAct
from rehearsal_room.harness.users.simulated import UserWithTool
from rehearsal_room.scenarios.core.dialogue import EarlierWords, ModelUserWithTool
from tests.harness.users.test_simulated import Model

pytestmark = pytest.mark.anyio
HANG_UP = ToolSpec("hang_up", "Hang up.", {"type": "object"})
USER = ModelUserWithTool(
    "You are Ada.",
    tools=("hang_up",),
    ends_by="hang_up",
    earlier=(EarlierWords("system", "Now you are Bo."), EarlierWords("assistant", "Hi.")),
)
CALL = Reply("", (AgentCall("hang_up", {}, "x1"),))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _World:
    def __init__(self, *results: ToolResult) -> None:
        self._results = list(results)

    async def call(self, name: str, arguments: dict[str, object]) -> ToolResult:
        return self._results.pop(0)

    def is_over(self, acts: Sequence[UserAct]) -> bool:
        return False


def _user(*replies: Reply) -> tuple[UserWithTool, Model]:
    model = Model(*replies)
    return UserWithTool(USER, (HANG_UP,), model), model  # type: ignore[arg-type]


async def test_few_shot_turns_come_before_the_talk_and_the_tool_with_it() -> None:
    """The model is shown the prompt, the earlier talk and the agent's words, an empty one too, with
    the tool and no other field; it may answer with no word at all."""
    user, model = _user(Reply(""))
    turn = await user.reply("", _World())
    (window,) = model.windows
    assert window.messages == (
        Message("system", "You are Ada."),
        Message("system", "Now you are Bo."),
        Message("assistant", "Hi."),
        Message("user", ""),
    )
    assert (window.tools, window.fields) == ((HANG_UP,), None)
    assert (turn.text, turn.ended) == ("", False)


async def test_the_tool_ends_the_talk() -> None:
    """A call that succeeds ends it, whatever is said beside it."""
    user, _ = _user(CALL)
    turn = await user.reply("Done.", _World(ToolResult("None")))
    assert (turn.text, turn.ended, turn.acts) == ("", True, (UserAct(("x1",)),))


async def test_a_call_that_fails_is_not_shown_and_the_tool_not_offered_again() -> None:
    """The model is asked again without the tool; a second call is refused."""
    user, model = _user(CALL, Reply("Go on."), CALL, CALL)
    turn = await user.reply("Done.", _World(ToolResult("TypeError", "refused")))
    assert (turn.text, turn.ended) == ("Go on.", False)
    first, second = model.windows
    assert (second.messages, second.tools) == (first.messages, ())
    with pytest.raises(WorldError, match="neither a text nor the tool it has"):
        await user.reply("Done.", _World(ToolResult("TypeError", "refused")))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply("", content="null"), "neither a text"),
        (Reply("", (AgentCall("look", {}, "x"),)), "'look', which it cannot do so"),
        (Reply("", (AgentCall("hang_up", "{", "x"),)), "which it cannot do so"),
    ],
)
async def test_a_user_who_cannot_answer_is_not_the_agents_fault(reply: Reply, why: str) -> None:
    """No content, another tool and unreadable arguments break the world."""
    user, _ = _user(reply)
    with pytest.raises(WorldError, match=why):
        await user.reply("Hello?", _World())
