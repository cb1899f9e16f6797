"""A request, its response and its errors, as plain ASGI has them, for everything that is served."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import ErrorBody

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]
HeaderPairs = tuple[tuple[bytes, bytes], ...]

_JSON = b"application/json"
JSON_HEADER = ((b"content-type", _JSON),)


class Response(msgspec.Struct, frozen=True):
    """An HTTP response: status, body, and headers without the content length."""

    status: int
    body: bytes = b""
    headers: HeaderPairs = JSON_HEADER


class Request(msgspec.Struct, frozen=True):
    """A request whose access was checked."""

    method: str
    path: str
    headers: Headers
    body: bytes
    client: str  # address
    owner: int | None  # number of its token; None: there are no tokens


class HttpError(Exception):
    """A request cannot be served; `response` is the answer."""

    def __init__(self, status: int, why: str, *more: tuple[bytes, bytes]) -> None:
        super().__init__(why)
        if status in (429, 503):
            more = (*more, (b"retry-after", b"1"))
        self.response = Response(status, m.encode(ErrorBody(why)), (*JSON_HEADER, *more))


def headers_of(scope: Scope) -> Headers:
    """The headers of a request; the values of a repeated header are joined by a line feed."""
    headers: Headers = {}
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b"\n" + value if name in headers else value
    return headers


def json(status: int, value: Any) -> Response:
    """A response whose body is the JSON of a value."""
    return Response(status, m.encode(value))


async def body_of(headers: Headers, receive: Receive, *, limit: int) -> bytes:
    """The body of a request. Raises HttpError for one that is incomplete, or longer than `limit`
    bytes."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > 18 or int(length) > limit):
        raise HttpError(413, f"the body has more than {limit} bytes")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, "the body is incomplete")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise HttpError(413, f"the body has more than {limit} bytes")
        if not message.get("more_body", False):
            return b"".join(chunks) if len(chunks) > 1 else chunks[0]
