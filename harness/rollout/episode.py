"""One episode, told in order: lease a world, then turn by turn window, reply, decision, calls,
fact.

Promises:
- What was started is ended: an episode that began records exactly one EpisodeEnded, whatever stops
  it, cancellation included.
- Failures of the outside world (model, world, limits) end one episode with their word; bugs stop
  the run with their traceback, and the episode in which one showed is recorded as cancelled.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import msgspec

from envpool.core.errors import WorldError
from envpool.core.types import WORLD_FAULTS, Env, ToolResult, ToolSpec
from envpool.mcp.checks import verify_by_calls
from envpool.store.pool_protocol import Pool
from harness.core.errors import ContextLengthError, PolicyError
from harness.core.events import Ending, EpisodeEnded, EpisodeStarted, HistorySummarized, StepTaken
from harness.core.messages import Act, Answer, Briefing, Decision, FormatError, Reply, Window
from harness.dialects.base import Dialect
from harness.dialects.format_rules import FormatRules, FormatSettings, make_rules
from harness.history.base import HistoryPolicy
from harness.history.windows import HistoryFold, HistoryManager, summary_of
from harness.log.recorder import Recorder
from harness.policies.base import Agent, Assignment, Policy
from harness.rollout.deadlines import Watch, Watchdog
from harness.rollout.plan import EpisodePlan
from scenarios.checks import Finding
from scenarios.format import Scenario, Task


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an episode is cut off. None: no limit."""

    max_steps: int = 20
    token_limit: int | None = None  # tokens generated in the episode
    time_limit: float | None = None  # seconds for the episode
    reply_timeout: float | None = 300.0  # seconds for one reply, retries included
    call_timeout: float | None = 60.0  # seconds for one call, in pools that can stop a call
    # Whether a call that broke, or took too long, ends the episode with `world_error`, as in AWM
    # (arXiv:2602.10090); if not, the agent reads what the world said and goes on.
    world_stop: bool = True


class Notice(Protocol):
    """Where measurements go (see harness.rollout.meters)."""

    def leased(self, seconds: float) -> None:
        """A world was leased."""

    def called(self, seconds: float) -> None:
        """A call was executed."""

    def stepped(self, seconds: float) -> None:
        """A step was taken, the time waiting for the reply left out."""


class RunContext(msgspec.Struct, frozen=True):
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
    """The acting user, in words; empty where the scenario does not say.

    Example: User("u1", "Ada Lindqvist", "clerk") -> "Ada Lindqvist (clerk, id u1)"
    """
    if not scenario.user.name:
        return ""
    return f"{scenario.user.name} ({scenario.user.role}, id {scenario.user.id})"


def briefing_of(scenario: Scenario, task: Task, tools: Sequence[ToolSpec]) -> Briefing:
    """What the agent is told of a task. `tools` is kept as it is where it is a tuple."""
    return Briefing(
        task.instruction, scenario.rules, tuple(tools), user_of(scenario), scenario.clock
    )


Outcome = tuple[Ending, str | None]  # how an episode ended, and why where that needs words
_MOST_TOLD = 1_000  # characters of what a broken tool said; a server's page of HTML is longer


def failure_message(tool: str, result: ToolResult) -> str:
    """What an episode's end says of a call in which the world failed.

    Example: ToolResult("ship took too long and was stopped.", "timeout") ->
    "the world failed in a call of ship: ship took too long and was stopped."
    """
    text = result.text
    if len(text) > _MOST_TOLD:
        text = f"{text[:_MOST_TOLD]}… ({len(text):,} characters)"
    return f"the world failed in a call of {tool}: {text}"


async def run_episode(plan: EpisodePlan, stage: RunContext, play: "Play | None" = None) -> Ending:
    """Run one episode and record its facts; gives how it ended.

    `play` takes the episode's steps; None: the stage's policy takes them turn by turn.
    Raises PoolError when the world cannot be had at all. Cancellation is recorded, then passes on.
    """
    began = time.perf_counter()
    async with stage.pool.lease(plan.scenario, plan.task) as env:
        stage.meters.leased(time.perf_counter() - began)
        run = Episode(plan, stage, env)
        run.start()
        cancelled = anyio.get_cancelled_exc_class()
        ending, error = Ending.CANCELLED, None
        lost = False  # whether the world can no longer be asked for its state
        try:
            with stage.watchdog.watch(stage.limits.time_limit) as watch:
                ending, error = await (play or Episode.turns)(run, watch)
                if plan.scenario.foreign is not None and ending is not Ending.WORLD_ERROR:
                    watch.got_reply()
                    run.checked = await verify_by_calls(env, plan.scenario, plan.task, run.answer)
            if watch.scope.cancelled_caught:
                ending, error = _expired(watch, stage.limits)
        except ContextLengthError as exc:
            ending, error = Ending.TOKEN_LIMIT, str(exc)
        except PolicyError as exc:
            ending, error = Ending.POLICY_ERROR, str(exc)
        except WorldError as exc:
            ending, error, lost = Ending.WORLD_ERROR, str(exc), True
        except cancelled:
            if anyio.current_effective_deadline() == -inf:
                run.end(Ending.CANCELLED, "the run was cancelled", time.perf_counter() - began)
                raise
            # Nobody cancelled this episode: a task of the policy's own was, and told it here.
            ending, error = Ending.POLICY_ERROR, "the policy's own work was cancelled"
        except Exception as exc:
            why = f"the run was stopped by {type(exc).__name__}: {exc}"
            run.end(Ending.CANCELLED, why, time.perf_counter() - began)
            raise
        ending = run.end(ending, error, time.perf_counter() - began, lost=lost)
    await stage.recorder.wait_for_room()
    return ending


def _expired(watch: Watch, limits: Limits) -> tuple[Ending, str]:
    if watch.expired == "reply":
        return Ending.POLICY_ERROR, f"no reply within {limits.reply_timeout:g} s"
    return Ending.TIME_LIMIT, f"not done within {limits.time_limit:g} s"


class Episode:
    """One running episode: its world, and the facts so far."""

    __slots__ = (
        "_call",
        "answer",
        "briefing",
        "checked",
        "env",
        "num_tokens",
        "plan",
        "stage",
        "steps",
    )

    def __init__(self, plan: EpisodePlan, stage: RunContext, env: Env) -> None:
        self.plan = plan
        self.stage = stage
        self.env = env
        self.briefing = briefing_of(plan.scenario, plan.task, env.tools)
        self.steps: list[StepTaken] = []
        self.answer = ""
        self.checked: tuple[Finding, ...] = ()
        self.num_tokens = 0
        self._call = env.call
        # In this process a call never awaits, so nothing could cut it off.
        if getattr(env, "awaits", False) and stage.limits.call_timeout is not None:
            self._call = self._call_in_time

    def start(self) -> None:
        """Record that the episode began."""
        plan, stage = self.plan, self.stage
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
            scenario_digest=plan.scenario.digest,
            start_digest=self.env.start_digest,
            seeding="" if plan.scenario.awm is None else plan.scenario.awm.seeding,
        )
        stage.recorder.stamp(plan.episode, plan.attempt, started)

    async def turns(self, watch: Watch) -> Outcome:
        """Let the policy take steps until something ends the episode."""
        plan, stage, limits = self.plan, self.stage, self.stage.limits
        stage.windows.open(plan.episode, HistoryFold(stage.history, stage.dialect, self.briefing))
        agent: Agent = stage.policy.agent(
            Assignment(
                plan.episode, plan.scenario, plan.task, plan.seed, self.briefing, plan.member
            )
        )
        rules = make_rules(stage.format, stage.dialect)
        for turn in range(limits.max_steps):
            await anyio.lowlevel.checkpoint()  # an instant policy must not keep the loop
            window = stage.windows.window(plan.episode)
            if window.asks_for_summary:
                if (failed := await self._summarise(agent, window, turn, watch)) is not None:
                    return failed
                if (spent := self._tokens_spent()) is not None:
                    return spent
                window = stage.windows.window(plan.episode)
            asked = time.perf_counter()
            watch.expect_reply(limits.reply_timeout)
            reply = await agent.reply(window)
            watch.got_reply()
            answered = time.perf_counter()
            step, fault = await self._step(rules, reply, turn, window, answered - asked)
            await self.take(step)
            stage.meters.stepped(time.perf_counter() - answered)
            if fault is not None and stage.format.stop:
                return Ending.FORMAT_ERROR, fault
            if fault is None and isinstance(step.decision, Answer):
                self.answer = step.decision.text
                return Ending.ANSWERED, None
            if (failure := self.world_failure()) is not None:
                return Ending.WORLD_ERROR, failure
            self.num_tokens += reply.usage.completion_tokens
            if (spent := self._tokens_spent()) is not None:
                return spent
        return Ending.STEP_LIMIT, None

    async def _summarise(
        self, agent: Agent, window: Window, turn: int, watch: Watch
    ) -> Outcome | None:
        """Have the agent sum up what falls out of its history, and record what it says.

        Gives how the episode ends when that is no summary, whatever the format rules say: there is
        no window to go on with. It is the agent's own fault, to be judged and learned from as such,
        and not that of its model or server.
        """
        plan, stage = self.plan, self.stage
        asked = time.perf_counter()
        watch.expect_reply(stage.limits.reply_timeout)
        reply = await agent.reply(window)
        watch.got_reply()
        summary = HistorySummarized(reply, turn, window.first_turn, time.perf_counter() - asked)
        stage.recorder.stamp(plan.episode, plan.attempt, summary)
        await stage.recorder.wait_for_room()
        self.num_tokens += reply.usage.completion_tokens
        if summary_of(stage.dialect, summary):
            return None
        return Ending.FORMAT_ERROR, f"asked for a summary before step {turn}, the agent gave none"

    def _tokens_spent(self) -> Outcome | None:
        """How the episode ends when all tokens are spent; None: there are some left."""
        limit = self.stage.limits.token_limit
        if limit is None or self.num_tokens < limit:
            return None
        return Ending.TOKEN_LIMIT, f"{self.num_tokens} tokens were generated"

    async def take(self, step: StepTaken) -> None:
        """Record the next step; waits while the log is full."""
        self._keep(step)
        await self.stage.recorder.wait_for_room()

    def _keep(self, step: StepTaken) -> None:
        self.steps.append(step)
        self.stage.recorder.stamp(self.plan.episode, self.plan.attempt, step)

    async def execute(self, decision: Act, results: list[ToolResult]) -> None:
        """Make the calls in order and add their results, up to one that ends the episode (see
        Limits.world_stop). Raises WorldError."""
        for call in decision.calls:
            began = time.perf_counter()
            result = self.stage.dialect.local_result(call, self.briefing)
            if result is None:
                result = await self._call(call.name, call.arguments, call.id)
                self.stage.meters.called(time.perf_counter() - began)
            results.append(result)
            if self._ends(result):
                return

    def _ends(self, result: ToolResult) -> bool:
        return result.error in WORLD_FAULTS and self.stage.limits.world_stop

    def world_failure(self) -> str | None:
        """How the world failed in the last step, a sentence; None: the episode may go on."""
        step = self.steps[-1]
        if not isinstance(step.decision, Act) or not self._ends(step.results[-1]):
            return None
        return failure_message(step.decision.calls[-1].name, step.results[-1])

    async def _call_in_time(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        seconds = self.stage.limits.call_timeout
        with anyio.move_on_after(seconds):
            return await self.env.call(name, arguments, call_id)
        text = f"{name} took longer than {seconds:g} s and was stopped."
        return ToolResult(text, "timeout", (), self.env.digest)

    async def _step(
        self, rules: FormatRules, reply: Reply, turn: int, window: Window, waited: float
    ) -> tuple[StepTaken, str | None]:
        """The step that a reply makes, and what is wrong with its form (None: nothing)."""
        first_turn, recalled = window.first_turn, window.recalled
        decision: Decision = self.stage.dialect.read(reply, turn=turn)
        fault = rules.decision_fault(decision, reply, self.steps)
        results: list[ToolResult] = []
        began = time.perf_counter()
        if fault is not None:
            decision = FormatError(fault)
        elif isinstance(decision, Act):
            try:
                await self.execute(decision, results)
            except BaseException:
                if results:  # what was done before stays done, so the log must say it
                    done = Act(decision.calls[: len(results)])
                    given = tuple(results)
                    self._keep(
                        StepTaken(reply, done, given, first_turn, None, waited, recalled=recalled)
                    )
                raise
            if len(results) < len(decision.calls):
                decision = Act(decision.calls[: len(results)])
        spent = time.perf_counter() - began
        step = StepTaken(reply, decision, tuple(results), first_turn, None, waited, spent, recalled)
        if fault is None:
            fault = rules.results_fault(step)
        if fault is not None:
            step = msgspec.structs.replace(step, reward=self.stage.format.reward)
        return step, fault

    def end(
        self, ending: Ending, error: str | None, seconds: float, *, lost: bool = False
    ) -> Ending:
        """Record that the episode is over; gives how: a world may break at this last moment.

        A world that is lost is not asked for its state; one in which only a call failed is.
        """
        plan, stage = self.plan, self.stage
        state = None
        if not lost:
            try:
                state = self.env.state()
            except WorldError as exc:
                if ending is not Ending.WORLD_ERROR:
                    ending, error = Ending.WORLD_ERROR, str(exc)
        ended = EpisodeEnded(
            ending, self.answer, len(self.steps), state, error, seconds, self.checked
        )
        stage.recorder.stamp(plan.episode, plan.attempt, ended)
        stage.windows.close(plan.episode)
        return ending


Play = Callable[[Episode, Watch], Awaitable[Outcome]]
