"""A served checkpoint over HTTP, for any client of OpenAI's chat API.

    POST /v1/chat/completions    a reply (see harness.serving.chat_api)
    GET  /v1/models              the one model
    GET  /health                 whether the server is up

Where the format of a request differs from the checkpoint's training, the header
`X-Rehearsal-Warning`, the field `rehearsal` of the body, and the log report it. Raw ASGI; envpool
opens the socket.
"""

import signal
from collections.abc import Awaitable, Callable, MutableMapping
from secrets import token_hex
from typing import Any

import anyio
import msgspec
import structlog

from rehearsal_room.envpool.server.auth import AccessCheck
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.settings import ServeSettings
from rehearsal_room.harness.core.errors import ContextLengthError, PolicyError
from rehearsal_room.harness.serving.chat_api import completion, events, read_request, refusal
from rehearsal_room.harness.serving.conversations import UnsupportedRequest
from rehearsal_room.harness.serving.service import PolicyService

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_JSON, _EVENTS = b"application/json", b"text/event-stream"
_log = structlog.get_logger(__name__)


class Response(msgspec.Struct, frozen=True):
    """An HTTP response."""

    status: int
    body: bytes
    kind: bytes = _JSON
    warnings: tuple[str, ...] = ()


class PolicyApp:
    """The ASGI application of one checkpoint."""

    def __init__(self, service: PolicyService, settings: ServeSettings) -> None:
        self._service = service
        self._access = AccessCheck(settings)
        self._max_body = settings.max_body

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one HTTP request; abandon it when its client disconnects."""
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        headers = dict(scope["headers"])
        is_health = scope["path"] == "/health"
        if fault := self._access.refusal(headers, open_to_all=is_health):  # before the body is read
            await _send(send, Response(fault[0], refusal(fault[1], kind="permission_error")))
            return
        body = await _read_body(receive, self._max_body)
        if body is None:
            too_long = f"the body has more than {self._max_body} bytes"
            await _send(send, Response(413, refusal(too_long)))
            return
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_disconnect, receive, group.cancel_scope)
            await _send(send, await self._response(scope, body))
            group.cancel_scope.cancel()

    async def _response(self, scope: MutableMapping[str, Any], body: bytes) -> Response:
        path, method = scope["path"], scope["method"]
        match method, path:
            case "POST", "/v1/chat/completions":
                return await self._completion(body)
            case "GET", "/v1/models":
                return Response(200, self._models())
            case "GET", "/health":
                return Response(200, msgspec.json.encode({"status": "ok"}))
        return Response(404, refusal(f"there is nothing at {method} {path}"))

    async def _completion(self, body: bytes) -> Response:
        model = self._service.name
        try:
            request = read_request(body)
            if request.model not in ("", model):
                fault = f"there is no model {request.model!r} here (expected {model!r})"
                return Response(404, refusal(fault, code="model_not_found"))
            answer = await self._service.answer(request)
        except UnsupportedRequest as exc:
            return Response(400, refusal(str(exc)))
        except ContextLengthError as exc:
            return Response(400, refusal(str(exc), code="context_length_exceeded"))
        except PolicyError as exc:
            _log.warning("not_answered", why=str(exc))
            return Response(503, refusal(str(exc), kind="server_error"))
        id = f"chatcmpl-{token_hex(12)}"
        if request.stream:
            stream = events(answer, model=model, id=id, usage=request.stream_usage)
            return Response(200, stream, _EVENTS, answer.warnings)
        return Response(200, completion(answer, model=model, id=id), _JSON, answer.warnings)

    def _models(self) -> bytes:
        service = self._service
        model = {
            "id": service.name,
            "object": "model",
            "created": 0,
            "owned_by": "rehearsal",
            "max_model_len": service.context,
            "rehearsal": {
                "history": service.format.history.spec,
                "dialect": service.format.dialect.name,
                "warnings": service.format.warnings,
            },
        }
        return msgspec.json.encode({"object": "list", "data": [model]})


async def serve(
    service: PolicyService, settings: ServeSettings, ready: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are answered first. `ready` is called with
    the base URL, `/v1` included. Raises PoolError where the address is not available."""
    app = PolicyApp(service, settings)
    server = listening(
        app,
        host=settings.host,
        port=settings.port,
        drain_s=settings.drain_s,
        limits=settings.http_limits,
    )
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with server as url:
            if not settings.token and not _is_local(settings.host):
                _log.warning("served_without_token", host=settings.host)
            ready(f"{url}/v1")
            async for _ in signals:
                return


def _is_local(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


async def _read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the request's body; None: it is longer than allowed."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > max_bytes:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return bytes(body)


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _send(send: Send, response: Response) -> None:
    headers = [
        (b"content-type", response.kind),
        (b"content-length", b"%d" % len(response.body)),
        *[(b"x-rehearsal-warning", one.encode("ascii", "replace")) for one in response.warnings],
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
