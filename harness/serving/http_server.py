"""A served checkpoint over HTTP, for any client of OpenAI's chat API.

    POST /v1/chat/completions    a reply (see harness.serving.chat_api)
    GET  /v1/models              the one model
    GET  /health                 that it is up

A use that differs from the checkpoint's training is told in the header `X-Rehearsal-Warning`, in
the field `rehearsal` of the body, and in the log. Raw ASGI; the socket is envpool's.
"""

import signal
from collections.abc import Awaitable, Callable, MutableMapping
from secrets import token_hex
from typing import Any

import anyio
import msgspec
import structlog

from envpool.server.auth import AccessCheck
from envpool.server.http_server import listening
from envpool.server.settings import ServeSettings
from harness.core.errors import ContextLengthError, PolicyError
from harness.serving.chat_api import completion, events, read_request, refusal
from harness.serving.conversations import NotServed
from harness.serving.service import PolicyService

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_JSON, _EVENTS = b"application/json", b"text/event-stream"
_log = structlog.get_logger(__name__)


class Response(msgspec.Struct, frozen=True):
    """What is answered."""

    status: int
    body: bytes
    kind: bytes = _JSON
    warnings: tuple[str, ...] = ()


class PolicyApp:
    """The ASGI application of one checkpoint."""

    def __init__(self, service: PolicyService, settings: ServeSettings) -> None:
        self._service = service
        self._access = AccessCheck(settings)
        self._most = settings.max_body

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one HTTP request; one whose client has gone is given up."""
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        body = await _body(receive, self._most)
        if body is None:
            await _send(send, Response(413, refusal(f"the body has more than {self._most} bytes")))
            return
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope)
            await _send(send, await self._response(scope, body))
            group.cancel_scope.cancel()

    async def _response(self, scope: MutableMapping[str, Any], body: bytes) -> Response:
        headers = dict(scope["headers"])
        path, method = scope["path"], scope["method"]
        if fault := self._access.refusal(headers, open_to_all=path == "/health"):
            return Response(fault[0], refusal(fault[1], kind="permission_error"))
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
            asked = read_request(body)
            if asked.model not in ("", model):
                why = f"there is no model {asked.model!r} here; there is {model!r}"
                return Response(404, refusal(why, code="model_not_found"))
            answered = await self._service.answer(asked)
        except NotServed as exc:
            return Response(400, refusal(str(exc)))
        except ContextLengthError as exc:
            return Response(400, refusal(str(exc), code="context_length_exceeded"))
        except PolicyError as exc:
            _log.warning("not_answered", why=str(exc))
            return Response(503, refusal(str(exc), kind="server_error"))
        id = f"chatcmpl-{token_hex(12)}"
        if asked.stream:
            told = events(answered, model=model, id=id, usage=asked.stream_usage)
            return Response(200, told, _EVENTS, answered.warnings)
        return Response(200, completion(answered, model=model, id=id), _JSON, answered.warnings)

    def _models(self) -> bytes:
        service = self._service
        model = {
            "id": service.name,
            "object": "model",
            "created": 0,
            "owned_by": "rehearsal",
            "max_model_len": service.context,
            "rehearsal": {
                "history": service.use.history.spec,
                "dialect": service.use.dialect.name,
                "warnings": service.use.warnings,
            },
        }
        return msgspec.json.encode({"object": "list", "data": [model]})


async def serve(
    service: PolicyService, settings: ServeSettings, ready: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are answered first. `ready` is told the
    base URL, `/v1` included. Raises PoolError where the address cannot be had."""
    app = PolicyApp(service, settings)
    served = listening(app, host=settings.host, port=settings.port, drain_s=settings.drain_s)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with served as url:
            if not settings.token and not _is_local(settings.host):
                _log.warning("served_without_token", host=settings.host)
            ready(f"{url}/v1")
            async for _ in signals:
                return


def _is_local(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


async def _body(receive: Receive, most: int) -> bytes | None:
    """The request's body; None: it is longer than allowed."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return bytes(body)


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
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
