"""What AgentDojo's models are sent. All of it is compared with the package's own pipeline by `just
parity agentdojo`; these are the forms that another chat API does not have."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.chat.completions import read_completion
from rehearsal_room.harness.chat.wire import PLAIN, ToolNames, wire_messages
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, FormatError, Reply
from rehearsal_room.harness.dialects.agentdojo import AgentDojo
from tests.support.prompts import BRIEFING

DOJO = AgentDojo()


def part(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def shown(reply: Reply, *results: ToolResult) -> list[Any]:
    """The messages of a step as they go to a server."""
    step = StepTaken(reply, DOJO.read(reply, turn=0), results)
    return wire_messages(DOJO.turn_messages(step), PLAIN, ToolNames(()))


def test_the_head_is_of_parts_and_from_a_developer() -> None:
    """The system prompt and the task have the package's form, and nothing is added to them."""
    head = wire_messages(DOJO.opening_messages(BRIEFING), PLAIN, ToolNames(()))
    assert head == [
        {"role": "developer", "content": part(BRIEFING.rules)},
        {"role": "user", "content": part(BRIEFING.instruction)},
    ]


def test_results_name_their_tool_and_errors_are_texts() -> None:
    """Ids, names and order are the model's own; a list that was written as text goes back as the
    list, but not to a tool that there is not."""
    sent = {"ids": "['a', 'b']"}
    calls = (AgentCall("find", sent, "x"), AgentCall("no one", sent, "x"))
    results = ToolResult("- a", None, (), ""), ToolResult("Invalid", "unknown_tool", (), "")
    made, *returned = shown(Reply("I look.", calls), *results)
    assert made["content"] == part("I look.")
    texts = [call["function"]["arguments"] for call in made["tool_calls"]]
    assert texts == ['{"ids": ["a", "b"]}', "{\"ids\": \"['a', 'b']\"}"]
    assert returned == [
        {"role": "tool", "content": part("- a"), "tool_call_id": "x", "name": "find"},
        {"role": "tool", "content": "Invalid", "tool_call_id": "x", "name": "no one"},
    ]


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": None}, None),
        ({"content": ""}, part("")),
        ({"content": None, "refusal": "No."}, None),
        ({"content": "A.", "reasoning_content": "hm"}, part("A.")),
        ({"content": None, "reasoning_content": "hm"}, None),
        ({"content": "<think>hm</think> A."}, part("<think>hm</think> A.")),
    ],
)
def test_no_content_is_no_empty_content(message: dict[str, Any], content: Any) -> None:
    """What a server sends as content goes back as it came: none, an empty one, or a text with
    whatever the model thought in it."""
    call = {"id": "x", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    body = msgspec.json.encode({"choices": [{"message": {**message, "tool_calls": [call]}}]})
    reply = read_completion(body)
    assert isinstance(reply, Reply)
    assert shown(reply, ToolResult("", None, (), ""))[0]["content"] == content
    body = msgspec.json.encode({"choices": [{"message": message, "finish_reason": "stop"}]})
    reply = read_completion(body)
    assert isinstance(reply, Reply)
    assert reply.said == (content and content[0]["text"])


def test_what_is_no_object_is_no_call() -> None:
    """Arguments that are not a JSON object end the package's run; here the reply is malformed. A
    call without a name is made, and the world refuses it."""
    assert isinstance(DOJO.read(Reply("", (AgentCall("find", "[1", "x"),)), turn=0), FormatError)
    assert isinstance(DOJO.read(Reply("", (AgentCall("find", [1], "x"),)), turn=0), FormatError)
    assert DOJO.read(Reply("", (AgentCall("", {}, "x"),)), turn=2) == Act(
        (AgentCall("", {}, "c2-0"),)
    )
    assert DOJO.read(Reply("", content="null"), turn=0) == Answer("")


@pytest.mark.parametrize("text", ["[" * 50_000, "[{[1]: 2}]", "[{1, 2}]", "[b'']", "[", "['a'"])
def test_a_text_that_is_no_list_stays_a_text(text: str) -> None:
    """Whatever a model writes, showing it again does not fail."""
    made = shown(Reply("", (AgentCall("find", {"a": text}, "x"),)), ToolResult("", None, (), ""))
    assert text[:20] in made[0]["tool_calls"][0]["function"]["arguments"]
