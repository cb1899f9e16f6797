"""A served checkpoint over HTTP, for any client of OpenAI's chat API.

    POST /v1/chat/completions    a reply (see harness.model_api.chat)
    GET  /v1/models              the one model
    GET  /health                 whether the server is up

Where the format of a request differs from the checkpoint's training, the header
`X-Rehearsal-Warning`, the field `rehearsal` of the body, and the log report it. envpool opens the
socket.
"""

import signal
from collections.abc import Callable, Mapping
from secrets import token_hex

import anyio
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rehearsal_room.envpool.server.answers import JSON, handlers_with, json
from rehearsal_room.envpool.server.guard import AccessCheck, Guard
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.core.errors import ContextLengthError, ModelRefusedError, PolicyError
from rehearsal_room.harness.model_api.chat import completion, events, read_request, refusal
from rehearsal_room.harness.model_api.request import UnsupportedRequest
from rehearsal_room.harness.serving.service import PolicyService

_log = structlog.get_logger(__name__)


class PolicyApp:
    """The ASGI application of one checkpoint."""

    def __init__(self, service: PolicyService, settings: WorldServerSettings) -> None:
        self._service = service
        routes = [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
        ]
        handlers = {**handlers_with(_refusal), 404: _nothing, 405: _nothing}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        self._app = Guard(
            app,
            AccessCheck(settings),
            max_body=settings.max_body,
            refusal=_refusal,
            open_paths=("/health",),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        await self._app(scope, receive, send)

    async def _chat(self, request: Request) -> Response:
        """The reply to a chat request, which is abandoned when its client disconnects."""
        body = await request.body()
        response = Response()  # for a client that has gone
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_disconnect, request.receive, group.cancel_scope)
            response = await self._completion(body)
            group.cancel_scope.cancel()
        return response

    async def _completion(self, body: bytes) -> Response:
        model = self._service.name
        try:
            request = read_request(body)
            if request.model not in ("", model):
                fault = f"there is no model {request.model!r} here (expected {model!r})"
                return _json(refusal(fault, code="model_not_found"), 404)
            answer = await self._service.answer(request)
        except UnsupportedRequest as exc:
            return _json(refusal(str(exc)), 400)
        except ContextLengthError as exc:
            return _json(refusal(str(exc), code="context_length_exceeded"), 400)
        except ModelRefusedError as exc:
            return _json(refusal(str(exc), code="content_filter"), 400)
        except PolicyError as exc:
            _log.warning("not_answered", why=str(exc))
            return _json(refusal(str(exc), kind="server_error"), 503)
        id = f"chatcmpl-{token_hex(12)}"
        if request.stream:
            stream = events(answer, model=model, id=id, usage=request.stream_usage)
            response = Response(stream, headers={"Content-Type": "text/event-stream"})
        else:
            response = _json(completion(answer, model=model, id=id))
        for warning in answer.warnings:
            plain = warning.encode("ascii", "replace").decode()
            response.headers.append("X-Rehearsal-Warning", plain)
        return response

    async def _models(self, request: Request) -> Response:
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
        return json({"object": "list", "data": [model]})

    async def _health(self, request: Request) -> Response:
        return json({"status": "ok"})


async def serve(
    service: PolicyService, settings: WorldServerSettings, ready: Callable[[str], None]
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


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type=JSON)


async def _nothing(request: Request, exc: Exception) -> Response:
    return _refusal(404, f"there is nothing at {request.method} {request.scope['path']}")


def _refusal(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error in OpenAI's form."""
    kind = "permission_error" if status in (401, 403) else "invalid_request_error"
    return Response(refusal(why, kind=kind), status, headers, JSON)
