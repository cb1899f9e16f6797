"""uvicorn's HTTP protocol, with bounds on what a client may hold before it has shown a token.

uvicorn keeps whatever arrives until the headers of a request are complete, for any number of
connections and for any time: 60 MiB of headers on one connection grew the server by 640 MiB, and
1,500 half requests stayed until their clients left. Here:

- a request line and its headers have at most `max_headers` bytes and 100 lines (431), and are
  complete `headers_s` seconds after their first byte (408); a new connection that sends nothing is
  closed after that time;
- an incomplete body is refused after `body_s` seconds without a byte (408); what follows a response
  that did not need the rest of the body has `headers_s` seconds in all;
- trailers are dropped, and with the extensions of chunks they have the bound of the headers;
- a connection has at most 16 requests that wait for the one before them (400);
- more than `max_connections` connections are answered with 503 at once.

A head may pass with up to twice its bound, depending on how its bytes arrive.

A response's head leaves with the first bytes of its body. uvicorn writes them one after the other,
and uvloop sends each write at once: two system calls, and a client that wakes up twice.
"""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from rehearsal_room.envpool.server.settings import HttpLimits

_MAX_LINES = 100  # headers of a request
_MAX_PIPELINED = 16  # requests of a connection that wait for the one before them
# The key of an application's function in its scope, which is called where the client goes away
# before the response is complete: a wait for `http.disconnect` takes a task for each request.
WHEN_GONE = "rehearsal.when_gone"


def _nothing() -> None:
    pass


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `limits` is set by a subclass."""

    limits = HttpLimits()
    _refused = False
    _in_head = True  # the next bytes belong to a request line or to headers
    _head_bytes = 0  # of the incomplete head, without the piece in which it began
    _num_begun = 0  # requests
    _bytes_without_body = 0  # in a row, of an incomplete body: trailers, extensions of chunks
    _waits_since: float | None = None  # for more bytes; None: no request is incomplete
    _why_refused = (400, "Invalid HTTP request received.")  # where the parser finds a fault

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin, or refuse where there are too many connections."""
        limit = self.limits.max_connections
        if len(self.connections) >= limit:
            self._refused = True
            self.transport = transport
            self._close_with(503, f"{limit} connections are open, which is the limit")
            return
        super().connection_made(transport)
        self._waits_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """End; call the function of an application that is still at work on a response."""
        if self.flow is None:  # it was refused at once
            return
        super().connection_lost(exc)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.scope.get(WHEN_GONE, _nothing)()  # type: ignore[operator]  # `WHEN_GONE`

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to the parser, in pieces of at most the bound of a head."""
        if self._waits_since is None and (self.cycle is None or self.cycle.response_complete):
            self._in_head, self._head_bytes = True, 0
            self._waits_since = self.loop.time()
        size = self.limits.max_headers
        if len(data) <= size:
            self._feed(data)
            return
        while data and not self._refused and not self.transport.is_closing():
            self._feed(data[:size])
            data = data[size:]

    def _feed(self, piece: bytes) -> None:
        if self._refused:
            return
        num_begun = self._num_begun
        self._bytes_without_body += len(piece)
        super().data_received(piece)
        if self._waits_since is None:
            return  # the request is complete
        if self._in_head:
            is_same = num_begun == self._num_begun
            self._head_bytes = self._head_bytes + len(piece) if is_same else 0
            is_long = self._head_bytes >= self.limits.max_headers
            if is_long or (self._num_begun and len(self.headers) > _MAX_LINES):
                self._refuse(431, self._too_large)
        else:
            if not self.cycle.response_complete:
                self._waits_since = self.loop.time()
            if self._bytes_without_body > self.limits.max_headers:
                self._refuse(400, "the trailers or the chunks of the body are too long")

    @property
    def _too_large(self) -> str:
        return (
            f"the request line and the headers have more than {self.limits.max_headers} bytes"
            f" or {_MAX_LINES} lines"
        )

    # Callbacks of the parser: an exception ends in `send_400_response` ----------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise ValueError("too many requests wait on this connection")
        self._num_begun += 1
        self._in_head = True
        if self._waits_since is None:
            self._waits_since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The body follows."""
        if len(self.headers) > _MAX_LINES:
            self._why_refused = 431, self._too_large
            raise ValueError("too many headers")
        self._in_head = False
        self._head_bytes = self._bytes_without_body = 0
        super().on_headers_complete()
        if not (self.parser.should_upgrade() and self._should_upgrade()):
            self.headers = []  # for trailers, which are dropped

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        joined: Any = _HeadWithBody(cycle.transport, self.loop)  # it has what a cycle uses
        cycle.transport = joined
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._bytes_without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._waits_since = None
        super().on_message_complete()

    # Refusals ------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Close the connection if it has waited too long for the rest of a request. `now`: a time
        of the event loop."""
        since = self._waits_since
        if since is None or self._refused or self.transport.is_closing():
            return
        answered = self.cycle is not None and self.cycle.response_complete
        if self._in_head or answered:
            if now - since >= self.limits.headers_s:
                self._refuse(408, f"no complete headers within {self.limits.headers_s:g} s")
        elif now - since >= self.limits.body_s and not self.flow.read_paused:
            self._refuse(408, f"no byte of the body for {self.limits.body_s:g} s")

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser cannot read."""
        self._refuse(*self._why_refused)

    def _refuse(self, status: int, why: str) -> None:
        """Close the connection; with an answer where the refused request is the
        one whose response comes next."""
        self._refused = True
        cycle = self.cycle  # of the last request whose headers were complete
        if cycle is None or cycle.response_complete:
            is_next = self._in_head and self._num_begun > 0
        else:
            is_next = not self._in_head and not self.pipeline and not cycle.response_started
        if is_next:
            self._close_with(status, why)
        else:
            self.transport.close()

    def _close_with(self, status: int, why: str) -> None:
        body = msgspec.json.encode({"error": why})
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()


class _HeadWithBody:
    """The transport of one response: what is written first waits for what follows in the same turn
    of the loop. It has what uvicorn uses of a transport for a response."""

    __slots__ = ("_first", "_has_begun", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._first = b""  # waits
        self._has_begun = False

    def write(self, data: bytes) -> None:
        """Send the bytes, after those that wait."""
        if self._first:
            data, self._first = self._first + data, b""
        elif not self._has_begun:
            self._has_begun, self._first = True, data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._first and not self.is_closing():
            self.write(b"")

    def close(self) -> None:
        """Close the connection, once everything is sent."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closing, or closed."""
        return self._transport.is_closing()


def protocol_with(limits: HttpLimits) -> type[BoundedProtocol]:
    """The protocol with these limits."""
    return type("Protocol", (BoundedProtocol,), {"limits": limits})


def expire_all(connections: Any, now: float) -> None:
    """Close the connections that have waited too long."""
    for connection in list(connections):
        if isinstance(connection, BoundedProtocol):
            connection.expire(now)
