"""Chats as other programs and their providers write them: no call, argument, result or thought is
lost, or is another one's."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.errors import ConversationError
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.interop.imports.chat import read_chats
from rehearsal_room.interop.imports.conversations import ImportedConversation

FUNCTION = {"name": "look", "arguments": '{"at": "sky"}'}
CALL = {"id": "a", "type": "function", "function": FUNCTION}


def read(folder: Path, line: Any, *, mark: str = "") -> ImportedConversation:
    path = folder / "chats.jsonl"
    path.write_text(mark + json.dumps(line))
    (found,) = read_chats(path)
    return found


def chat(assistant: dict[str, Any], *results: Any) -> dict[str, Any]:
    answers = results or ({"role": "tool", "tool_call_id": "a", "content": "blue"},)
    said = {"role": "assistant", "content": None, **assistant}
    last = {"role": "assistant", "content": "It is blue."}
    return {"messages": [{"role": "user", "content": "Hi"}, said, *answers, last]}


FORMS: dict[str, dict[str, Any]] = {
    "usual": chat({"tool_calls": [CALL]}),
    "with other fields": chat({"tool_calls": [CALL], "calls": 7, "text": [1]}),
    "ids as numbers": chat(
        {"tool_calls": [{**CALL, "id": 0}]},
        {"role": "tool", "tool_call_id": 0, "content": "blue"},
    ),
    "without a function": chat({"tool_calls": [{"id": "a", **FUNCTION}]}),
    "parameters": chat(
        {"tool_calls": [{"id": "a", "function": {"name": "look", "parameters": {"at": "sky"}}}]}
    ),
    "one call": chat({"tool_calls": CALL}),
    "as JSON text": chat({"tool_calls": json.dumps([CALL])}),
    "encoded twice": chat(
        {
            "tool_calls": [
                {"id": "a", "function": {**FUNCTION, "arguments": '"{\\"at\\": \\"sky\\"}"'}}
            ]
        }
    ),
    "Bedrock's": chat(
        {"content": [{"toolUse": {"toolUseId": "a", "name": "look", "input": {"at": "sky"}}}]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "blue"}]}}],
        },
    ),
}


@pytest.mark.parametrize("line", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_call_and_its_result(line: dict[str, Any], mark: str, tmp_path: Path) -> None:
    """In each form the same call is read, with the result that names it."""
    turn = read(tmp_path, line, mark=mark).turns[0]
    assert isinstance(turn.decision, Act)
    assert [(call.name, call.arguments) for call in turn.decision.calls] == [
        ("look", {"at": "sky"})
    ]
    assert [result and result.text for result in turn.results] == ["blue"]


@pytest.mark.parametrize("id", ["0", ""])
def test_results_of_calls_that_share_an_id(id: str, tmp_path: Path) -> None:
    """They belong to the calls in their order."""
    results = [{"role": "tool", "tool_call_id": id, "content": text} for text in ("blue", "red")]
    line = chat({"tool_calls": [{**CALL, "id": id}, {**CALL, "id": id}]}, *results)
    turn = read(tmp_path, line).turns[0]
    assert [result and result.text for result in turn.results] == ["blue", "red"]


@pytest.mark.parametrize("name", ["thinking", "reasoning_text", "thought", "reasoning"])
def test_thoughts_under_any_name(name: str, tmp_path: Path) -> None:
    """A thought stands in front of the text, whatever its field is called."""
    reply = read(tmp_path, chat({"tool_calls": [CALL], name: "Hm"})).turns[0].reply
    assert (reply.text, reply.thought) == ("<think>Hm</think>", name)


def test_thoughts_in_parts(tmp_path: Path) -> None:
    """Mistral's thoughts are parts of parts."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "I look."},
    ]
    reply = read(tmp_path, chat({"tool_calls": [CALL], "content": parts})).turns[0].reply
    assert reply.text == "<think>Hm</think>I look."


def test_other_texts(tmp_path: Path) -> None:
    """A refusal is a text, and so is one part alone."""
    for said in ({"refusal": "No."}, {"content": {"type": "text", "text": "No."}}):
        line = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", **said}]}
        assert read(tmp_path, line).turns[0].reply.text == "No."


def test_calls_that_cannot_be_read(tmp_path: Path) -> None:
    """They are one sentence, which names the line."""
    with pytest.raises(ConversationError, match=r"line 1: messages: a tool call is a int"):
        read(tmp_path, chat({"tool_calls": [7]}))
