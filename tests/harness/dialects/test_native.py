"""The dialect `native`, beyond the promises of every dialect (tests/contracts/test_dialect.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, FormatError, Message, Reply
from rehearsal_room.harness.dialects.native import Native
from tests.support.prompts import BRIEFING, json_values

NATIVE = Native()


@given(name=st.text(), arguments=json_values)
def test_only_a_name_with_an_object_is_a_call(name: str, arguments: object) -> None:
    """A server may send any name and any arguments: only a name with an object, the text of one or
    nothing is a call."""
    decision = NATIVE.read(Reply("", (AgentCall(name, arguments, "x"),)), turn=2)
    if name and isinstance(arguments, dict):
        assert decision == Act((AgentCall(name, arguments, "c2-0"),))
    elif name and (arguments is None or arguments == []):
        assert decision == Act((AgentCall(name, {}, "c2-0"),))
    elif name and isinstance(arguments, str) and isinstance(decision, Act):
        assert isinstance(decision.calls[0].arguments, dict)
    else:
        assert isinstance(decision, FormatError)


def test_the_request_has_the_tools() -> None:
    """The tools go into the request, not into the prompt."""
    assert NATIVE.request_tools(BRIEFING) == BRIEFING.tools
    assert "get_order" not in NATIVE.opening_messages(BRIEFING)[0].content


def test_calls_are_read() -> None:
    """Calls take precedence over text. They get new ids, because servers repeat theirs within an
    episode."""
    reply = Reply("Let me see.", (AgentCall("ping", {}, "call_0"), AgentCall("ping", {}, "call_1")))
    assert NATIVE.read(reply, turn=4) == Act(
        (AgentCall("ping", {}, "c4-0"), AgentCall("ping", {}, "c4-1"))
    )
    broken = NATIVE.read(Reply("", (AgentCall("ping", '{"a": ', "x"),)), turn=0)
    fault = "the JSON is malformed: expecting value at character 7"
    assert broken == FormatError(f"The arguments of ping cannot be used: {fault}.")


@pytest.mark.parametrize("arguments", [None, "null", " ", "{}"])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    """Servers write null or a blank text for a tool without parameters; the history has {}."""
    reply = Reply("", (AgentCall("ping", arguments, "call_a"),))
    decision = NATIVE.read(reply, turn=0)
    assert decision == Act((AgentCall("ping", {}, "c0-0"),))
    step = StepTaken(reply, decision, (ToolResult("pong"),))
    assert NATIVE.turn_messages(step)[0].calls == (AgentCall("ping", {}, "call_a"),)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 2,}', "the JSON is malformed: expecting property name"),
        ('{"a": 2}}', "the JSON is malformed: extra data at character 9"),
        ('{"a": NaN}', "the JSON is malformed: NaN is not a JSON number"),
        ('{"a": 99999999999999999999}', "an integer is larger than 64 bits"),
        ('{"a": "\\ud83d"}', "half of a surrogate pair is not Unicode text"),
        ("[1]", "they must be a JSON object, not an array"),
        ("{" * 3, "the JSON is malformed"),
        ('{"a":' * 70 + "1" + "}" * 70, "a value is nested deeper than 50 levels"),
    ],
)
def test_arguments_that_cannot_be_used_have_their_reason(text: str, fault: str) -> None:
    """The agent reads what is wrong, not that an object should be one."""
    decision = NATIVE.read(Reply("", (AgentCall("ping", text, "x"),)), turn=0)
    assert isinstance(decision, FormatError)
    assert fault in decision.reason


def test_history() -> None:
    """The history has the server's ids, and each result has the id of its call."""
    reply = Reply("Hm.", (AgentCall("get_order", {"order_id": 7}, "call_a"),))
    results = (ToolResult("There is no order 7.", "refused"),)
    step = StepTaken(reply, NATIVE.read(reply, turn=0), results)
    assert NATIVE.turn_messages(step) == (
        Message("assistant", "Hm.", reply.calls),
        Message("tool", "Error: There is no order 7.", call_id="call_a"),
    )


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("one", "")])
def test_history_without_ids(ids: tuple[str, str]) -> None:
    """Where a server sent no ids, or one id twice, calls and results have the dialect's ids."""
    reply = Reply("", tuple(AgentCall("ping", {}, name) for name in ids))
    step = StepTaken(reply, NATIVE.read(reply, turn=1), (ToolResult("1"), ToolResult("2")))
    assistant, one, two = NATIVE.turn_messages(step)
    assert [call.id for call in assistant.calls] == ["c1-0", "c1-1"]
    assert (one, two) == (
        Message("tool", "1", call_id="c1-0"),
        Message("tool", "2", call_id="c1-1"),
    )


def test_history_of_a_broken_call() -> None:
    """A malformed call is rendered as text, which every server accepts in a history."""
    reply = Reply("Now.", (AgentCall("ping", "{", "x"),))
    decision = NATIVE.read(reply, turn=0)
    assert isinstance(decision, FormatError)
    assert NATIVE.turn_messages(StepTaken(reply, decision)) == (
        Message("assistant", "Now.\nping({)"),
        Message("user", decision.reason),
    )
