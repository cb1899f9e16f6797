"""Arguments that no call may have are refused with the same reason, wherever they come from."""

import json
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.arguments import MAX_DEPTH, argument_fault
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.protocols.gym import COOKIE
from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.core.messages import AgentCall, FormatError, Reply
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.scenarios.catalogue import find
from tests.harness.test_library import play
from tests.support.protocols import served_protocols

SHOP = find("shop_support")
TASK = SHOP.tasks[0]


def nested(levels: int) -> Any:
    """A list in a list … in so many levels."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


BAD = {
    "an integer is larger than 64 bits": [{"deep": 2**63}],
    "a value is nested deeper than 50 levels": nested(MAX_DEPTH + 1),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("value", "has_fault"), [(nested(49), False), (nested(50), True)])
def test_the_depth_counts_the_object_of_the_arguments(value: Any, has_fault: bool) -> None:
    """Fifty levels are allowed, the object itself included."""
    assert (argument_fault({"a": value}) is not None) is has_fault


@pytest.mark.parametrize("reason", BAD)
def test_a_dialect_refuses_them(reason: str) -> None:
    """As calls of the chat API, and as text."""
    arguments = {"order_id": BAD[reason]}
    text = json.dumps({"name": "get_order", "arguments": arguments})
    whole = json.dumps(
        {"name": "call_tool", "arguments": {"tool_name": "get_order", "arguments": arguments}}
    )
    replies = {
        "native": Reply("", (AgentCall("get_order", arguments, "a"),)),
        "hermes": Reply(f"<tool_call>\n{text}\n</tool_call>"),
        "awm": Reply(f"<tool_call>\n{whole}\n</tool_call>"),
    }
    for name, reply in replies.items():
        decision = dialect_of(name).read(reply, turn=0)
        assert isinstance(decision, FormatError), name
        assert decision.reason == f"The arguments of get_order cannot be used: {reason}."


@pytest.mark.parametrize("reason", BAD)
async def test_a_server_refuses_them(reason: str) -> None:
    """Over MCP and over each protocol beside it."""
    arguments = {"order_id": BAD[reason]}
    said = f"get_order: argument 'order_id': {reason}."
    async with served_protocols(SHOP) as client:
        _, world = await client.ask("POST", "/worlds", {"scenario": "shop_support"})
        call = {"name": "get_order", "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        mcp = f"/worlds/{world['id']}/mcp"
        _, answer = await client.ask("POST", mcp, message, Content_Type="application/json")
        assert (answer["result"]["isError"], answer["result"]["content"][0]["text"]) == (True, said)

        seed = f"{client.url}/gym/shop_support/seed_session"
        async with client.http.post(seed, json={"task": TASK.id}) as seeded:
            cookie = seeded.cookies[COOKIE].OutputString().partition(";")[0]
        answer = await client.ask("POST", "/gym/shop_support/get_order", arguments, Cookie=cookie)
        assert answer == (422, said)

        spec = {"task_spec": {"id": TASK.id}}
        await client.ask("POST", "/ors/create", spec, X_Session_ID="s")
        asked = {"name": "get_order", "input": arguments}
        _, events = await client.ask("POST", "/ors/call", asked, X_Session_ID="s")
        end = msgspec.json.decode(events.rpartition("event: end\ndata: ")[2])
        assert (end["ok"], end["error"]) == (False, said)

        async with client.socket("/openenv/shop_support/ws") as talk:
            await talk.reset(task_idx=0)
            found = (await talk.call("get_order", **arguments))["observation"]
            assert said in json.dumps(found, ensure_ascii=False)


@pytest.mark.parametrize("reason", BAD)
async def test_an_agent_of_the_users_gets_a_result(reason: str) -> None:
    """A call of a function that plays an episode is answered with the reason."""
    results: list[ToolResult] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        results.append(await env.call("get_member", {"member_id": BAD[reason]}))
        return "done"

    await play(agent)
    assert [(one.error, one.text) for one in results] == [
        ("arguments", f"The arguments of get_member cannot be used: {reason}.")
    ]
