"""Bytes that are not text and numbers that Python does not read: faults of the client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.envpool.core.remote_states import Snapshot
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.app import App
from rehearsal_room.envpool.server.jsonrpc import CALL_KEY, CAPABILITIES_KEY, VERSION_KEY
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.stdio import converse
from rehearsal_room.scenarios.format import Scenario
from tests.support.http_app import ask
from tests.support.ledger_world import ledger

DIGITS = b"7" * 5_000
META = msgspec.json.encode({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}})
# Values of JSON that cannot be read, and one that is nested too deeply.
BAD = {
    "text": b'"\xff\xfe"',
    "name": b'{"\xff": 1}',
    "digits": DIGITS,
    "digits in a list": b"[1, -%b, 1e999]" % DIGITS,
    "half a pair": b'"\\ud800"',
    "half a pair beside a large number": b'["\\udfff", %b]' % (b"7" * 50),
    "depth": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


@asynccontextmanager
async def app_of(scenario: Scenario) -> AsyncIterator[tuple[App, str]]:
    """An application, and the path of a leased world."""
    pool = LocalPool()
    async with Leases(pool, [scenario], WorldServerSettings(port=0)) as leases:
        lease = await leases.lease(NewWorld("ledger"), "test")
        yield App(leases), f"/worlds/{lease.id}"
    pool.close()


def bodies(bad: bytes) -> dict[str, bytes]:
    """Messages for an endpoint that each have the value somewhere else."""
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}'
    named = b'{"name":"book","arguments":%b,"_meta":%b}'
    extended = b'{"%b":%b,%b' % (CALL_KEY.encode(), b"%b", META[1:])
    return {
        "id": b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % bad,
        "method": b'{"jsonrpc":"2.0","id":1,"method":%b}' % bad,
        "params": call % bad,
        "arguments": call % (named % (bad, META)),
        "argument": call % (named % (b'{"account_id":%b,"amount":5}' % bad, META)),
        "meta": call % (named % (b"{}", bad)),
        "field of meta": call % (named % (b"{}", b'{"x":%b,%b' % (bad, META[1:]))),
        "version": call % (named % (b"{}", b'{"%b":%b}' % (VERSION_KEY.encode(), bad))),
        "tool": call % (b'{"name":%b,"_meta":%b}' % (bad, META)),
        "call": call % (named % (b"{}", extended % bad)),
        "call id": call % (named % (b"{}", extended % (b'{"id":%b}' % bad))),
        "world": call % (named % (b"{}", extended % (b'{"id":"x","world":%b}' % bad))),
        "state": call % (named % (b"{}", extended % (b'{"id":"x","world":1,"state":%b}' % bad))),
        "our arguments": call % (named % (b"{}", extended % (b'{"id":"x","arguments":%b}' % bad))),
        "cursor": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":%b}}' % bad,
        "initialize": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}' % bad,
        "client": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":'
        b'"2025-06-18","capabilities":{},"clientInfo":{"name":%b}}}' % bad,
        "notification": b'{"jsonrpc":"2.0","method":"x","params":%b}' % bad,
        "result": b'{"jsonrpc":"2.0","id":1,"result":%b}' % bad,
        "batch": b'[{"jsonrpc":"2.0","id":%b,"method":"ping"}]' % bad,
        "whole": bad,
    }


@pytest.mark.parametrize("bad", BAD)
async def test_the_endpoint_refuses_what_it_cannot_read(scenario: Scenario, bad: str) -> None:
    """Wherever a message has a value that cannot be read, in either era: the answer is an error of
    the protocol or of the tool, the status 400 where the body is not JSON, and never 500; the
    world has not changed."""
    modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "book"}
    async with app_of(scenario) as (app, path):
        _, before = await ask(app, "GET", path)
        for where, body in bodies(BAD[bad]).items():
            for headers in ({}, {"MCP-Protocol-Version": "2025-06-18"}, modern):
                status, content = await ask(app, "POST", f"{path}/mcp", body, **headers)
                assert status in (200, 202, 400), (where, status, content)
                if status == 400:
                    assert content["error"]["code"] in (-32700, -32600, -32602, -32020), content
        _, after = await ask(app, "GET", path)
        assert after["digest"] == before["digest"]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    "body", [b"%b", b'{"scenario":%b}', b'{"scenario":"ledger","seed":%b}', b'{"%b":1}']
)
async def test_the_lease_api_refuses_what_it_cannot_read(
    scenario: Scenario, body: bytes, bad: str
) -> None:
    """A request for a world that cannot be read is refused with 400 and a sentence."""
    async with app_of(scenario) as (app, _):
        status, content = await ask(app, "POST", "/worlds", body % BAD[bad])
        assert (status, content["error"][:34]) == (400, "the body is not a request for a wo")


@pytest.mark.parametrize("bad", [DIGITS, b"\xff\xff"])
async def test_headers_and_paths_that_are_not_text(scenario: Scenario, bad: bytes) -> None:
    """Odd bytes in a header or a path are compared like any other."""
    async with app_of(scenario) as (app, path):
        text = bad.decode("latin-1")
        for name in ("Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Authorization", "Accept"):
            status, _ = await ask(app, "POST", f"{path}/mcp", b"{}", **{name: text})
            assert status in (400, 406)
        for name in ("Host", "Origin"):
            assert (await ask(app, "GET", "/worlds", b"", **{name: text}))[0] == 403
        assert (await ask(app, "POST", "/worlds", b"{}", **{"Content-Length": text}))[0] in (
            400,
            413,
        )
        for where in ("/worlds/", "/scenarios/", "/"):
            assert (await ask(app, "GET", where + bad.decode("utf-8", "replace")))[0] == 404


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"pages": {}, "num_pages": 1, "digest": "ab"})[:-2] + b"\xff\xff",
        msgspec.msgpack.encode({"pages": {2**63: b""}, "num_pages": 2**64 - 1, "digest": ""}),
        msgspec.msgpack.encode(Snapshot({}, 1, "0" * 32, 2**64 - 1)),
        b"\x91" * 100_000,
    ],
)
async def test_states_that_cannot_be_read(scenario: Scenario, state: bytes) -> None:
    """A state that is not one is an error of the protocol."""
    async with app_of(scenario) as (app, path):
        extension = {"id": "x", "world": 1, "state": state}
        params = {"name": "book", "arguments": {}, "_meta": {CALL_KEY: extension}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        status, content = await ask(app, "POST", f"{path}/mcp", m.encode(message))
        assert (status, content["error"]["code"]) == (200, m.INVALID_PARAMS)


@pytest.mark.parametrize("bad", BAD)
async def test_the_standard_streams_answer_on(scenario: Scenario, bad: str) -> None:
    """A line that cannot be read is answered, and the next one, too."""
    for where, body in bodies(BAD[bad]).items():
        written: list[bytes] = []

        async def lines(body: bytes = body) -> AsyncIterator[bytes]:
            for line in (body, b'{"jsonrpc":"2.0","id":5,"method":"ping"}'):
                yield line + b"\n"

        async def write(line: bytes, written: list[bytes] = written) -> None:
            written.append(line)

        pool = LocalPool()
        async with Leases(pool, [scenario]) as leases:
            lease = await leases.lease(NewWorld("ledger"), "stdio")
            await converse(lines(), write, lease.mcp, lease.call)
        pool.close()
        assert msgspec.json.decode(written[-1])["id"] == 5, where
