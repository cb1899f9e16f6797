"""The gateway of a run: one HTTP server, at which each episode has URLs of its own for its agent.

    POST /e/KEY/mcp                        the world's tools (MCP, streamable HTTP)
    POST /e/KEY/v1/chat/completions        the model (OpenAI's chat completions)
    POST /e/KEY/v1/responses               (OpenAI's Responses)
    POST /e/KEY/v1/messages                (Anthropic's Messages)
    POST /e/KEY/v1/messages/count_tokens   an estimate
    GET  /e/KEY/v1/models                  the one model

KEY is secret and belongs to one episode: nothing of another one can be reached with it, and nothing
at all once its agent has ended. The model is the run's policy, so its retries, limits, faults on
purpose and statistics are those of every run.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from secrets import token_urlsafe
from typing import Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.server.answers import JSON, handlers_with, json
from rehearsal_room.envpool.server.guard import AccessCheck, Guard, headers_of
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.mcp_endpoint import post
from rehearsal_room.envpool.server.mcp_methods import McpMethods
from rehearsal_room.envpool.server.settings import HttpLimits, WorldServerSettings
from rehearsal_room.harness.agents.agent_env import AgentEnv
from rehearsal_room.harness.agents.gateway_episode import GIVE_ANSWER, EpisodeOver, GatewayEpisode
from rehearsal_room.harness.agents.typed_schemas import typed_tools
from rehearsal_room.harness.core.errors import ContextLengthError, PolicyError
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.model_api import chat, messages, responses
from rehearsal_room.harness.model_api.request import (
    ModelReply,
    ModelRequest,
    UnsupportedRequest,
)
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.rollout.episode import Episode

_SETTINGS = WorldServerSettings(port=0, drain_s=1.0)
_LIMITS = HttpLimits(max_connections=65_536, max_headers=65_536)
_EVENTS = "text/event-stream"
_TOO_LONG = "context_length_exceeded"
_NO_RETRY = {"x-should-retry": "false"}  # the policy has retried already
_LOOK_S = 0.5  # between two looks at the agents that wait
_MAX_KNOWN = 1_024  # lists of tools that are remembered

Refuse = Callable[[str, int, str | None], bytes]  # why, the status, and OpenAI's code for it
Check = Callable[[ModelRequest], object]  # raises UnsupportedRequest


class Addresses(msgspec.Struct, frozen=True):
    """Where an agent finds its episode."""

    mcp_url: str
    openai_url: str  # with /v1, as OPENAI_BASE_URL has it
    anthropic_url: str  # without /v1, as ANTHROPIC_BASE_URL has it
    key: str


class AgentGateway(AsyncContextManagerMixin):
    """The gateway, open inside of its `async with` block. `model` is the name of the model (empty:
    there is none); `check` refuses requests that it cannot follow; `takes_answer`: the tools have
    `give_answer`."""

    def __init__(self, model: str, *, check: Check | None = None, takes_answer: bool) -> None:
        self.model = model
        self.takes_answer = takes_answer
        self._check = check
        self._url = ""
        self._episodes: dict[str, GatewayEpisode] = {}
        self._methods: dict[tuple[str, tuple[str, ...]], McpMethods] = {}
        self._tools: dict[bytes, tuple[ToolSpec, ...]] = {}
        self._waiting: dict[Request, anyio.CancelScope] = {}  # requests for the model

    def __repr__(self) -> str:
        return f"<AgentGateway {self._url} [{len(self._episodes)} episodes]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        guarded = Guard(
            self._app(), AccessCheck(_SETTINGS), max_body=_SETTINGS.max_body, refusal=_refusal
        )
        async with (
            listening(
                guarded, host=_SETTINGS.host, port=0, drain_s=_SETTINGS.drain_s, limits=_LIMITS
            ) as self._url,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._give_up)
            yield self
            tasks.cancel_scope.cancel()

    @contextmanager
    def episode(self, run: Episode, env: AgentEnv) -> Iterator[tuple[GatewayEpisode, Addresses]]:
        """Let an episode be reached for the block; with its addresses."""
        agent = None
        if self.model:
            plan = run.plan
            assigned = Assignment(
                plan.episode,
                plan.scenario,
                plan.task,
                plan.seed,
                run.briefing,
                plan.member,
                attempt=plan.attempt,
            )
            agent = run.context.policy.agent(assigned)
        key = token_urlsafe(18)
        opened = GatewayEpisode(run, env, agent, self._mcp(run), takes_answer=self.takes_answer)
        self._episodes[key] = opened
        base = f"{self._url}/e/{key}"
        try:
            yield opened, Addresses(f"{base}/mcp", f"{base}/v1", base, key)
        finally:
            del self._episodes[key]
            opened.close()

    def at(self, key: str) -> GatewayEpisode:
        """The live episode with this key."""
        return self._episodes[key]

    def _mcp(self, run: Episode) -> McpMethods:
        scenario, tools = run.plan.scenario, list(run.briefing.tools)
        tools += [TALK] if run.user is not None else []
        tools += [GIVE_ANSWER] if self.takes_answer else []
        key = scenario.digest, tuple([tool.name for tool in tools])
        if key not in self._methods:
            self._methods[key] = McpMethods(scenario, typed_tools(tools))
        return self._methods[key]

    def _app(self) -> Starlette:
        routes = [
            Route("/e/{key}/mcp", self._call_tool, methods=["POST"]),
            Route("/e/{key}/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/e/{key}/v1/responses", self._responses, methods=["POST"]),
            Route("/e/{key}/v1/messages", self._messages, methods=["POST"]),
            Route("/e/{key}/v1/messages/count_tokens", self._count, methods=["POST"]),
            Route("/e/{key}/v1/models", self._models),
            Route("/e/{key}/v1/models/{model:path}", self._one_model),
        ]
        app = Starlette(routes=routes, exception_handlers=handlers_with(_refusal))
        app.router.redirect_slashes = False
        return app

    def _episode_of(self, request: Request) -> GatewayEpisode:
        found = self._episodes.get(request.path_params["key"])
        if found is None:
            raise HTTPException(404, "there is no episode at this URL: it has ended, or never was")
        return found

    async def _call_tool(self, request: Request) -> Response:
        episode = self._episode_of(request)
        body = await request.body()
        headers = headers_of(request.scope)
        scope = anyio.CancelScope()
        with scope, episode.waiting(scope, is_call=True):
            status, answer = await post(episode.mcp, episode.execute, headers, body)
            return Response(answer, status, media_type=JSON if answer else None)
        return _gone(_chat_refusal)

    async def _chat(self, request: Request) -> Response:
        async def answer(episode: GatewayEpisode, body: bytes) -> Response:
            asked = chat.read_request(body)
            _, reply = await self._ask(episode, asked, "chat")
            id = f"chatcmpl-{token_urlsafe(12)}"
            if not asked.stream:
                return Response(chat.completion(reply, model=self.model, id=id), media_type=JSON)
            stream = chat.events(reply, model=self.model, id=id, usage=asked.stream_usage)
            return Response(stream, media_type=_EVENTS)

        return await self._answered(request, answer, _chat_refusal)

    async def _messages(self, request: Request) -> Response:
        async def answer(episode: GatewayEpisode, body: bytes) -> Response:
            asked = messages.read_request(body)
            _, reply = await self._ask(episode, asked, "messages")
            write, kind = (messages.events, _EVENTS) if asked.stream else (messages.message, JSON)
            return Response(
                write(reply, model=asked.model or self.model, id=token_urlsafe(12)),
                media_type=kind,
            )

        return await self._answered(request, answer, messages.error)

    async def _responses(self, request: Request) -> Response:
        async def answer(episode: GatewayEpisode, body: bytes) -> Response:
            read = responses.read_request(body)
            before = episode.after_response(read.previous) if read.previous else ()
            asked = responses.with_instructions(read, before)
            logged, reply = await self._ask(episode, asked, "responses")
            id = token_urlsafe(12)
            kept = (*before, *read.request.messages)
            episode.keep_response(f"resp_{id}", kept, logged)
            write, kind = (
                (responses.events, _EVENTS) if asked.stream else (responses.response, JSON)
            )
            body = write(reply, model=self.model, id=id, namespaces=read.namespaces)
            return Response(body, media_type=kind)

        return await self._answered(request, answer, _chat_refusal)

    async def _count(self, request: Request) -> Response:
        async def answer(episode: GatewayEpisode, body: bytes) -> Response:
            asked = messages.read_request(body)
            number = sum(len(one.content.encode()) for one in asked.messages) // 4
            return Response(messages.token_count(number), media_type=JSON)

        return await self._answered(request, answer, messages.error)

    async def _models(self, request: Request) -> Response:
        self._episode_of(request)
        listed = [_model(self.model)] if self.model else []
        return json({"object": "list", "data": listed})

    async def _one_model(self, request: Request) -> Response:
        self._episode_of(request)
        return json(_model(request.path_params["model"]))

    async def _ask(
        self, episode: GatewayEpisode, request: ModelRequest, api: str
    ) -> tuple[Reply, ModelReply]:
        """The model's reply, as it is logged and as the agent gets it."""
        if request.fields.get("n") not in (None, 1):
            raise UnsupportedRequest(f"n: the reply has one choice, not {request.fields['n']}")
        if self._check is not None:
            self._check(request)
        return await episode.ask(
            msgspec.structs.replace(request, tools=self._same_tools(request.tools)), api
        )

    def _same_tools(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """These tools as the object that earlier requests had: writers of requests and tokenizers
        remember by it what they made of them."""
        if not tools:
            return ()
        key = msgspec.json.encode(tools)
        if len(self._tools) >= _MAX_KNOWN:
            self._tools.clear()
        return self._tools.setdefault(key, tools)

    async def _answered(
        self,
        request: Request,
        answer: Callable[[GatewayEpisode, bytes], Awaitable[Response]],
        refuse: Refuse,
    ) -> Response:
        """The answer to a request for the model, which is given up when the agent goes away."""
        episode, body = self._episode_of(request), await request.body()
        scope = anyio.CancelScope()
        response = _gone(refuse)
        self._waiting[request] = scope
        try:
            with scope, episode.waiting(scope):
                response = await _or_refusal(answer, episode, body, refuse)
        finally:
            del self._waiting[request]
        return response

    async def _give_up(self) -> None:
        """Cancel what is asked for agents that have gone away, until cancelled."""
        while True:
            await anyio.sleep(_LOOK_S)
            for request, scope in list(self._waiting.items()):
                if await request.is_disconnected():
                    scope.cancel()


def _gone(refuse: Refuse) -> Response:
    """What nobody reads: the agent has gone, or its episode has ended."""
    return Response(refuse("the episode is over", 410, None), 410, _NO_RETRY, JSON)


async def _or_refusal(
    answer: Callable[[GatewayEpisode, bytes], Awaitable[Response]],
    episode: GatewayEpisode,
    body: bytes,
    refuse: Refuse,
) -> Response:
    try:
        return await answer(episode, body)
    except UnsupportedRequest as exc:
        return Response(refuse(str(exc), 400, None), 400, media_type=JSON)
    except ContextLengthError as exc:
        return Response(refuse(str(exc), 400, _TOO_LONG), 400, media_type=JSON)
    except PolicyError as exc:
        return Response(refuse(str(exc), 502, None), 502, _NO_RETRY, JSON)
    except EpisodeOver as exc:
        why = f"the episode is over: {exc}"
    except Exception as exc:  # a bug, which stops the run
        episode.fail(exc)
        why = "the run was stopped"
    return Response(refuse(why, 410, None), 410, _NO_RETRY, JSON)


def _chat_refusal(why: str, status: int, code: str | None = None) -> bytes:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return chat.refusal(why, kind=kind, code=code)


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "rehearsal"}


def _refusal(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error in OpenAI's form, which Anthropic's clients read, too."""
    return Response(_chat_refusal(why, status), status, headers, JSON)
