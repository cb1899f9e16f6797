"""Worlds served over HTTP: the lease API, the MCP endpoint of each world, limits and the end."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest
from fastmcp import Client as McpClient
from fastmcp.client.transports import StdioTransport

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.server.api import HostedInfo, NewWorld
from rehearsal_room.envpool.server.app import App
from rehearsal_room.envpool.server.jsonrpc import (
    CALL_KEY,
    CAPABILITIES_KEY,
    SERVER_KEY,
    VERSION_KEY,
)
from rehearsal_room.envpool.server.leases import LeaseRefused, Leases
from rehearsal_room.envpool.server.serve import serve, serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.stdio import converse
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task
from tests.support.ledger_world import ledger
from tests.support.remote_pool import served

BOOK = {"account_id": 1, "amount": 5}
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
INFO = {"name": "ledger", "title": "Ledger", "version": "1"}
STAMP = {"resultType": "complete", "_meta": {SERVER_KEY: INFO}}
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


class Client:
    """What both clients share: they return the status and the decoded body."""

    async def send(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        raise NotImplementedError

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        raw = b"" if body is None else body
        raw = raw if isinstance(raw, bytes) else msgspec.json.encode(raw)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("Content-Type", "application/json")
        status, text = await self.send(method, path, raw, named)
        return status, msgspec.json.decode(text) if text else None

    async def world(self, scenario: str = "ledger") -> str:
        """The path of a fresh world."""
        status, world = await self.ask("POST", "/worlds", {"scenario": scenario})
        assert status == 201
        return f"/worlds/{world['id']}"

    async def modern(self, path: str, method: str, **params: Any) -> tuple[int, Any]:
        """A request of revision 2026-07-28."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if method == "tools/call":
            headers["Mcp-Name"] = params["name"]
        return await self.ask("POST", path + "/mcp", body, **headers)

    async def call(self, path: str, name: str = "book", **arguments: Any) -> Any:
        """The result of a tool call."""
        status, body = await self.modern(path, "tools/call", name=name, arguments=arguments or BOOK)
        assert status == 200
        return body["result"]


class Http(Client):
    """A client over loopback."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def send(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        request = self.session.request(method, self.url + path, data=body, headers=headers)
        async with request as response:
            return response.status, await response.read()


class Direct(Client):
    """A client that passes its requests to the application, without a network."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def send(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        named = {"Host": "localhost", **headers}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(k.lower().encode(), v.encode()) for k, v in named.items()],
            "client": ("127.0.0.1", 1),
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], sent[1]["body"]


@asynccontextmanager
async def direct_client(
    scenario: Scenario, settings: WorldServerSettings | None = None
) -> AsyncIterator[tuple[Direct, Leases]]:
    pool = LocalPool()
    async with Leases(pool, [scenario], settings) as leases:
        yield Direct(App(leases)), leases
    pool.close()


@asynccontextmanager
async def http_client(
    scenario: Scenario, settings: WorldServerSettings | None = None, token: str = ""
) -> AsyncIterator[tuple[Http, Leases]]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        served([scenario], settings) as (leases, url),
        aiohttp.ClientSession(headers=headers) as session,
    ):
        yield Http(session, url), leases


def text_of(result: Any) -> tuple[bool, str]:
    return result["isError"], result["content"][0]["text"]


# The lease API ----------------------------------------------------------------------------------


async def test_a_world_is_leased_inspected_and_released(scenario: Scenario) -> None:
    """POST returns an id and the URL of an MCP endpoint; GET returns the world's status; DELETE
    ends it, and after that its id is unknown."""
    async with http_client(scenario) as (http, _):
        new = {"scenario": "ledger", "task": "open", "seed": 7}
        status, world = await http.ask("POST", "/worlds", new, Content_Type="text/plain")
        path = f"/worlds/{world['id']}"
        assert (status, world["mcp"]) == (201, f"{http.url}{path}/mcp")
        status, fresh = await http.ask("GET", path)
        start = fresh.pop("start_digest")
        assert 0 <= fresh.pop("idle_s") < 60
        assert (status, fresh) == (200, {"id": world["id"], **new, "calls": 0, "digest": start})
        await http.call(path)
        _, called = await http.ask("GET", path)
        assert (called["id"], called["calls"]) == (world["id"], 1)
        assert called["digest"] != start
        assert await http.ask("GET", "/worlds") == (200, {"worlds": 1})
        assert await http.ask("DELETE", path) == (204, None)
        gone = {"error": "there is no such world: it was released, or it was idle too long"}
        assert await http.ask("GET", path) == (404, gone)
        assert await http.ask("POST", path + "/mcp", {}) == (404, gone)
        assert await http.ask("GET", "/worlds") == (200, {"worlds": 0})
        health = {"status": "ok", "worlds": 0, "leases": 1, "calls": 1}
        assert await http.ask("GET", "/health") == (200, health)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error"),
    [
        ("POST", "/worlds", {"scenario": "no"}, 404, "there is no scenario 'no' here; there are"),
        ("POST", "/worlds", {"scenario": "ledger", "task": "no"}, 404, "has no task 'no'"),
        ("POST", "/worlds", {"scenario": "ledger", "tsk": "x"}, 400, "unknown field `tsk`"),
        ("POST", "/worlds", {}, 400, "missing required field `scenario`"),
        ("POST", "/worlds", b"{", 400, "truncated"),
        ("POST", "/worlds", b"", 400, "truncated"),
        ("PUT", "/worlds", None, 405, "PUT is not served here"),
        ("GET", "/worlds/x", None, 404, "there is no such world"),
        ("POST", "/health", b"", 405, "POST is not served here"),
        ("GET", "/scenarios/no", None, 404, "there is no scenario 'no' here"),
        ("GET", "/scenarios/ledger/x", None, 404, "there is nothing at /scenarios/ledger/x"),
        ("GET", "/", None, 404, "there is nothing at /"),
    ],
)
async def test_bad_requests_are_refused(
    scenario: Scenario, method: str, path: str, body: Any, status: int, error: str
) -> None:
    """Bad requests get a status and a message, and lease nothing."""
    async with direct_client(scenario) as (http, leases):
        answered, content = await http.ask(method, path, body)
        assert (answered, list(content)) == (status, ["error"])
        assert error in content["error"]
        assert leases.num_live == 0


async def test_a_broken_scenario_is_refused(tmp_path: Path) -> None:
    """A scenario that cannot be hosted is refused with its fault; the server continues."""
    broken = ledger(tmp_path, data_sql="nonsense;")
    async with direct_client(broken) as (http, leases):
        for _ in range(2):
            status, content = await http.ask("POST", "/worlds", {"scenario": "ledger"})
            assert (status, str(tmp_path) in content["error"]) == (422, True)
        assert (await http.ask("GET", "/health"))[1]["worlds"] == leases.num_live == 0


async def test_reset_and_fork(scenario: Scenario) -> None:
    """A world returns to its start, and a fork continues from its parent's state, also when the
    parent is released."""
    async with direct_client(scenario) as (http, _):
        path = await http.world()
        await http.call(path)
        middle = (await http.ask("GET", path))[1]["digest"]
        status, fork = await http.ask("POST", path + "/fork", b"")
        assert status == 201
        status, again = await http.ask("POST", path + "/reset", b"")
        assert (status, again["digest"]) == (200, again["start_digest"])
        await http.ask("DELETE", path)
        forked = f"/worlds/{fork['id']}"
        assert (await http.ask("GET", forked))[1]["digest"] == middle
        assert text_of(await http.call(forked)) == (False, '{"entry":3}')


async def test_scenarios_are_listed(scenario: Scenario) -> None:
    """A client can list the scenarios, and get what it needs to hold states itself."""
    async with direct_client(scenario) as (http, leases):
        listed = [{"name": "ledger", "title": "Ledger", "digest": scenario.digest}]
        assert await http.ask("GET", "/scenarios") == (200, listed)
        _, hosted = await http.ask("GET", "/scenarios/ledger")
        info, image = await leases.hosted("ledger")
        assert msgspec.convert(hosted, HostedInfo) == info
        assert image[:15] == b"SQLite format 3"


async def test_a_token_is_required(scenario: Scenario) -> None:
    """With a token set, every request except /health needs it."""
    settings = WorldServerSettings(port=0, token="sesame")
    denied = {"error": "a bearer token is required, and this request has no token or a wrong one"}
    async with http_client(scenario, settings) as (http, _):
        for headers in ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "sesame"}):
            assert await http.ask("GET", "/worlds", **headers) == (401, denied)
        assert (await http.ask("GET", "/health"))[0] == 200
    async with http_client(scenario, settings, token="sesame") as (http, _):
        assert (await http.ask("GET", "/worlds"))[0] == 200


async def test_a_token_owns_its_worlds(scenario: Scenario, tmp_path: Path) -> None:
    """With several tokens, each lists its own worlds only, and the worlds of another do not exist
    for it; a fork belongs to the owner of its parent."""
    (tmp_path / "tokens").write_text("# of the teams\nred\n\nblue \n")
    settings = WorldServerSettings(port=0, token="sesame", token_file=str(tmp_path / "tokens"))
    async with direct_client(scenario, settings) as (http, leases):

        async def ask(token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
            return await http.ask(method, path, body, Authorization=f"Bearer {token}")

        assert (await ask("green", "GET", "/worlds"))[0] == 401
        owned = {}
        for token in ("sesame", "red", "blue"):
            _, world = await ask(token, "POST", "/worlds", {"scenario": "ledger"})
            _, fork = await ask(token, "POST", f"/worlds/{world['id']}/fork", b"")
            owned[token] = [world["id"], fork["id"]]
        for token, ids in owned.items():
            _, listed = await ask(token, "GET", "/worlds")
            assert [each["id"] for each in listed] == ids
        (path, _), other = owned["red"], f"/worlds/{owned['blue'][0]}"
        assert (await ask("red", "GET", f"/worlds/{path}"))[0] == 200
        for method, what in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/mcp"),
            ("POST", "/reset"),
            ("POST", "/fork"),
        ):
            status, content = await ask("red", method, other + what, b"{}")
            assert (status, content["error"][:23]) == (404, "there is no such world:")
        assert leases.num_live == 6


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "cannot read the tokens: No such file or directory"),
        ("# none\n", "there is no token in this file"),
        ("red\nbl\tue", "token 2 is not printable ASCII"),
    ],
)
async def test_a_bad_token_file(
    scenario: Scenario, tmp_path: Path, text: str | None, fault: str
) -> None:
    """A server does not start with a file in which it finds no valid tokens."""
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PoolError, match=f"^{file}: {fault}$"):
        async with served([scenario], WorldServerSettings(port=0, token_file=str(file))):
            pass


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "[::1]"}, 200),
        ({"Host": "LocalHost"}, 200),
        ({"Host": "worlds.example"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://worlds.example"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "file://localhost"}, 403),
        ({"Origin": "http://[bad"}, 403),
    ],
)
async def test_unknown_host_names_are_refused(
    scenario: Scenario, headers: dict[str, str], status: int
) -> None:
    """A request with a Host that is not a name of this server, or from the page of another site, is
    refused: that is DNS rebinding."""
    settings = WorldServerSettings(port=0, allow_hosts=("Worlds.example:80",))
    async with direct_client(scenario, settings) as (http, _):
        assert (await http.ask("GET", "/health", **headers))[0] == status


@pytest.mark.parametrize(
    ("origin", "status"), [("http://localhost:3000", 204), ("http://evil.example", 403)]
)
async def test_a_browser_on_an_allowed_page_may_send_requests(
    scenario: Scenario, origin: str, status: int
) -> None:
    """Its preflight needs no token and names what may be sent; its requests need one, and their
    answers may be read. By aiohttp: no browser takes part here."""
    asks = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-protocol-version",
    }
    settings = WorldServerSettings(port=0, token="secret")
    async with served([scenario], settings) as (_, url), aiohttp.ClientSession() as http:
        async with http.options(f"{url}/worlds", headers=asks) as preflight:
            assert preflight.status == status
            shown = preflight.headers
        async with http.post(f"{url}/worlds", json={}, headers={"Origin": origin}) as lease:
            assert lease.status == (401 if status == 204 else 403)
            read_by = lease.headers.get("access-control-allow-origin")
    if status == 204:
        assert shown["access-control-allow-origin"] == read_by == origin
        allowed = shown["access-control-allow-headers"].lower()
        assert all(name in allowed for name in ("authorization", "mcp-protocol-version"))
    else:
        assert "access-control-allow-origin" not in shown
        assert read_by is None


async def test_limits(scenario: Scenario) -> None:
    """The worlds of a client and of the server have limits; released worlds do not count."""
    async with direct_client(scenario, WorldServerSettings(port=0, worlds_per_client=2)) as (
        http,
        _,
    ):
        first = await http.world()
        await http.world()
        refused = {"error": "this client has 2 worlds, which is the limit"}
        assert await http.ask("POST", "/worlds", {"scenario": "ledger"}) == (429, refused)
        assert await http.ask("POST", first + "/fork", b"") == (429, refused)
        await http.ask("DELETE", first)
        await http.world()
    async with direct_client(scenario, WorldServerSettings(port=0, max_worlds=1)) as (http, _):
        await http.world()
        refused = {"error": "1 worlds are live, which is the limit of this server"}
        assert await http.ask("POST", "/worlds", {"scenario": "ledger"}) == (503, refused)


async def test_a_body_has_a_limit(scenario: Scenario) -> None:
    """A body that is too long is refused, with and without a Content-Length."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * 500

    async with http_client(scenario, WorldServerSettings(port=0, max_body=1000)) as (http, _):
        refused = {"error": "the body has more than 1000 bytes"}
        assert await http.ask("POST", "/worlds", b" " * 1001) == (413, refused)
        async with http.session.post(http.url + "/worlds", data=chunks()) as response:
            assert response.status == 413


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_worlds", 0), ("idle_s", -1.0), ("port", 65_536), ("token", "a\nb")],
)
def test_settings_are_checked(field: str, value: Any) -> None:
    """A setting that cannot be is named."""
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({field: value}, WorldServerSettings)


async def test_an_address_in_use(scenario: Scenario) -> None:
    """A server that cannot listen raises an error with the address and the reason."""
    async with http_client(scenario) as (http, leases):
        port = int(http.url.rpartition(":")[2])
        leases.settings = WorldServerSettings(port=port)
        with pytest.raises(PoolError, match=f"^127.0.0.1:{port}: cannot listen there: "):
            async with serving(leases):
                pass


async def test_idle_worlds_are_released(scenario: Scenario) -> None:
    """A world without calls for too long is released; one that was called since then stays."""
    async with direct_client(scenario, WorldServerSettings(port=0, idle_s=100)) as (http, leases):
        idle, used = await http.world(), await http.world()
        began = min(lease.used_at for lease in leases.all())
        leases.get(used.split("/")[-1]).used_at = began + 50  # type: ignore[union-attr]
        await leases.expire(began + 101)  # sums of floats: not at the limit exactly
        assert (await http.ask("GET", idle))[0] == 404
        assert (await http.ask("GET", used))[0] == 200
        await leases.expire(began + 151)
        assert leases.num_live == 0


# Slow calls -----------------------------------------------------------------------------------


class SlowEnv:
    """A world whose calls end when `release` of the pool is set."""

    awaits = True

    tools: Sequence[ToolSpec] = (ToolSpec("slow", "Wait.", {"type": "object"}),)
    start_digest = digest = "0" * 32

    def __init__(self, pool: "SlowPool") -> None:
        self._pool = pool

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        if name == "break":
            raise WorldError("the world is broken")
        async with self._pool.begun:
            self._pool.num_running += 1
            self._pool.begun.notify_all()
        await self._pool.release.wait()
        self._pool.num_running -= 1
        return ToolResult("done", None, (), self.digest)

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return ()

    def state(self) -> StoredState:
        raise NotImplementedError

    def fork(self) -> "SlowEnv":
        raise WorldError("this world cannot be forked")

    def reset(self) -> None:
        raise NotImplementedError


class SlowPool(LocalPool):
    """A pool of such worlds."""

    def __init__(self) -> None:
        super().__init__()
        self.release = anyio.Event()
        self.begun = anyio.Condition()
        self.num_running = 0

    async def host(self, scenario: Scenario) -> States:
        return self.world(scenario)

    @asynccontextmanager
    async def _lease(self) -> AsyncIterator[SlowEnv]:
        yield SlowEnv(self)

    def lease(self, scenario: Scenario, task: Task | None = None) -> Any:
        return self._lease()

    async def wait_until_running(self, count: int) -> None:
        async with self.begun:
            while self.num_running < count:
                await self.begun.wait()


@asynccontextmanager
async def slow_client(
    scenario: Scenario, settings: WorldServerSettings | None = None
) -> AsyncIterator[tuple[Http, Leases, SlowPool]]:
    pool = SlowPool()
    async with (
        Leases(pool, [scenario], settings or WorldServerSettings(port=0)) as leases,
        serving(leases) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Http(session, url), leases, pool
    pool.close()


async def test_one_call_of_a_world_at_a_time(scenario: Scenario) -> None:
    """Calls of one world wait for each other; those of another world do not."""
    async with slow_client(scenario) as (http, _, pool):
        first, second = await http.world(), await http.world()
        async with anyio.create_task_group() as group:
            for path in (first, first, second):
                group.start_soon(http.call, path, "slow")
            await pool.wait_until_running(2)
            assert pool.num_running == 2
            pool.release.set()
        counts = {path: (await http.ask("GET", path))[1]["calls"] for path in (first, second)}
        assert counts == {first: 2, second: 1}


async def test_calls_in_flight_have_a_limit(scenario: Scenario) -> None:
    """A client with too many calls in flight gets 429."""
    async with slow_client(scenario, WorldServerSettings(port=0, calls_per_client=1)) as (
        http,
        _,
        pool,
    ):
        path = await http.world()
        async with anyio.create_task_group() as group:
            group.start_soon(http.call, path, "slow")
            await pool.wait_until_running(1)
            refused = {"error": "this client has 1 calls in flight, which is the limit"}
            assert await http.modern(path, "tools/list") == (429, refused)
            pool.release.set()
        assert (await http.modern(path, "tools/list"))[0] == 200


async def test_a_release_waits_for_the_call(scenario: Scenario) -> None:
    """A world that is released during a call answers that call, and no later one."""
    async with slow_client(scenario) as (http, leases, pool):
        path = await http.world()
        lease = leases.all()[0]
        async with anyio.create_task_group() as group:
            group.start_soon(http.call, path, "slow")
            await pool.wait_until_running(1)
            await leases.expire(lease.used_at + 10_000)
            assert leases.num_live == 1
            group.start_soon(http.ask, "DELETE", path)
            with anyio.fail_after(30):
                while leases.num_live:
                    await anyio.lowlevel.checkpoint()
            assert not lease.released
            pool.release.set()
        assert lease.released


async def test_a_broken_world_is_an_error_of_the_protocol(scenario: Scenario) -> None:
    """A world that can no longer be used returns an error, and the server continues."""
    async with slow_client(scenario) as (http, _, _):
        path = await http.world()
        status, body = await http.modern(path, "tools/call", name="break", arguments={})
        assert status == 200
        assert body["error"] == {"code": -32011, "message": "the world is broken"}
        assert (await http.ask("POST", path + "/fork", b""))[0] == 422


async def test_draining_completes_running_calls(scenario: Scenario) -> None:
    """After SIGTERM no world is leased; live worlds are served until they are released, and the
    server ends with the last one."""
    pool, ready = SlowPool(), anyio.Event()
    urls: list[str] = []

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    async with (
        Leases(pool, [scenario], WorldServerSettings(port=0, drain_s=60)) as leases,
        aiohttp.ClientSession() as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(serve, leases, on_ready)
        await ready.wait()
        http = Http(session, urls[0])
        path = await http.world()
        async with anyio.create_task_group() as calls:
            calls.start_soon(http.call, path, "slow")
            await pool.wait_until_running(1)
            os.kill(os.getpid(), signal.SIGTERM)
            with anyio.fail_after(30):
                while not leases.draining:
                    await anyio.lowlevel.checkpoint()
            refused = {"error": "the server is about to stop and leases no more worlds"}
            assert await http.ask("POST", "/worlds", {"scenario": "ledger"}) == (503, refused)
            status, health = await http.ask("GET", "/health")
            assert (status, health["status"], health["worlds"]) == (503, "draining", 1)
            pool.release.set()
        assert text_of(await http.call(path, "slow")) == (False, "done")
        assert await http.ask("DELETE", path) == (204, None)
    pool.close()


async def test_a_second_signal_ends_the_wait(scenario: Scenario) -> None:
    """A second signal ends the server without waiting for worlds that are not released."""
    pool, ready = LocalPool(), anyio.Event()
    async with Leases(pool, [scenario], WorldServerSettings(port=0, drain_s=3600)) as leases:
        await leases.lease(NewWorld("ledger"), "test")
        async with anyio.create_task_group() as group:
            group.start_soon(serve, leases, lambda _: ready.set())
            await ready.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            with anyio.fail_after(30):
                while not leases.draining:
                    await anyio.lowlevel.checkpoint()
            os.kill(os.getpid(), signal.SIGINT)
        assert leases.num_live == 1
        with pytest.raises(LeaseRefused, match="about to stop"):
            await leases.lease(NewWorld("ledger"), "test")
    pool.close()


# MCP --------------------------------------------------------------------------------------------


async def test_the_modern_era(scenario: Scenario) -> None:
    """Revision 2026-07-28: discovery, tools with cache hints, results."""
    async with direct_client(scenario) as (http, leases):
        path = await http.world()
        cache = {"ttlMs": 3_600_000, "cacheScope": "private"}
        about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        status, body = await http.modern(path, "server/discover")
        assert (status, body["result"]) == (200, {**about, **cache, **STAMP})
        status, body = await http.modern(path, "tools/list")
        tools = body["result"].pop("tools")
        assert (status, body["result"]) == (200, {**cache, **STAMP})
        hosted, _ = await leases.hosted("ledger")
        assert tools == [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
            for tool in hosted.tools
        ]
        content = [{"type": "text", "text": '{"entry":2}'}]
        assert await http.call(path) == {"content": content, "isError": False, **STAMP}


async def test_the_handshake_era(scenario: Scenario) -> None:
    """Older revisions: an optional handshake, notifications, pings, plain results."""
    async with direct_client(scenario) as (http, _):
        mcp = await http.world() + "/mcp"

        async def ask(method: str, params: Any = None) -> Any:
            body = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params or {}}
            status, answered = await http.ask(
                "POST", mcp, body, MCP_Protocol_Version="2025-06-18", Mcp_Session_Id="made-up"
            )
            assert (status, answered["id"]) == (200, "a")
            return answered["result"]

        listed = await ask("tools/list")
        assert (list(listed), listed["tools"][0]["name"]) == (["tools"], "get_account")
        about = {"capabilities": {"tools": {}}, "serverInfo": INFO}
        for offered, agreed in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ]:
            initialized = await ask("initialize", {**CLIENT, "protocolVersion": offered})
            assert initialized == {"protocolVersion": agreed, **about}
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert await http.ask("POST", mcp, notification) == (202, None)
        assert await http.ask("POST", mcp, {"jsonrpc": "2.0", "id": 9, "result": {}}) == (202, None)
        assert await ask("ping") == {}
        called = await ask("tools/call", {"name": "book", "arguments": BOOK})
        content = [{"type": "text", "text": '{"entry":2}'}]
        assert called == {"content": content, "isError": False}


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("nothing", {}, "There is no tool 'nothing'"),
        ("book", {"amount": 5}, "account_id"),
        ("set_value", {"name": "a", "value": 2**70}, "value"),
        ("close_account", {"account_id": 1}, "Account 1 still holds 110."),
        ("broken", {}, "broken failed with an internal error"),
    ],
)
async def test_an_error_of_a_tool_is_a_result(
    scenario: Scenario, name: str, arguments: Any, text: str
) -> None:
    """An error for the agent is a result with isError, also for unknown tools, as in the stock
    servers; the state does not change."""
    async with direct_client(scenario) as (http, _):
        path = await http.world()
        _, body = await http.modern(path, "tools/call", name=name, arguments=arguments)
        is_error, found = text_of(body["result"])
        assert (is_error, text in found) == (True, True), found
        world = (await http.ask("GET", path))[1]
        assert world["digest"] == world["start_digest"]


_LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
_CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
_NEW = {"MCP_Protocol_Version": "2026-07-28"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", {}, 400, -32700),
        (b"\xff", {}, 400, -32700),
        (b"[" * 100_000, {}, 400, -32700),
        (b"[" * 100_000, {"MCP_Protocol_Version": "2025-06-18"}, 400, -32600),
        (b"7", {}, 400, -32600),
        ({"jsonrpc": "2.0"}, {}, 400, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, {}, 400, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, {}, 400, -32600),
        ([], {}, 400, -32600),
        ([_LIST], {"MCP_Protocol_Version": "2025-06-18"}, 400, -32600),
        ({**_LIST, "method": "resources/list"}, {}, 200, -32601),
        ({**_LIST, "method": "logging/setLevel"}, {}, 200, -32601),
        ({**_LIST, "method": "server/discover"}, {}, 200, -32601),
        ({**_LIST, "params": {"cursor": "x"}}, {}, 200, -32602),
        ({**_LIST, "params": []}, {}, 200, -32602),
        (_CALL, {}, 200, -32602),
        ({**_CALL, "params": {"name": "book", "arguments": []}}, {}, 200, -32602),
        ({**_LIST, "method": "initialize"}, {}, 200, -32602),
        (_LIST, _NEW, 400, -32602),
        (_LIST, {"MCP_Protocol_Version": "1999-01-01"}, 400, -32602),
        ({**_LIST, "params": {"_meta": {VERSION_KEY: "2026-07-28"}}}, _NEW, 400, -32602),
        ({**_LIST, "params": {"_meta": {**META, VERSION_KEY: 7}}}, _NEW, 400, -32602),
        ({**_LIST, "params": {"_meta": META}}, {}, 400, -32020),
        ({**_LIST, "params": {"_meta": META}}, _NEW, 400, -32020),
        (
            {**_LIST, "params": {"_meta": META}},
            {**_NEW, "Mcp_Method": "TOOLS/LIST"},
            400,
            -32020,
        ),
        (
            {**_LIST, "params": {"_meta": {**META, VERSION_KEY: "2027-01-01"}}},
            {"MCP_Protocol_Version": "2027-01-01", "Mcp_Method": "tools/list"},
            400,
            -32022,
        ),
        (
            {**_CALL, "params": {"name": "book", "_meta": META}},
            {**_NEW, "Mcp_Method": "tools/call", "Mcp_Name": "=?base64?Ym9?="},
            400,
            -32020,
        ),
        (
            {**_CALL, "params": {"_meta": META}},
            {**_NEW, "Mcp_Method": "tools/call"},
            400,
            -32602,
        ),
        (
            {**_LIST, "method": "ping", "params": {"_meta": META}},
            {**_NEW, "Mcp_Method": "ping"},
            404,
            -32601,
        ),
        ({"jsonrpc": "2.0", "method": "x"}, {"MCP_Protocol_Version": "1999-01-01"}, 400, -32022),
    ],
)
async def test_invalid_messages(
    scenario: Scenario, body: Any, headers: dict[str, str], status: int, code: int
) -> None:
    """Each error has the protocol's code and the era's status, and calls no tool."""
    async with direct_client(scenario) as (http, _):
        path = await http.world()
        answered, content = await http.ask("POST", path + "/mcp", body, **headers)
        assert (answered, content["error"]["code"]) == (status, code), content
        assert isinstance(content["error"]["message"], str)
        has_id = isinstance(body, dict) and body.get("id") is not None
        assert content["id"] == (1 if has_id else None)
        assert (await http.ask("GET", path))[1]["calls"] == 0


async def test_headers_may_be_wrapped_and_padded(scenario: Scenario) -> None:
    """A tool's name in base64, or with blanks around it, is the same name; a repeated header is an
    error."""
    body = {**_CALL, "params": {"name": "book", "arguments": BOOK, "_meta": META}}
    named = {**_NEW, "Mcp_Method": "tools/call"}
    async with http_client(scenario) as (http, _):
        mcp = await http.world() + "/mcp"
        for name in ("=?base64?Ym9vaw==?=", "  book  "):
            assert (await http.ask("POST", mcp, body, **named, Mcp_Name=name))[0] == 200
        twice = [("Content-Type", "application/json"), ("MCP-Protocol-Version", "2026-07-28")]
        twice += [("Mcp-Method", "tools/call"), ("Mcp-Name", "book"), ("Mcp-Name", "book")]
        async with http.session.post(
            http.url + mcp, data=msgspec.json.encode(body), headers=twice
        ) as response:
            assert (await response.json())["error"]["code"] == -32020


async def test_batches_of_older_revisions(scenario: Scenario) -> None:
    """Until 2025-03-26 several messages may be one batch: requests are answered in order."""
    async with direct_client(scenario) as (http, _):
        mcp = await http.world() + "/mcp"
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        call = {**_CALL, "id": 2, "params": {"name": "book", "arguments": BOOK}}
        for headers in ({}, {"MCP_Protocol_Version": "2025-03-26"}):
            messages = [notification, {**_LIST, "method": "ping"}, call, {"id": 3}]
            status, answers = await http.ask("POST", mcp, messages, **headers)
            assert (status, [answer["id"] for answer in answers]) == (200, [1, 2, None])
            assert answers[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
            assert text_of(answers[1]["result"])[0] is False
            assert answers[2]["error"]["code"] == -32600
        assert await http.ask("POST", mcp, [notification]) == (202, None)
        many = await http.ask("POST", mcp, [notification] * 65)
        assert (many[0], many[1]["error"]["code"]) == (400, -32600)


async def test_there_are_no_streams_and_no_sessions(scenario: Scenario) -> None:
    """GET and DELETE are not served on an endpoint, and a body must be JSON."""
    async with direct_client(scenario) as (http, _):
        mcp = await http.world() + "/mcp"
        for method in ("GET", "DELETE", "OPTIONS"):
            assert (await http.ask(method, mcp))[0] == 405
        assert (await http.ask("POST", mcp, _LIST, Content_Type="text/plain"))[0] == 415
        assert (await http.ask("POST", mcp, _LIST, Accept="text/html"))[0] == 406
        assert (await http.ask("POST", mcp, _LIST, Accept="application/*;q=0.5"))[0] == 200


async def test_a_call_id_is_executed_once(scenario: Scenario) -> None:
    """Any client may give its call an id: repeated, the call is answered from memory."""
    async with direct_client(scenario) as (http, _):
        path = await http.world()
        meta = {**META, CALL_KEY: {"id": "one"}}
        for _ in range(2):
            _, body = await http.modern(path, "tools/call", name="book", arguments=BOOK, _meta=meta)
            assert text_of(body["result"]) == (False, '{"entry":2}')
        assert text_of(await http.call(path)) == (False, '{"entry":3}')
        assert (await http.ask("GET", path))[1]["calls"] == 2


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_a_fastmcp_client(scenario: Scenario, mode: Any) -> None:
    """A stock client of any era lists and calls the tools of its own world, also at a URL with a
    slash at its end."""
    async with http_client(scenario) as (http, _):
        for _ in range(2):
            path = await http.world()
            async with McpClient(http.url + path + "/mcp/", mode=mode) as client:
                assert (await client.list_tools())[0].name == "get_account"
                called = await client.call_tool("book", BOOK)
                assert [part.text for part in called.content] == ['{"entry":2}']
                refused = await client.call_tool(
                    "close_account", {"account_id": 1}, raise_on_error=False
                )
                assert refused.is_error


# Standard streams -------------------------------------------------------------------------------


async def converse_about(scenario: Scenario, *messages: Any) -> list[Any]:
    """The answers of a world to these lines, one after the other."""
    answers: list[bytes] = []

    async def lines() -> AsyncIterator[bytes]:
        for message in messages:
            yield message if isinstance(message, bytes) else msgspec.json.encode(message) + b"\n"

    async def write(line: bytes) -> None:
        answers.append(line)

    pool = LocalPool()
    async with Leases(pool, [scenario]) as leases:
        lease = await leases.lease(NewWorld("ledger"), "stdio")
        await converse(lines(), write, lease.mcp, lease.call)
    pool.close()
    assert all(line.count(b"\n") == 1 for line in answers)
    return [msgspec.json.decode(line) for line in answers]


async def test_stdio_with_a_handshake(scenario: Scenario) -> None:
    """A client that begins with a handshake is answered line by line; later messages of the other
    era are refused."""
    answers = await converse_about(
        scenario,
        {**_LIST, "id": 1, "method": "initialize", "params": CLIENT},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        b"\n",
        {**_CALL, "id": 2, "params": {"name": "book", "arguments": BOOK}},
        b"nonsense\n",
        {**_LIST, "id": 3, "params": {"_meta": META}},
        [{**_LIST, "id": 4, "method": "ping"}],
    )
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert (answers[1]["id"], text_of(answers[1]["result"])) == (2, (False, '{"entry":2}'))
    assert (answers[2]["id"], answers[2]["error"]["code"]) == (None, -32700)
    assert (answers[3]["id"], answers[3]["error"]["code"]) == (3, -32600)
    assert answers[4:] == [[{"jsonrpc": "2.0", "id": 4, "result": {}}]]


async def test_stdio_without_a_handshake(scenario: Scenario) -> None:
    """A modern client is answered; a later handshake is refused."""
    answers = await converse_about(
        scenario,
        {**_LIST, "id": 1, "method": "server/discover", "params": {"_meta": META}},
        {**_CALL, "id": 2, "params": {"name": "book", "arguments": BOOK, "_meta": META}},
        {**_LIST, "id": 3, "method": "initialize", "params": CLIENT},
        {**_LIST, "id": 4, "params": {"_meta": {**META, VERSION_KEY: "2027-01-01"}}},
        {**_LIST, "id": 5},
    )
    assert answers[0]["result"]["supportedVersions"] == ["2026-07-28"]
    assert text_of(answers[1]["result"]) == (False, '{"entry":2}')
    assert [each["error"]["code"] for each in answers[2:]] == [-32022, -32022, -32602]


@pytest.mark.slow
async def test_stdio_to_a_stock_client(scenario: Scenario) -> None:
    """The command speaks MCP on its standard streams, and ends with its input."""
    command = ["-m", "rehearsal_room", "serve", str(scenario.path), "--stdio"]
    async with McpClient(StdioTransport(sys.executable, command)) as client:
        assert (await client.list_tools())[0].name == "get_account"
        called = await client.call_tool("book", BOOK)
        assert [part.text for part in called.content] == ['{"entry":2}']


async def test_a_dialogue_has_a_tool_to_talk() -> None:
    """The tool is there for a task with a user, and for no other; a fork goes on with the talk, and
    a reset begins it again."""
    async with direct_client(find("shop_support")) as (http, _):
        tools = []
        for task in ("boots-on-order", "which-boots"):
            new = {"scenario": "shop_support", "task": task}
            _, world = await http.ask("POST", "/worlds", new)
            path = f"/worlds/{world['id']}"
            _, listed = await http.modern(path, "tools/list")
            tools.append({tool["name"] for tool in listed["result"]["tools"]})
        assert tools[1] - tools[0] == {"talk_to_user"}

        async def say(path: str, text: str) -> tuple[bool, str]:
            return text_of(await http.call(path, "talk_to_user", text=text))

        boots = "The Ridgeline Boot in size 40. The SKU is RDG-B-40."
        assert await say(path, "Which model?") == (False, boots)
        _, fork = await http.ask("POST", path + "/fork", b"")
        forked = f"/worlds/{fork['id']}"
        assert await say(path, "Done.") == (
            False,
            "Thanks, I'll let Tarn know.\n(The user has ended the talk.)",
        )
        assert await say(path, "Hello?") == (True, "(The user has ended the talk.)")
        assert await say(forked, "Is there more?") == (False, "That's all I can tell you.")
        await http.ask("POST", path + "/reset", b"")
        assert await say(path, "Which model?") == (False, boots)
        is_error, text = text_of(await http.call(path, "talk_to_user", words="Hello"))
        assert (is_error, "takes one argument, text" in text) == (True, True)
