"""The AWM fixture in workers, served over HTTP: equal to what the genuine stack said over MCP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from fastmcp import Client

from envpool.client.pool import RemotePool
from envpool.hosting.live_world import LiveWorld
from envpool.server.leases import Leases
from envpool.server.serve import serving
from envpool.server.settings import ServeSettings
from envpool.workers.pool import WorkerPool, WorkerSettings
from tests.support.hosted_records import dump, fixture_scenario, golden, golden_dump, mask

RUNS = [run for run in golden("run") if run.get("calls")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def served_workers() -> AsyncIterator[str]:
    """The fixture's scenario, served from real workers."""
    async with (
        WorkerPool(WorkerSettings(workers=2)) as pool,
        Leases(pool, [fixture_scenario()], ServeSettings(port=0)) as leases,
        serving(leases) as url,
    ):
        yield url


def wanted(run: dict[str, Any]) -> list[tuple[bool, str]]:
    return [(call["is_error"], call["text"]) for call in run["calls"]]


async def test_any_client_gets_the_genuine_answers() -> None:
    """The tools are listed and answer as recorded, texts and isError, to a stock client and to
    plain requests of the handshake era."""
    [record] = golden("tools")
    async with served_workers() as url, aiohttp.ClientSession() as http:

        async def ask(mcp: str, method: str, params: Any) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with http.post(mcp, json=body) as response:
                return msgspec.json.decode(await response.read())["result"]

        for number, run in enumerate(RUNS):
            leased = {"scenario": fixture_scenario().name}
            async with http.post(f"{url}/worlds", json=leased) as response:
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
                said = [(each.is_error, mask(each.content[0].text)) for each in called]
            else:
                said = []
                for call in run["calls"]:
                    params = {"name": call["tool"], "arguments": call["arguments"]}
                    result = await ask(mcp, "tools/call", params)
                    said.append((result["isError"], mask(result["content"][0]["text"])))
            assert said == wanted(run), run["id"]


async def test_a_remote_pool_ends_as_genuine() -> None:
    """Through the pool on another machine, the texts are equal, and so are the final rows."""
    scenario = fixture_scenario()
    async with served_workers() as url, RemotePool(url) as pool:
        for run in RUNS:
            async with pool.lease(scenario, None) as env:
                said = []
                for number, call in enumerate(run["calls"]):
                    result = await env.call(call["tool"], call["arguments"], f"c{number}-0")
                    said.append((result.is_error, mask(result.text)))
                assert said == wanted(run), run["id"]
                if run.get("db"):
                    states = pool.hosted(scenario)
                    end = LiveWorld(states.restored(env.state()), b"")
                    assert dump(states, end) == golden_dump(run), run["id"]
