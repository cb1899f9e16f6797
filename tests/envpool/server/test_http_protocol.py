"""How our HTTP protocol sends responses, and what it does when a client goes."""

import socket

import anyio
import pytest
from anyio.to_thread import run_sync
from starlette.types import Receive, Scope, Send

from rehearsal_room.envpool.server.http_protocol import WHEN_GONE
from rehearsal_room.envpool.server.http_server import listening
from tests.support.bad_clients import HOST

BODY = b"x" * 1_000
HEADERS = [(b"content-length", b"%d" % len(BODY))]
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Answers:
    """An application. It waits for `goes_on` between the head and the body of `/slow`."""

    def __init__(self) -> None:
        self.goes_on = anyio.Event()
        self.gone = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the body."""
        scope[WHEN_GONE] = self.gone.set
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        if scope["path"] == "/slow":
            await self.goes_on.wait()
        await send({"type": "http.response.body", "body": BODY})


def first_piece(client: socket.socket, request: bytes) -> bytes:
    """What the first read of an answer gets."""
    client.sendall(request)
    return client.recv(65_536)


async def test_a_response_arrives_in_one_piece() -> None:
    """The client reads head and body at once, on a connection that is used again, too."""
    app = Answers()
    async with listening(app, host="127.0.0.1", port=0, drain_s=1.0) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
            for _ in range(20):
                answer = await run_sync(first_piece, client, GET)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                assert answer.endswith(b"\r\n\r\n" + BODY)
            answer = await run_sync(first_piece, client, GET.replace(b"/ HTTP/1.1", b"/ HTTP/1.0"))
            assert answer.endswith(BODY)
            assert await run_sync(client.recv, 1) == b""  # HTTP/1.0: the connection ends
    assert not app.gone.is_set()


async def test_a_head_does_not_wait_for_its_body() -> None:
    """A stream's client gets the head at once; where it leaves then, the
    application's function is called."""
    app = Answers()
    async with listening(app, host="127.0.0.1", port=0, drain_s=1.0) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
            answer = await run_sync(first_piece, client, GET.replace(b"/ ", b"/slow "))
            assert answer.endswith(b"\r\n\r\n")
            assert not app.gone.is_set()
        with anyio.fail_after(5):
            await app.gone.wait()
        app.goes_on.set()
