"""Worlds served over all protocols on loopback, judged by their own verifiers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec

from rehearsal_room.envpool.protocols.served import ServedProtocols
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.serving.world_episodes import ServedEpisodes
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.format import Scenario


@asynccontextmanager
async def _open_judge(
    *, pool: RoutingPool, scenarios: Sequence[Scenario], folder: Path, spent: float
) -> AsyncIterator[ScenarioJudges]:
    yield ScenarioJudges(pool, scenarios)


async def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; fails after ten seconds."""
    with anyio.fail_after(10):
        while not holds():  # noqa: ASYNC110 # a server in the same loop has no event for it
            await anyio.sleep(0.01)


class ProtocolClient:
    """A client of a server: requests, and messages on one WebSocket."""

    def __init__(self, http: aiohttp.ClientSession, url: str, protocols: ServedProtocols) -> None:
        self.http = http
        self.url = url
        self.protocols = protocols
        self.leases = protocols.sessions.leases

    def is_empty(self) -> bool:
        """Whether no world and no session is left."""
        return self.leases.num_live == len(self.protocols.sessions) == 0

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        """Status, and the body: decoded where it is JSON."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = self.http.request(
            method, self.url + path, data=None if body is None else raw, headers=named
        )
        async with request as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            return response.status, msgspec.json.decode(text) if is_json else text.decode()

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator["Conversation"]:
        """A WebSocket."""
        async with self.http.ws_connect(self.url.replace("http", "ws", 1) + path) as socket:
            yield Conversation(socket)


class Conversation:
    """The messages of a WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, message: Any) -> Any:
        """Send a message, and return the answer."""
        text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
        await self.socket.send_str(text)
        return await self.receive()

    async def receive(self) -> Any:
        """The next message."""
        return msgspec.json.decode(await self.socket.receive_str())

    async def reset(self, **options: Any) -> Any:
        """What `reset` returns."""
        return (await self.send({"type": "reset", "data": options}))["data"]

    async def call(self, name: str, **arguments: Any) -> Any:
        """What a step `call_tool` returns."""
        data = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        return (await self.send({"type": "step", "data": data}))["data"]


@asynccontextmanager
async def served_protocols(
    *scenarios: Scenario, settings: WorldServerSettings | None = None, token: str = ""
) -> AsyncIterator[ProtocolClient]:
    """A server of the scenarios, and a client."""
    settings = settings or WorldServerSettings(port=0)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        RoutingPool() as pool,
        Leases(pool, scenarios, settings) as leases,
        ServedEpisodes(pool, _open_judge, scenarios, folder=Path("."), one_by_one=True) as episodes,
        ServedProtocols(leases, episodes) as protocols,
        serving(leases, protocols) as url,
        aiohttp.ClientSession(headers=headers) as http,
    ):
        yield ProtocolClient(http, url, protocols)
