"""What all protocols share of HTTP: applications, bodies, errors in FastAPI's form, and WebSockets.

The servers of these protocols are FastAPI applications, so an error is `{"detail": "a sentence"}`.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.protocols.sessions import NotBegun, SessionError
from rehearsal_room.envpool.protocols.task_lists import BadTask
from rehearsal_room.envpool.server.answers import ErrorHandler, handlers_with, json, retry
from rehearsal_room.envpool.server.jsonrpc import RpcError, parse_value
from rehearsal_room.envpool.server.leases import LeaseRefused


def detail(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error in FastAPI's form."""
    return json({"detail": why}, status, headers)


def wire_app(routes: Sequence[BaseRoute], *, unfit: int) -> Starlette:
    """An application of these routes. `unfit` is the status where a request does not fit its
    session or its task."""
    handlers = {
        **handlers_with(detail),
        LeaseRefused: _lease_refused,
        NotBegun: _status(410),
        SessionError: _status(unfit),
        BadTask: _status(unfit),
        PoolError: _status(500),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


class WorldRoute(Route):
    """A route below the name of a world. That there is no such world is found before a wrong
    method."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        methods: Collection[str],
        world_of: Callable[[Request], object],  # raises HTTPException
    ) -> None:
        super().__init__("/{world}" + path, endpoint, methods=methods)
        self._world_of = world_of

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of this path."""
        self._world_of(Request(scope))
        await super().handle(scope, receive, send)


def _status(status: int) -> ErrorHandler:
    async def answer(request: Request, exc: Exception) -> Response:
        return detail(status, str(exc))

    return answer


async def _lease_refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, LeaseRefused)
    return detail(exc.status, str(exc), retry(exc.status))


async def object_of(request: Request) -> dict[str, Any]:
    """The JSON object of a body; an empty body is an empty object. Raises HTTPException."""
    value = await value_of(request)
    if not isinstance(value, dict):
        raise HTTPException(422, f"the body must be a JSON object, not {type(value).__name__}")
    return value


async def value_of(request: Request) -> Any:
    """The JSON value of a body; an empty body is an empty object. Raises HTTPException."""
    body = await request.body()
    try:
        return parse_value(body) if body.strip() else {}
    except RpcError as exc:
        raise HTTPException(422, f"the body is not JSON: {exc.message}") from exc


def text_field(values: dict[str, Any], name: str) -> str:
    """A text among the values of a body. Raises HTTPException."""
    value = values.get(name)
    if not isinstance(value, str):
        raise HTTPException(422, f"{name}: expected a text, got {type(value).__name__}")
    return value


def number_field(values: dict[str, Any], name: str) -> int:
    """A whole number among the values of a body. Raises HTTPException."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise HTTPException(422, f"{name}: expected a whole number, got {type(value).__name__}")
    return value


async def next_text(socket: WebSocket) -> str | None:
    """The next message of a WebSocket; None: the client has gone."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        return None
    text: str | None = message.get("text")
    return str(message.get("bytes") or b"", "utf-8", "replace") if text is None else text


async def send_text(socket: WebSocket, text: bytes) -> None:
    """Send a message. Does nothing where the client has gone: the next receive reports it."""
    with suppress(WebSocketDisconnect):
        await socket.send_text(text.decode())


async def close(socket: WebSocket) -> None:
    """Close a WebSocket, unless its client has."""
    if socket.client_state is WebSocketState.CONNECTED:
        with suppress(OSError, RuntimeError, WebSocketDisconnect):  # it goes at this moment
            await socket.close()
