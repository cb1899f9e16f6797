"""ToolSandbox's messages: what is malformed, and in which order results are shown."""

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    FormatError,
    Reply,
    UserTurn,
)
from rehearsal_room.harness.dialects.toolsandbox import ToolSandbox

_CALLS = (AgentCall("a", {"x": "é"}, "call_1"), AgentCall("b", {}, "call_2"))


def test_upstream_gives_up_what_is_malformed_and_nothing_else() -> None:
    """A reply without content, and arguments that are a text, are malformed; an empty text is
    said."""
    read = ToolSandbox().read
    assert isinstance(read(Reply("", content="null"), turn=0), FormatError)
    assert isinstance(read(Reply("", (AgentCall("a", "{", "i"),)), turn=0), FormatError)
    assert read(Reply(""), turn=0) == Answer("")


def test_results_stand_in_the_order_in_which_the_world_gave_them() -> None:
    """Where an order of the calls failed, its results come in that order, each with its own id; the
    text beside the calls is not shown."""
    dialect = ToolSandbox()
    reply = Reply("I look.", _CALLS)
    decision = dialect.read(reply, turn=3)
    assert isinstance(decision, Act)
    swapped = (ToolResult("one", place=1), ToolResult("two", "refused", place=0))
    first, *results = dialect.turn_messages(StepTaken(reply, decision, swapped))
    assert first.wire is not None
    assert first.wire["content"] == ""
    assert [one["function"]["arguments"] for one in first.wire["tool_calls"]] == [
        '{"x": "\\u00e9"}',
        "{}",
    ]
    assert [one.wire for one in results] == [
        {"tool_call_id": "call_2", "role": "tool", "name": "b", "content": "two"},
        {"tool_call_id": "call_1", "role": "tool", "name": "a", "content": "one"},
    ]


def test_a_user_without_words_is_shown() -> None:
    """An empty text of the user is a message, the end of the talk is none."""
    dialect = ToolSandbox()
    step = StepTaken(Reply("Hm."), Answer("Hm."), user=UserTurn(""))
    assert [one.content for one in dialect.turn_messages(step)] == ["Hm.", ""]
    ended = StepTaken(Reply("Hm."), Answer("Hm."), user=UserTurn("", ended=True))
    assert [one.content for one in dialect.turn_messages(ended)] == ["Hm."]
