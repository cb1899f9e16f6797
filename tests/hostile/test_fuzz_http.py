"""HTTP requests that a hostile client may send: to the lease API, to MCP endpoints, to a policy.

Seeds are fixed; `just test-long` tries many more.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.app import App
from rehearsal_room.envpool.server.jsonrpc import CALL_KEY, CAPABILITIES_KEY, VERSION_KEY
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.serving.http_server import PolicyApp
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.scenarios.format import Scenario
from tests.support.budgets import repeats
from tests.support.http_app import ask
from tests.support.ledger_world import ledger
from tests.support.mutations import mutated_bytes, mutated_value, seeds_of
from tests.support.remote_pool import served
from tests.support.scripted_tokens import ScriptedTokens
from tests.support.served_models import TOOL, card_of, service_of
from tests.support.tiny_model import write_tokenizer

META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CALL_KEY: {"id": "a", "world": 1}}
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}}
CALL = {"name": "book", "arguments": {"account_id": 1, "amount": 5}}
MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "book"}
MESSAGES: tuple[Any, ...] = (
    *({"jsonrpc": "2.0", "id": 1, "method": name} for name in ("ping", "tools/list")),
    {"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {"a": [1, None]}},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {**CALL, "_meta": META}},
    {"jsonrpc": "2.0", "id": 4, "method": "server/discover", "params": {"_meta": META}},
    [{"jsonrpc": "2.0", "id": 5, "method": "ping"}, {"jsonrpc": "2.0", "id": 6, "result": {}}],
)
CLOSE = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
NEW = {"scenario": "ledger", "task": "open", "seed": 7}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ],
    "tools": [TOOL],
    "temperature": 0.5,
    "top_p": 0.9,
    "max_tokens": 9,
    "seed": 5,
    "stream_options": {"include_usage": True},
    "rehearsal": {"history": "last:1", "dialect": "hermes"},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


def body_of(rng: Random, values: Sequence[Any]) -> bytes:
    """A mutated body: by its values, or by its bytes."""
    if rng.random() < 0.6:
        value = mutated_value(rng, rng.choice(values))
        return msgspec.json.encode(value)
    return mutated_bytes(rng, [msgspec.json.encode(value) for value in values])


@pytest.mark.slow
async def test_bodies_of_the_world_server(scenario: Scenario) -> None:
    """Every body has an answer with a status below 500 (503 where the server is full) and with
    JSON; nothing is raised, and the server serves the next client."""
    pool = LocalPool()
    settings = WorldServerSettings(port=0, worlds_per_client=50)
    async with Leases(pool, [scenario], settings) as leases:
        app = App(leases)
        statuses = set()
        for rng in seeds_of(repeats(short=3_000, long=200_000)):
            lease = await leases.lease(NewWorld("ledger"), "test")
            mcp = f"/worlds/{lease.id}/mcp"
            path, headers = rng.choice([("/worlds", {}), (mcp, {}), (mcp, MODERN)])
            body = body_of(rng, [NEW] if path == "/worlds" else MESSAGES)
            status, content = await ask(app, "POST", path, body, **headers)
            statuses.add(status)
            assert content is not None or status == 202
            await leases.release(lease)
        assert statuses <= {200, 201, 202, 400, 404, 429}
        assert {200, 201, 202, 400, 404} <= statuses
        for one in leases.all():
            await leases.release(one)
        assert (await ask(app, "POST", "/worlds", msgspec.json.encode(NEW)))[0] == 201
    pool.close()


async def test_bodies_of_the_policy_server(tmp_path: Path) -> None:
    """Every body is answered, or refused with a reason; nothing is raised."""
    write_tokenizer(tmp_path)
    chat = ChatTokenizer.open(tmp_path)
    number = repeats(short=1_500, long=60_000)
    backend = ScriptedTokens(chat, ["ok"] * number)
    app = PolicyApp(service_of(backend, chat, card_of(chat)), WorldServerSettings())
    statuses = set()
    for rng in seeds_of(number):
        body = body_of(rng, [CHAT])
        status, content = await ask(app, "POST", "/v1/chat/completions", body)
        statuses.add(status)
        assert status == 200 or content["error"]["message"], body
    assert statuses == {200, 400, 404}


def requests_of(path: str) -> list[bytes]:
    """Requests as they stand on a connection, each of which a server answers."""
    host = b"Host: localhost\r\nAuthorization: Bearer sesame\r\n"
    typed = host + b"Content-Type: application/json\r\n"
    new, call = msgspec.json.encode(NEW), msgspec.json.encode(MESSAGES[5])
    modern = b"".join(b"%s: %s\r\n" % (k.encode(), v.encode()) for k, v in MODERN.items())
    mcp = b"POST %b/mcp HTTP/1.1\r\n" % path.encode()
    return [
        b"GET /worlds HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /scenarios/ledger/image HTTP/1.1\r\n" + host + b"\r\n",
        b"GET %b HTTP/1.0\r\n" % path.encode() + host + b"\r\n",
        b"DELETE /worlds/x HTTP/1.1\r\n" + host + b"\r\n",
        b"POST /worlds HTTP/1.1\r\n" + typed + b"Content-Length: %d\r\n\r\n" % len(new) + new,
        mcp + typed + modern + b"Content-Length: %d\r\n\r\n" % len(call) + call,
        mcp + typed + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x;a=b\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(call), call),
        b"POST %b/reset HTTP/1.1\r\n" % path.encode() + host + b"Content-Length: 0\r\n\r\n",
    ]  # fmt: skip


async def answers_to(port: int, data: bytes) -> bytes:
    """What a server sends to these bytes, which end with CLOSE, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = bytearray()
    try:
        writer.write(data)
        for _ in range(2):
            with anyio.move_on_after(1) as scope:
                while piece := await reader.read(65_536):
                    answers += piece
            if not scope.cancelled_caught:
                return bytes(answers)
            writer.write(CLOSE)  # a body has swallowed the first one: the connection is idle
        raise AssertionError(f"the connection stays open after {data!r}")
    except ConnectionError:
        return bytes(answers)
    finally:
        writer.close()


def statuses_in(answers: bytes) -> set[int]:
    """The statuses of responses."""
    return {int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()}


@pytest.mark.slow
async def test_bytes_of_requests(scenario: Scenario, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever bytes come over a connection, the server answers below 500 or closes it, and serves
    the next client; no connection stays."""
    settings = WorldServerSettings(
        port=0, token="sesame", headers_s=0.1, body_s=0.1, max_body=100_000, max_worlds=50_000
    )
    found: set[int] = set()

    async def attack(port: int, path: str, rng: Random) -> None:
        requests = requests_of(path)
        data = mutated_bytes(rng, requests)
        if rng.random() < 0.3:
            data = rng.choice(requests) + data
        found.update(statuses_in(await answers_to(port, data + CLOSE)))

    async with served([scenario], settings) as (leases, url):
        port = int(url.rpartition(":")[2])
        lease = await leases.lease(NewWorld("ledger"), "test", owner=0)
        rngs = list(seeds_of(repeats(short=600, long=30_000)))
        for start in range(0, len(rngs), 100):
            with anyio.fail_after(30):
                async with anyio.create_task_group() as group:
                    for rng in rngs[start : start + 100]:
                        group.start_soon(attack, port, f"/worlds/{lease.id}", rng)
        assert statuses_in(await answers_to(port, CLOSE)) == {200}
    assert {200, 201, 400, 401, 404, 408} <= found
    assert not {status for status in found if status >= 500 and status != 505}
    assert not [record for record in caplog.records if record.exc_info]
