"""The world of one episode as an agent uses that takes its steps itself: see harness.library."""

import reprlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NoReturn

import anyio
import msgspec

from rehearsal_room.envpool.core.answers import cut_answer
from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.types import Env, ToolResult, ToolSpec
from rehearsal_room.harness.continuation.outcomes import EpisodeOutcome
from rehearsal_room.harness.core.events import AgentOutput, AgentSpans, Ending, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.dialects.base import call_id
from rehearsal_room.harness.rollout.deadlines import Watch
from rehearsal_room.harness.rollout.episode import Episode, answer_of_steps

_encode, _decode = msgspec.json.encode, msgspec.json.decode


class StepLimit(Exception):
    """The episode has no step left. Whatever the agent does now, it ends with `step_limit`."""


class WorldFailed(Exception):
    """A call broke or took too long (see Limits.world_stop); it is logged with the world's error
    text. Whatever the agent does now, the episode ends with `world_error`."""


class TaskView(msgspec.Struct, frozen=True):
    """The part of a task that the agent may see."""

    episode: str
    seed: int  # of this episode's own randomness
    instruction: str
    rules: str  # the world's rules, Markdown; empty: no rules
    user: str  # the acting user, as text
    now: str  # the scenario's clock
    is_dialogue: bool = False  # a user answers what the agent says (`AgentEnv.say`)
    # Of this episode alone, in a run of `--agent`; empty: there is none.
    mcp_url: str = ""  # an MCP server (streamable HTTP) with the world's tools
    model_url: str = ""  # a model API: OpenAI's base URL, with /v1 at its end
    anthropic_url: str = ""  # the same as Anthropic's clients want it, without /v1
    model: str = ""  # the model there
    key: str = ""  # the API key for that URL
    otlp_url: str = ""  # takes OpenTelemetry spans (OTLP over HTTP, at /v1/traces below it)


class AgentEnv:
    """The world of one episode: its agent can use it until the agent returns."""

    __slots__ = (
        *("_closed", "_is_over", "_is_paused", "_num_asking", "_run", "_scope", "_since"),
        *("_turn", "_watch", "failure", "stopped"),
    )

    def __init__(self, run: Episode, watch: Watch, scope: anyio.CancelScope) -> None:
        self._run = run
        self._watch = watch
        self._scope = scope  # around the agent
        self._turn = anyio.Lock()  # one step at a time
        self._since = time.perf_counter()  # when the agent's turn began
        self.failure: Exception | None = None  # of the run itself, not of the agent
        self._closed = False  # it refuses calls
        self._is_over = False  # nothing of it is logged any more
        self._is_paused = False
        self._num_asking = 0  # requests to the model that are under way
        self.stopped: EpisodeOutcome | None = (
            None  # how the episode ended before its agent returned
        )
        self._wait_for_agent()

    def __repr__(self) -> str:
        return f"<AgentEnv of {self._run.plan.episode} [{len(self._run.steps)} steps]>"

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they are shown."""
        return self._run.briefing.tools

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool; return its text, with `error` set where the call failed.

        Raises StepLimit when the episode has no step left and WorldFailed when the call broke the
        world; an agent that makes further calls is cancelled. TypeError for arguments of a type
        that JSON does not have.
        """
        async with self._turn:
            self._check_open()
            if self.failure is not None:
                raise self.failure
            if self.stopped is not None:
                self._scope.cancel()
                self._stop(*self.stopped)
            if not self.has_step:
                self._stop(Ending.STEP_LIMIT, None)
            began = time.perf_counter()
            self._watch.got_reply()
            act, fault = self._read(name, {} if arguments is None else arguments)
            try:
                result = await self._execute(act, fault, began)
            except Exception as exc:
                self.failure = exc
                raise
            finally:
                self._wait_for_agent()
            if (failure := self._run.world_failure()) is not None:
                self._stop(Ending.WORLD_ERROR, failure)
        return ToolResult(result.text, result.error)  # only the judge sees what the call changed

    async def say(self, text: str) -> str | None:
        """Say something to the user of a dialogue; return what the user says to it. None: the user
        has ended the talk, and what the agent returns no longer matters.

        Raises RuntimeError in a task without a user (`TaskView.is_dialogue`), and for the talk
        after its end; StepLimit and WorldFailed as `call` does.
        """
        async with self._turn:
            self._check_open()
            run = self._run
            if not isinstance(text, str):
                raise TypeError(f"what is said is a str, not {type(text).__name__}")
            if run.user is None:
                raise RuntimeError(f"{self!r}: nobody answers in this task; return the answer")
            if self.stopped is not None:
                self._scope.cancel()
                self._stop(*self.stopped)
            if not self.has_step:
                self._stop(Ending.STEP_LIMIT, None)
            text = cut_answer(_plain(text))
            waited = time.perf_counter() - self._since
            self._watch.got_reply()
            try:
                heard, seconds = await run.hear_user(run.user, text, len(run.steps))
                self._check_logged()
                await run.record_step(
                    StepTaken(
                        Reply(text), Answer(text), policy_s=waited, user=heard, user_s=seconds
                    )
                )
            except Exception as exc:
                self.failure = exc
                raise
            finally:
                self._wait_for_agent()
        if not heard.ended:
            return heard.text
        run.answer = answer_of_steps(run.steps)
        self.stopped = Ending.ANSWERED, None
        return None

    async def fork(self) -> "ForkedEnv":
        """A second world, which continues from the state of this one.

        The agent may try things out in it: its calls change nothing in the episode's own world, and
        are neither steps nor logged; their time is the agent's own. Raises WorldError where the
        state is not known (an MCP server).
        """
        async with self._turn:
            self._check_open()
            return ForkedEnv(self._run.env.fork(), self._check_open)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """A block for a long wait, such as for a person: the episode gives its slot to another one
        and keeps its world. Its time limits stand still. At the end it waits for a slot.

        In the block, calls and forks raise RuntimeError.
        """
        async with self._turn:
            self._check_open()
            self._is_paused = True
        began = time.perf_counter()
        try:
            async with self._run.paused(self._watch):
                yield
        finally:
            self._is_paused = False
            self._since += time.perf_counter() - began

    async def finish(self, answer: str) -> None:
        """Record the answer as the last step."""
        async with self._turn:
            answer = cut_answer(_plain(answer))
            waited = time.perf_counter() - self._since
            await self._run.record_step(StepTaken(Reply(answer), Answer(answer), policy_s=waited))
            self._run.answer = answer_of_steps(self._run.steps)

    @contextmanager
    def asking(self) -> Iterator[Watch]:
        """A block in which the agent waits for its model, and is not late itself. It is cancelled
        where the model takes too long (`expired` of what it yields)."""
        self._num_asking += 1
        self._watch.got_reply()
        try:
            context = self._run.context
            with context.watchdog.watch(None) as watch:
                watch.expect_reply(context.limits.reply_timeout)
                yield watch
        finally:
            self._num_asking -= 1
            if not self._closed:
                self._expect()

    def record(self, fact: AgentOutput | AgentSpans) -> None:
        """Record what the agent wrote or sent beside its calls."""
        self._run.record_fact(fact)

    def end(self, ending: Ending, error: str | None) -> None:
        """End the episode now, whatever the agent does."""
        self.stopped = ending, error
        self._scope.cancel()

    def fail(self, failure: Exception) -> None:
        """Stop the agent, for this failure of the run itself."""
        self.failure = failure
        self._scope.cancel()

    async def settle(self) -> None:
        """Refuse further calls: the agent has returned, but may have left tasks running. Wait for
        the call that is under way: what it does to the world is logged, as of any call."""
        self._closed = True
        async with self._turn:
            pass

    def close(self) -> None:
        """Refuse further calls, and log nothing more."""
        self._closed = self._is_over = True
        self._watch.got_reply()

    @property
    def has_step(self) -> bool:
        """Whether the agent may take another step."""
        return len(self._run.steps) < self._run.max_steps

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"{self!r}: the agent has returned, its world is closed")
        if self._is_paused:
            raise RuntimeError(f"{self!r} is paused: leave the block of paused() first")

    def _check_logged(self) -> None:
        """Refuse to log what came after the end of the episode. Raises RuntimeError."""
        if self._is_over:
            raise RuntimeError(f"{self!r}: the episode has ended")

    def _stop(self, ending: Ending, error: str | None) -> NoReturn:
        self.stopped = ending, error
        if ending is Ending.WORLD_ERROR:
            raise WorldFailed(error)
        if ending is Ending.ANSWERED:
            raise RuntimeError(f"{self!r}: the user has ended the talk")
        raise StepLimit(f"all {self._run.max_steps} steps of the episode are taken")

    def _read(self, name: str, arguments: Any) -> tuple[Act, str | None]:
        """The call as it is logged, and what is wrong with its arguments (None: nothing).

        The arguments are copied, since the agent may change its own object. Raises TypeError.
        """
        if not isinstance(name, str):
            raise TypeError(f"a tool's name is a str, not {type(name).__name__}")
        name, copy = _plain(name), None
        fault: str | None = None
        try:
            copy = _decode(_encode(arguments))
        except (ValueError, RecursionError) as exc:
            copy, fault = reprlib.repr(arguments), f"they are not JSON: {exc}"
        else:
            if not isinstance(copy, dict):
                fault = f"they must be a JSON object, not {type(copy).__name__}"
            elif (fault := argument_fault(copy)) is not None:
                copy = reprlib.repr(arguments)
        if fault is not None:
            fault = f"The arguments of {name} cannot be used: {fault}."
        return Act((AgentCall(name, copy, call_id(len(self._run.steps), 0)),)), fault

    async def _execute(self, act: Act, fault: str | None, began: float) -> ToolResult:
        run, results = self._run, list[ToolResult]()
        if fault is None:
            await run.execute(act, results)
            self._check_logged()
        else:
            results.append(ToolResult(fault, "arguments"))
        reply = Reply(calls=act.calls, finish="tool_calls")
        spent = time.perf_counter() - began
        step = StepTaken(reply, act, tuple(results), policy_s=began - self._since, calls_s=spent)
        await run.record_step(step)
        run.context.meters.stepped(time.perf_counter() - began)
        return results[0]

    def _wait_for_agent(self) -> None:
        self._since = time.perf_counter()
        self._expect()

    def _expect(self) -> None:
        if self._num_asking:
            return
        self._watch.expect_reply(self._run.context.limits.reply_timeout)


def _plain(text: str) -> str:
    """A text of a subclass, as frameworks have them, as plain text: the log takes no other."""
    return str.__str__(text)


class ForkedEnv:
    """A second world of an agent (`AgentEnv.fork`), which it can use until it returns."""

    __slots__ = ("_check_open", "_env", "_num_calls")

    def __init__(self, env: Env, check_open: Callable[[], None]) -> None:
        self._env = env
        self._check_open = check_open
        self._num_calls = 0

    def __repr__(self) -> str:
        return f"<ForkedEnv [{self._num_calls} calls]>"

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they are shown."""
        return tuple(self._env.tools)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool; return its text, with `error` set where the call failed. Raises WorldError
        when this world breaks; the episode's own is not affected."""
        self._check_open()
        number, self._num_calls = self._num_calls, self._num_calls + 1
        copy = _decode(_encode({} if arguments is None else arguments))
        result = await self._env.call(name, copy, f"f{number}")
        return ToolResult(result.text, result.error)

    async def fork(self) -> "ForkedEnv":
        """Another world, which continues from the state of this one."""
        self._check_open()
        return ForkedEnv(self._env.fork(), self._check_open)


AgentFunction = Callable[[TaskView, AgentEnv], Awaitable[str]]
