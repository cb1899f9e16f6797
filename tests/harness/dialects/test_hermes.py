"""The dialect `hermes`, beyond the promises of every dialect (tests/contracts/test_dialect.py)."""

import msgspec
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
from rehearsal_room.harness.dialects.hermes import Hermes
from tests.support.prompts import BRIEFING, blocks

HERMES = Hermes()
PING = '{"name": "ping", "arguments": {}}'


def test_the_prompt_lists_the_tools() -> None:
    """The system prompt has one line of JSON for each tool, and the request has none."""
    assert HERMES.request_tools(BRIEFING) == ()
    prompt = HERMES.opening_messages(BRIEFING)[0].content
    lines = prompt.partition("<tools>\n")[2].partition("\n<tools>")[0].splitlines()
    listed = [msgspec.json.decode(line)["function"] for line in lines if line.startswith('{"type"')]
    assert listed == [
        {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in BRIEFING.tools
    ]


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("All done.", Answer("All done.")),
        ("<think>call ping?</think>\n\nNo.", Answer("No.")),
        ("so I am done</think>Yes.", Answer("Yes.")),
        (f"<think>{blocks(PING)}</think>No.", Answer("No.")),
        (f"Look: {blocks(PING)}", Act((AgentCall("ping", {}, "c0-0"),))),
        (
            blocks(PING, '{"name": "get_order", "arguments": {"order_id": 7}}'),
            Act((AgentCall("ping", {}, "c0-0"), AgentCall("get_order", {"order_id": 7}, "c0-1"))),
        ),
        (blocks('{"name": "ping"}'), Act((AgentCall("ping", {}, "c0-0"),))),
        (
            '<tool_call>{"name": "say", "arguments": {"text": "</tool_call>"}}</tool_call>',
            Act((AgentCall("say", {"text": "</tool_call>"}, "c0-0"),)),
        ),
        ("<think>hm", FormatError("The reply stops inside <think>: it has no call and no answer.")),
        (f"<tool_call>{PING}", FormatError("A <tool_call> is not closed.")),
        (f"{PING}</tool_call>", FormatError("</tool_call> closes a tag that was never opened.")),
        (blocks('{"arguments": {}}'), FormatError("A tool call has no name.")),
        (blocks('{"name": 7}'), FormatError("A tool call has no name.")),
        (
            blocks("[]"),
            FormatError("A <tool_call> must hold a JSON object with name and arguments."),
        ),
        (
            blocks('{"name": "ping", "arguments": "x"}'),
            FormatError(
                "The arguments of ping cannot be used: the JSON is malformed: expecting value at "
                "character 1."
            ),
        ),
        (
            blocks('{"name": "get_order", "parameters": {"order_id": 7}}'),
            Act((AgentCall("get_order", {"order_id": 7}, "c0-0"),)),
        ),
        (
            blocks('{"name": "ping", "args": {}, "arguments": {}}'),
            FormatError("The call of ping has both arguments and args."),
        ),
        (
            blocks('{"name": "ping", "input": {"a": 1}}'),
            FormatError("The call of ping has no arguments, but input."),
        ),
    ],
)
def test_replies_are_read(text: str, decision: Decision) -> None:
    """Calls are read from tags outside thoughts; a broken block gives its reason."""
    assert HERMES.read(Reply(text), turn=0) == decision


def test_bad_json_is_named() -> None:
    """Broken JSON is a format error even when a good block follows."""
    decision = HERMES.read(Reply(blocks("{nonsense", PING)), turn=0)
    assert isinstance(decision, FormatError)
    assert decision.reason.startswith("A <tool_call> does not hold valid JSON: ")


def test_history() -> None:
    """The history has the reply unchanged, and all results in one user message."""
    reply = Reply(f"<think>a</think>{blocks(PING, PING)}")
    results = (ToolResult("pong"), ToolResult("no", "refused"))
    step = StepTaken(reply, HERMES.read(reply, turn=0), results)
    assert HERMES.turn_messages(step) == (
        Message("assistant", reply.text),
        Message(
            "user",
            "<tool_response>\npong\n</tool_response>\n<tool_response>\nError: no\n</tool_response>",
        ),
    )
    last = Reply("Done.")
    assert HERMES.turn_messages(StepTaken(last, Answer("Done."))) == (
        Message("assistant", "Done."),
    )
