"""The promises of every dialect, whatever its format.

The Protocol is harness.dialects.base.Dialect. The dialects are those of the registry, AWM's
protocol also in its strict form.
"""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import Record, StepTaken, encode
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.scenarios.format import Call
from tests.support.decoded_records import decode_record
from tests.support.prompts import BRIEFING, DIALECTS, answers, blocks, calls, json_values, steps

IDS = [*NAMES, "awm-strict"]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
TURNS = st.integers(0, 30)
SERIAL = [dialect for dialect in DIALECTS if dialect.name.startswith("awm")]  # one call a turn
PARALLEL = [dialect for dialect in DIALECTS if dialect not in SERIAL]


_fragments = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<think>", "</think>", "{", "}", "[", "]", '"', "'", ","),
        *('{"name": "ping", "arguments": {}}', '{"name": "list_tools"}', "null", "\\", "\ud800"),
        *('{"name": "call_tool", "arguments": {"tool_name": "ping", "arguments": "', "mcp_tool_"),
    ]
)
_blocks = json_values.map(
    lambda value: f"<tool_call>{msgspec.json.encode(value).decode()}</tool_call>"
)
any_text = st.text() | st.lists(_fragments | st.text(max_size=8)).map("".join) | _blocks
any_calls = st.lists(st.builds(AgentCall, st.text(), json_values, st.text(max_size=3)), max_size=3)
any_reply = st.builds(Reply, any_text, any_calls.map(tuple))


@each_dialect
@given(reply=any_reply, turn=TURNS)
def test_any_reply_is_read(dialect: Dialect, reply: Reply, turn: int) -> None:
    """For any text and any native calls `read` returns a decision and never raises: calls that can
    be executed, with ids that are unique in the episode, or an answer, or a reason. The decision
    depends on reply and turn alone, not on what was read before."""
    decision = dialect.read(reply, turn=turn)
    assert dialect.read(reply, turn=turn) == decision
    assert isinstance(decision, Decision)
    if isinstance(decision, Act):
        assert [call.id for call in decision.calls] == [
            f"c{turn}-{index}" for index in range(len(decision.calls))
        ]
        assert decision.calls
        for call in decision.calls:
            assert call.name
            assert isinstance(call.arguments, dict)
            assert argument_fault(call.arguments) is None
    elif isinstance(decision, FormatError):
        assert decision.reason.strip().endswith(".")


@each_dialect
@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900])
def test_deep_nesting_is_refused(dialect: Dialect, nested: str) -> None:
    """No call gets arguments nested beyond reason, and reading them does not overflow."""
    text = blocks('{"name": "call_tool", "arguments": {"tool_name": "x", "arguments": ' + nested)
    decision = dialect.read(Reply(text), turn=0)
    assert all(call.arguments == {} for call in getattr(decision, "calls", ()))
    deep: object = []
    for _ in range(900):
        deep = [deep]
    whole = blocks('{"name": "mcp_tool_x", "arguments": {"a": ' + "[" * 900 + "]" * 900 + "}}")
    reply = Reply(whole, (AgentCall("x", {"a": deep}, ""),))
    assert isinstance(dialect.read(reply, turn=0), FormatError)


@each_dialect
def test_what_is_read_can_be_logged(dialect: Dialect) -> None:
    """An integer beyond 64 bits, which the log cannot hold, is never an argument of a call."""
    huge = str(2**64)
    text = blocks('{"name": "mcp_tool_ping", "arguments": {"a": [' + huge + "]}}")
    for reply in (Reply(text), Reply("", (AgentCall("ping", {"a": [2**64]}, ""),))):
        decision = dialect.read(reply, turn=0)
        assert not isinstance(decision, Act)
        record = Record("e", 0, 0, 0.0, StepTaken(Reply(text), decision))
        assert decode_record(encode(record)) == record


@each_dialect
@given(call=calls, turn=TURNS)
def test_a_written_call_is_read_back(dialect: Dialect, call: Call, turn: int) -> None:
    """`read(write(call))` returns the call, with the id of its turn."""
    decision = dialect.read(dialect.write((call,), "", turn=turn), turn=turn)
    assert decision == Act((AgentCall(call.name, call.arguments, f"c{turn}-0"),))


@pytest.mark.parametrize("dialect", PARALLEL, ids=lambda dialect: dialect.name)
@given(several=st.lists(calls, min_size=2, max_size=4), text=answers)
def test_several_written_calls_are_read_back(
    dialect: Dialect, several: list[Call], text: str
) -> None:
    """Several calls are read back in order, each with an id of its own."""
    expected = [AgentCall(call.name, call.arguments, f"c1-{i}") for i, call in enumerate(several)]
    assert dialect.read(dialect.write(several, text, turn=1), turn=1) == Act(tuple(expected))


@pytest.mark.parametrize("dialect", SERIAL, ids=lambda dialect: dialect.name)
def test_only_one_call_is_written(dialect: Dialect) -> None:
    """A dialect with one call a turn refuses to write more."""
    with pytest.raises(ValueError, match="one call a turn"):
        dialect.write((Call("ping"), Call("ping")), "", turn=0)


@each_dialect
@given(text=answers)
def test_a_written_answer_is_read_back(dialect: Dialect, text: str) -> None:
    """`read(write(text))` returns the text as the answer."""
    assert dialect.read(dialect.write((), text, turn=0), turn=0) == Answer(text.strip())


@each_dialect
def test_a_text_that_would_be_misread_is_refused(dialect: Dialect) -> None:
    """`write` refuses a text that `read` would take for a thought or a call."""
    with pytest.raises(ValueError, match="cannot hold"):
        dialect.write((), "I <think>think</think> so.", turn=0)
    if dialect.name not in ("native", "tau2"):
        with pytest.raises(ValueError, match="cannot hold"):
            dialect.write((), blocks("{}"), turn=0)


OURS = [dialect for dialect in DIALECTS if dialect.name != "tau2"]  # whose prompt is ours


@pytest.mark.parametrize("dialect", OURS, ids=lambda dialect: dialect.name)
def test_the_head_has_user_time_rules_and_task(dialect: Dialect) -> None:
    """The head is a system prompt with user, time and rules, then the task; the episodes of one
    scenario share one system prompt, and those of another user do not get it."""
    system, task = dialect.opening_messages(BRIEFING)
    assert (system.role, task) == ("system", Message("user", "Void order 7."))
    for text in (BRIEFING.user, BRIEFING.now, BRIEFING.rules):
        assert text in system.content
    other_task = msgspec.structs.replace(BRIEFING, instruction="Void order 8.")
    assert dialect.opening_messages(other_task)[0].content is system.content
    other_user = msgspec.structs.replace(BRIEFING, user="Bob")
    assert "Bob" in dialect.opening_messages(other_user)[0].content


@each_dialect
def test_all_tools_are_shown_in_order(dialect: Dialect) -> None:
    """The agent sees every tool with its description, in the briefing's order: in the request, in
    the system prompt, or in the result of the opening call."""
    shown = [f"{tool.name} {tool.description}" for tool in dialect.request_tools(BRIEFING)]
    shown += [message.content for message in dialect.opening_messages(BRIEFING)]
    for call in dialect.opening_calls():
        result = dialect.local_result(AgentCall(call.name, call.arguments, "c0-0"), BRIEFING)
        assert result is not None and result.error is None
        shown.append(result.text)
    text = "\n".join(shown)
    offsets = [text.find(tool.name) for tool in BRIEFING.tools]
    assert offsets[0] >= 0
    assert all(one < other for one, other in pairwise(offsets))
    assert all(tool.description.split("\n")[0] in text for tool in BRIEFING.tools)


@each_dialect
@given(data=st.data())
def test_a_turn_is_rendered_purely(dialect: Dialect, data: st.DataObject) -> None:
    """A turn is rendered as the assistant's message with its text, then messages of other roles.
    Equal steps give equal messages, also from a new dialect of the same name: the lenient and the
    strict form of a dialect differ in reading only."""
    step = data.draw(steps(dialect, data.draw(TURNS)))
    messages = dialect.turn_messages(step)
    assistant, *others = messages
    assert assistant.role == "assistant"
    assert assistant.content.startswith(step.reply.text)
    assert {message.role for message in others} <= {"user", "tool"}
    if isinstance(step.decision, Answer):
        assert others == []
    assert messages == dialect.turn_messages(step)
    fresh = dialect_of(dialect.name)
    assert fresh.turn_messages(step) == messages
    assert fresh.opening_messages(BRIEFING) == dialect.opening_messages(BRIEFING)
    assert fresh.request_tools(BRIEFING) == dialect.request_tools(BRIEFING)
    assert fresh.pins(step) == dialect.pins(step)


@each_dialect
def test_a_format_error_is_explained(dialect: Dialect) -> None:
    """The agent reads the reason why its reply was malformed, in a message of its own."""
    reason = "A tool call has no name."
    step = StepTaken(Reply("<tool_call>{", (AgentCall("", {}, ""),)), FormatError(reason))
    _, explanation = dialect.turn_messages(step)
    assert explanation.role == "user"
    assert explanation.content.endswith(reason)


@each_dialect
@pytest.mark.parametrize("failed", [False, True])
def test_results_are_rendered_in_order(dialect: Dialect, failed: bool) -> None:
    """The results of a turn follow its reply in the order of its calls; a failure is marked as an
    error."""
    num_calls = 1 if dialect in SERIAL else 4
    reply = dialect.write([Call("ping")] * num_calls, "", turn=2)
    texts = [f"«result {index}»" for index in range(num_calls)]
    results = tuple(ToolResult(text, "refused" if failed else None) for text in texts)
    step = StepTaken(reply, dialect.read(reply, turn=2), results)
    rendered = "\n".join(message.content for message in dialect.turn_messages(step)[1:])
    offsets = [rendered.find(f"Error: {text}" if failed else text) for text in texts]
    assert offsets[0] >= 0
    assert all(one < other for one, other in pairwise(offsets))
    assert ("Error: " in rendered) is failed


@each_dialect
@given(call=calls, turn=TURNS)
def test_opening_calls_are_special(dialect: Dialect, call: Call, turn: int) -> None:
    """The harness itself answers the opening calls, and their turn is pinned; the world executes
    every other call, and no turn of those is pinned."""
    assert dialect.local_result(AgentCall(call.name, call.arguments, "c0-0"), BRIEFING) is None
    reply = dialect.write((call,), "", turn=turn)
    step = StepTaken(reply, dialect.read(reply, turn=turn), (ToolResult("done"),))
    assert not dialect.pins(step)
    for opening in dialect.opening_calls():
        reply = dialect.write((opening,), "", turn=turn)
        assert dialect.pins(StepTaken(reply, dialect.read(reply, turn=turn), (ToolResult(""),)))


@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_has_its_name(name: str) -> None:
    """The name under which a dialect is logged finds it again."""
    assert dialect_of(name).name == name
