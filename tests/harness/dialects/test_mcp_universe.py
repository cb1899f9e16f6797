"""What MCP-Universe's agent reads and sends; `just parity mcp_universe` compares with the agent."""

import json

import pytest

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Briefing,
    FormatError,
    Reply,
)
from rehearsal_room.harness.dialects.mcp_universe import McpUniverse
from rehearsal_room.harness.dialects.registry import dialect_of

DIALECT = McpUniverse(6)
TOOLS = (ToolSpec("calculator__calculate", "", {"type": "object"}),)
BRIEFING = Briefing("The whole prompt.", "", TOOLS, "", "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"thought": "t", "answer": "5"}', "5"),
        ('```json\n{"thought": "t", "answer": "5"}\n```', "5"),
        ('I found it: {"thought": "t", "answer": "5"} Bye.', "5"),
        ('{"thought": "t", "answer": {"n": 5}}', '{"n": 5}'),
        ('{"thought": "t", "answer": [5]}', "[5]"),
        ('{"thought": "t", "answer": null}', "None"),
        ('{"thought": "t", "answer": ""}', ""),
    ],
)
def test_the_answer_is_one_field_of_a_json_object(text: str, answer: str) -> None:
    """Its other words are not judged."""
    assert DIALECT.read(Reply(text), turn=0) == Answer(answer)


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("", "Received an empty response from the LLM. Please try again."),
        (
            "It is 5.",
            "Encountered an error in parsing LLM response:\nIt is 5.\n\nPlease try again.",
        ),
        (" \n ", "Encountered an error in parsing LLM response:\n\n\nPlease try again."),
        ('{"thought": "hm"}', None),
        ('["answer 5"]', None),
        ('{"answer": "5"}', "Encountered an unexpected error for the LLM response:"),
        ('"the answer"', "Encountered an unexpected error for the LLM response:"),
        ("7", "Encountered an unexpected error for the LLM response:"),
    ],
)
def test_another_text_is_no_answer(text: str, comment: str | None) -> None:
    """It is commented on as upstream does it, and the talk goes on with one step less."""
    decision = DIALECT.read(Reply(text), turn=1)
    assert decision == FormatError("You have 4 steps remaining. Please continue.")
    said = [one.content for one in DIALECT.turn_messages(StepTaken(Reply(text), decision))]
    assert said[-1] == decision.reason
    assert said[: bool(text)] == ([text.strip()] if text else [])
    comments = said[bool(text) : -1]
    assert len(comments) == (comment is not None)
    assert comment is None or comments[0].startswith(comment)


def test_calls_are_followed_by_results_words_and_the_steps_that_are_left() -> None:
    """Content beside calls comes after their results; results are not marked as errors."""
    call = AgentCall("calculator__calculate", {"expression": "1+"}, "id-1")
    reply = Reply("Let me see. ", (call,), "tool_calls")
    decision = DIALECT.read(reply, turn=2)
    assert isinstance(decision, Act)
    step = StepTaken(reply, decision, (ToolResult(" no number ", "refused"),))
    sent = DIALECT.turn_messages(step)
    assert sent[0].wire == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "id-1",
                "type": "function",
                "function": {
                    "name": "calculator__calculate",
                    "arguments": json.dumps({"expression": "1+"}),
                },
            }
        ],
    }
    assert [(one.role, one.content) for one in sent[1:]] == [
        ("tool", "no number"),
        ("assistant", "Let me see."),
        ("user", "You have 3 steps remaining. Please continue."),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("calculate", {}, "Error: Cannot parse function name: calculate"),
        ("maps__find", {}, "Error: Not found server maps"),
        ("calculator__fly", {}, "Error: Server calculator has no tool fly"),
        ("calculator__calculate", [1], "Error: Error occurred during executing tool calculate"),
        ("calculator__calculate", '{"a": ', "Error: Expecting value: line 1 column 7 (char 6)"),
    ],
)
def test_calls_that_upstream_does_not_make(name: str, arguments: object, text: str) -> None:
    """The agent reads upstream's own error, and no server is asked."""
    found = DIALECT.local_result(AgentCall(name, arguments, "c0-0"), BRIEFING)
    assert found is not None
    assert (found.text, found.error) == (text, "arguments")
    good = AgentCall("calculator__calculate", {"expression": "1"}, "c0-0")
    assert DIALECT.local_result(good, BRIEFING) is None


def test_reciting_the_prompt_is_no_answer_of_ones_own() -> None:
    """The prompt's own example of an answer is read as upstream reads it: its placeholder."""
    prompt = 'Use this form:\n```json\n{\n "thought": "Explain", "answer": "Your answer"\n}\n```'
    assert DIALECT.read(Reply(prompt), turn=0) == Answer("Your answer")


def test_the_limit_is_a_part_of_the_name() -> None:
    """A log says how many steps its agent was promised."""
    found = dialect_of("mcp_universe:20")
    assert found.name == "mcp_universe:20"
    assert found.unanswered.startswith("I'm sorry")
    assert dialect_of("native").unanswered == ""
