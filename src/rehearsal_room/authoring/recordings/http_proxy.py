"""Stand between MCP clients and a server behind a URL: bodies are passed on, and read along.

    client  --POST /mcp-->  http://127.0.0.1:PORT  --POST /mcp-->  https://ops.example
            <-JSON, SSE---                         <--------------

A client uses our address in the place of the URL; its headers go on to the server, a token too, and
are not recorded. An answer stands in the response to its own request, or on a stream that the
client opened before. Each session of the server (`Mcp-Session-Id`) is one of the recording; what
has none is one from `initialize` to the next.

Not covered: a login with OAuth, in which the server names its own address; WebSockets.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rehearsal_room.authoring.recordings.recorder import Lines, Recorder, messages_of
from rehearsal_room.envpool.server.guard import AccessCheck, Guard
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.settings import WorldServerSettings

_HOST = "127.0.0.1"
_MAX_BODY = 64 * 2**20  # bytes of a request
_CONNECT_S = 30.0
_DRAIN_S = 1.0
_SESSION = "mcp-session-id"
_EVENTS = "text/event-stream"
_OF_THE_CONNECTION = frozenset(  # headers that are not passed on (RFC 9110, section 7.6.1)
    {
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "host", "content-length", "accept-encoding", "origin"),
    }
)
_OF_BROWSERS = "access-control-"  # the guard answers browsers


@asynccontextmanager
async def recording_of(url: str, path: Path, port: int = 0) -> AsyncIterator[str]:
    """Record the sessions of clients with a server for the block; yields the address that takes the
    URL's place. `port` 0: a free one. Raises PackageError where the file is another one, and
    PoolError where the port is not free."""
    parts = urlsplit(url)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=timeout, trust_env=True, auto_decompress=False)
        )
        proxy = _Proxy(f"{parts.scheme}://{parts.netloc}", url, path, http)
        stack.callback(proxy.close)
        access = AccessCheck(WorldServerSettings(host=_HOST))
        app = Guard(proxy, access, max_body=_MAX_BODY, refusal=_refusal)
        base = await stack.enter_async_context(
            listening(app, host=_HOST, port=port, drain_s=_DRAIN_S)
        )
        yield base + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _refusal(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(why, status, headers)


class _Proxy:
    """The ASGI application."""

    def __init__(self, origin: str, url: str, path: Path, http: aiohttp.ClientSession) -> None:
        self._origin, self._url, self._path, self._http = origin, url, path, http
        self._numbers = count(1)  # of requests: two clients may give their calls equal ids
        self._recorders = {"": Recorder(path, (url,))}  # by session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request and its response."""
        request = Request(scope, receive)
        body = await request.body()
        number = f"{next(self._numbers)}" if request.method == "POST" else ""
        session = request.headers.get(_SESSION, "")
        if number:
            self._from_client(session, body, number)
        try:
            answer = await self._http.request(
                request.method,
                self._origin + _target(scope),
                data=body or None,
                headers=[*_passed_on(request.headers.items()), ("accept-encoding", "identity")],
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            why = f"rehearse: {self._origin} cannot be reached: {exc or type(exc).__name__}"
            await PlainTextResponse(why, 502)(scope, receive, send)
            return
        if request.method == "DELETE" and answer.ok and session in self._recorders:
            self._recorders.pop(session).close(0)
        response = StreamingResponse(self._body(answer, session, number), answer.status)
        response.raw_headers = [
            (name.encode("latin-1"), self._local(name, value, request).encode("latin-1"))
            for name, value in _passed_on(answer.headers.items())
        ]
        await response(scope, receive, send)

    def close(self) -> None:
        """End the recorded sessions."""
        while self._recorders:
            self._recorders.popitem()[1].close(0)

    def _from_client(self, session: str, body: bytes, number: str) -> None:
        begins = any(message.get("method") == "initialize" for message in messages_of(body))
        if begins and not session and "" in self._recorders and self._recorders[""].has_calls:
            self._recorders.pop("").close(0)
        self._recorder(session).from_client(body, number)

    def _recorder(self, session: str) -> Recorder:
        if session not in self._recorders:
            self._recorders[session] = Recorder(self._path, (self._url,))
        return self._recorders[session]

    async def _body(
        self, answer: aiohttp.ClientResponse, session: str, number: str
    ) -> AsyncIterator[bytes]:
        """The body of a response, as it comes; each message is recorded before it is passed on."""
        recorder = self._recorder(session)

        def observe(message: bytes) -> None:
            recorder.from_server(message, number)

        if answer.headers.get("content-encoding", "identity") != "identity":
            sys.stderr.write(
                "rehearse: the server sent a compressed answer, which is not recorded\n"
            )
        read = _Events(observe) if answer.content_type == _EVENTS else _Whole(observe)
        try:
            async for chunk in answer.content.iter_any():
                read.feed(chunk)
                yield chunk
            read.end()
        except (aiohttp.ClientError, OSError) as exc:
            sys.stderr.write(f"rehearse: the connection to {self._origin} broke: {exc}\n")
        finally:
            answer.close()

    def _local(self, name: str, value: str, request: Request) -> str:
        """A header; where the server sends the client to another address of its own, that address
        with us in between."""
        if name.lower() == "location" and value.startswith(f"{self._origin}/"):
            return f"http://{request.headers['host']}{value.removeprefix(self._origin)}"
        return value


class _Whole:
    """A body that is one message, or one batch."""

    def __init__(self, observe: Callable[[bytes], None]) -> None:
        self._observe = observe
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Take further bytes."""
        if len(self._held) <= _MAX_BODY:
            self._held += data

    def end(self) -> None:
        """The body is complete."""
        if 0 < len(self._held) <= _MAX_BODY:
            self._observe(bytes(self._held))


class _Events:
    """A stream of events (HTML, section 9.2.6), each with a message in its `data` lines."""

    def __init__(self, observe: Callable[[bytes], None]) -> None:
        self._observe = observe
        self._lines = Lines()
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Take further bytes."""
        for line in self._lines.feed(data):
            name, _, value = line.removesuffix(b"\r").partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not name and not value:
                self.end()

    def end(self) -> None:
        """An event, or the stream, is complete."""
        if self._data:
            self._observe(b"\n".join(self._data))
        self._data = []


def _target(scope: Scope) -> str:
    """The path of a request as the client wrote it, with its query."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return (path.partition(b"?")[0] + (b"?" + query if query else b"")).decode("latin-1")


def _passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _OF_THE_CONNECTION and not name.lower().startswith(_OF_BROWSERS)
    ]
