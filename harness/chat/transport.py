"""How request bodies reach a chat-completions endpoint: the seam, and its lean side.

A transport makes one attempt and says what came of it; whether to try again is decided above it.

The lean side speaks HTTP/1.1 by itself over asyncio's transports: 0.03 ms of CPU a request where
aiohttp takes 0.17 ms, and the harness around it 0.06 ms. It does not cover proxies, for which
aiohttp stands in, nor redirects, HTTP/2 and cookies, which such endpoints do not use.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from harness.chat.http1 import BadResponse, Response, ResponseReader


class Endpoint(msgspec.Struct, frozen=True):
    """Where the model is."""

    base_url: str  # without a slash at its end, as in `https://api.openai.com/v1`
    api_key: str | None  # None: no Authorization header is sent
    organization: str | None
    project: str | None
    timeout_s: float  # for one attempt, from sending to the last byte
    concurrency: int  # requests in flight at once
    method: Literal["POST", "GET"] = "POST"

    @property
    def url(self) -> str:
        """Where chat completions are asked for."""
        return self.base_url + "/chat/completions"

    @property
    def headers(self) -> dict[str, str]:
        """The request headers that do not depend on the body."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if self.organization is not None:
            headers["OpenAI-Organization"] = self.organization
        if self.project is not None:
            headers["OpenAI-Project"] = self.project
        return headers


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One response, whole."""

    status: int
    headers: Mapping[str, str]  # looked up by lower-case names
    body: bytes


class Unreachable(Exception):
    """No whole response came. `was_sent`: the server may have had the request, and bill it."""

    def __init__(
        self, kind: Literal["connection", "timeout"], message: str, *, was_sent: bool = True
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.was_sent = was_sent


class Transport(Protocol):
    """Sends requests to one endpoint. An async context manager that owns its connections."""

    async def post(self, body: bytes) -> Answer:
        """One attempt. Raises Unreachable. Cancelled: the request is given up."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class LeanTransport:
    """Keeps connections open and uses the youngest first. On asyncio only."""

    def __init__(self, endpoint: Endpoint) -> None:
        parts = urlsplit(endpoint.url)
        assert parts.hostname is not None  # the endpoint's URL was checked
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_tls = parts.scheme == "https"
        self._tls: ssl.SSLContext | None = None
        self._timeout_s = endpoint.timeout_s
        self._head = _request_head(endpoint)
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._idle: list[_Connection] = []
        self._connections: set[_Connection] = set()
        self._is_open = False

    async def __aenter__(self) -> Self:
        if self._is_tls:
            self._tls = ssl.create_default_context()
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._idle.clear()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # the sockets are closed by then

    async def post(self, body: bytes) -> Answer:
        """One attempt. The wait for a free slot is not counted in its timeout.

        A kept connection that the server closed just when we wrote gives way to a new one.
        """
        if not self._is_open:
            raise RuntimeError("the model client is used outside of its `async with`")
        async with self._slots:
            deadline = asyncio.get_running_loop().time() + self._timeout_s
            while self._idle:
                connection = self._idle.pop()
                if connection.is_open:
                    try:
                        return await self._ask(connection, body, deadline)
                    except _Stale:
                        break
            return await self._ask(await self._connect(deadline), body, deadline)

    async def _ask(self, connection: "_Connection", body: bytes, deadline: float) -> Answer:
        try:
            response = await connection.ask(self._head, body, deadline)
        except _TimedOut as exc:
            raise self._timed_out() from exc
        if response.keep_alive and self._is_open:
            self._idle.append(connection)
        else:
            connection.abort()
        return Answer(response.status, response.headers, response.body)

    async def _connect(self, deadline: float) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                made = await loop.create_connection(
                    lambda: _Connection(self._connections), self._host, self._port, ssl=self._tls
                )
        except TimeoutError as exc:
            raise self._timed_out() from exc
        except OSError as exc:
            fault = f"{type(exc).__name__}: {exc}"
            raise Unreachable("connection", fault, was_sent=False) from exc
        return made[1]

    def _timed_out(self) -> Unreachable:
        return Unreachable("timeout", f"no answer within {self._timeout_s:g} s")


class _Stale(Unreachable):
    """A connection that had served before ended without a byte of the answer."""


class _TimedOut(Exception):
    """The deadline has passed."""


class _Connection(asyncio.Protocol):
    """One connection, one request at a time. It is in `register` while it is open."""

    def __init__(self, register: "set[_Connection]") -> None:
        self._register = register
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None  # None: not open
        self._waiter: asyncio.Future[Response] | None = None  # None: nothing was asked
        self._has_served = False

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None

    async def ask(self, head: bytes, body: bytes, deadline: float) -> Response:
        """Send a request and read its response. Raises Unreachable and _TimedOut.

        Whatever ends it but a response ends the connection, cancellation included.
        """
        assert self._transport is not None and self._waiter is None
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Response] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_at(deadline, self._fail, _TimedOut())
        try:
            self._transport.writelines((head + b"%d\r\n\r\n" % len(body), body))
            response = await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None
        self._has_served = True
        return response

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by isinstance
        self._register.add(self)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():  # nobody asked: not a server to go on with
            self.abort()
            return
        try:
            response = self._reader.feed(data)
        except BadResponse as exc:
            self._fail(Unreachable("connection", str(exc)))
            return
        if response is not None:
            waiter.set_result(response)

    def eof_received(self) -> None:
        response = self._reader.end()
        if response is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._register.discard(self)
        told = f": {exc}" if exc is not None else ""
        if self._has_served and self._reader.untouched:
            self._fail(_Stale("connection", f"the server closed the connection{told}"))
        else:
            self._fail(Unreachable("connection", f"the connection ended before the answer{told}"))

    def _fail(self, exc: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc)


def _request_head(endpoint: Endpoint) -> bytes:
    """A request's head up to the number of Content-Length."""
    parts = urlsplit(endpoint.url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    headers = {"Host": parts.netloc, "User-Agent": "rehearsal", **endpoint.headers}
    lines = [f"{endpoint.method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\nAccept-Encoding: identity\r\nContent-Length: ").encode()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL (`HTTPS_PROXY`, `NO_PROXY`, ...)."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
