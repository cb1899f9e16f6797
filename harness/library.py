"""Rehearsing an agent of one's own: an `async def agent(task, env)` that gives its final answer.

    async def agent(task: TaskView, env: AgentEnv) -> str:
        order = await env.call("get_order", {"order_id": 1042})
        return f"The order says: {order.text}"

    report = await rehearse(agent, ["shop_support"], "runs/mine", judge=ScenarioJudges)

Each call is logged as a step with its result, and so is the answer: a run like every other, to be
shown, judged, replayed and exported. What the function raises ends its episode with `policy_error`
and the run goes on.

The function may make several calls at once; they are executed and logged one after the other.
`Limits.max_steps` counts the calls and the answer, `Limits.reply_timeout` is the time from one call
to the next; a call in which the world fails ends the episode (`Limits.world_stop`). Tokens are not
counted, and no history window is kept: what the agent remembers is its own business. Runs on
asyncio.
"""

import reprlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from traceback import walk_tb
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import msgspec
import structlog

from envpool.core.types import ToolResult, ToolSpec
from envpool.router import RoutingPool
from harness.core.events import Ending, StepTaken
from harness.core.messages import Act, AgentCall, Answer, Reply
from harness.dialects.base import argument_fault, call_id
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.last_turns import Full
from harness.log.reader import open_reader
from harness.policies.base import Agent, Assignment
from harness.reports.summary import RunReport, report_of, write_report
from harness.rollout.deadlines import Watch
from harness.rollout.episode import Episode, Limits, Outcome, Play
from harness.rollout.meters import Meters
from harness.rollout.plan import chosen_tasks, plan_of
from harness.rollout.process import warnings_only
from harness.rollout.session import Judge, RunParts, run_session, sole_exception
from scenarios.format import Scenario

DEFAULT_LIMITS = Limits()
_log = structlog.get_logger(__name__)
_encode, _decode = msgspec.json.encode, msgspec.json.decode


class StepLimit(Exception):
    """The episode has no step left. Whatever the agent does now, it ends with `step_limit`."""


class WorldFailed(Exception):
    """A call broke or took too long (see Limits.world_stop); it is logged with what the world
    said. Whatever the agent does now, the episode ends with `world_error`."""


class TaskView(msgspec.Struct, frozen=True):
    """What an agent may know of its task."""

    episode: str
    seed: int  # of this episode's own randomness
    instruction: str
    rules: str  # the world's rules, Markdown; empty: no rules
    user: str  # who acts, in words
    now: str  # the scenario's clock


class AgentEnv:
    """The world of one episode, as its agent may use it until the agent returns."""

    __slots__ = ("_closed", "_run", "_scope", "_since", "_turn", "_watch", "failure", "stopped")

    def __init__(self, run: Episode, watch: Watch, scope: anyio.CancelScope) -> None:
        self._run = run
        self._watch = watch
        self._scope = scope  # around the agent
        self._turn = anyio.Lock()  # one step at a time
        self._since = time.perf_counter()  # when the agent's turn began
        self.failure: Exception | None = None  # of the run itself, not the agent's
        self._closed = False
        self.stopped: Outcome | None = None  # how the episode ended before its agent did
        self._wait_for_agent()

    def __repr__(self) -> str:
        return f"<AgentEnv of {self._run.plan.episode} [{len(self._run.steps)} steps]>"

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they are shown."""
        return self._run.briefing.tools

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool; gives the text that it answers, and `error` where it failed.

        Raises StepLimit when the episode has no step left and WorldFailed when the call broke the
        world; an agent that goes on asking is cancelled. TypeError for arguments that JSON does
        not know.
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
        return ToolResult(result.text, result.error)  # what the call changed is the judge's to see

    async def finish(self, answer: str) -> None:
        """Record the answer as the last step."""
        async with self._turn:
            waited = time.perf_counter() - self._since
            self._run.answer = answer
            await self._run.take(StepTaken(Reply(answer), Answer(answer), policy_s=waited))

    def close(self) -> None:
        """The agent has returned: a task that it left behind can call no more."""
        self._closed = True
        self._watch.got_reply()

    @property
    def has_step(self) -> bool:
        """Whether the agent may take another step."""
        return len(self._run.steps) < self._run.stage.limits.max_steps

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"{self!r}: the agent has returned, its world is gone")

    def _stop(self, ending: Ending, error: str | None) -> NoReturn:
        self.stopped = ending, error
        if ending is Ending.WORLD_ERROR:
            raise WorldFailed(error)
        raise StepLimit(f"all {self._run.stage.limits.max_steps} steps of the episode are taken")

    def _read(self, name: str, arguments: Any) -> tuple[Act, str | None]:
        """The call as it is logged, and what is wrong with its arguments (None: nothing).

        They are copied, since the agent may change its own. Raises TypeError.
        """
        if not isinstance(name, str):
            raise TypeError(f"a tool's name is a str, not {type(name).__name__}")
        kept: Any
        fault: str | None = None
        try:
            kept = _decode(_encode(arguments))
        except (ValueError, RecursionError) as exc:
            kept, fault = reprlib.repr(arguments), f"they are no JSON: {exc}"
        else:
            if not isinstance(kept, dict):
                fault = f"they must be a JSON object, not {type(kept).__name__}"
            elif (fault := argument_fault(kept)) is not None:
                kept = reprlib.repr(arguments)
        if fault is not None:
            fault = f"The arguments of {name} cannot be used: {fault}."
        return Act((AgentCall(name, kept, call_id(len(self._run.steps), 0)),)), fault

    async def _execute(self, act: Act, fault: str | None, began: float) -> ToolResult:
        run, results = self._run, list[ToolResult]()
        if fault is None:
            await run.execute(act, results)
            self._check_open()
        else:
            results.append(ToolResult(fault, "arguments"))
        reply = Reply(calls=act.calls, finish="tool_calls")
        spent = time.perf_counter() - began
        step = StepTaken(reply, act, tuple(results), policy_s=began - self._since, calls_s=spent)
        await run.take(step)
        run.stage.meters.stepped(time.perf_counter() - began)
        return results[0]

    def _wait_for_agent(self) -> None:
        self._since = time.perf_counter()
        self._watch.expect_reply(self._run.stage.limits.reply_timeout)


OwnAgent = Callable[[TaskView, AgentEnv], Awaitable[str]]
JudgeFactory = Callable[[RoutingPool, Sequence[Scenario]], Judge]


class Rehearsal(RunReport, frozen=True, kw_only=True):
    """What `rehearse` gives: the report, and where the run is."""

    folder: Path


async def rehearse(
    agent: OwnAgent,
    scenarios: Sequence[str],
    output: str | Path,
    *,
    episodes: int | None = None,
    group_size: int = 1,
    concurrency: int = 64,
    judge: JudgeFactory | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    resume: bool = False,
) -> Rehearsal:
    """Run episodes of an agent of one's own and log them in the folder `output`.

    `scenarios` are given as `name`, `path` or `name:task`; `episodes` None is one group of each
    task. `judge` makes the judge, as `judge.verdicts.code_judges.ScenarioJudges` does; None leaves
    the episodes unjudged. With `resume` only what is missing is run.

    Raises SettingsError, ScenarioError, PoolError and LogError. Cancelled, it logs what there is.
    Where structlog is not configured, only warnings are shown.
    """
    folder = Path(output)
    tasks = chosen_tasks(scenarios)
    plans = plan_of(tasks, episodes=episodes, group_size=group_size, seed=seed)
    async with AsyncExitStack() as stack:
        stack.enter_context(warnings_only())
        pool = await stack.enter_async_context(RoutingPool())
        await pool.host_all(scenario for scenario, _ in tasks)
        parts = RunParts(
            pool=pool,
            policy=_Own(agent),
            dialect=Native(),
            history=Full(),
            format=FormatSettings(),
            limits=limits,
            judge=None if judge is None else judge(pool, [scenario for scenario, _ in tasks]),
            play=play_of(agent),
        )
        await run_session(
            folder, plans, parts, concurrency=concurrency, meters=Meters(), resume=resume
        )
    return await anyio.to_thread.run_sync(_reported, folder)


def play_of(agent: OwnAgent) -> Play:
    """The function as what takes an episode's steps."""

    async def play(run: Episode, watch: Watch) -> Outcome:
        failure: Exception | None = None
        answer: object = None
        scope = anyio.CancelScope()
        env = AgentEnv(run, watch, scope)
        try:
            with scope:
                answer = await agent(_view_of(run), env)
        except Exception as exc:
            failure = exc
        finally:
            env.close()
        if env.failure is not None:
            raise env.failure
        if env.stopped is not None:
            return env.stopped
        if failure is None and not env.has_step:
            return Ending.STEP_LIMIT, None
        if failure is None and not isinstance(answer, str):
            failure = TypeError(f"the agent returned {type(answer).__name__}, not its answer")
        if failure is not None:
            cause = sole_exception(failure)
            error = f"{type(cause).__name__}: {cause}{_place(cause)}"
            _log.warning("agent_failed", episode=run.plan.episode, error=error)
            return Ending.POLICY_ERROR, error
        assert isinstance(answer, str)
        await env.finish(answer)
        return Ending.ANSWERED, None

    return play


def _view_of(run: Episode) -> TaskView:
    told = run.briefing
    return TaskView(
        run.plan.episode, run.plan.seed, told.instruction, told.rules, told.user, told.now
    )


def _place(exc: BaseException) -> str:
    """Where it was raised.

    Example: an exception from the third line of agent.py -> " (agent.py, line 3)"
    """
    places = list(walk_tb(exc.__traceback__))
    if not places:
        return ""
    frame, line = places[-1]
    return f" ({Path(frame.f_code.co_filename).name}, line {line})"


def _reported(folder: Path) -> Rehearsal:
    with open_reader(folder) as reader:
        report = report_of(reader.episodes())
    write_report(folder, report)
    return Rehearsal(**msgspec.structs.asdict(report), folder=folder)


class _Own:
    """The function under a policy's name."""

    def __init__(self, agent: OwnAgent) -> None:
        self.name = f"own:{getattr(agent, '__name__', type(agent).__name__)}"

    def agent(self, assignment: Assignment) -> Agent:
        raise AssertionError("an agent of one's own takes its steps itself")
