"""The episode loop: lease a world, then for each turn show a window, get a reply, read a decision,
make its calls, and record the step.

Promises:
- An episode that began records exactly one EpisodeEnded, whatever stops it, cancellation included.
- A failure of the outside world (model, world, limits) ends one episode with its own ending. A bug
  stops the run with its traceback, and the episode in which it occurred is recorded as cancelled.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from itertools import takewhile
from math import inf
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import structlog

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import (
    WORLD_FAULTS,
    Env,
    Recalls,
    TakesTogether,
    ToolResult,
    ToolSpec,
    WritesRules,
)
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode, AsksBack, LoggedAnswers, NotAnswered
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.continuation.beginning import (
    Beginning,
    KeptReplies,
    KeptTurnsDiffer,
    MakeCall,
    rebuild,
)
from rehearsal_room.harness.continuation.outcomes import (
    EpisodeOutcome,
    TalkLength,
    cut_message,
    fault_of,
    length_of,
    outcome_of,
    world_failure_in,
)
from rehearsal_room.harness.core.briefings import shown_tools
from rehearsal_room.harness.core.errors import (
    ContextLengthError,
    LogError,
    ModelRefusedError,
    PolicyError,
)
from rehearsal_room.harness.core.events import (
    AgentOutput,
    AgentSpans,
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    ModelAsked,
    StepTaken,
)
from rehearsal_room.harness.core.folding import FOLD, HISTORY, with_fold
from rehearsal_room.harness.core.messages import (
    NOTHING_SAID,
    Act,
    AgentCall,
    Answer,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
    UserAct,
    UserTurn,
    Window,
    sent_calls,
)
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.dialects.base import Dialect, call_id, local_result
from rehearsal_room.harness.dialects.format_rules import FormatRules, FormatSettings, make_rules
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.token_budget import TokenMeasure, estimate_tokens
from rehearsal_room.harness.history.windows import HistoryFold, summary_of, window_of_group
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.outcomes.model_failures import first_prompt_error
from rehearsal_room.harness.policies.base import Agent, Assignment, Observable, Policy
from rehearsal_room.harness.rollout.deadlines import Watch, Watchdog
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.notices import Notices
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.reply_limits import checked_answer, cut_reply
from rehearsal_room.harness.rollout.slots import Slots
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.users.base import EpisodeUser, UserSource
from rehearsal_room.harness.users.scripted import TaskUsers
from rehearsal_room.harness.users.server_answers import AnsweringModel, AnsweringUser
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.dialogue import ModelUser, UserAutomaton, UserScript
from rehearsal_room.scenarios.format import Scenario, Task


class RunContext(msgspec.Struct, frozen=True):
    """The objects that all episodes of a run share."""

    pool: Pool
    policy: Policy
    dialect: Dialect
    history: HistoryWindow
    format: FormatSettings
    limits: Limits
    recorder: Recorder
    watchdog: Watchdog
    meters: Meters
    users: UserSource = msgspec.field(default_factory=TaskUsers)
    slots: Slots = msgspec.field(default_factory=Slots)
    notices: Notices = msgspec.field(default_factory=Notices)
    earlier: tuple[Message, ...] = ()  # before the task of each episode


def user_of(scenario: Scenario) -> str:
    """The acting user as text; empty where the scenario does not name one.

    Example: User("u1", "Ada Lindqvist", "clerk") -> "Ada Lindqvist (clerk, id u1)"
    """
    if not scenario.user.name:
        return ""
    return f"{scenario.user.name} ({scenario.user.role}, id {scenario.user.id})"


def briefing_of(
    scenario: Scenario,
    task: Task,
    tools: Sequence[ToolSpec],
    user: EpisodeUser | None = None,
    earlier: tuple[Message, ...] = (),
    *,
    history: str = "full",
) -> Briefing:
    """The briefing that the agent gets for a task. `user` is with whom it talks (None: nobody
    answers), `earlier` the messages before the task, `history` the window, which may have a tool. A
    tuple of `tools` of which none is hidden is used without a copy."""
    return Briefing(
        task.instruction,
        scenario.rules,
        with_fold(shown_tools(tools, () if user is None else user.hidden), history),
        user_of(scenario),
        scenario.clock,
        user is not None,
        (*earlier, *earlier_of(scenario)),
    )


def earlier_of(scenario: Scenario) -> tuple[Message, ...]:
    """The talk before the instruction, as messages."""
    said = () if scenario.suite is None else scenario.suite.earlier
    return tuple([Message(one.role, one.text) for one in said])


_log = structlog.get_logger(__name__)
_SHORT = TalkLength()
_NO_REPLY = Reply()
_TOO_LATE = "The talk has reached its limit of messages: the call was not made."


async def run_episode(
    plan: EpisodePlan,
    context: RunContext,
    driver: "EpisodeDriver | None" = None,
    beginning: Beginning | None = None,
) -> Ending:
    """Run one episode, record its events, and return how it ended.

    `driver` takes the episode's steps; None: the run's policy takes them turn by turn, after those
    of `beginning` (None: from the first). Where turns of an earlier attempt cannot be repeated, the
    episode begins at its start. Raises PoolError when no world can be leased, and LogError when the
    turns of a fork cannot be repeated. A cancellation is recorded and then passed on.
    """
    began = time.perf_counter()
    async with context.pool.lease(plan.scenario, plan.task) as env:
        context.meters.leased(time.perf_counter() - began)
        run = Episode(plan, context, env, opening="" if driver else plan.task.opening)
        broken = await run.begin(beginning)
        began -= run.seconds_before
        run.start()
        cancelled = anyio.get_cancelled_exc_class()
        ending, error = Ending.CANCELLED, None
        lost = False  # whether the world can no longer be asked for its state
        try:
            if broken is not None:
                raise broken
            with context.watchdog.watch(run.time_left()) as watch:
                ending, error = await (driver or Episode.run_turns)(run, watch)
                if ending is not Ending.WORLD_ERROR:
                    watch.got_reply()
                    run.checked = await env.check(plan.task, run.answer)
            if watch.scope.cancelled_caught:
                ending, error = _expiry(watch, context.limits, own=driver is not None)
        except ContextLengthError as exc:
            ending, error = run.context_full(str(exc))
        except ModelRefusedError as exc:
            ending, error = Ending.MODEL_REFUSED, str(exc)
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
            ending = Ending.POLICY_ERROR if driver is None else Ending.AGENT_FAILED
            error = "the policy's own work was cancelled"
        except Exception as exc:
            why = f"the run was stopped by {type(exc).__name__}: {exc}"
            run.end(Ending.CANCELLED, why, time.perf_counter() - began)
            raise
        ending = run.end(ending, error, time.perf_counter() - began, lost=lost)
    await context.recorder.wait_for_room()
    return ending


def _expiry(watch: Watch, limits: Limits, *, own: bool) -> tuple[Ending, str]:
    """How the episode ends. `own`: the user's own program takes the steps, so no model server is
    to blame for its silence."""
    if watch.expired == "reply":
        ending = Ending.AGENT_FAILED if own else Ending.POLICY_ERROR
        return ending, f"no reply within {limits.reply_timeout:g} s"
    return Ending.TIME_LIMIT, f"not done within {limits.time_limit:g} s"


class Episode:
    """One running episode: its world, and the steps so far."""

    __slots__ = (
        "_call",
        "answer",
        "available",
        "beginning",
        "briefing",
        "checked",
        "context",
        "env",
        "given",
        "history",
        "max_steps",
        "no_tool",
        "num_tokens",
        "opening",
        "paused_s",
        "plan",
        "rules",
        "steps",
        "together",
        "user",
        "window",
    )

    def __init__(
        self, plan: EpisodePlan, context: RunContext, env: Env, *, opening: str = ""
    ) -> None:
        """`opening` is said in the agent's name before the policy is asked; empty: nothing is."""
        self.plan = plan
        self.opening = opening
        self.context = context
        self.env = env
        # None: nobody answers the agent; a reply without a call is its answer.
        self.user = context.users.user(plan.scenario, plan.task, env.tools, seed=plan.seed)
        self.window = window_of_group(context.history, plan.group)
        self.briefing = briefing_of(
            *(plan.scenario, plan.task, env.tools, self.user, context.earlier),
            history=self.window.spec,
        )
        # Names of the tools that the agent has; None: all that the world has.
        self.available: list[str] | None = None
        suite = plan.scenario.suite
        # What a call of a tool gives that the agent does not have; empty: our own sentence.
        self.no_tool = "" if suite is None else suite.no_tool
        is_held = self.user is not None and self.user.hidden and not _executes_withheld(plan.task)
        if self.no_tool or is_held:
            self.available = [tool.name for tool in self.briefing.tools]
            self.available += () if suite is None else suite.unlisted
        self.steps: list[StepTaken] = []
        self.max_steps = context.limits.steps_for(plan.task)
        # What the model may see; None: the steps are not the policy's, and no window is shown.
        self.history: HistoryFold | None = None
        self.answer = ""
        self.checked: tuple[Finding, ...] = ()
        self.num_tokens = 0
        self.paused_s = 0.0  # seconds
        self.rules: str | None = None  # that the world wrote; None: they are the scenario's
        self.beginning: Beginning | None = None  # None: the episode begins at its start
        self.given: dict[str, ToolResult] = {}  # results that no tool gives, by the calls' ids
        # The world, where it takes the calls of a reply together.
        # `hasattr` is quick; to ask for a Protocol takes 6 to 20 µs an episode.
        self.together = env if hasattr(env, "announce") and isinstance(env, TakesTogether) else None
        self._call = env.call
        self._answer_servers()
        # A call in this process never awaits, so a timeout could not interrupt it.
        if env.awaits and context.limits.call_timeout is not None:
            self._call = self._call_with_timeout

    def _answer_servers(self) -> None:
        """Say who answers what the world's server asks."""
        env = self.env
        if hasattr(env, "answer_with") and isinstance(env, AsksBack) and env.asks != "refuse":
            env.answer_with(self._answerer(env.asks))

    def _answerer(self, asks: AskMode) -> Answerer:
        if asks == "model":
            policy = self.context.policy
            make = partial(policy.agent, self._assignment(()))
            return AnsweringModel(make, policy.name, self._count_tokens)
        user = self.plan.task.user
        return AnsweringUser(user) if isinstance(user, UserAutomaton) else _nobody

    def _count_tokens(self, reply: Reply) -> None:
        self.num_tokens += self._num_sampled(reply)

    def _assignment(self, kept: KeptReplies) -> Assignment:
        plan = self.plan
        return Assignment(
            episode=plan.episode,
            scenario=plan.scenario,
            task=plan.task,
            seed=plan.seed,
            briefing=self.briefing,
            member=plan.member,
            kept=kept,
            attempt=plan.attempt,
        )

    async def begin(self, beginning: Beginning | None) -> WorldError | PolicyError | None:
        """Bring the world into the state in which the episode goes on, and let it write the rules.
        Returns why that is not possible; None: it is. Raises LogError like `begin_after`."""
        task, suite = self.plan.task, self.plan.scenario.suite
        if self.window.spec == HISTORY and any(one.name == FOLD.name for one in self.env.tools):
            why = f"world {self.plan.scenario.name} has a tool {FOLD.name!r} of its own"
            return WorldError(f"{why}: choose another history window than 'fold'")
        if task.follows and (beginning is None or not (beginning.origin or beginning.broken)):
            why = f"task {task.id} begins where {task.follows} ended, which was not played before"
            return WorldError(f"{why}; `rehearse run` and `rehearse eval` play both")
        broken: WorldError | PolicyError | None = None
        if beginning is not None and beginning.broken:
            self.beginning = beginning
            kind = PolicyError if beginning.lacks_reply else WorldError
            return kind(beginning.broken)  # like the episode that it follows, so both are repeated
        if beginning is not None:
            broken = await self.begin_after(beginning)
        if broken is not None or suite is None or not suite.renders_rules:
            return broken
        self.rules = None if self.beginning is None else self.beginning.rules
        if self.rules is None:
            try:
                self.rules = await rules_of(self.env, task)
            except WorldError as exc:
                return exc
        self.briefing = msgspec.structs.replace(self.briefing, rules=self.rules)
        return None

    async def begin_after(self, beginning: Beginning) -> WorldError | None:
        """Bring the world into the state after the resumed turns. Returns how the world broke;
        None: it did not. Raises LogError where the turns of a fork cannot be repeated."""
        self.beginning = beginning
        self.given = beginning.given_results()
        if beginning.instruction:
            self.briefing = msgspec.structs.replace(
                self.briefing, instruction=beginning.instruction
            )
        try:
            await rebuild(
                beginning,
                self.env.start_digest,
                _repeating(self.env, self._call, beginning),
                env=self.env,
                dialect=self.context.dialect,
                briefing=self.briefing,
            )
        except WorldError as exc:
            return exc
        except KeptTurnsDiffer as exc:
            source = beginning.forked_from
            if source is not None and source.run:
                raise LogError(
                    f"{source.where}: its first {plural(source.turn, 'turn')} cannot"
                    f" be repeated: {exc}"
                ) from exc
            if beginning.origin is not None and not beginning.kept:
                where = f"the state at the end of {beginning.origin.episode}"
                return WorldError(f"{where}, in which it begins, cannot be reached again: {exc}")
            _log.warning("kept_turns_differ", episode=self.plan.episode, why=str(exc))
            self.beginning = None
            self.env.reset()
            if beginning.origin is not None:
                return await self.begin_after(beginning.without_turns())
        finally:
            self._answer_servers()
        return None

    @property
    def start_digest(self) -> str:
        """The digest of the state in which the episode began."""
        if self.beginning is None or self.beginning.origin is None:
            return self.env.start_digest
        return self.beginning.start_digest

    @property
    def seconds_before(self) -> float:
        """How long the episode ran before it was interrupted, in seconds."""
        return 0.0 if self.beginning is None else self.beginning.seconds

    def time_left(self) -> float | None:
        """The time limit, less the time before an interruption; None: there is no limit."""
        limit = self.context.limits.time_limit
        return None if limit is None else limit - self.seconds_before

    def start(self) -> None:
        """Record that the episode began, and the replies that it keeps."""
        plan, context = self.plan, self.context
        beginning = self.beginning
        context.recorder.open(plan.episode)
        started = EpisodeStarted(
            scenario=plan.scenario.name,
            task=plan.task.id,
            instruction=self.briefing.instruction,
            group=plan.group,
            member=plan.member,
            group_size=plan.group_size,
            seed=plan.seed,
            policy=context.policy.name,
            dialect=context.dialect.name,
            history=self.window.spec,
            fingerprint=self.window.fingerprint,
            scenario_digest=plan.scenario.digest,
            start_digest=self.start_digest,
            seeding="" if plan.scenario.awm is None else plan.scenario.awm.seeding,
            kept=0 if beginning is None else len(beginning.kept),
            forked_from=None if beginning is None else beginning.forked_from,
            is_dialogue=self.user is not None,
            hidden=() if self.user is None else self.user.hidden,
            tags=plan.task.tags,
            given=int(bool(self.opening)),
            earlier=self.briefing.earlier,
            edit=None if beginning is None else beginning.edit,
            origin=None if beginning is None else beginning.origin,
            rules=self.rules,
        )
        context.recorder.stamp(plan.episode, plan.attempt, started)
        if beginning is not None:
            self.num_tokens = sum(self._num_sampled(event.reply) for event in beginning.kept)
            self.steps += beginning.steps
            for event in beginning.kept:
                context.recorder.stamp(plan.episode, plan.attempt, event)
            for step in beginning.steps:
                self._keep_talk(step)

    def _keep_talk(self, step: StepTaken) -> None:
        """Repeat a logged turn of the talk to the user."""
        if self.user is not None and step.user is not None:
            assert isinstance(step.decision, Answer)
            self.user.keep(step.decision.text, step.user)
            self._add_tools(step.user)

    def _add_tools(self, turn: UserTurn) -> None:
        if self.available is not None:
            self.available += [tool.name for tool in turn.tools]

    @asynccontextmanager
    async def paused(self, watch: Watch) -> AsyncIterator[None]:
        """A block in which the episode has no slot, for a long wait. Its deadlines stand still, and
        the time does not count; at the end of the block it waits for a slot."""
        began = time.perf_counter()
        watch.pause()
        try:
            async with self.context.slots.paused():
                yield
        finally:
            watch.go_on()
            self.paused_s += time.perf_counter() - began

    async def run_turns(self, watch: Watch) -> EpisodeOutcome:
        """Let the policy take steps until something ends the episode; return how it ended."""
        context, limits = self.context, self.context.limits
        history = HistoryFold(self.window, context.dialect, self.briefing)
        self.history = history
        is_dialogue = self.user is not None
        rules = make_rules(context.format, context.dialect, is_dialogue=is_dialogue)
        known: KeptReplies = ()
        prescribed: list[StepTaken] = []  # replies that are not asked for, the next one last
        if (beginning := self.beginning) is not None:
            if beginning.refused:
                return Ending.TOKEN_LIMIT, beginning.refused
            known, prescribed = beginning.known_to_agent(), [*reversed(beginning.prescribed)]
            for event in beginning.kept:
                history.apply(event)
            if (over := self._outcome_after_kept(rules)) is not None:
                return over
        if self.opening and not self.steps:
            opened = await self._open_talk()
            if (over := self._outcome_after(opened, None)) is not None:
                return over
            known = (opened,)
        agent: Agent = context.policy.agent(self._assignment(known))
        for turn in range(len(self.steps), self.max_steps):
            await anyio.lowlevel.checkpoint()  # an instant policy must not block the event loop
            if context.slots.is_over:
                await self._wait_for_admission(watch)
            window = history.window()
            if window.asks_for_summary:
                if (failed := await self._summarise(agent, window, turn, watch)) is not None:
                    return failed
                window = history.window()
            asked = time.perf_counter()
            if not prescribed:
                watch.expect_reply(limits.reply_timeout)
                reply = await agent.reply(window)
                watch.got_reply()
            else:
                step = prescribed.pop()
                reply, asked = step.reply, asked - step.policy_s
            answered = time.perf_counter()
            asked -= reply.early_s
            step, fault = await self._step(rules, reply, turn, window, answered - asked)
            await self.record_step(step)
            context.meters.stepped(time.perf_counter() - answered)
            self.num_tokens += self._num_sampled(reply)
            if (over := self._outcome_after(step, fault)) is not None:
                return over
            if limits.turn_steps is not None and self._replies_in_turn() >= limits.turn_steps:
                return self._outcome_at_turn_limit(limits.turn_steps)
        if context.dialect.unanswered:
            self.answer = context.dialect.unanswered
            return Ending.ANSWERED, None
        return Ending.STEP_LIMIT, None

    async def _open_talk(self) -> StepTaken:
        """Say the words that open the talk in the agent's name, and record the turn."""
        assert self.user is not None
        user, user_s = await self.hear_user(self.user, self.opening, 0)
        reply = self.context.dialect.write((), self.opening, turn=0)
        suite = self.plan.scenario.suite
        if suite is not None and not suite.shows_opening:
            reply = msgspec.structs.replace(reply, content="null")
        step = StepTaken(reply, Answer(self.opening), user=user, user_s=user_s)
        await self.record_step(step)
        return step

    def _outcome_at_turn_limit(self, most: int) -> EpisodeOutcome:
        """How the episode ends where the agent has made this number of replies to one text."""
        user = self.plan.task.user
        if isinstance(user, UserScript) and user.ends_at_limit:
            said = sum(step.user is not None for step in self.steps)
            if said == len(user.turns):
                self.answer = answer_of_steps(self.steps)
                return Ending.ANSWERED, None
        return Ending.STEP_LIMIT, f"{most} replies in one turn of the user"

    @property
    def length(self) -> TalkLength:
        """How long the episode is so far."""
        limits = self.context.limits
        if limits.max_errors is None and limits.max_messages is None:
            return _SHORT  # nobody asks
        return length_of(self.steps, int(bool(self.opening)), single=limits.single_messages)

    def _replies_in_turn(self) -> int:
        """How many steps there were since the user spoke last; 0 outside of dialogues."""
        if self.user is None:
            return 0
        earlier = (number for number, step in enumerate(reversed(self.steps)) if step.user)
        return next(earlier, len(self.steps))

    async def _wait_for_admission(self, watch: Watch) -> None:
        """Pause before the model is asked: more episodes run than the server has room for."""
        before = self.paused_s
        try:
            async with self.paused(watch):
                pass
        finally:
            self.context.meters.held_back(self.paused_s - before)

    def _outcome_after(self, step: StepTaken, fault: str | None) -> EpisodeOutcome | None:
        """How the episode ends with its latest step, which breaks this format rule (None: none);
        None: it goes on."""
        over = outcome_of(step, fault, self.context.format, self.context.limits)
        if over is None or over[0] is Ending.ANSWERED:
            limit = self.length.limit_reached(self.context.limits)
            over = over if limit is None else (Ending.STEP_LIMIT, limit)
        if over is None and self.plan.task.single_turn:
            over = Ending.ANSWERED, None
        if over is not None and over[0] is Ending.ANSWERED:
            self.answer = answer_of_steps(self.steps)
        return over or self._token_limit_reached()

    def _outcome_after_kept(self, rules: FormatRules) -> EpisodeOutcome | None:
        """How the episode ends with the last reply that it keeps: the interruption may have come
        between that reply and the end. None: it goes on."""
        last = self.beginning.kept[-1] if self.beginning and self.beginning.kept else None
        if isinstance(last, HistorySummarized):
            return self._outcome_after_summary(last)
        return None if last is None else self._outcome_after(last, fault_of(last, rules))

    async def _summarise(
        self, agent: Agent, window: Window, turn: int, watch: Watch
    ) -> EpisodeOutcome | None:
        """Ask the agent to summarise the turns that leave its history, and record its reply.

        Returns how the episode ends when the reply is not a summary, whatever the format rules
        say: there is no window for the next step then. It counts as the agent's own error, which
        is judged and learned from, and not as a failure of its model or server.
        """
        context = self.context
        asked = time.perf_counter()
        watch.expect_reply(context.limits.reply_timeout)
        reply = await agent.reply(window)
        watch.got_reply()
        summary = HistorySummarized(reply, turn, window.first_turn, time.perf_counter() - asked)
        self._stamp(summary)
        await context.recorder.wait_for_room()
        self.num_tokens += self._num_sampled(reply)
        return self._outcome_after_summary(summary)

    def _outcome_after_summary(self, summary: HistorySummarized) -> EpisodeOutcome | None:
        if summary.reply.was_cut:
            return Ending.TOKEN_LIMIT, cut_message(summary.reply)
        if not summary_of(self.context.dialect, summary):
            why = f"asked for a summary before step {summary.turn}, the agent gave none"
            return Ending.FORMAT_ERROR, why
        return self._token_limit_reached()

    def _num_sampled(self, reply: Reply) -> int:
        """The tokens of a reply that count against the token limit; where a model server reports
        none, a token for 4 bytes, which is said once."""
        reported = reply.usage.completion_tokens
        context = self.context
        if reported or context.limits.token_limit is None:
            return reported
        if not isinstance(context.policy, Observable):
            return 0
        estimate = estimate_tokens(reply)
        if estimate:
            context.notices.say(
                "tokens_estimated",
                why="the model server reports no usage; for --token-limit 4 bytes count as a token",
            )
        return estimate

    def _token_limit_reached(self) -> EpisodeOutcome | None:
        """How the episode ends when all tokens are used; None: some are left."""
        limit = self.context.limits.token_limit
        if limit is None or self.num_tokens < limit:
            return None
        return Ending.TOKEN_LIMIT, f"{self.num_tokens} tokens were generated"

    def context_full(self, fault: str) -> tuple[Ending, str]:
        """How the episode ends whose window is too long for the model. Where it is the first one,
        the agent did nothing wrong: the model cannot play this world, which is said once."""
        if self.steps:
            return Ending.TOKEN_LIMIT, fault
        dialect, world = self.context.dialect, self.plan.scenario.name
        head, tools = dialect.opening_messages(self.briefing), dialect.request_tools(self.briefing)
        tokens = TokenMeasure().pinned(head, tools)
        self.context.notices.say(
            "first_prompt_too_long",
            world=world,
            tokens_needed=f"about {tokens:,}",
            server_says=fault,
            advice="serve the model with a longer context, or leave this world out",
        )
        return Ending.POLICY_ERROR, first_prompt_error(world, tokens, fault)

    async def record_step(self, step: StepTaken) -> None:
        """Record the next step; wait while the log is full."""
        self._stamp_step(step)
        await self.context.recorder.wait_for_room()

    async def record_asked(self, asked: ModelAsked) -> EpisodeOutcome | None:
        """Record a reply of the model to an agent that asks it by itself. Returns how the episode
        ends where its tokens are used up; None: it goes on."""
        self.record_fact(asked)
        await self.context.recorder.wait_for_room()
        if asked.reply is not None:
            self.num_tokens += self._num_sampled(asked.reply)
        return self._token_limit_reached()

    def record_fact(self, fact: ModelAsked | AgentOutput | AgentSpans) -> None:
        """Record what is neither a step nor a summary."""
        self.context.recorder.stamp(self.plan.episode, self.plan.attempt, fact)

    def _stamp_step(self, step: StepTaken) -> None:
        self.steps.append(step)
        self._stamp(step)

    def _stamp(self, reply: StepTaken | HistorySummarized) -> None:
        """Record a reply of this attempt, and add it to the history."""
        self.context.recorder.stamp(self.plan.episode, self.plan.attempt, reply)
        if self.history is not None:
            self.history.apply(reply)

    async def execute(
        self,
        decision: Act,
        results: list[ToolResult],
        seconds: list[float] | None = None,
        *,
        reply: Reply = _NO_REPLY,
    ) -> None:
        """Make the calls of a reply in order and append their results to `results`, and how long
        each took to `seconds`. Stops after a call that ends the episode (see Limits.world_stop).
        In a world that takes the calls of a reply together, a cancellation waits from the first
        call to the last. Raises WorldError."""
        if self.together is not None:
            calls = decision.calls
            made = {call.id for call in calls if self._result_without_world(call) is None}
            self.together.announce(sent_calls(decision, reply, made))
        num_made = 0
        for call in decision.calls:
            began = time.perf_counter()
            result = self._result_without_world(call)
            if result is None:
                # The world may have made all of them with the first: then the log has all results,
                # also where the episode is stopped between them.
                are_made = self.together is not None and num_made > 0
                with anyio.CancelScope(shield=True) if are_made else nullcontext():
                    result = await self._call(call.name, call.arguments, call.id)
                assert result is not None  # nobody cancels this scope
                num_made += 1
                self.context.meters.called(time.perf_counter() - began)
            results.append(result)
            if seconds is not None:
                seconds.append(time.perf_counter() - began)
            if result.error in WORLD_FAULTS and self.context.limits.stops_with_world:
                return

    def _result_without_world(self, call: AgentCall) -> ToolResult | None:
        """The result of a call for which the world is not asked; None: it is."""
        return (
            self._given_result(call)
            or local_result(self.context.dialect, call, self.briefing)
            or self._refusal_of(call.name)
        )

    def _given_result(self, call: AgentCall) -> ToolResult | None:
        """The result that somebody gave to a call of a fork; None: nobody did."""
        given = self.given.get(call.id) if self.given else None
        return given and msgspec.structs.replace(given, digest=self.env.digest)

    def _refusal_of(self, name: str) -> ToolResult | None:
        """What a call of a tool gives that the world has and the agent has not; None: it has it."""
        if self.available is None or name in self.available:
            return None
        text = f"There is no tool {name!r}. Tools: {', '.join(self.available)}."
        if self.no_tool:
            text = self.no_tool.format(name=name)
        return ToolResult(text, "unknown_tool", (), self.env.digest)

    def world_failure(self) -> str | None:
        """How the world failed in the last step, as a sentence; None: the episode continues."""
        return world_failure_in(self.steps[-1], self.context.limits)

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
        if reply.was_cut and not self.context.dialect.reads_cut_replies:
            cut = FormatError(cut_message(reply))
            return StepTaken(reply, cut, (), first_turn, None, waited, recalled=recalled), None
        reply, too_long = cut_reply(reply)
        decision = too_long or self._limited(self.context.dialect.read(reply, turn=turn))
        if isinstance(decision, Act) and (unknown := self._unknown_tool(decision)):
            decision = FormatError(unknown)
        is_stop = self._is_stop(reply, decision, turn)
        if isinstance(decision, Act) and (is_stop or self._ends_attempt()):
            decision = self._without_calls(reply, turn)
        fault = rules.decision_fault(decision, reply, self.steps)
        if self._says_nothing(decision):
            decision = NOTHING_SAID
            fault = NOTHING_SAID.reason if self._gives_up() else None
        results: list[ToolResult] = []
        call_s: list[float] = []
        began = time.perf_counter()
        if fault is not None and not isinstance(decision, FormatError):
            decision = FormatError(fault)
        elif isinstance(decision, Act):
            try:
                if self._is_beyond_limit(decision):
                    results += [ToolResult(_TOO_LATE, "refused", (), self.env.digest, True)] * len(
                        decision.calls
                    )
                else:
                    await self.execute(decision, results, call_s, reply=reply)
            except BaseException:
                if results:  # the calls before the failure did happen, so the log must have them
                    done = Act(decision.calls[: len(results)])
                    self._stamp_step(
                        StepTaken(
                            reply=reply,
                            decision=done,
                            results=tuple(results),
                            first_turn=first_turn,
                            reward=None,
                            policy_s=waited,
                            recalled=recalled,
                        )
                    )
                raise
            if len(results) < len(decision.calls):
                decision = Act(decision.calls[: len(results)])
        spent = time.perf_counter() - began
        again = fault is None and isinstance(decision, Answer) and self._is_asked_again(reply)
        user, user_s = None, 0.0
        if fault is None and self.user is not None and isinstance(decision, Answer):
            user = UserTurn("", ended=True)
            if not is_stop:
                user, user_s = await self.hear_user(self.user, decision.text, turn)
        step = StepTaken(
            reply=reply,
            decision=decision,
            results=tuple(results),
            first_turn=first_turn,
            reward=None,
            policy_s=waited,
            calls_s=spent,
            recalled=recalled,
            user=user,
            user_s=user_s,
            call_s=tuple(call_s) if len(call_s) > 1 else (),
            again=again,
        )
        if fault is None:
            fault = rules.results_fault(step)
        if fault is not None:
            step = msgspec.structs.replace(step, reward=self.context.format.reward)
        return step, fault

    @property
    def _attempts(self) -> int:
        """How often the agent is asked in all, if it ends without a word."""
        suite = self.plan.scenario.suite
        return 1 if suite is None else suite.attempts

    def _ends_attempt(self) -> bool:
        """Whether the next reply is the last one of an attempt, whatever it is: none of its calls
        is made."""
        most = self.context.limits.turn_steps
        if most is None or self._attempts == 1:
            return False
        earlier = (number for number, step in enumerate(reversed(self.steps)) if step.again)
        return next(earlier, len(self.steps)) + 1 >= most

    def _without_calls(self, reply: Reply, turn: int) -> Answer:
        """What a reply says beside its calls."""
        said = self.context.dialect.read(msgspec.structs.replace(reply, calls=()), turn=turn)
        return said if isinstance(said, Answer) else Answer("")

    def _is_stop(self, reply: Reply, decision: Decision, turn: int) -> bool:
        """Whether the agent ends the talk with a word of the task."""
        stops = self.plan.task.stops
        if not stops or self.user is None or isinstance(decision, FormatError):
            return False
        said = decision if isinstance(decision, Answer) else self._without_calls(reply, turn)
        return any(stop in said.text for stop in stops)

    def _says_nothing(self, decision: Decision) -> bool:
        """Whether the agent is to be asked again, as if it had not replied."""
        suite = self.plan.scenario.suite
        is_empty = isinstance(decision, Answer) and not decision.text.strip()
        return is_empty and suite is not None and suite.empty_replies > 0

    def _gives_up(self) -> bool:
        """Whether one more reply that says nothing ends the episode."""
        suite = self.plan.scenario.suite
        assert suite is not None
        earlier = takewhile(lambda step: step.decision == NOTHING_SAID, reversed(self.steps))
        return sum(1 for _ in earlier) + 1 >= suite.empty_replies

    def _is_asked_again(self, reply: Reply) -> bool:
        """Whether the talk begins again after an answer: it has no content."""
        return reply.said is None and sum(step.again for step in self.steps) + 1 < self._attempts

    async def hear_user(self, user: EpisodeUser, text: str, turn: int) -> tuple[UserTurn, float]:
        """What the user says to the agent's words, and the seconds that it took. Raises
        WorldError."""
        began = time.perf_counter()
        acting = _ActingUser(self, turn)
        if acting.is_over(()):
            return UserTurn("", ended=True), 0.0
        heard = await user.reply(text, acting)
        self._add_tools(heard)
        heard = msgspec.structs.replace(
            heard, calls=tuple(acting.calls), results=tuple(acting.results)
        )
        return heard, time.perf_counter() - began

    def _unknown_tool(self, decision: Act) -> str:
        """Why a reply is malformed that calls a tool which the agent does not have, where that
        matters to the suite; empty: it is not."""
        suite = self.plan.scenario.suite
        if suite is None or not suite.ends_on_unknown_tool or self.available is None:
            return ""
        unknown = [call.name for call in decision.calls if call.name not in self.available]
        known = ", ".join(self.available)
        return f"There is no tool {unknown[0]!r}. Tools: {known}." if unknown else ""

    def _is_beyond_limit(self, decision: Act) -> bool:
        """Whether the calls of a reply, each a message of its own, reach the limit of messages."""
        limits = self.context.limits
        if limits.max_messages is None or not limits.single_messages:
            return False
        return self.length.messages + len(decision.calls) >= limits.max_messages

    def _limited(self, decision: Decision) -> Decision:
        """The decision, or why it is malformed: it has more calls than a reply may have, or its
        answer is too long."""
        most = self.context.limits.max_calls
        if not isinstance(decision, Act) or len(decision.calls) <= most:
            return checked_answer(decision)
        calls = plural(len(decision.calls), "call")
        return FormatError(f"The reply has {calls}; make at most {most:,} in one reply.")

    def end(
        self, ending: Ending, error: str | None, seconds: float, *, lost: bool = False
    ) -> Ending:
        """Record that the episode is over, `seconds` after it began. Return its ending: the world
        may break at this moment.

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
            ending=ending,
            answer=self.answer,
            num_steps=len(self.steps),
            state=state,
            error=error,
            seconds=seconds - self.paused_s,
            checked=self.checked,
        )
        context.recorder.stamp(plan.episode, plan.attempt, ended)
        return ending


def _executes_withheld(task: Task) -> bool:
    return isinstance(task.user, UserScript) and task.user.executes_withheld


class _ActingUser:
    """The world as a user acts in it in one turn (see harness.users.base.UserWorld)."""

    def __init__(self, episode: Episode, turn: int) -> None:
        self._episode = episode
        self._turn = turn
        self._length: TalkLength | None = None  # before the user acts; None: not counted yet
        self.calls: list[AgentCall] = []
        self.results: list[ToolResult] = []

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a call of the user; a user that a model plays has its own tools alone."""
        episode, user = self._episode, self._episode.plan.task.user
        call = AgentCall(name, arguments, call_id(self._turn, len(self.calls)))
        suite = episode.plan.scenario.suite
        known = () if suite is None else suite.users_unlisted
        if isinstance(user, ModelUser) and name not in (*user.tools, *known):
            text = user.no_tool.format(name=name)
            result = ToolResult(text, "unknown_tool", (), episode.env.digest)
        else:
            result = await episode._call(call.name, call.arguments, call.id)
        self.calls.append(call)
        self.results.append(result)
        return result

    def is_over(self, acts: Sequence[UserAct]) -> bool:
        """See UserWorld."""
        if self._length is None:
            before = self._episode.length
            spoken = int(bool(self._episode.steps) or not self._episode.opening)
            self._length = TalkLength(before.messages + spoken, before.errors)
        limits = self._episode.context.limits
        length = self._length.after(self.results, len(acts), single=limits.single_messages)
        return length.limit_reached(limits) is not None


def _repeating(env: Env, call: MakeCall, beginning: Beginning) -> MakeCall:
    """Makes logged calls again; what the world's server asks meanwhile is answered as it was, and
    the ids that it makes stand for the logged ones."""
    if not isinstance(env, AsksBack | Recalls):
        return call
    logged = {
        one.id: result
        for step in beginning.steps
        for one, result in zip(step.executed_calls, step.executed_results, strict=False)
    }

    async def repeat(name: str, arguments: Any, call_id: str) -> ToolResult:
        known = logged.get(call_id)
        if isinstance(env, AsksBack):
            env.answer_with(LoggedAnswers(() if known is None else known.asked))
        if isinstance(env, Recalls):
            env.expect(known)
        return await call(name, arguments, call_id)

    return repeat


async def rules_of(env: Env, task: Task) -> str:
    """The rules that a world writes for a task from its state. Raises WorldError."""
    if not isinstance(env, WritesRules):
        raise WorldError(f"the world cannot write the rules of task {task.id} from its state")
    return await env.rules(task)


async def _nobody(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer of a task without a user who can answer. Raises NotAnswered."""
    raise NotAnswered(f"this task has no user who could answer ({method})")


def answer_of_steps(steps: Sequence[StepTaken]) -> str:
    """The answer of an episode that its agent ended: in a dialogue everything that it said, with an
    empty line between two replies."""
    said = [step for step in steps if not step.again]
    texts = [step.decision.text for step in said if isinstance(step.decision, Answer)]
    return "\n\n".join(texts)


EpisodeDriver = Callable[
    [Episode, Watch], Awaitable[EpisodeOutcome]
]  # takes the steps of an episode
