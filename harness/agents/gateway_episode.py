"""One episode as its agent reaches it over HTTP: the world's tools, and the model."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import anyio
import msgspec
from msgspec import Raw

from rehearsal_room.envpool.core.talks import ENDED, TALK
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.jsonrpc import CallExtension, RpcError
from rehearsal_room.envpool.server.mcp_methods import CallAnswer, McpMethods
from rehearsal_room.harness.agents.agent_env import AgentEnv, StepLimit, WorldFailed
from rehearsal_room.harness.agents.branches import Branches
from rehearsal_room.harness.agents.span_intake import EpisodeSpans
from rehearsal_room.harness.core.errors import (
    ContextLengthError,
    ModelOutageError,
    ModelRefusedError,
    PolicyError,
)
from rehearsal_room.harness.core.events import Ending, ModelAsked, encode
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.dialects.base import result_text
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.history.windows import Windows, turns_of
from rehearsal_room.harness.model_api.known_parts import KnownParts
from rehearsal_room.harness.model_api.request import (
    ModelReply,
    ModelRequest,
    UnsupportedRequest,
    model_reply,
)
from rehearsal_room.harness.policies.base import Agent
from rehearsal_room.harness.rollout.episode import Episode

GIVE_ANSWER = ToolSpec(
    "give_answer",
    "Give the final answer and end the work. Call it once, when everything is done.",
    {
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "the final answer"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)
_REQUESTS_A_STEP = 8  # to the model, for each step that the episode may have
_MAX_BYTES = 64 << 20  # of one episode's requests in the log
_MAX_RESPONSES = 64  # after which a request can go on; the oldest is forgotten first


class EpisodeOver(Exception):
    """The episode has ended, so nothing of it can be used any more."""


class GatewayEpisode:
    """What the requests of one agent reach. `agent` is the model behind the URL; None: the run
    names none. `known` is what it sent before, by API. `takes_answer`: the tools have
    `give_answer`."""

    def __init__(
        self,
        run: Episode,
        env: AgentEnv,
        agent: Agent | None,
        mcp: McpMethods,
        known: Mapping[str, KnownParts],
        *,
        takes_answer: bool,
    ) -> None:
        self.mcp = mcp
        self.known = known
        self.answer: str | None = None  # that `give_answer` got; None: it was not called
        self.answered = anyio.Event()
        self.failure: PolicyError | None = None  # of the latest request; None: it has a reply
        self.num_lost = 0  # requests under way at the end, whose replies are not logged
        self.spans = EpisodeSpans()
        self._run = run
        self._env = env
        self._agent = agent
        self._takes_answer = takes_answer
        self._branches = Branches()
        self._responses: dict[str, tuple[Message, ...]] = {}  # of the Responses API, by id
        self._requests: set[anyio.CancelScope] = set()  # to the model that are under way
        self._calls: set[anyio.CancelScope] = set()  # of tools
        self._is_over = False
        self._num_bytes = 0  # of the requests' messages in the log
        self._most = _REQUESTS_A_STEP * run.max_steps

    def __repr__(self) -> str:
        return f"<GatewayEpisode {self._run.plan.episode} [{len(self._branches)} requests]>"

    def close(self) -> None:
        """Refuse what comes from now on, and give up the requests that are under way."""
        self._is_over = True
        self.num_lost = len(self._requests)
        for scope in self._requests | self._calls:
            scope.cancel()
        if (spans := self.spans.close()) is not None:
            self._env.record(spans)

    def fail(self, failure: Exception) -> None:
        """Stop the run for a failure that is not the agent's."""
        self._env.fail(failure)

    async def execute(
        self, name: str, arguments: Raw, extension: CallExtension | None
    ) -> CallAnswer:
        """Execute a tool call that came over MCP. Raises RpcError after the end."""
        try:
            result = await self._call(name, arguments)
        except (StepLimit, WorldFailed) as exc:
            return CallAnswer(f"The episode is over: {exc}", is_error=True)
        except (EpisodeOver, RuntimeError) as exc:
            raise RpcError(m.INVALID_REQUEST, f"The episode is over: {exc}") from exc
        except Exception as exc:  # of the world, or a bug
            self._env.fail(exc)
            raise RpcError(m.INTERNAL_ERROR, "The world has failed") from exc
        return CallAnswer(result_text(result), result.error is not None)

    async def _call(self, name: str, raw: Raw) -> ToolResult:
        if self._is_over:
            raise EpisodeOver("its agent has ended")
        if self.answer is not None:
            raise EpisodeOver("its answer is given")
        try:
            arguments = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as exc:
            return ToolResult(f"The arguments cannot be used: {exc}", "arguments")
        if name == TALK.name and self._run.user is not None:
            text = _argument(arguments, "text")
            if not isinstance(text, str):
                return ToolResult(
                    "talk_to_user takes one argument, text: what you say.", "arguments"
                )
            words = await self._env.say(text)
            return ToolResult(ENDED if words is None else words)
        if name == GIVE_ANSWER.name and self._takes_answer:
            answer = _argument(arguments, "answer")
            if not isinstance(answer, str):
                return ToolResult("give_answer takes one argument, answer: a text.", "arguments")
            self.answer = answer
            self.answered.set()
            return ToolResult("The answer is given. The work is over.")
        return await self._env.call(name, arguments)

    def after_response(self, id: str) -> tuple[Message, ...]:
        """The conversation after an earlier response. Raises UnsupportedRequest."""
        if id not in self._responses:
            raise UnsupportedRequest(f"previous_response_id: there is no response {id!r} here")
        return self._responses[id]

    def keep_response(self, id: str, messages: Sequence[Message], reply: Reply) -> None:
        """Remember the conversation after a response."""
        shown = Message("assistant", reply.text, reply.calls, None, reply.thought, reply.fields)
        self._responses[id] = (*messages, shown)
        if len(self._responses) > _MAX_RESPONSES:
            del self._responses[next(iter(self._responses))]

    @contextmanager
    def waiting(self, scope: anyio.CancelScope, *, is_call: bool = False) -> Iterator[None]:
        """A block in which a request is answered; its scope is cancelled when the episode ends."""
        waiting = self._calls if is_call else self._requests
        waiting.add(scope)
        try:
            yield
        finally:
            waiting.discard(scope)

    async def ask(self, request: ModelRequest, api: str) -> tuple[Reply, ModelReply]:
        """The model's reply, as it is logged and as the agent gets it. Raises UnsupportedRequest,
        PolicyError and EpisodeOver."""
        if self._is_over:
            raise EpisodeOver("its agent has ended")
        agent = self._agent
        if agent is None:
            raise UnsupportedRequest(
                "this run names no model (--model or --base-url of `rehearse run`), so the agent "
                "has to ask its own"
            )
        if len(self._branches) + len(self._requests) > self._most:
            self._env.end(Ending.STEP_LIMIT, f"{self._most:,} requests to the model")
            raise EpisodeOver("it has no request left")
        window = _window(self._run, request)
        began = time.perf_counter()
        try:
            reply = None
            with self._env.asking():
                reply = await agent.reply(window)
            if reply is None:
                raise PolicyError(self._late())
        except ModelOutageError as exc:
            self._env.fail(exc)
            raise EpisodeOver("the model server has gone") from exc
        except PolicyError as exc:
            self.failure = None if _is_own_fault(exc) else exc
            await self._record(request, window, None, api, str(exc), time.perf_counter() - began)
            raise
        if self._is_over:
            raise EpisodeOver("it ended while the model was asked")
        self.failure = None
        reply = _with_ids(reply, len(self._branches))
        await self._record(request, window, reply, api, "", time.perf_counter() - began)
        return reply, model_reply(reply)

    async def model_answers(self) -> bool:
        """Whether the model replies to a plain request. Then it was the agent's own request on
        which it failed; otherwise the model has failed, or its server."""
        assert self._agent is not None
        hello = Window((Message("user", "Hello"),), fields={"max_tokens": 1})
        try:
            with self._env.asking() as watch:
                await self._agent.reply(hello)
        except PolicyError:
            return False
        return not watch.expired

    def _late(self) -> str:
        return f"no reply within {self._run.context.limits.reply_timeout:g} s"

    async def _record(
        self,
        request: ModelRequest,
        window: Window,
        reply: Reply | None,
        api: str,
        error: str,
        seconds: float,
    ) -> None:
        """Record a request with its reply; end the episode where its tokens are used up."""
        if self._is_over:
            return
        place = self._branches.add(request.messages, request.tools, reply)
        asked = ModelAsked(
            request=place.request,
            turn=len(self._run.steps),
            messages=request.messages[place.shared :],
            reply=reply,
            parent=place.parent,
            shared=place.shared,
            tools=None if place.has_same_tools else request.tools,
            fields=request.fields or None,
            api=api,
            first_turn=window.first_turn,
            error=error,
            seconds=seconds,
        )
        self._num_bytes += len(encode((asked.messages, asked.tools, asked.fields)))
        if self._num_bytes > _MAX_BYTES:
            self._env.end(Ending.AGENT_FAILED, f"its requests have more than {_MAX_BYTES:,} bytes")
        over = await self._run.record_asked(asked)
        if over is not None:
            self._env.end(*over)


def _argument(arguments: object, name: str) -> object:
    """An argument of a call; None: there is none."""
    return arguments.get(name) if isinstance(arguments, dict) else None


def _with_ids(reply: Reply, number: int) -> Reply:
    """The reply, with ids for calls that a server gave none: the agent's results name them."""
    if all(call.id for call in reply.calls):
        return reply
    calls = [
        call if call.id else msgspec.structs.replace(call, id=f"call_{number}_{index}")
        for index, call in enumerate(reply.calls)
    ]
    return msgspec.structs.replace(reply, calls=tuple(calls))


def _is_own_fault(failure: PolicyError) -> bool:
    """Whether the agent's request is to blame: it is too long, or the server refused its form."""
    if isinstance(failure, ModelRefusedError):
        return False
    return isinstance(failure, ContextLengthError) or failure.http_status in (400, 413, 422)


def _window(run: Episode, request: ModelRequest) -> Window:
    """What the model is shown of a request: all of it, or what the run's history window leaves.
    Raises UnsupportedRequest where there is nothing to answer, or no history to cut."""
    messages, history = request.messages, run.context.history
    if not messages or messages[-1].role == "assistant":
        raise UnsupportedRequest("messages: there is nothing to answer")
    if isinstance(history, FullWindow):
        return Window(messages, request.tools, fields=request.fields or None)
    first = next((i for i, one in enumerate(messages) if one.role == "assistant"), len(messages))
    _check_history(messages, first, history.spec)
    windows = Windows(history, messages[:first], request.tools)
    for turn in turns_of(messages[first:]):
        windows.add(turn)
    return msgspec.structs.replace(windows.window(), fields=request.fields or None)


def _check_history(messages: Sequence[Message], first: int, spec: str) -> None:
    """Refuse messages that a history window cannot cut into turns. Raises UnsupportedRequest."""
    if first == 0 or any(one.role == "tool" for one in messages[:first]):
        raise UnsupportedRequest(
            f"messages: they do not begin with what the agent was asked, so the run's history "
            f"window {spec} cannot be applied; run this agent with --history full"
        )
    asked: set[str] = set()
    for message in messages[first:]:
        if message.role == "assistant":
            asked = {call.id for call in message.calls}
        elif message.role == "tool" and message.call_id not in asked:
            raise UnsupportedRequest(
                f"messages: the result of call {message.call_id!r} does not follow its call, so "
                f"the run's history window {spec} cannot be applied; run this agent with "
                "--history full"
            )
