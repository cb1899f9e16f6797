"""What a client that showed no token can do to a server, through sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync

from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.format import Scenario
from tests.support.bad_clients import HOST, MANY_HEADERS, BadClient, half_requests, status_of
from tests.support.ledger_world import ledger
from tests.support.remote_pool import served

GET = b"GET /worlds HTTP/1.1\r\n" + HOST
POST = b"POST /worlds HTTP/1.1\r\n" + HOST
HEALTH = b"GET /health HTTP/1.1\r\n" + HOST


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


@asynccontextmanager
async def port_of(scenario: Scenario, **settings: Any) -> AsyncIterator[int]:
    """The port of a server with a token."""
    chosen = WorldServerSettings(port=0, token="sesame", **settings)
    async with served([scenario], chosen) as (_, url):
        yield int(url.rpartition(":")[2])


def answer_to(port: int, *pieces: bytes) -> bytes:
    """What a server sends to these pieces, until it closes the connection."""
    with BadClient(port) as client:
        for piece in pieces:
            client.send(piece)
        return client.answer()


@pytest.mark.parametrize(
    "head",
    [
        GET + MANY_HEADERS,
        GET + b"a: " + b"b" * 100_000,
        GET + b"a" * 100_000,
        b"GET /" + b"a" * 100_000,
        GET + b"a: b\r\n" * 101 + b"\r\n",
    ],
)
async def test_headers_without_end_are_refused(scenario: Scenario, head: bytes) -> None:
    """A head that is too long is refused with 431 while it arrives, in whichever part of it the
    bytes are, also on a connection that was used before."""

    def ask(port: int) -> tuple[bytes, bytes]:
        with BadClient(port) as client:
            client.send(GET + b"\r\n")
            first = client.reply()
            client.send(head)
            return first, client.answer().rpartition(b"HTTP/1.1 ")[2]

    async with port_of(scenario) as port:
        assert status_of(await run_sync(answer_to, port, head)) == 431
        first, second = await run_sync(ask, port)
        assert (status_of(first), second[:4]) == (401, b"431 ")


async def test_long_headers_are_served(scenario: Scenario) -> None:
    """A head and a body just below their bounds are read, in pieces and in one."""
    filler = b"".join(b"x%d: %s\r\n" % (index, b"b" * 300) for index in range(50))
    body = b"{" * 100_000
    request = GET.replace(b"GET", b"POST") + filler + b"content-length: %d\r\n\r\n" % len(body)
    close = HEALTH + b"connection: close\r\n\r\n"

    def ask(port: int) -> bytes:
        pieces = [request[start : start + 1000] for start in range(0, len(request), 1000)]
        return answer_to(port, *pieces, body, request + body, request + body + close)

    async with port_of(scenario) as port:
        answer = await run_sync(ask, port)
    statuses = [status_of(b"HTTP/1.1 " + part) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [401, 401, 401, 200]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 0),
        (b"GET", 408),
        (GET, 408),
        (b"\r\n", 0),
        (POST + b"authorization: Bearer sesame\r\ncontent-length: 9\r\n\r\n{", 408),
        (POST + b"content-length: 9\r\n\r\n{", 401),
        (HEALTH + b"\r\n" + b"GET", 200),
    ],
)
async def test_an_incomplete_request_has_a_deadline(
    scenario: Scenario, sent: bytes, status: int
) -> None:
    """A connection whose request does not become complete is closed: headers, body, and the rest
    of a body whose request was refused."""
    async with port_of(scenario, headers_s=0.2, body_s=0.2) as port:
        answer = await run_sync(answer_to, port, sent)
    assert status_of(answer) == status


async def test_slow_headers_do_not_move_their_deadline(scenario: Scenario) -> None:
    """A client that sends one byte after the other is refused at the deadline of the headers."""

    def trickle(port: int) -> int:
        with BadClient(port) as client:
            sent = 0
            while not client.wait(0.01) and sent < 3_000:
                client.send(b"\r\n" if sent < 3 else b"a")
                sent += 1
            return sent

    async with port_of(scenario, headers_s=0.2) as port:
        assert await run_sync(trickle, port) < 3_000


@pytest.mark.parametrize(
    "chunks",
    [b"0\r\n" + b"a: b\r\n" * 20_000, b"1;" + b"a" * 100_000, b"0\r\na: " + b"b" * 100_000],
)
async def test_trailers_without_end_are_refused(scenario: Scenario, chunks: bytes) -> None:
    """What follows or surrounds a body in chunks has the bound of the headers."""
    head = POST + b"transfer-encoding: chunked\r\n\r\n"
    async with port_of(scenario) as port:
        answer = await run_sync(answer_to, port, head, chunks)
    assert status_of(answer) in (400, 401)


async def test_requests_that_wait_have_a_limit(scenario: Scenario) -> None:
    """A connection cannot pile up requests that wait for the one before them."""
    async with port_of(scenario) as port:
        answer = await run_sync(answer_to, port, (GET + b"\r\n") * 400)
    assert answer.count(b"HTTP/1.1 401") < 20


async def test_connections_have_a_limit(scenario: Scenario) -> None:
    """More connections than the limit are refused at once; half requests free their connection
    when their time is over, and others are then served."""

    def attack(port: int) -> tuple[list[int], bytes]:
        with half_requests(port, 20) as clients:
            refused = [status_of(client.answer()) for client in clients]
        return sorted(refused), answer_to(port, HEALTH + b"connection: close\r\n\r\n")

    async with port_of(scenario, max_connections=8, headers_s=0.3) as port:
        statuses, healthy = await run_sync(attack, port)
    assert statuses == [408] * 8 + [503] * 12
    assert status_of(healthy) == 200


async def test_a_server_takes_little_of_endless_headers(scenario: Scenario) -> None:
    """Of 60 MiB of headers a server takes a small part (the rest is in no process: the connection
    is closed)."""

    def flood(port: int) -> tuple[int, int]:
        with BadClient(port) as client:
            client.send(GET)
            sent = 0
            while sent < 60 * 2**20 and client.send(MANY_HEADERS):
                sent += len(MANY_HEADERS)
            return sent, status_of(client.answer())

    async with port_of(scenario) as port:
        sent, status = await run_sync(flood, port)
    assert sent < 16 * 2**20
    assert status == 431
