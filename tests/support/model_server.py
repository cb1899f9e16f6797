"""A chat-completions server on loopback with planned replies and faults.

    async with ModelServer() as server:
        server.plan(Status(429, headers={"Retry-After": "0"}), Completes("hello"))
        ... send two requests to server.url; server.requests has both

Each request gets the next behaviour of the plan, and `default` once the plan is done. A request
for the list of models gets `models` and is counted in `num_listings` only; `models` None: the
server has no such list.
"""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import anyio


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]  # by lower-case names
    body: dict[str, Any]
    connection: int  # number of its connection, from 0


class Behaviour(Protocol):
    """The reaction to one request."""

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer or not; return whether the connection stays open."""


@dataclass(frozen=True)
class Completes:
    """A completion with this text and these calls, as (id, name, arguments text)."""

    text: str | None
    calls: tuple[tuple[str, str, Any], ...] = ()
    finish: str | None = None
    message: Mapping[str, Any] = field(default_factory=dict)  # more fields of the message
    chunked: bool = False
    close: bool = False  # close the connection afterwards, without announcing it
    after: asyncio.Event | None = None  # an event to wait for before the reply

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        if self.after is not None:
            await self.after.wait()
        body = json.dumps(self.completion()).encode()
        if self.chunked:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(body), 50):
                piece = body[start : start + 50]
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")
        else:
            writer.write(response(200, body))
        return not self.close

    def completion(self) -> dict[str, Any]:
        """The response's body."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text, **self.message}
        if self.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id, name, arguments in self.calls
            ]
        finish = self.finish or ("tool_calls" if self.calls else "stop")
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }


@dataclass(frozen=True)
class Status:
    """A refusal in OpenAI's form, or with the given body."""

    status: int
    message: str = "not now"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        error = {"error": {"message": self.message, "type": "some_error", "code": self.code}}
        body = json.dumps(error).encode() if self.body is None else self.body
        writer.write(response(self.status, body, self.headers))
        return True


@dataclass(frozen=True)
class Body:
    """Status 200 with this body, which need not be a completion."""

    body: bytes

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        writer.write(response(200, self.body))
        return True


@dataclass(frozen=True)
class Stall:
    """Never a whole answer; `part` of one is sent first."""

    part: bytes = b""

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        writer.write(self.part)
        await asyncio.Event().wait()
        return False


@dataclass(frozen=True)
class Cut:
    """The connection ends after `part` of an answer; `hard`: by a reset."""

    part: bytes = b""
    hard: bool = False

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        writer.write(self.part)
        await writer.drain()
        if self.hard:
            writer.transport.abort()
        return False


def response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole HTTP response."""
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}\r\n" for name, value in (fields | dict(headers or {})).items()]
    return f"HTTP/1.1 {status} Word\r\n{''.join(lines)}\r\n".encode() + body


class ModelServer(anyio.AsyncContextManagerMixin):
    """The server, which runs inside its `async with`."""

    def __init__(
        self,
        default: Behaviour | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        port: int = 0,  # 0: a free one
    ) -> None:
        self.default: Behaviour = default or Completes("ok")
        self.requests: list[ReceivedRequest] = []
        self.models: tuple[str, ...] | None = ("*",)  # any model, as gateways list it
        self.num_listings = 0
        self.url = ""
        self.in_flight = 0
        self.most_in_flight = 0
        self._tls = tls  # None: plain HTTP
        self._port = port
        self._changed = asyncio.Condition()
        self._stopped = asyncio.Event()
        self._plan: deque[Behaviour] = deque()
        self._num_connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def plan(self, *behaviours: Behaviour) -> None:
        """Add behaviours for the next requests."""
        self._plan.extend(behaviours)

    @property
    def num_open(self) -> int:
        """Connections that are open now."""
        return len(self._tasks)

    def stop(self) -> None:
        """Accept no further connection, and cut those that are open; from its own event loop."""
        self._stopped.set()

    async def in_flight_reaches(self, number: int) -> None:
        """Wait until `number` requests are being answered at the same time."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.in_flight >= number)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, ssl=self._tls)
        port = server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}/v1"
        closing = asyncio.ensure_future(self._close_when_stopped(server))
        try:
            yield self
        finally:
            closing.cancel()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _close_when_stopped(self, server: asyncio.Server) -> None:
        await self._stopped.wait()
        server.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer, self._num_connections))
        self._num_connections += 1
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        try:
            while (request := await _read(reader, number)) is not None:
                if request.path.endswith("/models"):
                    writer.write(self._listing())
                    continue
                self.requests.append(request)
                behaviour = self._plan.popleft() if self._plan else self.default
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                async with self._changed:
                    self._changed.notify_all()
                try:
                    stays = await behaviour.perform(request, writer)
                finally:
                    self.in_flight -= 1
                await writer.drain()
                if self._stopped.is_set() or not stays:
                    return
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _listing(self) -> bytes:
        self.num_listings += 1
        if self.models is None:
            return response(404, b'{"detail": "Not Found"}')
        listing = {"object": "list", "data": [{"id": name} for name in self.models]}
        return response(200, json.dumps(listing).encode())


async def _read(reader: asyncio.StreamReader, number: int) -> ReceivedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")[:-2]
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ReceivedRequest(first.split(" ")[1], headers, json.loads(body or b"{}"), number)
