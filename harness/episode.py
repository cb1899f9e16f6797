"""One episode, told in order: lease a world, then turn by turn window, reply, decision, calls,
fact.

Promises:
- What was started is ended: an episode that began records exactly one EpisodeEnded, whatever stops
  it, cancellation included.
- Failures of the outside world (model, world, limits) end one episode with their word; bugs stop
  the run with their traceback.
"""

import time
from collections.abc import Sequence
from typing import Protocol

import anyio.lowlevel
import msgspec

from envpool.errors import WorldError
from envpool.types import Env, Pool, ToolResult, ToolSpec
from harness.dialects.base import Dialect
from harness.dialects.rules import FormatSettings, make_rules
from harness.errors import ContextLengthError, PolicyError
from harness.events import Ending, EpisodeEnded, EpisodeStarted, StepTaken
from harness.history import HistoryFold, HistoryManager, HistoryPolicy
from harness.messages import Act, Answer, Briefing, Decision, FormatError, Reply
from harness.plan import EpisodePlan
from harness.policies.base import Agent, Assignment, Policy
from harness.recorder import Recorder
from harness.watchdog import Watch, Watchdog
from scenarios.format import Scenario, Task


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an episode is cut off. None: no limit."""

    max_steps: int = 20
    token_limit: int | None = None  # tokens generated in the episode
    time_limit: float | None = None  # seconds for the episode
    reply_timeout: float | None = 300.0  # seconds for one reply, retries included
    call_timeout: float | None = 60.0  # seconds for one call, in pools that can stop a call


class Notice(Protocol):
    """Where measurements go (see harness.meters)."""

    def leased(self, seconds: float) -> None:
        """A world was leased."""

    def called(self, seconds: float) -> None:
        """A call was executed."""

    def stepped(self, seconds: float) -> None:
        """A step was taken, the time waiting for the reply left out."""


class Stage(msgspec.Struct, frozen=True):
    """What all episodes of a run share."""

    pool: Pool
    policy: Policy
    dialect: Dialect
    history: HistoryPolicy
    format: FormatSettings
    limits: Limits
    recorder: Recorder
    windows: HistoryManager
    watchdog: Watchdog
    meters: Notice


def user_of(scenario: Scenario) -> str:
    """The acting user, in words.

    Example: User("u1", "Ada Lindqvist", "clerk") -> "Ada Lindqvist (clerk, id u1)"
    """
    return f"{scenario.user.name} ({scenario.user.role}, id {scenario.user.id})"


def briefing_of(scenario: Scenario, task: Task, tools: Sequence[ToolSpec]) -> Briefing:
    """What the agent is told of a task. `tools` is kept as it is where it is a tuple."""
    return Briefing(
        task.instruction, scenario.policy, tuple(tools), user_of(scenario), scenario.clock
    )


async def run_episode(plan: EpisodePlan, stage: Stage) -> Ending:
    """Run one episode and record its facts; gives how it ended.

    Raises PoolError when the world cannot be had at all. Cancellation is recorded, then passes on.
    """
    began = time.perf_counter()
    async with stage.pool.lease(plan.scenario, plan.task) as env:
        stage.meters.leased(time.perf_counter() - began)
        run = _Episode(plan, stage, env)
        run.start()
        cancelled = anyio.get_cancelled_exc_class()
        ending, error = Ending.CANCELLED, None
        try:
            with stage.watchdog.watch(stage.limits.time_limit) as watch:
                ending, error = await run.turns(watch)
            if watch.expired is not None:
                ending, error = _expired(watch, stage.limits)
        except ContextLengthError as exc:
            ending, error = Ending.TOKEN_LIMIT, str(exc)
        except PolicyError as exc:
            ending, error = Ending.POLICY_ERROR, str(exc)
        except WorldError as exc:
            ending, error = Ending.WORLD_ERROR, str(exc)
        except cancelled:
            run.end(Ending.CANCELLED, "the run was cancelled", time.perf_counter() - began)
            raise
        run.end(ending, error, time.perf_counter() - began)
    await stage.recorder.room()
    return ending


def _expired(watch: Watch, limits: Limits) -> tuple[Ending, str]:
    if watch.expired == "reply":
        return Ending.POLICY_ERROR, f"no reply within {limits.reply_timeout:g} s"
    return Ending.TIME_LIMIT, f"not done within {limits.time_limit:g} s"


class _Episode:
    """The facts of one running episode, and the next one."""

    __slots__ = (
        "_agent",
        "_answer",
        "_briefing",
        "_env",
        "_num_tokens",
        "_plan",
        "_rules",
        "_stage",
        "_steps",
    )

    def __init__(self, plan: EpisodePlan, stage: Stage, env: Env) -> None:
        self._plan = plan
        self._stage = stage
        self._env = env
        self._briefing = briefing_of(plan.scenario, plan.task, env.tools)
        self._agent: Agent = stage.policy.agent(
            Assignment(
                plan.episode, plan.scenario, plan.task, plan.seed, self._briefing, plan.member
            )
        )
        self._rules = make_rules(stage.format, stage.dialect)
        self._steps: list[StepTaken] = []
        self._answer = ""
        self._num_tokens = 0

    def start(self) -> None:
        plan, stage = self._plan, self._stage
        stage.windows.open(plan.episode, HistoryFold(stage.history, stage.dialect, self._briefing))
        stage.recorder.open(plan.episode)
        started = EpisodeStarted(
            scenario=plan.scenario.name,
            task=plan.task.id,
            instruction=plan.task.instruction,
            group=plan.group,
            member=plan.member,
            group_size=plan.group_size,
            seed=plan.seed,
            policy=stage.policy.name,
            dialect=stage.dialect.name,
            history=stage.history.spec,
            fingerprint=stage.history.fingerprint,
            package=plan.scenario.digest,
            world=self._env.start_digest,
        )
        stage.recorder.stamp(plan.episode, plan.attempt, started)

    async def turns(self, watch: Watch) -> tuple[Ending, str | None]:
        """Take steps until something ends the episode."""
        limits, stage = self._stage.limits, self._stage
        for turn in range(limits.max_steps):
            await anyio.lowlevel.checkpoint()  # an instant policy must not keep the loop
            window = stage.windows.window(self._plan.episode)
            asked = time.perf_counter()
            watch.expect_reply(limits.reply_timeout)
            reply = await self._agent.reply(window)
            watch.got_reply()
            answered = time.perf_counter()
            step, fault = await self._step(reply, turn, window.first_turn, answered - asked)
            await stage.recorder.record(self._plan.episode, self._plan.attempt, step)
            self._steps.append(step)
            stage.meters.stepped(time.perf_counter() - answered)
            if fault is not None and stage.format.stop:
                return Ending.FORMAT_ERROR, fault
            if fault is None and isinstance(step.decision, Answer):
                self._answer = step.decision.text
                return Ending.ANSWERED, None
            self._num_tokens += reply.usage.completion_tokens
            if limits.token_limit is not None and self._num_tokens >= limits.token_limit:
                return Ending.TOKEN_LIMIT, f"{self._num_tokens} tokens were generated"
        return Ending.STEP_LIMIT, None

    async def _step(
        self, reply: Reply, turn: int, first_turn: int, waited: float
    ) -> tuple[StepTaken, str | None]:
        """The step that a reply makes, and what is wrong with its form (None: nothing)."""
        decision: Decision = self._stage.dialect.read(reply, turn=turn)
        fault = self._rules.before(decision, reply, self._steps)
        results: tuple[ToolResult, ...] = ()
        began = time.perf_counter()
        if fault is not None:
            decision = FormatError(fault)
        elif isinstance(decision, Act):
            results = await self._execute(decision)
        spent = time.perf_counter() - began
        step = StepTaken(reply, decision, results, first_turn, None, waited, spent)
        if fault is None:
            fault = self._rules.after(step)
        if fault is not None:
            step = msgspec.structs.replace(step, reward=self._stage.format.reward)
        return step, fault

    async def _execute(self, decision: Act) -> tuple[ToolResult, ...]:
        results = []
        for call in decision.calls:
            began = time.perf_counter()
            result = self._stage.dialect.local(call, self._briefing)
            if result is None:
                result = await self._env.call(call.name, call.arguments, call.id)
                self._stage.meters.called(time.perf_counter() - began)
            results.append(result)
        return tuple(results)

    def end(self, ending: Ending, error: str | None, seconds: float) -> None:
        plan, stage = self._plan, self._stage
        state = None if ending is Ending.WORLD_ERROR else self._env.state()
        ended = EpisodeEnded(ending, self._answer, len(self._steps), state, error, seconds)
        stage.recorder.stamp(plan.episode, plan.attempt, ended)
        stage.windows.close(plan.episode)
