"""What all wires share of HTTP: bodies, errors in FastAPI's form, and WebSockets.

The servers of these protocols are FastAPI applications, so an error is `{"detail": "a sentence"}`.
"""

from typing import Any
from urllib.parse import parse_qs

from rehearsal_room.envpool.server.jsonrpc import RpcError, parse_value
from rehearsal_room.envpool.server.messages import HeaderPairs, Receive, Response, Scope, Send, json


class WireError(Exception):
    """A request is answered by an error. `status` is that of HTTP."""

    def __init__(self, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(why)
        self.status = status
        self.headers: HeaderPairs = headers

    def response(self) -> Response:
        """The error as a response."""
        return refusal(self.status, str(self), *self.headers)


def refusal(status: int, why: str, *headers: tuple[bytes, bytes]) -> Response:
    """An error in FastAPI's form."""
    made = json(status, {"detail": why})
    return Response(made.status, made.body, (*made.headers, *headers))


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty body is an empty object. Raises WireError."""
    if not body.strip():
        return {}
    try:
        value = parse_value(body)
    except RpcError as exc:
        raise WireError(422, f"the body is not JSON: {exc.message}") from exc
    if not isinstance(value, dict):
        raise WireError(422, f"the body must be a JSON object, not {type(value).__name__}")
    return value


def text_field(values: dict[str, Any], name: str) -> str:
    """A text among the values of a body. Raises WireError."""
    value = values.get(name)
    if not isinstance(value, str):
        raise WireError(422, f"{name}: expected a text, got {type(value).__name__}")
    return value


def number_field(values: dict[str, Any], name: str) -> int:
    """A whole number among the values of a body. Raises WireError."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError(422, f"{name}: expected a whole number, got {type(value).__name__}")
    return value


class Socket:
    """One WebSocket of texts."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path: str = scope["path"]
        self.client: str = scope["client"][0] if scope.get("client") else ""
        self._query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        self._receive = receive
        self._send = send

    def query(self, name: str) -> str | None:
        """A parameter of its URL."""
        found = self._query.get(name)
        return found[0] if found else None

    async def accept(self) -> None:
        """Accept it."""
        await self._receive()  # the request
        await self._send({"type": "websocket.accept"})

    async def next(self) -> str | None:
        """The next message; None: the client has gone."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        if text is None:
            text = str(message.get("bytes") or b"", "utf-8", "replace")
        return text

    async def send(self, text: bytes) -> None:
        """Send a message. Does nothing where the client has gone."""
        try:
            await self._send({"type": "websocket.send", "text": text.decode()})
        except OSError:  # uvicorn's ClientDisconnected: the next receive reports it
            return

    async def close(self) -> None:
        """Close it."""
        try:
            await self._send({"type": "websocket.close", "code": 1000})
        except (OSError, RuntimeError):  # the client has gone
            return
