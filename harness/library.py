"""Run your own agent: an `async def agent(task, env)` that returns its final answer.

    async def agent(task: TaskView, env: AgentEnv) -> str:
        order = await env.call("get_order", {"order_id": 1042})
        return f"The order says: {order.text}"

    report = await rehearse(agent, ["shop_support"], "runs/mine", judge=ScenarioJudges)

Each call is logged as a step with its result, and so is the answer. The run is like every other: it
can be shown, judged, replayed and exported. An exception that the function raises ends its episode
with `agent_failed`: the agent has failed, and the run continues. Where a model that your function
asks is out of reach, raise `ModelFailed`: the episode ends with `policy_error` and has no verdict.

The function may make several calls at once; they are executed and logged one after the other.
`Limits.max_steps` counts the calls and the answer, `Limits.reply_timeout` is the time from one call
to the next; a call in which the world fails ends the episode (`Limits.world_stop`). Tokens are not
counted, and there is no history window: the agent keeps its own memory. Runs on asyncio.

    words = await env.say("Which order?")  # in a task with a user: what the user answers
    second = await env.fork()  # a second world in the same state: nothing counts there
    async with env.paused():  # a long wait: other episodes run meanwhile, no limit counts
        await approval
"""

import reprlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.envpool.core.answers import cut_answer
from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.types import Env, ToolResult, ToolSpec
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.continuation.outcomes import EpisodeOutcome
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.events import Ending, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.dialects.base import call_id
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.reports.summary import (
    RunReport,
    StatisticsOf,
    read_report,
    write_report,
)
from rehearsal_room.harness.rollout.deadlines import Watch
from rehearsal_room.harness.rollout.episode import Episode, EpisodeDriver, answer_of_steps
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, names_of, plan_of, select_tasks
from rehearsal_room.harness.rollout.process import warnings_only
from rehearsal_room.harness.rollout.remaining import scenarios_of
from rehearsal_room.harness.rollout.running import Judge
from rehearsal_room.harness.rollout.session import RunParts, run_session, sole_exception
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario

DEFAULT_LIMITS = Limits()
_log = structlog.get_logger(__name__)
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


class AgentEnv:
    """The world of one episode: its agent can use it until the agent returns."""

    __slots__ = (
        *("_closed", "_is_paused", "_run", "_scope", "_since", "_turn", "_watch"),
        *("failure", "stopped"),
    )

    def __init__(self, run: Episode, watch: Watch, scope: anyio.CancelScope) -> None:
        self._run = run
        self._watch = watch
        self._scope = scope  # around the agent
        self._turn = anyio.Lock()  # one step at a time
        self._since = time.perf_counter()  # when the agent's turn began
        self.failure: Exception | None = None  # of the run itself, not of the agent
        self._closed = False
        self._is_paused = False
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
            if run.user is None:
                raise RuntimeError(f"{self!r}: nobody answers in this task; return the answer")
            if self.stopped is not None:
                self._scope.cancel()
                self._stop(*self.stopped)
            if not self.has_step:
                self._stop(Ending.STEP_LIMIT, None)
            text = cut_answer(text)
            waited = time.perf_counter() - self._since
            self._watch.got_reply()
            try:
                heard, seconds = await run.hear_user(run.user, text, len(run.steps))
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
            answer = cut_answer(answer)
            waited = time.perf_counter() - self._since
            await self._run.record_step(StepTaken(Reply(answer), Answer(answer), policy_s=waited))
            self._run.answer = answer_of_steps(self._run.steps)

    def close(self) -> None:
        """Refuse further calls: the agent has returned, but may have left tasks running."""
        self._closed = True
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
        copy: Any
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
            self._check_open()
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
        self._watch.expect_reply(self._run.context.limits.reply_timeout)


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
JudgeFactory = Callable[[RoutingPool, Sequence[Scenario]], Judge]


class Rehearsal(RunReport, frozen=True, kw_only=True):
    """The result of `rehearse`: the run's report and its folder."""

    folder: Path


async def rehearse(
    agent: AgentFunction,
    scenarios: str | Sequence[str],
    output: str | Path,
    *,
    episodes: int | None = None,
    group_size: int = 1,
    concurrency: int = 64,
    judge: JudgeFactory | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    resume: bool = False,
    statistics_of: StatisticsOf | None = None,
) -> Rehearsal:
    """Run episodes of your agent and log them in the folder `output`.

    `scenarios` are given as `name`, `path` or `name:task`, one or several; `episodes` is the total,
    None: one group of each task; fewer play a sample of the tasks, always the same. `judge` makes
    the judge, as `rehearsal_room.judge.verdicts.code_judges.ScenarioJudges` does; with None the
    episodes stay unjudged. With `resume` only the missing episodes are run. `statistics_of`
    computes the report's statistics; None: it has none. `rr.rehearse` (bridges.rehearsals) passes
    both.

    Raises SettingsError, ScenarioError, PoolError and LogError. When it is cancelled, the log has
    what happened until then. Where structlog is not configured, only warnings are shown.
    """
    _require(agent, output, {"episodes": episodes, "group_size": group_size}, concurrency)
    scenarios, folder = names_of(scenarios), Path(output)
    plans = await anyio.to_thread.run_sync(
        partial(
            _plans,
            scenarios,
            folder if resume else None,
            episodes=episodes,
            group_size=group_size,
            seed=seed,
        )
    )
    worlds = scenarios_of(plans)
    async with AsyncExitStack() as stack:
        stack.enter_context(warnings_only())
        pool = await stack.enter_async_context(RoutingPool(report_trusted=_log_trusted))
        await pool.host_all(worlds)
        parts = RunParts(
            pool=pool,
            policy=_FunctionPolicy(agent),
            dialect=Native(),
            history=FullWindow(),
            format=FormatSettings(),
            limits=limits,
            judge=None if judge is None else judge(pool, worlds),
            driver=driver_of(agent),
        )
        await run_session(
            folder, plans, parts, concurrency=concurrency, meters=Meters(), resume=resume
        )
    return await anyio.to_thread.run_sync(_report, folder, statistics_of, limits)


def _require(agent: object, output: object, sizes: dict[str, int | None], concurrency: int) -> None:
    """Raise SettingsError for arguments with which no run can be begun."""
    if not callable(agent):
        raise SettingsError(f"agent: expected an async function, found {type(agent).__name__}")
    if not isinstance(output, str | Path) or not str(output):
        raise SettingsError(f"output: expected the path of a folder, found {output!r}")
    for name, value in {**sizes, "concurrency": concurrency}.items():
        if value is not None and not hasattr(value, "__index__"):
            raise SettingsError(f"{name}: expected a whole number, found {value!r}")
    if concurrency < 1:
        raise SettingsError(f"concurrency: must be at least 1, not {concurrency}")


def _plans(
    scenarios: Sequence[str],
    resumed: Path | None,
    *,
    episodes: int | None,
    group_size: int,
    seed: int,
) -> list[EpisodePlan]:
    """The episodes. Where they are fewer than the tasks need, these are a sample; a run that is
    resumed keeps the order in which it began. Raises SettingsError where it played other tasks."""
    read_once = cache(find)
    tasks = select_tasks(scenarios, read_once)
    sampled = select_tasks(scenarios, read_once, is_sampled=True)
    planned = partial(plan_of, episodes=episodes, group_size=group_size, seed=seed)
    if resumed is None or not (resumed / LOG_NAME).exists():
        is_part = episodes is not None and episodes < len(tasks) * group_size
        return list(planned(sampled if is_part else tasks))
    with open_reader(resumed) as reader:
        played = {row.episode: (row.scenario_digest, row.task) for row in reader.episodes()}
    for order in (sampled, tasks):
        plans = list(planned(order))
        known = {plan.episode: (plan.scenario.digest, plan.task.id) for plan in plans}
        if played.items() <= known.items():
            return plans
    raise SettingsError(
        f"resume: the run in {resumed} played other tasks than these, or more; name its scenarios, "
        "its group_size, and at least as many episodes"
    )


def _log_trusted(scenarios: Sequence[Scenario]) -> None:
    """Log which packages run in this process: the program that calls us trusts them."""
    names = [scenario.name for scenario in scenarios]
    _log.info("packages_in_this_process", packages=names)


def driver_of(agent: AgentFunction) -> EpisodeDriver:
    """The episode driver that lets this function take the steps."""

    async def drive(run: Episode, watch: Watch) -> EpisodeOutcome:
        failure: BaseException | None = None
        answer: object = None
        scope = anyio.CancelScope()
        env = AgentEnv(run, watch, scope)
        own_task = anyio.get_current_task()
        try:
            with scope:
                answer = await agent(_view_of(run), env)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
            raise
        except BaseException as exc:  # a program may end with sys.exit
            if isinstance(exc, BaseExceptionGroup) and exc.subgroup(KeyboardInterrupt):
                raise
            if not _is_running(own_task):  # somebody closes this coroutine, by GeneratorExit
                raise
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
            error = f"{type(cause).__name__}: {_words_of(cause)}{_origin(cause)}"
            _log.warning("agent_failed", episode=run.plan.episode, error=error)
            is_outage = isinstance(cause, PolicyError)
            return Ending.POLICY_ERROR if is_outage else Ending.AGENT_FAILED, error
        assert isinstance(answer, str)
        await env.finish(answer)
        return Ending.ANSWERED, None

    return drive


def _is_running(task: anyio.TaskInfo) -> bool:
    """Whether the code that asks runs in this task."""
    try:
        return anyio.get_current_task() == task
    except RuntimeError:  # it runs in no task, or no event loop runs
        return False


def _view_of(run: Episode) -> TaskView:
    briefing = run.briefing
    return TaskView(
        episode=run.plan.episode,
        seed=run.plan.seed,
        instruction=briefing.instruction,
        rules=briefing.rules,
        user=briefing.user,
        now=briefing.now,
        is_dialogue=briefing.is_dialogue,
    )


def _words_of(exc: BaseException) -> str:
    """What an exception of the agent says of itself; nothing where that raises, too."""
    try:
        return str(exc)
    except Exception:
        return ""


def _origin(exc: BaseException) -> str:
    """The file and line that raised an exception, in parentheses; empty without a traceback.

    Example: an exception from the third line of agent.py -> " (agent.py, line 3)"
    """
    frames = list(walk_tb(exc.__traceback__))
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" ({Path(frame.f_code.co_filename).name}, line {line})"


def _report(folder: Path, statistics_of: StatisticsOf | None, limits: Limits) -> Rehearsal:
    with open_reader(folder) as reader:
        report = read_report(reader, statistics_of, max_steps=limits.max_steps)
    write_report(folder, report)
    return Rehearsal(**msgspec.structs.asdict(report), folder=folder)


class _FunctionPolicy:
    """Gives the run a policy name for the function; the driver takes the steps."""

    def __init__(self, agent: AgentFunction) -> None:
        self.name = f"own:{getattr(agent, '__name__', type(agent).__name__)}"

    def agent(self, assignment: Assignment) -> Agent:
        raise AssertionError("the function takes its own steps; it has no agent")
