"""The episode loop, against a sink in memory, on virtual time, on both event loops."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.inprocess.fault_injection import FAULTS, ToolFault, copy_with_fault
from rehearsal_room.envpool.inprocess.pool import LocalEnv, LocalPool
from rehearsal_room.harness.continuation.outcomes import failure_message
from rehearsal_room.harness.core.errors import ContextLengthError, ModelRefusedError, PolicyError
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, EpisodeStarted, StepTaken
from rehearsal_room.harness.core.messages import Act, Answer, FormatError, Reply, Usage
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.rollout.episode import Episode, run_episode
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task, read
from tests.support.paths import LIBRARY
from tests.support.run_context import (
    DONE,
    LOOK,
    MALFORMED,
    MemorySink,
    Move,
    MovesPolicy,
    after,
    calls,
    library,
    make_run_context,
    never,
    pay,
    plans,
    watchdog_running,
)
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def play(
    *moves: Move,
    sink: MemorySink | None = None,
    scenario: Scenario | None = None,
    **settings: Any,
) -> EpisodeEnded:
    """Run one episode of these moves; return its end."""
    sink = sink or MemorySink()
    context = make_run_context(MovesPolicy(*moves), sink, **settings)
    (plan,) = plans()
    if scenario is not None:
        plan = msgspec.structs.replace(plan, scenario=scenario)
    async with watchdog_running(context):
        ending = await run_episode(plan, context)
    ended = sink.ended(plan.episode)
    assert ended.ending is ending
    assert context.pool.statistics()["live"] == 0
    return ended


async def test_the_events_of_an_episode() -> None:
    """An episode is its start, a step for each turn with the world's results, and its end."""
    sink = MemorySink()
    await play(pay(350), DONE, sink=sink)
    start, first, last, end = sink.events("e000000")
    assert isinstance(start, EpisodeStarted) and isinstance(end, EpisodeEnded)
    assert isinstance(first, StepTaken) and isinstance(last, StepTaken)
    assert (start.scenario, start.task, start.policy) == ("library", "pay-fine", "moves")
    assert isinstance(first.decision, Act)
    assert [call.id for call in first.decision.calls] == ["c0-0"]
    (result,) = first.results
    assert result.error is None and len(result.changes) == 1
    assert result.digest != start.start_digest
    assert last.decision == Answer("All is done.")
    assert (end.ending, end.answer, end.error) == (Ending.ANSWERED, "All is done.", None)
    assert end.state is not None and end.state.digest == result.digest


async def test_several_calls_of_one_turn_are_made_in_order() -> None:
    """A turn's calls have one result each, and each sees the changes of the one before."""
    sink = MemorySink()
    await play(
        calls("pay_fine", "pay_fine", member_id=2, amount_cents=350, method="card"), DONE, sink=sink
    )
    step = sink.events("e000000")[1]
    assert isinstance(step, StepTaken)
    assert [result.error for result in step.results] == [None, "refused"]


@pytest.mark.parametrize(
    ("moves", "limits", "ending", "error", "num_steps"),
    [
        ([LOOK], Limits(max_steps=3), Ending.STEP_LIMIT, None, 3),
        ([LOOK, DONE], Limits(max_steps=2), Ending.ANSWERED, None, 2),
        ([LOOK, DONE], Limits(max_steps=1), Ending.STEP_LIMIT, None, 1),
        (
            [calls("list_overdue", tokens=40)],
            Limits(token_limit=100),
            Ending.TOKEN_LIMIT,
            "120 tokens were generated",
            3,
        ),
        (
            [PolicyError("the server is gone")],
            Limits(),
            Ending.POLICY_ERROR,
            "the server is gone",
            0,
        ),
        ([LOOK, PolicyError("gone")], Limits(), Ending.POLICY_ERROR, "gone", 1),
        ([LOOK, ModelRefusedError("filtered")], Limits(), Ending.MODEL_REFUSED, "filtered", 1),
        ([LOOK, ContextLengthError("9 > 8")], Limits(), Ending.TOKEN_LIMIT, "9 > 8", 1),
        (
            [ContextLengthError("9 > 8")],
            Limits(),
            Ending.POLICY_ERROR,
            "the first prompt does not fit into the model's context (world library, about 762 "
            "tokens): 9 > 8",
            0,
        ),
        ([LOOK, never], Limits(reply_timeout=30), Ending.POLICY_ERROR, "no reply within 30 s", 1),
        ([LOOK, never], Limits(time_limit=90), Ending.TIME_LIMIT, "not done within 90 s", 1),
        (
            [after(40, LOOK)],
            Limits(reply_timeout=60, time_limit=100),
            Ending.TIME_LIMIT,
            "not done within 100 s",
            2,
        ),
        ([MALFORMED], Limits(), Ending.FORMAT_ERROR, "A tool call has no name.", 1),
    ],
)
async def test_endings(
    moves: list[Move], limits: Limits, ending: Ending, error: str | None, num_steps: int
) -> None:
    """Whatever stops an episode, it ends once, with its ending, the reason, and its last state."""
    ended = await play(*moves, limits=limits)
    assert (ended.ending, ended.error, ended.num_steps, ended.answer) == (
        ending,
        error,
        num_steps,
        "All is done." if ending is Ending.ANSWERED else "",
    )
    assert ended.state is not None


CALL_TEXT = '<tool_call>\n{"name": "list_overdue", "arguments": {}}\n</tool_call>'
CUT_REPLIES = {
    "answer": ("native", Reply("The fine is")),
    "call": ("native", msgspec.structs.replace(LOOK, text="Look.")),
    "text call": ("hermes", Reply(f"{CALL_TEXT}\n<tool_call>\n{{")),
    "awm": ("awm", Reply("<think>x</think> All is done.")),
    "thought": ("hermes", Reply("<think>I must")),
    "nothing": ("native", Reply("")),
}


@pytest.mark.parametrize("rules", ["basic", "awm", "off"])
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("name", CUT_REPLIES)
async def test_a_cut_reply_is_a_truncation(name: str, rules: Any, stop: bool) -> None:
    """A reply that was cut at its limit of tokens ends the episode with `token_limit`, in every
    dialect and under all format rules: it is not an answer, no call in it is made, and its step has
    no reward of its own."""
    dialect, reply = CUT_REPLIES[name]
    cut = msgspec.structs.replace(reply, finish="length", usage=Usage(completion_tokens=512))
    sink = MemorySink()
    ended = await play(
        cut,
        sink=sink,
        dialect=dialect_of(dialect),
        format=FormatSettings(rules=rules, stop=stop),
    )
    why = "the reply was cut off at its limit of tokens, after 512 tokens"
    assert (ended.ending, ended.error, ended.answer) == (Ending.TOKEN_LIMIT, why, "")
    (step,) = sink.events("e000000")[1:-1]
    assert isinstance(step, StepTaken)
    assert (step.reply, step.decision) == (cut, FormatError(why))
    assert (step.results, step.reward) == ((), None)


@pytest.mark.parametrize("rules", ["basic", "off", "awm"])
async def test_a_reply_with_too_many_calls_is_malformed(rules: Any) -> None:
    """No call of such a reply is made, under any rules; the agent reads why. As many calls as are
    allowed are made."""
    sink, limits = MemorySink(), Limits(max_calls=2)
    ended = await play(
        *(calls("list_overdue", "list_overdue", "list_overdue"), DONE),
        limits=limits,
        format=FormatSettings(rules=rules, stop=False, think=False),
        sink=sink,
    )
    fault = "The reply has 3 calls; make at most 2 in one reply."
    step = sink.events("e000000")[1]
    assert isinstance(step, StepTaken)
    assert (step.decision, step.results) == (FormatError(fault), ())
    assert step.reward == (None if rules == "off" else -1.0)
    assert ended.num_steps >= 2
    ended = await play(calls("list_overdue", "list_overdue"), DONE, limits=limits)
    assert (ended.ending, ended.num_steps) == (Ending.ANSWERED, 2)


async def test_each_reply_has_its_own_deadline() -> None:
    """The time limit of a reply begins again with each reply."""
    ended = await play(*[after(20, LOOK)] * 5, DONE, limits=Limits(reply_timeout=30))
    assert ended.ending is Ending.ANSWERED


async def test_the_world_may_be_slower_than_the_model() -> None:
    """The time that calls take does not count as time of the next reply."""
    ended = await play(
        LOOK,
        LOOK,
        DONE,
        limits=Limits(reply_timeout=30, call_timeout=None),
        pool=PoolOf(lambda env: SlowEnv(env, 100)),
    )
    assert ended.ending is Ending.ANSWERED


async def test_an_answer_that_was_logged_counts() -> None:
    """A deadline that passed too late to stop the answer does not turn it into a time-out."""

    async def deaf() -> Reply:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(20)
        return DONE

    ended = await play(deaf, limits=Limits(time_limit=10))
    assert (ended.ending, ended.answer, ended.num_steps) == (Ending.ANSWERED, "All is done.", 1)


async def test_an_episode_that_ended_waits_for_room() -> None:
    """A full log keeps the worker from its next episode; the end of this one is recorded."""
    sink = MemorySink(capacity=3)
    context = make_run_context(MovesPolicy(DONE), sink)
    (plan,) = plans()
    with anyio.move_on_after(5) as scope:
        await run_episode(plan, context)
    assert scope.cancelled_caught
    assert sink.ended(plan.episode).ending is Ending.ANSWERED


async def test_a_malformed_step_has_a_negative_reward_and_the_episode_continues() -> None:
    """Without `stop`, a malformed step is reported to the agent, has the reward of the format rules
    and executes nothing."""
    sink = MemorySink()
    ended = await play(MALFORMED, DONE, sink=sink, format=FormatSettings(stop=False))
    step = sink.events("e000000")[1]
    assert isinstance(step, StepTaken)
    assert (step.decision, step.reward, step.results) == (
        FormatError("A tool call has no name."),
        -1.0,
        (),
    )
    assert (ended.ending, ended.num_steps) == (Ending.ANSWERED, 2)


async def test_the_agent_sees_the_window() -> None:
    """The history window decides what the agent sees, and each step has the first turn shown."""
    sink = MemorySink()
    policy = MovesPolicy(*[LOOK] * 4, DONE)
    context = make_run_context(policy, sink, history=parse_history("last:1"))
    (plan,) = plans()
    await run_episode(plan, context)
    steps = [fact for fact in sink.events(plan.episode) if isinstance(fact, StepTaken)]
    assert [step.first_turn for step in steps] == [0, 0, 1, 2, 3]
    shown = [len(window.messages) for window in policy.agents[plan.episode].windows]
    assert shown == [2, 4, 4, 4, 4]


@pytest.mark.parametrize("number", range(9))
async def test_cancelled_at_any_moment(number: int) -> None:
    """An episode that is cancelled at any await is recorded as cancelled, with the steps that it
    took, and the cancellation is passed on."""
    sink = MemorySink(capacity=1)
    moves = [after(1, pay(10)), after(1, pay(20)), after(1, DONE)]
    context = make_run_context(MovesPolicy(*moves), sink)
    (plan,) = plans()
    finished = False
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                for _ in range(number):
                    await anyio.sleep(0.5)
                    sink.take(number % 3)
                await anyio.sleep(0.01)
                scope.cancel()

            tasks.start_soon(stop)
            await run_episode(plan, context)
            finished = True
    assert finished or scope.cancelled_caught
    ended = sink.ended(plan.episode)
    paid = [f for f in sink.events(plan.episode)[1:-1] if isinstance(f, StepTaken) and f.results]
    assert ended.state is not None
    assert ended.state.digest == (paid[-1].results[0].digest if paid else _start_of(sink))
    assert context.pool.statistics()["live"] == 0
    if ended.ending is Ending.CANCELLED:
        assert ended.error == "the run was cancelled"
    else:  # it had ended, and was at most waiting for room in the log
        assert ended.ending is Ending.ANSWERED


def _start_of(sink: MemorySink) -> str:
    start = sink.records[0].event
    assert isinstance(start, EpisodeStarted)
    return start.start_digest


async def test_cancelled_while_the_log_is_full() -> None:
    """A full log does not keep a cancelled episode from recording its end."""
    sink = MemorySink(capacity=1)
    context = make_run_context(MovesPolicy(LOOK), sink)
    (plan,) = plans()
    with anyio.move_on_after(5) as scope:
        await run_episode(plan, context)
    assert scope.cancelled_caught
    ended = sink.ended(plan.episode)
    assert (ended.ending, ended.num_steps) == (Ending.CANCELLED, 1)


async def test_a_limit_while_the_log_is_full() -> None:
    """The time limit includes the wait for a full log, and the step that waits is counted."""
    sink = MemorySink(capacity=1)
    context = make_run_context(MovesPolicy(LOOK), sink, limits=Limits(time_limit=10))
    (plan,) = plans()
    async with watchdog_running(context), anyio.create_task_group() as tasks:
        tasks.start_soon(run_episode, plan, context)
        await anyio.sleep(20)
        sink.take(10)
    ended = sink.ended(plan.episode)
    assert (ended.ending, ended.num_steps) == (Ending.TIME_LIMIT, 1)


async def test_a_bug_is_recorded_and_raised_unchanged() -> None:
    """A bug in a policy is raised unchanged; the episode is recorded as cancelled, so that it is
    repeated when the run is resumed."""
    sink = MemorySink()
    bug = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError) as caught:
        await play(LOOK, bug, sink=sink)
    assert caught.value is bug
    ended = sink.ended("e000000")
    assert (ended.ending, ended.num_steps) == (Ending.CANCELLED, 1)
    assert ended.error == "the run was stopped by ZeroDivisionError: a bug"


async def test_a_policy_whose_own_task_is_cancelled(anyio_backend_name: str) -> None:
    """A cancellation that escapes from a policy, while the episode itself was not cancelled, is the
    policy's failure and does not stop the run."""
    if anyio_backend_name == "trio":
        pytest.skip("in trio a cancellation cannot escape its scope")

    async def stray() -> Any:
        raise anyio.get_cancelled_exc_class()

    ended = await play(LOOK, stray)
    assert (ended.ending, ended.error) == (
        Ending.POLICY_ERROR,
        "the policy's own work was cancelled",
    )


class SlowEnv:
    """A world whose calls await `seconds` each; a call that is cut off is undone."""

    awaits = True

    def __init__(self, env: Env, seconds: float) -> None:
        self._env = env
        self._seconds = seconds

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return tuple(self._env.tools)

    @property
    def start_digest(self) -> str:
        return self._env.start_digest

    @property
    def digest(self) -> str:
        return self._env.digest

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        trial = self._env.fork()
        result = await trial.call(name, arguments, call_id)
        await anyio.sleep(self._seconds)
        self._env = trial
        return result

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return await self._env.check(task, answer)

    def state(self) -> StoredState:
        return self._env.state()

    def fork(self) -> "SlowEnv":
        return SlowEnv(self._env.fork(), self._seconds)

    def reset(self) -> None:
        self._env.reset()


class BreakingEnv(SlowEnv):
    """A world that breaks at its first call and has no state afterwards."""

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        await checkpoint()
        raise WorldError("the worker died")

    def state(self) -> StoredState:
        raise WorldError("the worker died")


class ForgetfulEnv(SlowEnv):
    """A world that breaks when it is asked for its state."""

    def state(self) -> StoredState:
        raise WorldError("the disk is gone")


class PoolOf:
    """Leases the mini world behind another kind of environment."""

    def __init__(self, make: Callable[[Env], Env]) -> None:
        self._pool = LocalPool()
        self._make = make

    def lease(self, scenario: Scenario, task: Task | None) -> "_Leasing":
        return _Leasing(self, self._pool.lease(scenario, task), self._make)

    def statistics(self) -> dict[str, int]:
        return self._pool.statistics()


class _Leasing:
    def __init__(self, pool: PoolOf, inner: Any, make: Callable[[Env], Env]) -> None:
        self._inner, self._make = inner, make

    async def __aenter__(self) -> Env:
        return self._make(await self._inner.__aenter__())

    async def __aexit__(self, *exc: Any) -> None:
        await self._inner.__aexit__(*exc)


async def test_a_call_that_takes_too_long_is_cut_off() -> None:
    """In a pool whose calls await, a call past its limit gives an error result, the world is as
    before, and the episode continues where `world_stop` is off."""
    sink = MemorySink()
    ended = await play(
        pay(10),
        DONE,
        sink=sink,
        limits=Limits(call_timeout=60, world_stop=False),
        pool=PoolOf(lambda env: SlowEnv(env, 90)),
    )
    step = sink.events("e000000")[1]
    assert isinstance(step, StepTaken)
    text = "pay_fine took longer than 60 s and was stopped."
    assert step.results == (ToolResult(text, "timeout", (), _start_of(sink)),)
    assert ended.ending is Ending.ANSWERED
    assert ended.state is not None and ended.state.digest == _start_of(sink)


BROKEN = {
    "raises": "pay_fine failed with an internal error: KeyError: 'a column that is not there'",
    "timeout": "pay_fine took too long and was stopped.",
    "locked": "pay_fine failed with an internal error: OperationalError: database table is locked",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_tool_ends_the_episode(fault: ToolFault, tmp_path: Path) -> None:
    """A call in which the world fails ends the episode with a sentence; the failed call is the last
    step, the turn's other calls are not made, and the state is known."""
    sink = MemorySink()
    broken = read(copy_with_fault(LIBRARY, tmp_path, fault, "pay_fine"))
    ended = await play(
        LOOK,
        calls("pay_fine", "pay_fine", member_id=2, amount_cents=10, method="card"),
        DONE,
        sink=sink,
        scenario=broken,
    )
    assert (ended.ending, ended.error, ended.answer, ended.num_steps) == (
        Ending.WORLD_ERROR,
        f"the world failed in a call of pay_fine: {BROKEN[fault]}",
        "",
        2,
    )
    assert ended.state is not None and ended.state.digest == _start_of(sink)
    step = sink.events("e000000")[2]
    assert isinstance(step, StepTaken) and isinstance(step.decision, Act)
    assert [call.id for call in step.decision.calls] == ["c1-0"]
    assert [(result.text, result.changes) for result in step.results] == [(BROKEN[fault], ())]
    assert (len(step.reply.calls), step.reward) == (2, None)


async def test_an_episode_that_does_not_stop_at_a_broken_tool(tmp_path: Path) -> None:
    """Without `world_stop` the agent gets the world's error, every call is made, and the episode
    continues to its own end."""
    sink = MemorySink()
    broken = read(copy_with_fault(LIBRARY, tmp_path, "raises", "pay_fine"))
    ended = await play(
        calls("pay_fine", "pay_fine", member_id=2, amount_cents=10, method="card"),
        DONE,
        sink=sink,
        scenario=broken,
        limits=Limits(world_stop=False),
    )
    step = sink.events("e000000")[1]
    assert isinstance(step, StepTaken)
    assert [result.error for result in step.results] == ["internal", "internal"]
    assert (ended.ending, ended.error, ended.num_steps) == (Ending.ANSWERED, None, 2)


async def test_only_the_world_stops_an_episode() -> None:
    """A refusal, an unknown tool and arguments that do not fit are errors that the agent can
    correct; they do not stop the episode."""
    sink = MemorySink()
    moves = [
        calls("get_member", member_id=999),
        calls("no_such_tool"),
        calls("get_member", member_id="two"),
        DONE,
    ]
    ended = await play(*moves, sink=sink)
    steps = [fact for fact in sink.events("e000000") if isinstance(fact, StepTaken)]
    errors = [result.error for step in steps for result in step.results]
    assert errors == ["refused", "unknown_tool", "arguments"]
    assert (ended.ending, ended.num_steps) == (Ending.ANSWERED, 4)


class DyingEnv(SlowEnv):
    """A world without a state after a call that took too long."""

    def state(self) -> StoredState:
        raise WorldError("the worker died")


async def test_a_world_that_dies_of_a_call() -> None:
    """Where the world is lost after a failed call, the end has no state and still names the
    call."""
    ended = await play(
        pay(10), limits=Limits(call_timeout=60), pool=PoolOf(lambda env: DyingEnv(env, 90))
    )
    assert (ended.ending, ended.error, ended.state) == (
        Ending.WORLD_ERROR,
        "the world failed in a call of pay_fine: pay_fine took longer than 60 s and was stopped.",
        None,
    )


def test_a_long_failure_is_shortened() -> None:
    """A long text of a broken server is cut, and its length is given."""
    message = failure_message("ship", ToolResult("x" * 5_000, "internal"))
    assert message == f"the world failed in a call of ship: {'x' * 1_000}… (5,000 characters)"


@pytest.mark.parametrize("call_timeout", [60, None])
async def test_a_slow_call_within_its_limit(call_timeout: float | None) -> None:
    """A call within its limit, or without a limit, has its usual result."""
    sink = MemorySink()
    await play(
        pay(10),
        DONE,
        sink=sink,
        limits=Limits(call_timeout=call_timeout),
        pool=PoolOf(lambda env: SlowEnv(env, 50)),
    )
    step = sink.events("e000000")[1]
    assert isinstance(step, StepTaken)
    assert step.results[0].error is None and step.results[0].digest != _start_of(sink)


async def test_the_time_limit_cuts_off_a_call() -> None:
    """An episode out of time in the middle of a call ends with the world as before that call."""
    sink = MemorySink()
    ended = await play(
        pay(10),
        sink=sink,
        limits=Limits(call_timeout=None, time_limit=100),
        pool=PoolOf(lambda env: SlowEnv(env, 40)),
    )
    steps = [fact for fact in sink.events("e000000") if isinstance(fact, StepTaken)]
    assert (ended.ending, ended.num_steps) == (Ending.TIME_LIMIT, 2)
    assert ended.state is not None and ended.state.digest == steps[-1].results[0].digest


async def test_calls_before_a_cut_are_logged() -> None:
    """When a turn of several calls is cut off, the calls that were made are a step of the log."""
    sink = MemorySink()
    reply = calls("pay_fine", "pay_fine", member_id=2, amount_cents=10, method="card")
    ended = await play(
        reply,
        sink=sink,
        limits=Limits(time_limit=60),
        pool=PoolOf(lambda env: SlowEnv(env, 40)),
    )
    (step,) = [fact for fact in sink.events("e000000") if isinstance(fact, StepTaken)]
    assert isinstance(step.decision, Act)
    assert (len(step.decision.calls), len(step.results)) == (1, 1)
    assert (ended.ending, ended.num_steps) == (Ending.TIME_LIMIT, 1)
    assert ended.state is not None and ended.state.digest == step.results[0].digest


async def test_a_call_in_process_has_no_timer() -> None:
    """Where calls never await, the loop calls the world directly."""
    context = make_run_context(MovesPolicy(DONE), MemorySink())
    (plan,) = plans()
    async with LocalPool().lease(library()) as env:
        assert isinstance(env, LocalEnv)
        run = Episode(plan, context, env)
        assert run._call == env.call


@pytest.mark.parametrize(
    ("make", "num_steps", "error"),
    [
        (lambda env: BreakingEnv(env, 0), 0, "the worker died"),
        (lambda env: ForgetfulEnv(env, 0), 2, "the disk is gone"),
    ],
)
async def test_a_world_that_breaks(make: Callable[[Env], Env], num_steps: int, error: str) -> None:
    """A broken world ends its episode with `world_error`, without a state."""
    ended = await play(LOOK, DONE, pool=PoolOf(make))
    assert (ended.ending, ended.error, ended.state, ended.num_steps) == (
        Ending.WORLD_ERROR,
        error,
        None,
        num_steps,
    )


async def test_a_group_shares_its_start() -> None:
    """Members of a group begin in the same state and have different seeds."""
    sink = MemorySink()
    policy = MovesPolicy(pay(10), DONE)
    context = make_run_context(policy, sink)
    for plan in plans(8, group_size=4):
        await run_episode(plan, context)
    starts = [r.event for r in sink.records if isinstance(r.event, EpisodeStarted)]
    assert {start.start_digest for start in starts} == {starts[0].start_digest}
    assert [(start.group, start.member) for start in starts] == [
        (group, member) for group in ("g000000", "g000001") for member in range(4)
    ]
    assert len({start.seed for start in starts}) == 8
    assert [a.seed for one in policy.assignments.values() for a in one] == [
        start.seed for start in starts
    ]


class _AskingPolicy(MovesPolicy):
    """The same moves, as if a model server had been asked for them."""

    base_url = "http://127.0.0.1:8000/v1"

    def observe(self, observer: Any) -> None: ...


@pytest.mark.parametrize(("usage", "num_steps"), [(Usage(), 2), (Usage(9, 100), 6)])
async def test_the_token_limit_holds_without_usage(usage: Usage, num_steps: int) -> None:
    """Where a model server reports no tokens they are estimated, and the run says so once; where
    it reports them, its number counts."""
    sink = MemorySink()
    look = msgspec.structs.replace(LOOK, text="thinking " * 120, usage=usage)
    context = make_run_context(_AskingPolicy(look), sink, limits=Limits(token_limit=520))
    (plan,) = plans()
    with capture_logs() as logs:
        async with watchdog_running(context):
            assert await run_episode(plan, context) is Ending.TOKEN_LIMIT
    assert sink.ended(plan.episode).num_steps == num_steps
    said = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert said == (["tokens_estimated"] if usage == Usage() else [])


async def test_scripted_replies_have_no_tokens_to_limit() -> None:
    """A policy that asks no model server has no tokens that count."""
    look = msgspec.structs.replace(LOOK, text="thinking " * 120)
    ended = await play(look, limits=Limits(token_limit=500, max_steps=4))
    assert (ended.ending, ended.num_steps) == (Ending.STEP_LIMIT, 4)


class _Hasty:
    """A world whose first call stops the run, and whose others take a second each."""

    def __init__(self, inner: LocalEnv, scope: anyio.CancelScope) -> None:
        self._inner, self._scope = inner, scope
        self.awaits = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        if self._scope.cancel_called:
            await anyio.sleep(1)
        self._scope.cancel()
        return await self._inner.call(name, arguments, call_id)


class _HastyTogether(_Hasty):
    """The same, where all calls of a reply are made together."""

    def announce(self, calls: Any) -> None:
        self.announced = [one.call_id for one in calls]


@pytest.mark.parametrize(("world", "num_results"), [(_Hasty, 1), (_HastyTogether, 3)])
async def test_calls_that_are_made_together_are_logged_together(
    world: type[_Hasty], num_results: int
) -> None:
    """A run that is stopped between the calls of a reply keeps those that were made: of a world
    that makes them one by one the first, of one that makes them together all."""
    sink = MemorySink()
    (plan,) = plans()
    move = calls("list_overdue", "list_overdue", "list_overdue")
    with anyio.CancelScope() as scope:
        pool = PoolOf(lambda env: world(env, scope))
        context = make_run_context(MovesPolicy(move, DONE), sink, pool=pool)
        async with watchdog_running(context):
            await run_episode(plan, context)
    assert scope.cancelled_caught
    _, step, ended = sink.events(plan.episode)
    assert isinstance(step, StepTaken) and isinstance(step.decision, Act)
    assert isinstance(ended, EpisodeEnded)
    assert ended.ending is Ending.CANCELLED
    assert (len(step.decision.calls), len(step.results)) == (num_results, num_results)
