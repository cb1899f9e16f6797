"""The Open Reward Standard at /ors, and at the root for its official client."""

import json
from typing import Any

import pytest

from rehearsal_room.scenarios.catalogue import find
from tests.support.protocols import ProtocolClient, served_protocols

SHOP = find("shop_support")
TASK = SHOP.tasks[0]
SPEC = {"id": TASK.id}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def events(text: str) -> list[tuple[str, str]]:
    """The server-sent events of a body; the pieces of the last one are joined."""
    found: list[tuple[str, str]] = []
    pieces = ""
    for block in filter(None, text.split("\n\n")):
        name, data = (line.partition(": ")[2] for line in block.split("\n"))
        pieces = pieces + data if name in ("chunk", "end") else pieces
        if name != "chunk":
            found.append((name, pieces if name == "end" else data))
    return found


async def call(client: ProtocolClient, sid: str, name: str, **arguments: Any) -> Any:
    """What a call returns."""
    body = {"name": name, "input": arguments}
    status, text = await client.ask("POST", "/ors/call", body, X_Session_ID=sid)
    assert status == 200
    (first, task_id), (last, data) = events(text)
    assert (first, len(task_id)) == ("task_id", 32)
    return json.loads(data) if last == "end" else (last, data)


async def test_an_episode_ends_with_the_terminal_tool() -> None:
    """Its result has the reward; further calls are refused, and /delete releases everything."""
    async with served_protocols(SHOP) as client:
        status, text = await client.ask("POST", "/ors/create_session", {})
        (name, sid), end = events(text)
        assert (status, name, end) == (200, "task_id", ("end", ""))
        made = await client.ask("POST", "/ors/create", {"task_spec": SPEC}, X_Session_ID=sid)
        assert made == (200, {"sid": sid})
        prompt = (await client.ask("GET", "/ors/prompt", X_Session_ID=sid))[1]
        assert prompt[-1] == {"text": TASK.instruction, "detail": None, "type": "text"}
        messages = (await client.ask("GET", "/ors/shop_support/messages", X_Session_ID=sid))[1]
        assert [one["role"] for one in messages] == ["system", "user"]
        tools = (await client.ask("GET", "/ors/task_tools", X_Session_ID=sid))[1]
        assert len(tools["tools"]) == 47
        terminal = tools["terminal_tool"]
        assert terminal["name"] not in {tool["name"] for tool in tools["tools"]}
        for one in TASK.oracle:
            output = (await call(client, sid, one.name, **one.arguments))["output"]
            assert (output["reward"], output["finished"]) == (None, False)
        end = await call(client, sid, terminal["name"], **{terminal["arg"]: TASK.answer})
        assert end["ok"]
        assert end["output"]["reward"] == 1.0
        assert end["output"]["finished"]
        assert end["output"]["metadata"]["label"] == "completed"
        after = await call(client, sid, "get_order", order_id=4101)
        assert (after["ok"], after["reason"]) == (False, "episode_finished")
        assert (await client.ask("POST", "/ors/ping", X_Session_ID=sid))[0] == 200
        assert (await client.ask("POST", "/ors/delete", X_Session_ID=sid))[0] == 200
        assert client.is_empty()
        assert (await client.ask("POST", "/ors/ping", X_Session_ID=sid))[0] == 404


async def test_failed_calls_have_a_reason() -> None:
    """Unknown tools and wrong arguments are errors of the call; a refusal is a result."""
    async with served_protocols(SHOP) as client:
        body = {"split": "train", "index": 0}
        await client.ask("POST", "/ors/create", body, X_Session_ID="s")
        assert (await call(client, "s", "no_such_tool"))["reason"] == "not_found"
        assert (await call(client, "s", "get_order", id=1))["reason"] == "input_validation"
        refused = (await call(client, "s", "get_order", order_id=1))["output"]
        assert refused["blocks"][0]["text"] == "Error: There is no order 1."
        assert refused["metadata"] == {"error": "refused"}
        wrong = await call(client, "s", "final_answer", text=3)
        assert wrong["reason"] == "input_validation"


@pytest.mark.parametrize("odd", [True, 0, -1, 10**30, 1.5, "", "x" * 300, [], [[]], {}, {"a": []}])
async def test_fields_of_other_types_are_refused(odd: Any) -> None:
    """Each field of /create and /call, and the bodies themselves: an answer or a sentence, never an
    error of the server."""
    create = {"task_spec": SPEC, "env_name": "shop_support", "split": "train", "index": 0}
    calls = ("get_order", {"order_id": 4101}), ("final_answer", {"text": "x"})
    asked: list[tuple[str, Any]] = [("/ors/create", odd), ("/ors/call", odd)]
    asked += [("/ors/create", {**create, name: odd}) for name in (*create, "toolset_name")]
    asked += [("/ors/create", {"task_spec": {name: odd}}) for name in ("id", "task", "task_idx")]
    asked += [("/ors/create", {"split": "train", "index": 0, name: odd}) for name in create]
    for name, arguments in calls:
        body = {"name": name, "input": arguments, "task_id": "x"}
        asked += [("/ors/call", {**body, field: odd}) for field in body]
        asked += [("/ors/call", {**body, "input": {field: odd}}) for field in arguments]
    async with served_protocols(SHOP) as client:
        await client.ask("POST", "/ors/create", {"task_spec": SPEC}, X_Session_ID="s")
        for path, body in asked:
            sid = "s" if path == "/ors/call" else "other"
            status, text = await client.ask("POST", path, body, X_Session_ID=sid)
            assert status < 500, (path, body, text)
            await client.ask("POST", "/ors/delete", {}, X_Session_ID="other")


async def test_a_result_can_be_asked_for_again() -> None:
    """A client whose stream broke sends the task's id, and nothing is executed twice."""
    async with served_protocols(SHOP) as client:
        await client.ask("POST", "/ors/create", {"task_spec": SPEC}, X_Session_ID="s")
        body = {"name": "get_order", "input": {"order_id": 4101}}
        _, text = await client.ask("POST", "/ors/call", body, X_Session_ID="s")
        again = {**body, "task_id": events(text)[0][1]}
        assert (await client.ask("POST", "/ors/call", again, X_Session_ID="s"))[1] == text
        assert client.leases.calls == 1
        unknown = await client.ask("POST", "/ors/call", {**body, "task_id": "x"}, X_Session_ID="s")
        assert events(unknown[1]) == [("error", "unknown task_id")]


async def test_the_root_answers_the_official_client() -> None:
    """Requests with its headers are ORS at the root, too; the lease API stays where it was."""
    async with served_protocols(SHOP) as client:
        splits = await client.ask("GET", "/splits", X_Deployment="owner/shop_support")
        assert [one["name"] for one in splits[1]] == ["train", "dialogues"]
        tools = (await client.ask("GET", "/shop_support/tools", X_Deployment="x"))[1]
        assert len(tools["tools"]) == 47
        assert (await client.ask("GET", "/scenarios", X_Deployment="x"))[1][0][
            "title"
        ] == SHOP.title
        assert (await client.ask("GET", "/splits"))[0] == 404
        assert (await client.ask("GET", "/ors/list_environments"))[1] == ["shop_support"]
        assert (await client.ask("GET", "/ors/health"))[1] == {"status": "ok"}
        tasks = await client.ask("POST", "/ors/shop_support/tasks", {"split": "train"})
        assert len(tasks[1]["tasks"]) == len(SHOP.default_tasks)


@pytest.mark.parametrize(
    ("path", "body", "sid", "status", "why"),
    [
        ("/ors/create", {"task_spec": SPEC}, "", 400, "X-Session-ID header is required"),
        ("/ors/create", {}, "s", 422, "name either a task_spec or both split and index"),
        ("/ors/create", {"task_spec": {"id": "no"}}, "s", 400, "has no task 'no'"),
        ("/ors/create", {"split": "train", "index": 999}, "s", 400, "there is none at 999"),
        ("/ors/create", {"split": "no", "index": 0}, "s", 400, "has no split 'no'"),
        (
            "/ors/create",
            {"task_spec": SPEC, "env_name": "no"},
            "s",
            404,
            "unknown environment 'no'",
        ),
        ("/ors/create", {"task_spec": SPEC, "toolset_name": "x"}, "s", 400, "unknown toolset 'x'"),
        ("/ors/call", {"name": "x", "input": {}}, "s", 404, "Active environment not found"),
        ("/ors/ping", {}, "s", 404, "Active environment not found"),
        ("/ors/score_group", {}, "s", 404, "do not implement score_group"),
        ("/ors/no/tools", {}, "s", 404, "unknown environment 'no'"),
        ("/ors/nothing", {}, "s", 404, "there is nothing at"),
        ("/ors/a/b/c", {}, "s", 404, "there is nothing at"),
    ],
)
async def test_wrong_requests(path: str, body: Any, sid: str, status: int, why: str) -> None:
    """They get a status and `detail`, and nothing is left of them."""
    async with served_protocols(SHOP) as client:
        headers = {"X_Session_ID": sid} if sid else {}
        found, answer = await client.ask("POST", path, body, **headers)
        assert (found, list(answer)) == (status, ["detail"])
        assert why in answer["detail"]
        assert client.is_empty()


async def test_a_session_id_is_used_once() -> None:
    """A second /create with the id of an open session is refused."""
    async with served_protocols(SHOP) as client:
        await client.ask("POST", "/ors/create", {"task_spec": SPEC}, X_Session_ID="s")
        found = await client.ask("POST", "/ors/create", {"task_spec": SPEC}, X_Session_ID="s")
        assert found == (400, {"detail": "a session with this id is open already"})
        assert client.leases.num_live == 1
