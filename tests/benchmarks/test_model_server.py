"""The model server of the benchmarks."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.http_step import model_server
from benchmarks.model_server import Oracle, Part, PlayedCall, read_script
from harness.core.messages import AgentCall, Message, Window
from harness.policies.openai import OpenAIAgent, OpenAIPolicy, OpenAISettings

SCRIPT = (
    Part("order 7", (PlayedCall("get", {"id": 7}), PlayedCall("look")), "It is void."),
    Part("", (), "I cannot."),
)
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get", "parameters": {"required": ["id"]}}},
    {"type": "function", "function": {"name": "look", "parameters": {"properties": {}}}},
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def message_of(oracle: Oracle, instruction: str, *ids: str, tools: Any = ()) -> dict[str, Any]:
    """The oracle's message after results for these call ids."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": instruction}]
    messages += [{"role": "tool", "content": "", "tool_call_id": id} for id in ids]
    body = oracle.answer(json.dumps({"messages": messages, "tools": list(tools)}).encode())
    choice = json.loads(body)["choices"][0]
    assert choice["finish_reason"] in ("stop", "tool_calls")
    message: dict[str, Any] = choice["message"]
    return message


def call(message: dict[str, Any]) -> tuple[str, str, str]:
    [asked] = message["tool_calls"]
    return asked["id"], asked["function"]["name"], asked["function"]["arguments"]


def test_a_script_is_repeated_until_all_calls_are_made() -> None:
    """Three calls from a script of two, then its answer."""
    oracle = Oracle(SCRIPT, 3)
    assert call(message_of(oracle, "Void order 7!")) == ("call-0", "get", '{"id":7}')
    assert call(message_of(oracle, "Void order 7!", "call-0")) == ("call-1", "look", "{}")
    assert call(message_of(oracle, "Void order 7!", "call-0", "call-1")) == (
        "call-2",
        "get",
        '{"id":7}',
    )
    assert (
        message_of(oracle, "Void order 7!", "call-0", "call-1", "call-2")["content"]
        == "It is void."
    )


def test_the_newest_call_has_the_turn() -> None:
    """The script continues correctly where only the last result is in the request."""
    oracle = Oracle(SCRIPT, 0)
    assert call(message_of(oracle, "order 7", "c0-0"))[0] == "call-1"
    assert message_of(oracle, "order 7", "c1-0")["content"] == "It is void."


def test_other_tasks_get_another_part() -> None:
    """The first part whose `when` is in the instruction is played."""
    assert message_of(Oracle(SCRIPT, 3), "order 8")["content"] == "I cannot."
    with pytest.raises(LookupError, match="no line of the script fits 'order 8'"):
        message_of(Oracle(SCRIPT[:1], 3), "order 8")


def test_without_a_script_a_free_tool_is_called() -> None:
    """The first tool without required arguments is called; without such a tool it is an error."""
    oracle = Oracle((), 2)
    assert call(message_of(oracle, "go", tools=TOOLS)) == ("call-0", "look", "{}")
    assert message_of(oracle, "go", "call-0", "call-1", tools=TOOLS)["content"] == "Done."
    with pytest.raises(LookupError, match="every tool of the request needs arguments"):
        message_of(oracle, "go", tools=TOOLS[:1])


def test_scripts_are_read_line_by_line(tmp_path: Path) -> None:
    """A script file is JSON lines."""
    path = tmp_path / "script.jsonl"
    path.write_text('{"when": "a", "calls": [{"name": "f"}], "answer": "b"}\n{"answer": "c"}\n')
    assert read_script(path) == (Part("a", (PlayedCall("f"),), "b"), Part(answer="c"))


async def test_the_server_plays_over_http() -> None:
    """The process serves an episode over HTTP, and ends with the block."""
    with model_server(list(SCRIPT)) as url:
        async with OpenAIPolicy(OpenAISettings("m", base_url=url, api_key="k")) as policy:
            agent = OpenAIAgent(policy, None)
            task = Message("user", "order 7")
            first = await agent.reply(Window((task,)))
            assert first.calls == (AgentCall("get", {"id": 7}, "call-0"),)
            last = Message("tool", "", call_id="call-9")
            assert (await agent.reply(Window((task, last)))).text == "It is void."
