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
    """A server may send any name and any arguments: only a name with an object is a call."""
    decision = NATIVE.read(Reply("", (AgentCall(name, arguments, "x"),)), turn=2)
    if name and isinstance(arguments, dict):
        assert decision == Act((AgentCall(name, arguments, "c2-0"),))
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
    assert broken == FormatError('The arguments of ping must be a JSON object, not {"a": .')


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
