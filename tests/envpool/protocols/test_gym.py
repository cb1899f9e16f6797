"""NeMo Gym's resources-server contract at /gym/<world>."""

import json
import re
from io import BytesIO
from typing import Any

import pytest

from rehearsal_room.envpool.protocols.gym import COOKIE, answer_in
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.catalogue import find
from tests.support.budgets import repeats
from tests.support.protocols import ProtocolClient, served_protocols, until

SHOP = find("shop_support")
BASE = "/gym/shop_support"
TASK = SHOP.tasks[0]
ROW = {"scenario": "shop_support", "task": TASK.id, "mine": [1]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def response(text: str) -> dict[str, Any]:
    """A response of the Responses API that ends with a message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    call = {"type": "function_call", "name": "x", "arguments": "{}", "call_id": "1"}
    return {"output": [call, {"type": "message", "role": "assistant", "content": content}]}


async def seeded(client: ProtocolClient, row: Any = ROW) -> str:
    """The cookie of a new session."""
    async with client.http.post(f"{client.url}{BASE}/seed_session", json=row) as answer:
        assert (answer.status, await answer.json()) == (200, {})
        return answer.cookies[COOKIE].OutputString().partition(";")[0]


async def test_an_oracle_gets_one_and_its_session_is_gone() -> None:
    """/verify returns the row with the response, the reward, and numbers for metrics."""
    async with served_protocols(SHOP) as client:
        client.http.cookie_jar.clear()
        cookie = await seeded(client)
        for call in TASK.oracle:
            status, text = await client.ask(
                "POST", f"{BASE}/{call.name}", call.arguments, Cookie=cookie
            )
            assert status == 200, text
        row = {**ROW, "response": response(TASK.answer)}
        status, verified = await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie)
        assert status == 200
        assert verified == {
            **row,
            "reward": 1.0,
            "completed": True,
            "num_calls": len(TASK.oracle),
            "label": "completed",
            "judge": "code",
            "failed": [],
        }
        assert client.is_empty()
        status, body = await client.ask("POST", f"{BASE}/get_order", {}, Cookie=cookie)
        assert (status, "it was verified" in body["detail"]) == (410, True)


async def test_doing_nothing_gets_nothing() -> None:
    """The reward is 0, and the failed goals are named."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client, {"task_idx": 0})
        row = {"task_idx": 0, "response": response("Done.")}
        _, verified = await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie)
        assert (verified["reward"], verified["completed"]) == (0.0, False)
        assert verified["failed"]


async def test_each_response_sets_the_cookie() -> None:
    """NeMo Gym's simple agent keeps only the cookies of the last response. Whatever an agent calls,
    its session is not lost: the trainer's /verify finds it."""
    calls: tuple[tuple[str, Any], ...] = (
        ("get_order", {"order_id": 4101}),
        ("no_such_tool", {}),
        ("verify", {}),
        ("seed_session", ROW),
        ("get_order/4101/x", {}),
        ("../../worlds", {}),
        ("../../ors/tasks", {}),
        ("../../../nothing", {}),
        ("get_order", ["not", "an", "object"]),
        ("get_order", {"order_id": "x" * 2**21}),
    )
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client)
        for path, body in calls:
            sent = client.http.post(
                f"{client.url}{BASE}/{path}",
                data=BytesIO(json.dumps(body).encode()),
                headers={"Cookie": cookie, "Content-Type": "application/json"},
            )
            async with sent as answer:
                assert answer.cookies[COOKIE].value in cookie, (path, answer.status)
        row = {**ROW, "response": response("Done.")}
        assert (await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie))[0] == 200


async def test_an_open_episode_is_not_seeded_again() -> None:
    """An agent whose tool call is named `seed_session` gets no fresh world: the episode stays."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client)
        status, answer = await client.ask("POST", f"{BASE}/seed_session", ROW, Cookie=cookie)
        assert (status, "has an open episode" in answer["detail"]) == (409, True)
        assert client.leases.num_live == len(client.protocols.sessions) == 1
        row = {**ROW, "response": response("Done.")}
        assert (await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie))[0] == 200


OWN = {"task": TASK.id}  # a row that an agent can guess
ASTRAY = [
    ("../flight_desk/seed_session", {"task": find("flight_desk").tasks[0].id}),
    ("../../worlds", {"scenario": "shop_support"}),
    ("../../openenv/shop_support/reset", {}),
    ("../../openenv/shop_support/mcp", {"jsonrpc": "2.0", "method": "openenv/session/create"}),
    ("../../openenv/shop_support/shop_support/tasks", {"split": "train"}),
    ("../../ors/tasks", {"split": "train"}),
    ("../..//x/../worlds", {"scenario": "shop_support"}),
]


@pytest.mark.parametrize(("tool", "arguments"), ASTRAY)
async def test_a_tool_name_leads_nowhere_else(tool: str, arguments: Any) -> None:
    """A client resolves the dots of a path (aiohttp does). A call with the cookie of an open
    episode that leads elsewhere is refused: it begins nothing, and the episode goes on."""
    async with served_protocols(SHOP, find("flight_desk")) as client:
        cookie = await seeded(client)
        status, answer = await client.ask("POST", f"{BASE}/{tool}", arguments, Cookie=cookie)
        assert (status, "go to the path of its world" in answer["detail"]) == (404, True)
        assert client.leases.num_live == len(client.protocols.sessions) == 1
        row = {**ROW, "response": response("Done.")}
        assert (await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie))[0] == 200
        # A cookie of an episode that is over stands in nobody's way.
        assert (await client.ask("POST", "/worlds", ASTRAY[1][1], Cookie=cookie))[0] == 201


async def test_a_session_that_an_agent_seeded_is_not_verified() -> None:
    """An agent whose session was idle for too long may seed another: a row of which it knows only a
    part is not the trainer's."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client, OWN)
        row = {**ROW, "response": response(TASK.answer)}
        status, answer = await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie)
        assert (status, "is not the one" in answer["detail"]) == (422, True)


async def test_an_answer_that_is_too_long_is_judged() -> None:
    """Its length saves nobody from the verdict: the beginning is judged."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client)
        row = {**ROW, "response": response("x" * 200_000)}
        status, verified = await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie)
        assert (status, verified["reward"]) == (200, 0.0)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"task": SHOP.tasks[1].id, "mine": [1], "scenario": "shop_support"},
        {"task": TASK.id, "mine": [2], "scenario": "shop_support"},
        {"task": TASK.id, "scenario": "shop_support"},
    ],
)
async def test_another_row_is_not_verified(row: dict[str, Any]) -> None:
    """/verify judges the row that seeded the session: another one, or what an agent can know of it
    as the arguments of a tool `verify`, ends nothing and says no reward."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client)
        asked = {**row, "response": response(TASK.answer)}
        status, answer = await client.ask("POST", f"{BASE}/verify", asked, Cookie=cookie)
        assert (status, list(answer)) == (422, ["detail"])
        assert "is not the one with which this session was seeded" in answer["detail"]
        found = await client.ask("POST", f"{BASE}/get_order", {"order_id": 4101}, Cookie=cookie)
        assert found[0] == 200


async def test_failed_findings_say_nothing_of_what_was_expected() -> None:
    """They have kinds and numbers; a name like "answer says '256.35'" would be the solution."""
    tasks = [task for task in SHOP.tasks if not task.is_dialogue]
    async with served_protocols(SHOP) as client:
        for task in tasks[:: repeats(short=4, long=1)]:
            asked = {"scenario": "shop_support", "task": task.id}
            cookie = await seeded(client, asked)
            row = {**asked, "response": response("Done.")}
            _, verified = await client.ask("POST", f"{BASE}/verify", row, Cookie=cookie)
            assert all(re.fullmatch(r"[a-z_]+ \d+", name) for name in verified["failed"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "why"),
    [
        ("POST", "/gym/no/seed_session", ROW, 404, "there is no world 'no' here"),
        ("GET", f"{BASE}/seed_session", None, 405, "GET is not served here"),
        ("POST", f"{BASE}/seed_session", {"task": "no"}, 422, "has no task 'no'"),
        ("POST", f"{BASE}/seed_session", {}, 422, "a task is named by"),
        ("POST", f"{BASE}/seed_session", b"[", 422, "the body is not JSON"),
        ("POST", f"{BASE}/seed_session", {"scenario": "x", "task": "y"}, 422, "is of world 'x'"),
        ("POST", f"{BASE}/get_order", {}, 422, "call seed_session first"),
        ("POST", f"{BASE}/verify", {}, 422, "call seed_session first"),
        ("POST", f"{BASE}/a/b", {}, 404, "there is nothing at"),
    ],
)
async def test_wrong_requests(method: str, path: str, body: Any, status: int, why: str) -> None:
    """They get a status and `detail`, and nothing is left of them."""
    async with served_protocols(SHOP) as client:
        found, answer = await client.ask(method, path, body)
        assert (found, list(answer)) == (status, ["detail"])
        assert why in answer["detail"]
        assert client.is_empty()


async def test_failed_calls_have_a_status() -> None:
    """An unknown tool, wrong arguments and a refusal have another status than a result."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client)
        found = [
            (await client.ask("POST", f"{BASE}/{name}", body, Cookie=cookie))[0]
            for name, body in (
                ("no_such_tool", {}),
                ("get_order", {"order": 1}),
                ("get_order", [1]),
                ("get_order", {"order_id": 1}),
                ("get_order", {"order_id": 4101}),
            )
        ]
        assert found == [404, 422, 422, 400, 200]


async def test_a_session_that_is_left_is_closed() -> None:
    """After its time to live it is gone, and its world with it."""
    async with served_protocols(SHOP, settings=WorldServerSettings(port=0, idle_s=0.2)) as client:
        cookie = await seeded(client)
        await until(client.is_empty)
        status, _ = await client.ask("POST", f"{BASE}/get_order", {}, Cookie=cookie)
        assert status == 410


async def test_an_episode_without_a_verdict_has_no_reward() -> None:
    """A row without a response is refused, and the session stays; a server error is not a 0."""
    async with served_protocols(SHOP) as client:
        cookie = await seeded(client)
        assert (await client.ask("POST", f"{BASE}/verify", ROW, Cookie=cookie))[0] == 422
        assert client.leases.num_live == 1


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ([{"type": "message", "content": "plain"}], "plain"),
        ([{"type": "message", "content": [{"text": "a"}, {"text": "b"}, {}]}], "ab"),
        ([{"type": "message", "content": "x"}, {"type": "function_call"}], ""),
        ([], ""),
        (None, ""),
        (["x"], ""),
    ],
)
def test_the_answer_is_the_last_message(output: Any, answer: str) -> None:
    """Where a call comes last, the agent was cut off, and there is no answer."""
    assert answer_in({"output": output}) == answer
