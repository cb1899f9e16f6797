"""AWM's protocol, beyond the promises of every dialect (tests/contracts/test_dialect.py)."""

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.awm import Awm, format_tool_list
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.scenarios.format import Call
from tests.support.prompts import BRIEFING, blocks

AWM, STRICT = Awm(), Awm(lenient=False)
PING = '{"name": "ping", "arguments": {}}'
CALL = '{"name": "call_tool", "arguments": {"tool_name": "get_order", "arguments": %s}}'


def test_the_prompt_has_no_tools() -> None:
    """The prompt describes the two functions only; the tools are the result of list_tools."""
    assert AWM.request_tools(BRIEFING) == ()
    assert "get_order" not in AWM.opening_messages(BRIEFING)[0].content


def get_order() -> Act:
    return Act((AgentCall("get_order", {"order_id": 7}, "c0-0"),))


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        (blocks('{"name": "list_tools", "arguments": null}'), "list"),
        (blocks('{"name": "list_tools"}', PING), "list"),
        (
            blocks(
                '{"name": "call_tool", "arguments": '
                '{"tool_name": "mcp_tool_get_order", "arguments": "{\\"order_id\\": 7}"}}'
            ),
            get_order(),
        ),
        (
            blocks(
                '{"name": "call_tool", "arguments": '
                '{"tool_name": "get_order", "arguments": {"order_id": 7}}}'
            ),
            get_order(),
        ),
        (blocks('{"name": "mcp_tool_get_order", "arguments": {"order_id": 7}}'), get_order()),
        (f"<think>{blocks(PING.replace('ping', 'mcp_tool_ping'))}</think> Done.", "ping"),
        ("<think>I am done.</think>Order 7 is void.", Answer("Order 7 is void.")),
        (
            blocks('{"name": "get_order", "arguments": {"order_id": 7}}'),
            FormatError(
                "There is no function 'get_order': call list_tools, or call_tool with a tool's "
                "name."
            ),
        ),
        (
            blocks('{"name": "call_tool", "arguments": {"arguments": "{}"}}'),
            FormatError("call_tool needs tool_name and arguments."),
        ),
    ],
)
@pytest.mark.parametrize("dialect", [AWM, STRICT], ids=["lenient", "strict"])
def test_replies_are_read(dialect: Awm, text: str, decision: Decision | str) -> None:
    """AWM's two functions become plain calls: the first one counts, also inside a thought."""
    if isinstance(decision, str):
        name = {"list": "list_tools", "ping": "ping"}[decision]
        decision = Act((AgentCall(name, {}, "c0-0"),))
    assert dialect.read(Reply(text), turn=0) == decision


@pytest.mark.parametrize(
    "text",
    [
        blocks("[" + CALL % '{"order_id": 7}' + "]"),
        blocks(CALL % '"{"order_id": 7}"'),
        blocks(CALL % "\"{'order_id': 7,}\""),
        blocks("```json\n" + CALL % '{"order_id": 7}' + "\n```"),
        blocks((CALL % '{"order_id": 7}')[:-2]),
        blocks("nonsense", CALL % '{"order_id": 7}'),
    ],
)
def test_broken_json_is_repaired(text: str) -> None:
    """JSON that is almost right is read as the released agent reads it; the strict form refuses
    it."""
    assert AWM.read(Reply(text), turn=0) == get_order()
    assert isinstance(STRICT.read(Reply(text), turn=0), FormatError)


def test_arguments_that_are_not_an_object() -> None:
    """The lenient form makes the call without arguments, as the released agent does; in the strict
    form they are a format error."""
    reply = Reply(blocks(CALL % '"[1, 2]"'))
    assert AWM.read(reply, turn=0) == Act((AgentCall("get_order", {}, "c0-0"),))
    assert isinstance(STRICT.read(reply, turn=0), FormatError)


def test_an_unclosed_tag() -> None:
    """The lenient form reads it as the answer, as the released agent does; in the strict form it is
    a format error."""
    reply = Reply(f"<tool_call>{PING}")
    assert AWM.read(reply, turn=0) == Answer(f"<tool_call>{PING}")
    assert STRICT.read(reply, turn=0) == FormatError("A <tool_call> is not closed.")


def test_the_tool_list() -> None:
    """The harness answers list_tools in the layout of the released agent."""
    (opening,) = AWM.opening_calls()
    made = AWM.read(AWM.write((opening,), "", turn=0), turn=0)
    assert made == Act((AgentCall("list_tools", {}, "c0-0"),))
    assert AWM.local_result(made.calls[0], BRIEFING) == ToolResult(format_tool_list(BRIEFING))
    assert AWM.local_result(AgentCall("ping", {}, "c1-0"), BRIEFING) is None
    assert format_tool_list(BRIEFING) == (
        "Available MCP Tools (3 tools):\n" + "=" * 80 + "\n\n"
        "1. mcp_tool_get_order\n"
        "   Description: One order with its lines.\n"
        "   Give its id.\n"
        "   Parameters:\n"
        "      - order_id: integer (required)\n"
        "        Description: The id.\n"
        "\n"
        "2. mcp_tool_void_order\n"
        "   Description: Void an order.\n"
        "   Parameters:\n"
        "      - order_id: integer (required)\n"
        "      - reason: string (optional)\n"
        "        Default: late\n"
        "        Allowed values: ['late', 'wrong']\n"
        "      - note: unknown (optional)\n"
        "      - notify: object (optional)\n"
        "        Properties:\n"
        "          - email: string (required)\n"
        "          - copies: integer (optional)\n"
        "\n"
        "3. mcp_tool_ping\n"
        "   Description: Nothing.\n"
        "   Parameters: None"
    )


def test_history() -> None:
    """A result is a user message, or a message of role tool, as the setting asks."""
    reply = AWM.write((Call("ping"),), "", turn=2)
    step = StepTaken(reply, AWM.read(reply, turn=2), (ToolResult("gone", "refused"),))
    assistant = Message("assistant", reply.text)
    assert AWM.turn_messages(step) == (assistant, Message("user", "Tool response:\nError: gone"))
    as_tool = Message("tool", "Error: gone", call_id="c2-0")
    assert dialect_of("awm-tool").turn_messages(step) == (assistant, as_tool)
