"""The AWM fixture in workers, served over HTTP: equal to the genuine stack's answers over MCP."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from fastmcp import Client

from rehearsal_room.envpool.client.pool import RemotePool
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from tests.support.hosted_records import dump, fixture_scenario, golden, golden_dump, mask

RUNS = [run for run in golden("run") if run.get("calls")]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def url(anyio_backend: str) -> AsyncIterator[str]:
    """The URL of a server of the fixture's scenario, with real workers."""
    async with (
        WorkerPool(WorkerSettings(workers=2)) as pool,
        Leases(pool, [fixture_scenario()], WorldServerSettings(port=0)) as leases,
        serving(leases) as url,
    ):
        yield url


def recorded(run: dict[str, Any]) -> list[tuple[bool, str]]:
    return [(call["is_error"], call["text"]) for call in run["calls"]]


@pytest.mark.slow
async def test_any_client_gets_the_genuine_answers(url: str) -> None:
    """The tools are listed and answer as recorded, texts and isError, to a stock client and to
    plain requests of the handshake era."""
    [record] = golden("tools")
    async with aiohttp.ClientSession() as http:

        async def ask(mcp: str, method: str, params: Any) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with http.post(mcp, json=body) as response:
                return msgspec.json.decode(await response.read())["result"]

        for number, run in enumerate(RUNS):
            new = {"scenario": fixture_scenario().name}
            async with http.post(f"{url}/worlds", json=new) as response:
                mcp = (await response.json())["mcp"]
            if number == 0:
                assert (await ask(mcp, "tools/list", {}))["tools"] == record["tools"]
                async with Client(mcp) as client:
                    called = [
                        await client.call_tool(
                            call["tool"], call["arguments"], raise_on_error=False
                        )
                        for call in run["calls"]
                    ]
                found = [(each.is_error, mask(each.content[0].text)) for each in called]
            else:
                found = []
                for call in run["calls"]:
                    params = {"name": call["tool"], "arguments": call["arguments"]}
                    result = await ask(mcp, "tools/call", params)
                    found.append((result["isError"], mask(result["content"][0]["text"])))
            assert found == recorded(run), run["id"]


async def test_a_remote_pool_ends_as_genuine(url: str) -> None:
    """Through a remote pool the texts are equal, and so are the final rows."""
    scenario = fixture_scenario()
    async with RemotePool(url) as pool:
        for run in RUNS:
            async with pool.lease(scenario, None) as env:
                found = []
                for number, call in enumerate(run["calls"]):
                    result = await env.call(call["tool"], call["arguments"], f"c{number}-0")
                    found.append((result.is_error, mask(result.text)))
                assert found == recorded(run), run["id"]
                if run.get("db"):
                    states = pool.hosted(scenario)
                    end = LiveWorld(states.restored(env.state()), b"")
                    assert dump(states, end) == golden_dump(run), run["id"]
