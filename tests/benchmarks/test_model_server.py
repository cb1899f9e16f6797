"""The instant model server of the benchmarks answers by its scripts."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.http_step import model_server
from benchmarks.model_server import Oracle, Script, ScriptedCall, read_scripts
from rehearsal_room.harness.core.messages import AgentCall, Message, Window
from rehearsal_room.harness.policies.openai import OpenAIAgent, OpenAIPolicy, OpenAISettings

SCRIPTS = (
    Script("order 7", (ScriptedCall("get", {"id": 7}), ScriptedCall("look")), "It is void."),
    Script("", (), "I cannot."),
)
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get", "parameters": {"required": ["id"]}}},
    {"type": "function", "function": {"name": "look", "parameters": {"properties": {}}}},
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def ask(oracle: Oracle, instruction: str, *ids: str, tools: Any = ()) -> dict[str, Any]:
    """The oracle's message after results for these call ids."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": instruction}]
    messages += [{"role": "tool", "content": "", "tool_call_id": id} for id in ids]
    body = oracle.answer(json.dumps({"messages": messages, "tools": list(tools)}).encode())
    choice = json.loads(body)["choices"][0]
    assert choice["finish_reason"] in ("stop", "tool_calls")
    message: dict[str, Any] = choice["message"]
    return message


def call(message: dict[str, Any]) -> tuple[str, str, str]:
    [found] = message["tool_calls"]
    return found["id"], found["function"]["name"], found["function"]["arguments"]


def test_a_script_repeats_until_enough_calls_are_made() -> None:
    """A script of two calls gives three calls, then its answer."""
    oracle = Oracle(SCRIPTS, 3)
    assert call(ask(oracle, "Void order 7!")) == ("call-0", "get", '{"id":7}')
    assert call(ask(oracle, "Void order 7!", "call-0")) == ("call-1", "look", "{}")
    assert call(ask(oracle, "Void order 7!", "call-0", "call-1")) == (
        "call-2",
        "get",
        '{"id":7}',
    )
    assert ask(oracle, "Void order 7!", "call-0", "call-1", "call-2")["content"] == "It is void."


def test_the_newest_call_id_determines_the_turn() -> None:
    """A history that shows only the last result continues with the right turn."""
    oracle = Oracle(SCRIPTS, 0)
    assert call(ask(oracle, "order 7", "c0-0"))[0] == "call-1"
    assert ask(oracle, "order 7", "c1-0")["content"] == "It is void."


def test_the_instruction_selects_the_script() -> None:
    """The first script whose `when` is in the instruction is used; without one it is an error."""
    assert ask(Oracle(SCRIPTS, 3), "order 8")["content"] == "I cannot."
    with pytest.raises(
        LookupError, match="no line of the script has a 'when' that occurs in 'order 8'"
    ):
        ask(Oracle(SCRIPTS[:1], 3), "order 8")


def test_without_a_script_a_tool_without_arguments_is_called() -> None:
    """The first tool that needs no arguments is called; without such a tool it is an error."""
    oracle = Oracle((), 2)
    assert call(ask(oracle, "go", tools=TOOLS)) == ("call-0", "look", "{}")
    assert ask(oracle, "go", "call-0", "call-1", tools=TOOLS)["content"] == "Done."
    with pytest.raises(LookupError, match="every tool of the request needs arguments"):
        ask(oracle, "go", tools=TOOLS[:1])


def test_scripts_are_read_line_by_line(tmp_path: Path) -> None:
    """A script file has one JSON object in each line."""
    path = tmp_path / "script.jsonl"
    path.write_text('{"when": "a", "calls": [{"name": "f"}], "answer": "b"}\n{"answer": "c"}\n')
    assert read_scripts(path) == (Script("a", (ScriptedCall("f"),), "b"), Script(answer="c"))


async def test_the_server_answers_over_http() -> None:
    """The process serves an episode of the policy, and ends with its block."""
    with model_server(list(SCRIPTS)) as url:
        async with OpenAIPolicy(OpenAISettings("m", base_url=url, api_key="k")) as policy:
            agent = OpenAIAgent(policy, None)
            task = Message("user", "order 7")
            first = await agent.reply(Window((task,)))
            assert first.calls == (AgentCall("get", {"id": 7}, "call-0"),)
            last = Message("tool", "", call_id="call-9")
            assert (await agent.reply(Window((task, last)))).text == "It is void."
