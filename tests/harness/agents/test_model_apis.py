"""The URLs of an episode, used by the official packages of OpenAI and Anthropic, by the client of
fastmcp, and by a recipe of examples/agents. The model there is policy `oracle`, whose replies are
fixed. `just agents` runs the frameworks, which cannot share an environment."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai.types.responses import (
    FunctionToolParam,
    NamespaceToolParam,
    Response,
    ResponseFunctionToolCall,
)

from rehearsal_room.harness.core.messages import AgentCall, Reply
from rehearsal_room.harness.model_api import responses
from rehearsal_room.harness.model_api.request import model_reply
from tests.harness.agents.test_runs import LOOP, episodes_of, outcome, played
from tests.support.cli import Rehearse
from tests.support.paths import ROOT

CLIENTS = "tests.harness.agents.clients"
TALKS = ("shop_support:which-coupon", "shop_support:split-refund-insisted")


@pytest.mark.slow
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("streams", ["", "_streamed"])
def test_official_clients(api: str, streams: str, tmp_path: Path, rehearse: Rehearse) -> None:
    """An agent that asks by the official package, streamed or not, does what the policy does
    alone; each request goes on after the one before it, and the log has the words of its API."""
    alone = played(rehearse, tmp_path / "alone", "-p", "oracle")
    words = ("-p", "oracle", "--agent", f"{CLIENTS}:{api}{streams}")
    own = played(rehearse, tmp_path / "own", *words)
    assert list(map(outcome, own)) == list(map(outcome, alone))
    for one in own:
        assert {asked.api for asked in one.asked} == {api}
        assert [asked.parent for asked in one.asked] == [None, *range(len(one.asked) - 1)]
        assert all(len(asked.messages) == 1 for asked in one.asked)


def test_functions_of_a_namespace() -> None:
    """Codex sends the tools of an MCP server as a namespace. The model sees one name for each; the
    reply, which the official package reads, has namespace and name apart, and so may a request."""
    look: FunctionToolParam = {
        "type": "function",
        "name": "look",
        "parameters": {"type": "object"},
        "strict": False,
    }
    function: Any = look
    world: NamespaceToolParam = {
        "type": "namespace",
        "name": "mcp__world",
        "description": "The world.",
        "tools": [function],
    }
    made = ResponseFunctionToolCall(
        type="function_call", namespace="mcp__world", name="look", call_id="a", arguments="{}"
    )
    result = {"type": "function_call_output", "call_id": "a", "output": "It is dark."}
    items = [{"role": "user", "content": "Look."}, made.to_dict(), result]
    body = msgspec.json.encode({"model": "m", "input": items, "tools": [world, look]})
    read = responses.read_request(body)
    call = AgentCall("mcp__world__look", {}, "a")
    assert [tool.name for tool in read.request.tools] == ["mcp__world__look", "look"]
    assert read.request.messages[1].calls == (call,)
    answer = model_reply(Reply(calls=(call, AgentCall("look", {}, "b")), finish="tool_calls"))
    sent = responses.response(answer, model="m", id="x", namespaces=read.namespaces)
    output = Response.model_validate_json(sent).output
    found = [(one.namespace, one.name) for one in output if one.type == "function_call"]
    assert found == [("mcp__world", "look"), (None, "look")]


def test_the_client_of_fastmcp(tmp_path: Path, rehearse: Rehearse) -> None:
    """It lists the tools, in whose schemas every enumeration has a type, gets a failed call as an
    error, and talks with the user; the log has what it did."""
    folder = tmp_path / "run"
    words = ("-n", 1, "--agent", f"{CLIENTS}:over_mcp", "-o", folder)
    status, _, err = rehearse("run", "shop_support:misread-gift-card", *words)
    assert status == 0, err
    (one,) = episodes_of(folder)
    assert one.ended is not None
    assert one.ended.error is None
    made = [(call.name, call.arguments) for step in one.steps for call in step.executed_calls]
    assert [arguments["code"] for _, arguments in made] == ["LL-0000-0000", "LL-8H2P-51TC"]
    heard = [step.user.text for step in one.steps if step.user is not None]
    assert len(heard) == 1
    assert heard[0] in one.ended.answer


def test_the_plain_loop(tmp_path: Path, rehearse: Rehearse) -> None:
    """The recipe examples/agents/plain_loop.py and a command over MCP do in tasks with and without
    a user what the policy does alone: the calls, the rows, the answers and the labels are equal."""
    tasks = (*TALKS, "shop_support:gift-card-balance", "shop_support:merge-records")
    runs = {
        "alone": (),
        "function": ("--agent", ROOT / "examples/agents/plain_loop.py:agent"),
        "command": ("--agent", LOOP),
    }
    found = {}
    for name, words in runs.items():
        folder = tmp_path / name
        status, _, err = rehearse("run", *tasks, "-p", "oracle", *words, "-o", folder)
        assert status == 0, err
        found[name] = list(map(outcome, episodes_of(folder)))
    assert found["function"] == found["alone"]
    assert found["command"] == found["alone"]
