"""Sessions that clients leave, on each protocol: what the next request gets, and what is left."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from rehearsal_room.envpool.protocols.gym import COOKIE
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.catalogue import find
from tests.support.protocols import ProtocolClient, served_protocols, until

SHOP = find("shop_support")
TASK = SHOP.tasks[0]
GYM, OPENENV = "/gym/shop_support", "/openenv/shop_support"

Open = Callable[[ProtocolClient, int], Awaitable[str]]  # a session with its number; its key
Use = Callable[[ProtocolClient, str], Awaitable[tuple[int, Any]]]  # a call; status and answer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def open_gym(client: ProtocolClient, number: int) -> str:
    body = {"scenario": SHOP.name, "task": TASK.id}
    async with client.http.post(f"{client.url}{GYM}/seed_session", json=body) as answer:
        assert answer.status == 200
        key = answer.cookies[COOKIE].OutputString().partition(";")[0]
        client.http.cookie_jar.clear()
        return key


async def use_gym(client: ProtocolClient, key: str) -> tuple[int, Any]:
    return await client.ask("POST", f"{GYM}/get_order", {"order_id": 4101}, Cookie=key)


async def open_openenv(client: ProtocolClient, number: int) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
    _, answer = await client.ask("POST", f"{OPENENV}/mcp", body)
    return str(answer["result"]["session_id"])


async def use_openenv(client: ProtocolClient, key: str) -> tuple[int, Any]:
    params = {"session_id": key, "name": "get_order", "arguments": {"order_id": 4101}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await client.ask("POST", f"{OPENENV}/mcp", body)


async def open_ors(client: ProtocolClient, number: int) -> str:
    key = f"s{number}"
    body = {"task_spec": {"id": TASK.id}}
    made = await client.ask("POST", "/ors/create", body, X_Session_ID=key)
    assert made == (200, {"sid": key})
    return key


async def use_ors(client: ProtocolClient, key: str) -> tuple[int, Any]:
    body = {"name": "get_order", "input": {"order_id": 4101}}
    return await client.ask("POST", "/ors/call", body, X_Session_ID=key)


@pytest.mark.parametrize(
    ("opens", "uses", "status", "why"),
    [
        pytest.param(open_gym, use_gym, 410, "there is no session", id="gym"),
        pytest.param(open_openenv, use_openenv, 200, "Unknown session_id", id="openenv"),
        pytest.param(open_ors, use_ors, 404, "Active environment not found", id="ors"),
    ],
)
async def test_a_dead_session(opens: Open, uses: Use, status: int, why: str) -> None:
    """A call in a session that was left for too long is an error in the protocol's own form, and
    opens nothing."""
    settings = WorldServerSettings(port=0, idle_s=0.2)
    async with served_protocols(SHOP, settings=settings) as client:
        key = await opens(client, 0)
        await until(client.is_empty)
        found, answer = await uses(client, key)
        assert (found, why in str(answer)) == (status, True), answer
        assert ("detail" in answer) == (status != 200)
        assert ("error" in answer) == (status == 200)
        assert client.is_empty()


@pytest.mark.slow
@pytest.mark.parametrize("opens", [open_gym, open_openenv, open_ors])
async def test_a_thousand_sessions_left_open(opens: Open) -> None:
    """They are closed after their time to live, and a new one can be opened and used."""
    settings = WorldServerSettings(
        port=0, idle_s=3_600.0, max_worlds=1_000, worlds_per_client=1_000, calls_per_client=64
    )
    async with served_protocols(SHOP, settings=settings) as client:
        for number in range(1_000):
            await opens(client, number)
        assert len(client.protocols.sessions) == 1_000
        await client.protocols.sessions.expire(anyio.current_time() + 3_601)
        await until(client.is_empty)
        assert await opens(client, 1_000)
        assert len(client.protocols.sessions) == 1
