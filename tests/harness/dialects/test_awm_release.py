"""What the released agent of Agent World Model reads and sends. `just parity awm` compares it with
that agent itself; these are cases of it whose outcome was seen there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    Answer,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.awm_release import (
    AwmRelease,
    first_call,
    read_json,
    response_text,
    tool_list,
)
from rehearsal_room.harness.dialects.registry import dialect_of

USER, TOOL = AwmRelease(), dialect_of("awm-release-tool")
LIST = '<tool_call>{"name": "list_tools", "arguments": null}</tool_call>'
GET = '{"tool_name": "mcp_tool_mcp_server_get", "arguments": "{\\"id\\": 7}"}'


def function(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'


def read(text: str) -> Decision:
    return USER.read(Reply(text), turn=0)


def call_in(text: str) -> tuple[str, Any, str]:
    decision = read(text)
    assert isinstance(decision, Act)
    [call] = decision.calls
    return call.name, call.arguments, call.id


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (LIST, ("list_tools", {}, "c0-0")),
        (LIST + LIST, ("list_tools", {}, "c0-0")),
        (f"<think>{LIST}</think> no", ("list_tools", {}, "c0-0")),
        (f"<tool_call>[]</tool_call>{LIST}", ("list_tools", {}, "c0-1")),
        (function('"call_tool"', GET), ("get", {"id": 7}, "c0-0")),
        (
            function('"call_tool"', GET.replace("mcp_tool_mcp_server_", "")),
            ("get", {"id": 7}, "c0-0"),
        ),
        (function('"mcp_tool_mcp_server_get"', '{"id": 7}'), ("get", {"id": 7}, "c0-0")),
        (function('"call_tool"', '{"tool_name": "get", "arguments": [1]}'), ("get", {}, "c0-0")),
        (function('"call_tool"', '{"tool_name": "get"}'), ("get", {}, "c0-0")),
    ],
)
def test_the_first_call_that_can_be_read_counts(text: str, call: tuple[str, Any, str]) -> None:
    """Wherever it is, whatever stands around it, under each of the names that a tool has."""
    assert call_in(text) == call


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            function('"get"', "{}"),
            "Error: Unknown tool 'get'. Only 'list_tools' and 'call_tool' are available.",
        ),
        (
            function('""', "{}"),
            "Error: Unknown tool ''. Only 'list_tools' and 'call_tool' are available.",
        ),
        (function('"call_tool"', "[]"), "Error: Tool '' not found"),
        (
            function('"call_tool"', '{"tool_name": "mcp_server_"}'),
            "Error: Unknown tool: ",
        ),
        (
            function('"call_tool"', '{"tool_name": "list_tools"}'),
            "Error: Tool 'list_tools' not found",
        ),
        (
            function("null", "{}"),
            "Error: The released agent stops here with an error: the name of the function is not a"
            " text",
        ),
    ],
)
def test_what_the_agent_answers_by_itself_is_no_call(text: str, shown: str) -> None:
    """A world's tool is not called under the name of a function; the text is the agent's own."""
    decision = read(text)
    assert isinstance(decision, FormatError)
    step = StepTaken(Reply(text), decision)
    assert response_text(step) == shown
    assert USER.turn_messages(step) == (
        Message("assistant", text),
        Message("user", f"Tool response:\n{shown}"),
    )


@pytest.mark.parametrize(
    "text", ["", "Done.", "<tool_call>{}</tool_call>", "<tool_call>{", "</tool_call><tool_call>"]
)
def test_all_else_is_the_answer(text: str) -> None:
    """There are no format errors: what has no call that can be read ends the episode."""
    assert read(text) == Answer(text)


def test_a_thought_beside_the_text_is_not_read() -> None:
    """What the server sent as a field of its own is neither read for calls nor shown again."""
    reply = Reply(f"<think>{LIST}</think>Done.", thought="reasoning_content")

    assert USER.read(reply, turn=0) == Answer("Done.")
    assert USER.turn_messages(StepTaken(reply, Answer("Done."))) == (Message("assistant", "Done."),)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult("{}"), "{}"),
        (ToolResult("Error: no", "refused"), "Error: Error: no"),
        (ToolResult("Error calling get. Status code: 500.", "internal"), None),
        (ToolResult("get took too long", "timeout"), "Error: Tool call timed out after 60.0s"),
        (ToolResult("Unknown tool: get", "unknown_tool"), "Error: Tool 'get' not found"),
    ],
)
def test_results_have_the_released_texts(result: ToolResult, shown: str | None) -> None:
    """Each failure has one `Error: ` more; a tool that mcp-agent does not find has its own text."""
    text = function('"call_tool"', '{"tool_name": "get", "arguments": "{}"}')
    decision = read(text)
    step = StepTaken(Reply(text), decision, (result,))

    assert response_text(step) == (shown or f"Error: {result.text}")
    assert isinstance(decision, Act)
    assert TOOL.turn_messages(step)[1] == Message(
        "tool", shown or f"Error: {result.text}", call_id="c0-0"
    )


def test_the_list_of_tools_has_the_released_form() -> None:
    """Names with the server's in front, and what the layout leaves out."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "A name.", "default": "", "enum": ["a"]},
            "any": {"anyOf": [{"type": "string"}], "default": None},
            "in": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        },
        "required": ["name"],
    }
    tools = (ToolSpec("get", "First.\n\n  Second. ", schema), ToolSpec("ping", "", {}))
    expected = (
        f"Available MCP Tools (2 tools):\n{'=' * 80}\n\n"
        "1. mcp_tool_mcp_server_get\n   Description: First.\n   Second.\n   Parameters:\n"
        "      - name: string (required)\n        Description: A name.\n        Default: \n"
        "        Allowed values: ['a']\n      - any: unknown (optional)\n"
        "      - in: object (optional)\n        Properties:\n          - x: integer (required)\n\n"
        "2. mcp_tool_mcp_server_ping\n   Description: \n   Parameters: None"
    )
    assert tool_list(Briefing("", "", tools, "", "")) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" ", {}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ('"\\ud800"', "\ud800"),
        ("[NaN, 18446744073709551616]", None),
    ],
)
def test_numbers_are_read_as_the_released_code_reads_them(text: str, value: Any) -> None:
    """Strictly with floats beyond 64 bits, and where that fails as Python reads JSON."""
    found = read_json(text)
    assert found == value if value is not None else found[1] == 2**64


_pieces = st.sampled_from(
    [
        *(
            "<tool_call>",
            "</tool_call>",
            "{",
            "}",
            "[",
            "]",
            '"',
            "'",
            ",",
            ":",
            "null",
            "\\",
            "\ud800",
        ),
        *('"name"', '"arguments"', '"call_tool"', '"tool_name"', "mcp_tool_", "mcp_server_", "7"),
    ]
)
any_text = st.lists(_pieces | st.text(max_size=4)).map("".join) | st.from_regex(
    r"<tool_call>[^<]*</tool_call>"
)


@given(text=any_text)
def test_any_reply_is_read(text: str) -> None:
    """Whatever a model writes is a decision, and a step that can be shown."""
    decision = read(text)
    results = (ToolResult("x", "unknown_tool"),) if isinstance(decision, Act) else ()
    assert USER.turn_messages(StepTaken(Reply(text), decision, results))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"name": "call_tool", "arguments": {"a": "{"city": "Beijing"}"}}', True),
        ("{'name': 'x', 'arguments': None,}", True),
        ("I do not know", False),
    ],
)
def test_broken_json_is_repaired(text: str, value: bool) -> None:
    """With the package that the released code uses; its prompt's own example needs it."""
    assert (first_call(f"<tool_call>{text}</tool_call>") is not None) == value
