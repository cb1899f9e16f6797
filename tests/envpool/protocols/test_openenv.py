"""OpenEnv 0.10 at /openenv/<world>: routes, messages, AWM's fields, sessions and errors."""

from typing import Any

import pytest

from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task
from tests.support.protocols import Conversation, ProtocolClient, served_protocols, until

SHOP = find("shop_support")
BASE = "/openenv/shop_support"
TASK = SHOP.tasks[0]
AWM_FIELDS = {
    *("metadata", "reward_type", "scenario", "task", "task_idx", "has_verifier", "num_tools"),
    *("tool_name", "tool_result", "error", "warning", "verify_result", "steps_taken"),
    *("scenarios", "total", "trajectory_path", "session_dir"),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def play_oracle(talk: Conversation, task: Task = TASK) -> list[Any]:
    """What the calls of the oracle return."""
    return [await talk.call(call.name, **call.arguments) for call in task.oracle]


# Episodes ---------------------------------------------------------------------------------------


async def test_the_oracle_gets_one_and_only_once() -> None:
    """`verify` gives the judge's reward; a second one repeats the verdict with reward 0, and `done`
    ends the episode with reward 0 and releases the world."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        start = await talk.reset(scenario="shop_support", task_idx=0)
        assert all(one["reward"] == 0.0 for one in await play_oracle(talk))
        verdict = await talk.call("verify", final_answer=TASK.answer)
        assert (verdict["reward"], verdict["done"]) == (1.0, False)
        observation = verdict["observation"]
        assert observation["reward_type"] == "complete"
        assert observation["verify_result"]["label"] == "completed"
        assert observation["steps_taken"] == len(TASK.oracle) + 1
        again = await talk.call("verify", final_answer=TASK.answer)
        assert (again["reward"], again["observation"]["reward_type"]) == (0.0, "complete")
        assert "was given then" in again["observation"]["warning"]
        ended = await talk.call("done")
        assert (ended["reward"], ended["done"]) == (0.0, True)
        assert ended["observation"]["reward_type"] == "episode_done"
        assert client.leases.num_live == 0
        after = await talk.call("get_order", order_id=4101)
        assert (after["reward"], after["done"]) == (None, True)
        assert after["observation"]["reward_type"] == "episode_already_done"
        for one in (start, verdict, again, ended, after):
            assert set(one["observation"]) <= AWM_FIELDS
            assert None not in one["observation"].values()


async def test_doing_nothing_does_not_get_one() -> None:
    """An episode without a call is not complete, and a later call does not change a verdict."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        await talk.reset(task_idx=0)
        assert (await talk.call("verify"))["reward"] == 0.0
        await play_oracle(talk)
        later = await talk.call("verify", final_answer=TASK.answer)
        assert later["observation"]["reward_type"] == "agent_error"
        await talk.reset(task_idx=0)  # a new episode is judged again
        await play_oracle(talk)
        ended = await talk.call("done", final_answer=TASK.answer)
        assert (ended["reward"], ended["done"]) == (1.0, True)


async def test_reset_has_awms_fields() -> None:
    """`reset` names scenario, task, verifiers and tools; its metadata is also beside it, and has
    the prompt."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        start = await talk.reset(scenario="shop_support", task_idx=2, episode_id="mine")
        metadata = start["observation"].pop("metadata")
        assert start["observation"] == {
            "reward_type": "reset_ok",
            "scenario": "shop_support",
            "task": SHOP.tasks[2].instruction,
            "task_idx": 2,
            "has_verifier": {"sql": False, "code": True},
            "num_tools": 47,
        }
        assert (start["reward"], start["done"], start["metadata"]) == (None, False, metadata)
        assert [one["role"] for one in metadata["messages"]] == ["system", "user"]
        assert SHOP.rules in metadata["messages"][0]["content"]
        state = await talk.send({"type": "state"})
        assert state == {"type": "state", "data": {"episode_id": "mine", "step_count": 0}}
        assert (await talk.reset(scenario="shop_support"))["observation"].get("task") is None
        assert (await talk.call("verify"))["observation"]["reward_type"] == "no_verifier"
        assert (await talk.reset(seed=1))["observation"]["task_idx"] == 1
        assert (await talk.reset())["observation"]["task_idx"] == 0
        assert (await talk.reset(task_id=TASK.id))["observation"]["task_idx"] == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"task_idx": 10_000}, "task_idx 10000 out of range"),
        ({"task_idx": "x"}, "task_idx: expected a whole number"),
        ({"scenario": "no"}, "Scenario 'no' not found; this server has shop_support"),
        ({"scenario": 3}, "scenario: expected the name of a world"),
        ({"reward_config": {"complete": "much"}}, "reward_config: expected an object"),
    ],
)
async def test_a_wrong_reset_is_an_observation(options: dict[str, Any], error: str) -> None:
    """As AWM has it, a wrong option of reset is a `reset_error`, and leases nothing."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        observation = (await talk.reset(**options))["observation"]
        assert observation["reward_type"] == "reset_error"
        assert error in observation["error"]
        assert client.leases.num_live == 0


async def test_failed_calls_have_awms_types_and_rewards() -> None:
    """An unknown tool and wrong arguments cost 1; a refusal costs nothing; `reward_config` replaces
    all rewards."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        await talk.reset(scenario="shop_support", task_idx=0)
        found = [
            await talk.call("no_such_tool"),
            await talk.call("get_order", order="x"),
            await talk.call("get_order", order_id=1),
            await talk.call("verify", verifier_mode="x"),
        ]
        kinds = ["tool_not_found", "invalid_args", "tool_refused", "invalid_args"]
        assert [one["observation"]["reward_type"] for one in found] == kinds
        assert [one["reward"] for one in found] == [-1.0, -1.0, 0.0, -1.0]
        assert found[2]["observation"]["error"] == "There is no order 1."
        own = {"complete": 5.0, "format_error": -0.5, "tool_call_ok": 0.25}
        await talk.reset(scenario="shop_support", task_idx=0, reward_config=own)
        assert (await talk.call("no_such_tool"))["reward"] == -0.5
        assert {one["reward"] for one in await play_oracle(talk)} == {0.25}
        assert (await talk.call("verify", final_answer=TASK.answer))["reward"] == 5.0


async def test_clients_without_a_scenario_get_openenvs_own_fields() -> None:
    """Where reset names no scenario, a call has `result`, and an error that is an object."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        await talk.reset(task_idx=0)
        found = (await talk.call("get_order", order_id=4101))["observation"]
        assert found["result"] == found["tool_result"]
        missing = (await talk.call("no_such_tool"))["observation"]["error"]
        assert missing["error_type"] == "tool_not_found"
        refused = (await talk.call("get_order", order_id=1))["observation"]
        assert refused["result"] == "Error: There is no order 1."
        listed = (await talk.call("__list_scenarios__"))["observation"]
        assert (listed["total"], listed["scenarios"][0]["name"]) == (1, "shop_support")


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code", "why"),
    [
        ("{", "INVALID_JSON", "Invalid JSON"),
        ("[]", "VALIDATION_ERROR", "an object with a type"),
        ({"type": "observe"}, "UNKNOWN_TYPE", "Unknown message type: observe"),
        ({"type": "step"}, "VALIDATION_ERROR", "data: expected an object"),
        ({"type": "step", "data": {"type": "fly"}}, "VALIDATION_ERROR", "list_tools or call_tool"),
        (
            {"type": "step", "data": {"action": {"type": "list_tools"}}},
            "VALIDATION_ERROR",
            "put the action itself into data",
        ),
        (
            {"type": "step", "data": {"type": "call_tool", "tool_name": 3}},
            "VALIDATION_ERROR",
            "tool_name: expected a text",
        ),
    ],
)
async def test_wrong_messages_get_openenvs_errors(message: Any, code: str, why: str) -> None:
    """A message that cannot be read gets an error with OpenEnv's code, and the session goes on."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        answer = await talk.send(message)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert why in answer["data"]["message"]
        assert (await talk.reset(task_idx=0))["observation"]["reward_type"] == "reset_ok"


async def test_an_action_before_reset() -> None:
    """Tools can be listed before reset; a call is a `server_error` that names reset, and nothing is
    leased."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        listed = await talk.send({"type": "step", "data": {"type": "list_tools"}})
        assert len(listed["data"]["observation"]["tools"]) == 47
        early = await talk.call("get_order", order_id=4101)
        assert (early["done"], early["observation"]["reward_type"]) == (False, "server_error")
        assert "call reset() first" in early["observation"]["error"]
        assert "tool_name" not in early["observation"]
        verify = await talk.call("verify")
        assert verify["observation"]["reward_type"] == "server_error"
        assert client.leases.num_live == 0


async def test_an_unknown_world_or_path() -> None:
    """Over HTTP it is a 404 with `detail`; over a WebSocket an error message, and the end."""
    async with served_protocols(SHOP) as client:
        why = "there is no world 'no' here; there are shop_support"
        assert await client.ask("GET", "/openenv/no/health") == (404, {"detail": why})
        for path, code, text in (
            ("/openenv/no/ws", "SESSION_ERROR", why),
            (f"{BASE}/nothing", "SESSION_ERROR", "there is nothing at"),
            (f"{BASE}/harness", "FACTORY_ERROR", "no agent; play a world on /ws"),
            (f"{BASE}/ws?session_id=no", "SESSION_ERROR", "Unknown session_id: no"),
            ("/gym/shop_support/ws", "SESSION_ERROR", "there is nothing at"),
        ):
            async with client.socket(path) as talk:
                answer = await talk.receive()
                assert (answer["type"], answer["data"]["code"]) == ("error", code)
                assert text in answer["data"]["message"]
                assert (await talk.socket.receive()).type.name == "CLOSE"
        assert len(client.protocols.sessions) == 0


async def test_too_many_worlds() -> None:
    """A world above the limit is an error CAPACITY_REACHED, and the session stays usable."""
    settings = WorldServerSettings(port=0, max_worlds=2)
    async with served_protocols(SHOP, settings=settings) as client:
        async with client.socket(f"{BASE}/ws") as one, client.socket(f"{BASE}/ws") as two:
            await one.reset(task_idx=0)
            async with client.socket(f"{BASE}/ws") as three:
                answer = await three.receive()
                assert answer["data"]["code"] == "CAPACITY_REACHED"
            assert (await two.reset(task_idx=0))["observation"]["reward_type"] == "reset_ok"
        body = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        for _ in range(2):
            assert "result" in (await client.ask("POST", f"{BASE}/mcp", body))[1]
        full = (await client.ask("POST", f"{BASE}/mcp", body))[1]["error"]
        assert (full["code"], "limit" in full["message"]) == (-32000, True)


async def test_a_world_that_was_idle_for_too_long() -> None:
    """Its next step ends the episode with a `server_error`; reset begins another."""
    settings = WorldServerSettings(port=0, idle_s=0.2)
    async with (
        served_protocols(SHOP, settings=settings) as client,
        client.socket(f"{BASE}/ws") as talk,
    ):
        await talk.reset(task_idx=0)
        await until(lambda: client.leases.num_live == 0)
        late = await talk.call("get_order", order_id=4101)
        assert (late["done"], late["observation"]["reward_type"]) == (True, "server_error")
        assert "idle for too long" in late["observation"]["error"]
        assert (await talk.reset(task_idx=0))["observation"]["reward_type"] == "reset_ok"


async def test_a_client_that_goes_away_leaves_nothing() -> None:
    """A WebSocket that is cut releases its session and its world."""
    async with served_protocols(SHOP) as client, client.socket(f"{BASE}/ws") as talk:
        await talk.reset(task_idx=0)
        assert client.leases.num_live == len(client.protocols.sessions) == 1
        transport = talk.socket.get_extra_info("socket")
        transport.shutdown(2)
        await until(client.is_empty)


# JSON-RPC and sessions --------------------------------------------------------------------------


async def rpc(client: ProtocolClient, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    status, answer = await client.ask("POST", f"{BASE}/mcp", body)
    assert (status, answer["id"]) == (200, 7)
    return answer.get("result") or answer["error"]


async def test_a_session_is_shared_by_mcp_and_ws() -> None:
    """A session of openenv/session/create is reset over /ws?session_id=, its tools are called over
    /mcp, and what they did counts for the verdict."""
    async with served_protocols(SHOP) as client:
        key = (await rpc(client, "openenv/session/create"))["session_id"]
        early = await rpc(client, "tools/call", session_id=key, name="get_order", arguments={})
        assert (early["code"], "call reset first" in early["message"]) == (-32600, True)
        async with client.socket(f"{BASE}/ws?session_id={key}") as talk:
            await talk.reset(task_idx=0)
            async with client.socket(f"{BASE}/ws?session_id={key}") as second:
                assert "already has an attached" in (await second.receive())["data"]["message"]
            for call in TASK.oracle:
                named = {"name": call.name, "arguments": call.arguments}
                made = await rpc(client, "tools/call", session_id=key, **named)
                assert made["isError"] is False
                assert made["content"] == [{"type": "text", "text": made["data"]}]
            closing = await rpc(client, "openenv/session/close", session_id=key)
            assert closing == {"session_id": key, "closed": False, "closing": True}
            named = {"name": "verify", "arguments": {"final_answer": TASK.answer}}
            verdict = await rpc(client, "tools/call", session_id=key, **named)
            assert verdict["data"]["reward"] == 1.0
        await until(client.is_empty)
        gone = await rpc(client, "openenv/session/close", session_id=key)
        assert gone["message"] == f"Unknown session_id: {key}"


async def test_json_rpc_over_http_and_a_websocket() -> None:
    """Both list tools without a session; wrong requests get JSON-RPC's errors, with status 200."""
    async with served_protocols(SHOP) as client:
        tools = (await rpc(client, "tools/list"))["tools"]
        assert len(tools) == 47
        assert set(tools[0]) == {"name", "description", "inputSchema"}
        for body, code in ((b"{", -32700), (b"{}", -32600), (b"[]", -32600)):
            status, answer = await client.ask("POST", f"{BASE}/mcp", body)
            assert (status, answer["jsonrpc"], answer["error"]["code"]) == (200, "2.0", code)
        assert (await rpc(client, "initialize"))["code"] == -32601
        assert (await rpc(client, "tools/call", name="x"))["code"] == -32602
        async with client.socket(f"{BASE}/mcp") as talk:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await talk.send(request))["result"]["tools"] == tools
        key = (await rpc(client, "openenv/session/create"))["session_id"]
        closed = await rpc(client, "openenv/session/close", session_id=key)
        assert closed == {"session_id": key, "closed": True}


# Other routes -----------------------------------------------------------------------------------


async def test_what_a_server_publishes() -> None:
    """The criteria of `openenv validate --url`: version, health, metadata, schemas, and where there
    is /reset, /step and /state, too."""
    async with served_protocols(SHOP) as client:
        openapi = (await client.ask("GET", f"{BASE}/openapi.json"))[1]
        assert openapi["info"]["version"] == SHOP.version
        assert {"/reset", "/step", "/state"} < set(openapi["paths"])
        assert (await client.ask("GET", f"{BASE}/health"))[1] == {"status": "healthy"}
        metadata = (await client.ask("GET", f"{BASE}/metadata"))[1]
        assert (metadata["name"], metadata["description"]) == ("shop_support", SHOP.description)
        schema = (await client.ask("GET", f"{BASE}/schema"))[1]
        assert set(schema) == {"action", "observation", "reset_observation", "state"}
        assert schema["action"]["title"] == "Action"
        assert set(schema["observation"]["properties"]) >= AWM_FIELDS
        state = {"episode_id": None, "step_count": 0}
        assert (await client.ask("GET", f"{BASE}/state"))[1] == state
        assert (await client.ask("GET", "/openenv"))[1] == ["shop_support"]


async def test_reset_and_step_over_http_keep_nothing() -> None:
    """Each request has a world of its own, which is gone afterwards."""
    async with served_protocols(SHOP) as client:
        _, start = await client.ask("POST", f"{BASE}/reset", {"task_idx": 1})
        assert start["observation"]["task"] == SHOP.tasks[1].instruction
        action = {"type": "call_tool", "tool_name": "get_order", "arguments": {"order_id": 4101}}
        _, step = await client.ask("POST", f"{BASE}/step", {"action": action})
        assert step["observation"]["reward_type"] == "server_error"
        _, listed = await client.ask("POST", f"{BASE}/step", {"action": {"type": "list_tools"}})
        assert len(listed["observation"]["tools"]) == 47
        status, refused = await client.ask("POST", f"{BASE}/step", {"action": {"x": 1}})
        assert (status, "unknown field 'x'" in refused["detail"]) == (422, True)
        assert client.leases.num_live == len(client.protocols.sessions) == 0


async def test_the_task_api() -> None:
    """Splits and their tasks, by index and by range; what does not exist is a 400 with `detail`."""
    async with served_protocols(SHOP) as client:
        env = f"{BASE}/shop_support"
        assert (await client.ask("GET", f"{BASE}/list_environments"))[1] == ["shop_support"]
        names = [one["name"] for one in (await client.ask("GET", f"{env}/splits"))[1]]
        assert names == ["train", "dialogues"]
        tasks = (await client.ask("POST", f"{env}/tasks", {"split": "train"}))[1]["tasks"]
        count = (await client.ask("POST", f"{env}/num_tasks", {"split": "train"}))[1]["num_tasks"]
        assert count == len(tasks) == len(SHOP.default_tasks)
        body = {"split": "train", "index": 3}
        assert (await client.ask("POST", f"{env}/task", body))[1]["task"] == tasks[3]
        body = {"split": "train", "start": -2}
        assert (await client.ask("POST", f"{env}/task_range", body))[1]["tasks"] == tasks[-2:]
        for path, wrong, status in (
            ("task", {"split": "train", "index": 999}, 400),
            ("tasks", {"split": "no"}, 400),
            ("tasks", {}, 422),
            ("task", {"split": "train", "index": "x"}, 422),
        ):
            found = await client.ask("POST", f"{env}/{path}", wrong)
            assert (found[0], list(found[1])) == (status, ["detail"])
        assert (await client.ask("GET", f"{env}/tasks"))[0] == 405
        assert (await client.ask("GET", f"{BASE}/other/splits"))[0] == 404


async def test_tokens_hold_for_every_wire() -> None:
    """Without the token each route is a 401 with `detail`, and so is a WebSocket."""
    settings = WorldServerSettings(port=0, token="one", worlds_per_client=64)
    async with served_protocols(SHOP, settings=settings, token="one") as client:
        assert (await client.ask("GET", f"{BASE}/health"))[0] == 200
        for path in (f"{BASE}/health", "/gym/shop_support/seed_session", "/ors/list_environments"):
            status, body = await client.ask("GET", path, Authorization="Bearer no")
            assert (status, list(body)) == (401, ["detail"])
        wrong = {"Authorization": "Bearer no"}
        address = client.url.replace("http", "ws", 1)
        for path, expected in ((f"{BASE}/ws", 401), ("/worlds", 401)):
            with pytest.raises(Exception, match=str(expected)):
                await client.http.ws_connect(address + path, headers=wrong)
        with pytest.raises(Exception, match="404"):
            await client.http.ws_connect(f"{address}/worlds")
        async with client.socket(f"{BASE}/ws") as talk:
            assert (await talk.reset(task_idx=0))["done"] is False


async def test_large_messages_are_refused() -> None:
    """A message above the limit closes the WebSocket with 1009, and the session is gone."""
    settings = WorldServerSettings(port=0, max_body=10_000)
    async with served_protocols(SHOP, settings=settings) as client:
        async with client.socket(f"{BASE}/ws") as talk:
            await talk.socket.send_str("x" * 20_000)
            assert (await talk.socket.receive()).data == 1009
        await until(client.is_empty)
