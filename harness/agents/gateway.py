"""The gateway of a run: one HTTP server, at which each episode has URLs of its own for its agent.

    POST /e/KEY/mcp                        the world's tools (MCP, streamable HTTP)
    POST /e/KEY/v1/chat/completions        the model (OpenAI's chat completions)
    POST /e/KEY/v1/responses               (OpenAI's Responses)
    POST /e/KEY/v1/messages                (Anthropic's Messages)
    POST /e/KEY/v1/messages/count_tokens   an estimate
    GET  /e/KEY/v1/models                  the one model
    POST /e/KEY/v1/traces                  the agent's spans, as OpenTelemetry's SDKs send them
    POST /e/KEY/v1/logs, /e/KEY/v1/metrics what these SDKs send, too: accepted, and dropped

KEY is secret and belongs to one episode: nothing of another one can be reached with it, and nothing
at all once its agent has ended. The model is the run's policy, so its retries, limits, faults on
purpose and statistics are those of every run.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from secrets import token_urlsafe
from typing import Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.server.answers import JSON, json
from rehearsal_room.envpool.server.guard import AccessCheck, Guard, headers_of
from rehearsal_room.envpool.server.http_protocol import WHEN_GONE
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.mcp_endpoint import post
from rehearsal_room.envpool.server.mcp_methods import McpMethods
from rehearsal_room.envpool.server.settings import HttpLimits, WorldServerSettings
from rehearsal_room.harness.agents.agent_env import AgentEnv
from rehearsal_room.harness.agents.gateway_episode import GIVE_ANSWER, EpisodeOver, GatewayEpisode
from rehearsal_room.harness.agents.span_intake import LATE, SpanIntake, accepted
from rehearsal_room.harness.agents.typed_schemas import typed_tools
from rehearsal_room.harness.core.errors import ContextLengthError, ModelRefusedError, PolicyError
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.model_api import chat, messages, responses
from rehearsal_room.harness.model_api.known_parts import KnownParts
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
_APIS = ("chat", "messages", "responses")
_TRACES = "v1/traces"
_MAX_KNOWN = 1_024  # lists of tools that are remembered

Refuse = Callable[[str, int, str | None], bytes]  # why, the status, and OpenAI's code for it
Check = Callable[[ModelRequest], object]  # raises UnsupportedRequest
_Answer = Callable[[GatewayEpisode, bytes], Awaitable[Response]]  # to a body
_Route = Callable[[GatewayEpisode, Scope, bytes], Awaitable[Response]]


class Addresses(msgspec.Struct, frozen=True):
    """Where an agent finds its episode."""

    mcp_url: str
    openai_url: str  # with /v1, as OPENAI_BASE_URL has it
    anthropic_url: str  # without /v1, as ANTHROPIC_BASE_URL has it
    otlp_url: str  # without /v1, as OTEL_EXPORTER_OTLP_ENDPOINT has it
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
        self._spans = SpanIntake()
        self._methods: dict[tuple[str, tuple[str, ...]], McpMethods] = {}
        self._tools: dict[bytes, tuple[ToolSpec, ...]] = {}
        self._routes = self._served()

    def __repr__(self) -> str:
        return f"<AgentGateway {self._url} [{len(self._episodes)} episodes]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        guarded = Guard(
            self._serve, AccessCheck(_SETTINGS), max_body=_SETTINGS.max_body, refusal=_refusal
        )
        async with listening(
            guarded, host=_SETTINGS.host, port=0, drain_s=_SETTINGS.drain_s, limits=_LIMITS
        ) as self._url:
            yield self
        self._spans.report_late()

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
        known = {api: KnownParts(self._same_tools) for api in _APIS}
        opened = GatewayEpisode(
            run, env, agent, self._mcp(run), known, takes_answer=self.takes_answer
        )
        self._episodes[key] = opened
        base = f"{self._url}/e/{key}"
        try:
            yield opened, Addresses(f"{base}/mcp", f"{base}/v1", base, base, key)
        finally:
            del self._episodes[key]
            opened.close()
            self._spans.ended(key)

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

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application. Raises HTTPException."""
        begin, _, rest = scope["path"].removeprefix("/e/").partition("/")
        name = "v1/models/" if rest.startswith("v1/models/") else rest
        method, answer = self._routes.get(name, ("", None))
        if answer is None or not begin or not scope["path"].startswith("/e/"):
            raise HTTPException(404, f"there is nothing at {scope['path']}")
        if scope["method"] != method and (scope["method"], method) != ("HEAD", "GET"):
            allow = {"Allow": "GET, HEAD" if method == "GET" else method}
            raise HTTPException(405, f"{scope['method']} is not served here", allow)
        episode = self._episodes.get(begin)
        is_late = episode is None and name == _TRACES and self._spans.has_ended(begin)
        if episode is None and not is_late:
            raise HTTPException(404, "there is no episode at this URL: it has ended, or never was")
        body = await _body(receive)
        if body is None:
            raise HTTPException(400, "the body is incomplete")
        if episode is None:
            await self._spans.count_late(headers_of(scope), body)
            raise HTTPException(410, LATE)
        response = await answer(episode, scope, body)
        await response(scope, receive, send)

    def _served(self) -> dict[str, tuple[str, _Route]]:
        """The routes: method and what answers, by the path after the key."""
        return {
            "mcp": ("POST", self._call_tool),
            "v1/chat/completions": ("POST", partial(self._answered, self._chat, _chat_refusal)),
            "v1/responses": ("POST", partial(self._answered, self._responses, _chat_refusal)),
            "v1/messages": ("POST", partial(self._answered, self._messages, messages.error)),
            "v1/messages/count_tokens": (
                "POST",
                partial(self._answered, self._count, messages.error),
            ),
            _TRACES: ("POST", self._take_spans),
            "v1/logs": ("POST", self._drop),
            "v1/metrics": ("POST", self._drop),
            "v1/models": ("GET", self._models),
            "v1/models/": ("GET", self._one_model),
        }

    async def _call_tool(self, episode: GatewayEpisode, http: Scope, body: bytes) -> Response:
        scope = anyio.CancelScope()
        with scope, episode.waiting(scope, is_call=True):
            status, answer = await post(episode.mcp, episode.execute, headers_of(http), body)
            return Response(answer, status, media_type=JSON if answer else None)
        return _gone(_chat_refusal)

    async def _chat(self, episode: GatewayEpisode, body: bytes) -> Response:
        asked = chat.read_request(body, episode.known["chat"])
        _, reply = await self._ask(episode, asked, "chat")
        id = f"chatcmpl-{token_urlsafe(12)}"
        if not asked.stream:
            return Response(chat.completion(reply, model=self.model, id=id), media_type=JSON)
        stream = chat.events(reply, model=self.model, id=id, usage=asked.stream_usage)
        return Response(stream, media_type=_EVENTS)

    async def _messages(self, episode: GatewayEpisode, body: bytes) -> Response:
        asked = messages.read_request(body, episode.known["messages"])
        _, reply = await self._ask(episode, asked, "messages")
        write, kind = (messages.events, _EVENTS) if asked.stream else (messages.message, JSON)
        return Response(
            write(reply, model=asked.model or self.model, id=token_urlsafe(12)), media_type=kind
        )

    async def _responses(self, episode: GatewayEpisode, body: bytes) -> Response:
        read = responses.read_request(body, episode.known["responses"])
        before = episode.after_response(read.previous) if read.previous else ()
        asked = responses.with_instructions(read, before)
        logged, reply = await self._ask(episode, asked, "responses")
        id = token_urlsafe(12)
        kept = (*before, *read.request.messages)
        episode.keep_response(f"resp_{id}", kept, logged)
        write, kind = (responses.events, _EVENTS) if asked.stream else (responses.response, JSON)
        answer = write(reply, model=self.model, id=id, namespaces=read.namespaces)
        return Response(answer, media_type=kind)

    async def _count(self, episode: GatewayEpisode, body: bytes) -> Response:
        asked = messages.read_request(body)
        number = sum(len(one.content.encode()) for one in asked.messages) // 4
        return Response(messages.token_count(number), media_type=JSON)

    async def _take_spans(self, episode: GatewayEpisode, http: Scope, body: bytes) -> Response:
        answer = await self._spans.take(episode.spans, headers_of(http), body)
        return Response(answer.body, answer.status, media_type=answer.kind)

    async def _drop(self, episode: GatewayEpisode, http: Scope, body: bytes) -> Response:
        answer = accepted(headers_of(http))
        return Response(answer.body, answer.status, media_type=answer.kind)

    async def _models(self, episode: GatewayEpisode, http: Scope, body: bytes) -> Response:
        listed = [_model(self.model)] if self.model else []
        return json({"object": "list", "data": listed})

    async def _one_model(self, episode: GatewayEpisode, http: Scope, body: bytes) -> Response:
        return json(_model(http["path"].partition("/v1/models/")[2]))

    async def _ask(
        self, episode: GatewayEpisode, request: ModelRequest, api: str
    ) -> tuple[Reply, ModelReply]:
        """The model's reply, as it is logged and as the agent gets it."""
        if request.fields.get("n") not in (None, 1):
            raise UnsupportedRequest(f"n: the reply has one choice, not {request.fields['n']}")
        if self._check is not None:
            self._check(request)
        return await episode.ask(request, api)

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
        self, answer: _Answer, refuse: Refuse, episode: GatewayEpisode, http: Scope, body: bytes
    ) -> Response:
        """The answer to a request for the model, which is given up when the agent goes away."""
        scope = anyio.CancelScope()
        http[WHEN_GONE] = scope.cancel
        with scope, episode.waiting(scope):
            return await _or_refusal(answer, episode, body, refuse)
        return _gone(refuse)


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None: its client went away first."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)
    return None


def _gone(refuse: Refuse) -> Response:
    """What nobody reads: the agent has gone, or its episode has ended."""
    return Response(refuse("the episode is over", 410, None), 410, _NO_RETRY, JSON)


async def _or_refusal(
    answer: _Answer, episode: GatewayEpisode, body: bytes, refuse: Refuse
) -> Response:
    try:
        return await answer(episode, body)
    except UnsupportedRequest as exc:
        return Response(refuse(str(exc), 400, None), 400, media_type=JSON)
    except ContextLengthError as exc:
        return Response(refuse(str(exc), 400, _TOO_LONG), 400, media_type=JSON)
    except ModelRefusedError as exc:
        return Response(refuse(str(exc), 400, "content_filter"), 400, media_type=JSON)
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
