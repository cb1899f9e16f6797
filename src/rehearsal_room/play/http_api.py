"""A person, or any program, plays an episode over HTTP on loopback.

    GET  /task                               the task, the rules, the tools, the calls so far
    POST /call    {"tool", "arguments"}      one call; answers {"text", "is_error", "ended"}
    POST /answer  {"text"}                   the final answer; answers the judged episode. In a
                                             dialogue {"user"}, what the user answers, until the
                                             user ends the talk

Every request has the header `Authorization: Bearer TOKEN`. Requests whose Host is not this server
are refused, so a page in a browser cannot reach it under another name. Source of the rule:
DNS rebinding, as in the MCP specification's section on transports.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.policies.human import HumanExchange, PlayedCall
from rehearsal_room.scenarios.files import UNREADABLE

_MAX_BODY = 2**20  # bytes
_LOOPBACK = "127.0.0.1"
_SECONDS_TO_CLOSE = 2.0
_ERROR_PREFIX = "Error: "  # see harness.dialects.base.result_text


class CallBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /call."""

    tool: str
    arguments: dict[str, Any] = {}


class AnswerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /answer."""

    text: str


class ToolLine(msgspec.Struct, frozen=True):
    """A tool as GET /task lists it."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON schema of the arguments


class TaskReply(msgspec.Struct, frozen=True):
    """The answer to GET /task."""

    task: str  # SCENARIO:TASK
    instruction: str
    rules: str
    user: str
    now: str
    tools: list[ToolLine]
    calls: list[PlayedCall]  # so far
    ended: bool


class CallReply(msgspec.Struct, frozen=True):
    """The answer to POST /call."""

    text: str
    is_error: bool
    ended: bool  # the episode takes no more actions


class UserReply(msgspec.Struct, frozen=True):
    """The answer to POST /answer in a dialogue that goes on."""

    user: str  # what the user answers


class HttpSurface:
    """Serves one episode on a port of 127.0.0.1 (0: a free one). `announce` gets the URL.

    Running it raises SettingsError when the port is not free.
    """

    def __init__(self, task: str, port: int, token: str, announce: Callable[[str], None]) -> None:
        self._task = task
        self._port = port
        self._token = token
        self._announce = announce

    async def __call__(self, exchange: HumanExchange) -> None:
        """Serve until the episode is over."""
        app = web.Application(client_max_size=_MAX_BODY, middlewares=[self._guard])
        handlers = _Handlers(self._task, exchange)
        app.router.add_get("/task", handlers.task)
        app.router.add_post("/call", handlers.call)
        app.router.add_post("/answer", handlers.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SECONDS_TO_CLOSE)
        await runner.setup()
        try:
            site = web.TCPSite(runner, _LOOPBACK, self._port)
            try:
                await site.start()
            except OSError as exc:
                raise SettingsError(
                    f"--http: port {self._port} of {_LOOPBACK} cannot be used: {exc.strerror}"
                ) from exc
            self._port = runner.addresses[0][1]
            self._announce(f"http://{_LOOPBACK}:{self._port}")
            await exchange.finished()
        finally:
            await runner.cleanup()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.host not in (f"{_LOOPBACK}:{self._port}", f"localhost:{self._port}"):
            return _error(403, f"this server is {_LOOPBACK}:{self._port}, not {request.host!r}")
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return _error(401, "the header Authorization must be: Bearer TOKEN")
        try:
            return await handler(request)
        except (ValueError, *UNREADABLE) as exc:
            return _error(400, f"the request cannot be read: {exc}")
        except web.HTTPException as exc:
            return _error(exc.status, exc.reason)


class _Handlers:
    def __init__(self, task: str, exchange: HumanExchange) -> None:
        self._task = task
        self._exchange = exchange

    async def task(self, request: web.Request) -> web.Response:
        exchange = self._exchange
        briefing = await exchange.started()
        if briefing is None:
            return _error(409, "the episode did not start")
        return _json(_task_reply(self._task, briefing, exchange))

    async def call(self, request: web.Request) -> web.Response:
        wanted = msgspec.json.decode(await request.read(), type=CallBody)
        if self._exchange.over:
            return _error(409, "the episode is over")
        made = await self._exchange.call(wanted.tool, wanted.arguments)
        if made is None:
            return _json(CallReply("", False, ended=True))
        return _json(CallReply(made.text, made.text.startswith(_ERROR_PREFIX), ended=False))

    async def answer(self, request: web.Request) -> web.Response:
        wanted = msgspec.json.decode(await request.read(), type=AnswerBody)
        if self._exchange.over:
            return _error(409, "the episode is over")
        heard = await self._exchange.answer(wanted.text)
        return _json(self._exchange.result if heard is None else UserReply(heard))


def _task_reply(task: str, briefing: Briefing, exchange: HumanExchange) -> TaskReply:
    tools = [ToolLine(spec.name, spec.description, spec.schema) for spec in briefing.tools]
    return TaskReply(
        task,
        briefing.instruction,
        briefing.rules,
        briefing.user,
        briefing.now,
        tools,
        exchange.calls,
        exchange.over,
    )


def _json(value: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, sentence: str) -> web.Response:
    return _json({"error": sentence}, status)
