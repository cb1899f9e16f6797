"""The episode loop: lease a world, then for each turn show a window, get a reply, read a decision,
make its calls, and record the step.

Promises:
- An episode that began records exactly one EpisodeEnded, whatever stops it, cancellation included.
- A failure of the outside world (model, world, limits) ends one episode with its own ending. A bug
  stops the run with its traceback, and the episode in which it occurred is recorded as cancelled.
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
from envpool.store.pool_protocol import Pool
from harness.core.errors import ContextLengthError, PolicyError
from harness.core.events import Ending, EpisodeEnded, EpisodeStarted, HistorySummarized, StepTaken
from harness.core.messages import Act, Answer, Briefing, Decision, FormatError, Reply, Window
from harness.core.terminal_text import plural
from harness.dialects.base import Dialect
from harness.dialects.format_rules import FormatRules, FormatSettings, make_rules
from harness.history.base import HistoryPolicy
from harness.history.windows import HistoryFold, HistoryManager, summary_of
from harness.log.recorder import Recorder
from harness.policies.base import Agent, Assignment, Policy
from harness.rollout.deadlines import Watch, Watchdog
from harness.rollout.plan import EpisodePlan
from harness.settings.limits import Limits
from scenarios.checks import Finding
from scenarios.format import Scenario, Task


class MeterSink(Protocol):
    """What takes the measurements (see harness.rollout.meters)."""

    def leased(self, seconds: float) -> None:
        """A world was leased."""

    def called(self, seconds: float) -> None:
        """A call was executed."""

    def stepped(self, seconds: float) -> None:
        """A step was taken; the time spent waiting for the reply is not included."""


class RunContext(msgspec.Struct, frozen=True):
    """The objects that all episodes of a run share."""

    pool: Pool
    policy: Policy
    dialect: Dialect
    history: HistoryPolicy
    format: FormatSettings
    limits: Limits
    recorder: Recorder
    windows: HistoryManager
    watchdog: Watchdog
    meters: MeterSink


def user_of(scenario: Scenario) -> str:
    """The acting user as text; empty where the scenario does not name one.

    Example: User("u1", "Ada Lindqvist", "clerk") -> "Ada Lindqvist (clerk, id u1)"
    """
    if not scenario.user.name:
        return ""
    return f"{scenario.user.name} ({scenario.user.role}, id {scenario.user.id})"


def briefing_of(scenario: Scenario, task: Task, tools: Sequence[ToolSpec]) -> Briefing:
    """The briefing that the agent gets for a task. A tuple of `tools` is used without a copy."""
    return Briefing(
        task.instruction, scenario.rules, tuple(tools), user_of(scenario), scenario.clock
    )


Outcome = tuple[Ending, str | None]  # how an episode ended, and why where that needs a sentence
_MAX_ERROR_TEXT = 1_000  # characters of a broken tool's text; a server's page of HTML is longer


def failure_message(tool: str, result: ToolResult) -> str:
    """The error of an episode that ended because the world failed in a call.

    Example: ToolResult("ship took too long and was stopped.", "timeout") ->
    "the world failed in a call of ship: ship took too long and was stopped."
    """
    text = result.text
    if len(text) > _MAX_ERROR_TEXT:
        text = f"{text[:_MAX_ERROR_TEXT]}… ({len(text):,} characters)"
    return f"the world failed in a call of {tool}: {text}"


def cut_message(reply: Reply) -> str:
    """The reason why an episode ended with a reply that was cut off.

    Example: 512 sampled tokens -> "the reply was cut off at its limit of tokens, after 512 tokens"
    """
    sampled = reply.usage.completion_tokens
    after = f", after {sampled:,} tokens" if sampled else ""
    return f"the reply was cut off at its limit of tokens{after}"


async def run_episode(
    plan: EpisodePlan, context: RunContext, driver: "EpisodeDriver | None" = None
) -> Ending:
    """Run one episode, record its events, and return how it ended.

    `driver` takes the episode's steps; None: the run's policy takes them turn by turn.
    Raises PoolError when no world can be leased. A cancellation is recorded and then passed on.
    """
    began = time.perf_counter()
    async with context.pool.lease(plan.scenario, plan.task) as env:
        context.meters.leased(time.perf_counter() - began)
        run = Episode(plan, context, env)
        run.start()
        cancelled = anyio.get_cancelled_exc_class()
        ending, error = Ending.CANCELLED, None
        lost = False  # whether the world can no longer be asked for its state
        try:
            with context.watchdog.watch(context.limits.time_limit) as watch:
                ending, error = await (driver or Episode.run_turns)(run, watch)
                if ending is not Ending.WORLD_ERROR:
                    watch.got_reply()
                    run.checked = await env.check(plan.task, run.answer)
            if watch.scope.cancelled_caught:
                ending, error = _expiry(watch, context.limits)
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
            # The episode was not cancelled: a task inside of the policy was, and its exception
            # came out here.
            ending, error = Ending.POLICY_ERROR, "the policy's own work was cancelled"
        except Exception as exc:
            why = f"the run was stopped by {type(exc).__name__}: {exc}"
            run.end(Ending.CANCELLED, why, time.perf_counter() - began)
            raise
        ending = run.end(ending, error, time.perf_counter() - began, lost=lost)
    await context.recorder.wait_for_room()
    return ending


def _expiry(watch: Watch, limits: Limits) -> tuple[Ending, str]:
    if watch.expired == "reply":
        return Ending.POLICY_ERROR, f"no reply within {limits.reply_timeout:g} s"
    return Ending.TIME_LIMIT, f"not done within {limits.time_limit:g} s"


class Episode:
    """One running episode: its world, and the steps so far."""

    __slots__ = (
        "_call",
        "answer",
        "briefing",
        "checked",
        "context",
        "env",
        "num_tokens",
        "plan",
        "steps",
    )

    def __init__(self, plan: EpisodePlan, context: RunContext, env: Env) -> None:
        self.plan = plan
        self.context = context
        self.env = env
        self.briefing = briefing_of(plan.scenario, plan.task, env.tools)
        self.steps: list[StepTaken] = []
        self.answer = ""
        self.checked: tuple[Finding, ...] = ()
        self.num_tokens = 0
        self._call = env.call
        # A call in this process never awaits, so a timeout could not interrupt it.
        if env.awaits and context.limits.call_timeout is not None:
            self._call = self._call_with_timeout

    def start(self) -> None:
        """Record that the episode began."""
        plan, context = self.plan, self.context
        context.recorder.open(plan.episode)
        started = EpisodeStarted(
            scenario=plan.scenario.name,
            task=plan.task.id,
            instruction=plan.task.instruction,
            group=plan.group,
            member=plan.member,
            group_size=plan.group_size,
            seed=plan.seed,
            policy=context.policy.name,
            dialect=context.dialect.name,
            history=context.history.spec,
            fingerprint=context.history.fingerprint,
            scenario_digest=plan.scenario.digest,
            start_digest=self.env.start_digest,
            seeding="" if plan.scenario.awm is None else plan.scenario.awm.seeding,
        )
        context.recorder.stamp(plan.episode, plan.attempt, started)

    async def run_turns(self, watch: Watch) -> Outcome:
        """Let the policy take steps until something ends the episode; return how it ended."""
        plan, context, limits = self.plan, self.context, self.context.limits
        context.windows.open(
            plan.episode, HistoryFold(context.history, context.dialect, self.briefing)
        )
        agent: Agent = context.policy.agent(
            Assignment(
                plan.episode, plan.scenario, plan.task, plan.seed, self.briefing, plan.member
            )
        )
        rules = make_rules(context.format, context.dialect)
        for turn in range(limits.max_steps):
            await anyio.lowlevel.checkpoint()  # an instant policy must not block the event loop
            window = context.windows.window(plan.episode)
            if window.asks_for_summary:
                if (failed := await self._summarise(agent, window, turn, watch)) is not None:
                    return failed
                if (spent := self._token_limit_reached()) is not None:
                    return spent
                window = context.windows.window(plan.episode)
            asked = time.perf_counter()
            watch.expect_reply(limits.reply_timeout)
            reply = await agent.reply(window)
            watch.got_reply()
            answered = time.perf_counter()
            step, fault = await self._step(rules, reply, turn, window, answered - asked)
            await self.record_step(step)
            context.meters.stepped(time.perf_counter() - answered)
            if reply.was_cut:
                return Ending.TOKEN_LIMIT, cut_message(reply)
            if fault is not None and context.format.stop:
                return Ending.FORMAT_ERROR, fault
            if fault is None and isinstance(step.decision, Answer):
                self.answer = step.decision.text
                return Ending.ANSWERED, None
            if (failure := self.world_failure()) is not None:
                return Ending.WORLD_ERROR, failure
            self.num_tokens += reply.usage.completion_tokens
            if (spent := self._token_limit_reached()) is not None:
                return spent
        return Ending.STEP_LIMIT, None

    async def _summarise(
        self, agent: Agent, window: Window, turn: int, watch: Watch
    ) -> Outcome | None:
        """Ask the agent to summarise the turns that leave its history, and record its reply.

        Returns how the episode ends when the reply is not a summary, whatever the format rules
        say: there is no window for the next step then. It counts as the agent's own error, which
        is judged and learned from, and not as a failure of its model or server.
        """
        plan, context = self.plan, self.context
        asked = time.perf_counter()
        watch.expect_reply(context.limits.reply_timeout)
        reply = await agent.reply(window)
        watch.got_reply()
        summary = HistorySummarized(reply, turn, window.first_turn, time.perf_counter() - asked)
        context.recorder.stamp(plan.episode, plan.attempt, summary)
        await context.recorder.wait_for_room()
        self.num_tokens += reply.usage.completion_tokens
        if reply.was_cut:
            return Ending.TOKEN_LIMIT, cut_message(reply)
        if summary_of(context.dialect, summary):
            return None
        return Ending.FORMAT_ERROR, f"asked for a summary before step {turn}, the agent gave none"

    def _token_limit_reached(self) -> Outcome | None:
        """How the episode ends when all tokens are used; None: some are left."""
        limit = self.context.limits.token_limit
        if limit is None or self.num_tokens < limit:
            return None
        return Ending.TOKEN_LIMIT, f"{self.num_tokens} tokens were generated"

    async def record_step(self, step: StepTaken) -> None:
        """Record the next step; wait while the log is full."""
        self._stamp_step(step)
        await self.context.recorder.wait_for_room()

    def _stamp_step(self, step: StepTaken) -> None:
        self.steps.append(step)
        self.context.recorder.stamp(self.plan.episode, self.plan.attempt, step)

    async def execute(self, decision: Act, results: list[ToolResult]) -> None:
        """Make the calls in order and append their results to `results`. Stops after a call that
        ends the episode (see Limits.world_stop). Raises WorldError."""
        for call in decision.calls:
            began = time.perf_counter()
            result = self.context.dialect.local_result(call, self.briefing)
            if result is None:
                result = await self._call(call.name, call.arguments, call.id)
                self.context.meters.called(time.perf_counter() - began)
            results.append(result)
            if self._ends_episode(result):
                return

    def _ends_episode(self, result: ToolResult) -> bool:
        return result.error in WORLD_FAULTS and self.context.limits.stops_with_world

    def world_failure(self) -> str | None:
        """How the world failed in the last step, as a sentence; None: the episode continues."""
        step = self.steps[-1]
        if not isinstance(step.decision, Act) or not self._ends_episode(step.results[-1]):
            return None
        return failure_message(step.decision.calls[-1].name, step.results[-1])

    async def _call_with_timeout(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        seconds = self.context.limits.call_timeout
        with anyio.move_on_after(seconds):
            return await self.env.call(name, arguments, call_id)
        text = f"{name} took longer than {seconds:g} s and was stopped."
        return ToolResult(text, "timeout", (), self.env.digest)

    async def _step(
        self, rules: FormatRules, reply: Reply, turn: int, window: Window, waited: float
    ) -> tuple[StepTaken, str | None]:
        """The step that follows from a reply, and the format rule that it breaks (None: none).

        A reply that was cut at its limit of tokens breaks no rule: it gets no reward of its own. It
        is not an answer, and none of its calls is made.
        """
        first_turn, recalled = window.first_turn, window.recalled
        if reply.was_cut:
            cut = FormatError(cut_message(reply))
            return StepTaken(reply, cut, (), first_turn, None, waited, recalled=recalled), None
        decision = self._limited(self.context.dialect.read(reply, turn=turn))
        fault = rules.decision_fault(decision, reply, self.steps)
        results: list[ToolResult] = []
        began = time.perf_counter()
        if fault is not None:
            decision = FormatError(fault)
        elif isinstance(decision, Act):
            try:
                await self.execute(decision, results)
            except BaseException:
                if results:  # the calls before the failure did happen, so the log must have them
                    done = Act(decision.calls[: len(results)])
                    self._stamp_step(
                        StepTaken(
                            *(reply, done, tuple(results), first_turn, None, waited),
                            recalled=recalled,
                        )
                    )
                raise
            if len(results) < len(decision.calls):
                decision = Act(decision.calls[: len(results)])
        spent = time.perf_counter() - began
        step = StepTaken(reply, decision, tuple(results), first_turn, None, waited, spent, recalled)
        if fault is None:
            fault = rules.results_fault(step)
        if fault is not None:
            step = msgspec.structs.replace(step, reward=self.context.format.reward)
        return step, fault

    def _limited(self, decision: Decision) -> Decision:
        """The decision, or why it is malformed: it has more calls than a reply may have."""
        most = self.context.limits.max_calls
        if not isinstance(decision, Act) or len(decision.calls) <= most:
            return decision
        calls = plural(len(decision.calls), "call")
        return FormatError(f"The reply has {calls}; make at most {most:,} in one reply.")

    def end(
        self, ending: Ending, error: str | None, seconds: float, *, lost: bool = False
    ) -> Ending:
        """Record that the episode is over. Return its ending: the world may break at this moment.

        A world that is lost is not asked for its state; one in which only a call failed is asked.
        """
        plan, context = self.plan, self.context
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
        context.recorder.stamp(plan.episode, plan.attempt, ended)
        context.windows.close(plan.episode)
        return ending


EpisodeDriver = Callable[[Episode, Watch], Awaitable[Outcome]]  # takes the steps of an episode
