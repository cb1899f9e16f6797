"""A user's own agent in single episodes, on virtual time."""

import asyncio
import json
import sys
from collections.abc import Coroutine
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import asdict

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.fault_injection import copy_with_fault
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.agents.agent_env import (
    AgentEnv,
    AgentFunction,
    StepLimit,
    TaskView,
    WorldFailed,
)
from rehearsal_room.harness.agents.driver import driver_of
from rehearsal_room.harness.core.errors import LogError, PolicyError
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Record, StepTaken
from rehearsal_room.harness.core.messages import Act, Answer
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.format import Scenario, read
from tests.harness.rollout.test_episode import BreakingEnv, PoolOf, SlowEnv
from tests.support.paths import LIBRARY
from tests.support.run_context import (
    MemorySink,
    MovesPolicy,
    make_run_context,
    plans,
    watchdog_running,
)
from tests.support.virtual_time import BACKENDS

PAY = {"member_id": 2, "amount_cents": 10, "method": "card"}


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def play(
    agent: AgentFunction,
    *,
    limits: Limits | None = None,
    pool: Pool | None = None,
    sink: MemorySink | None = None,
    scenario: Scenario | None = None,
) -> tuple[EpisodeEnded, list[StepTaken]]:
    """Run one episode of an agent; return its end and its steps."""
    sink = sink or MemorySink()
    context = make_run_context(MovesPolicy(), sink, limits=limits, pool=pool)
    (plan,) = plans()
    if scenario is not None:
        plan = msgspec.structs.replace(plan, scenario=scenario)
    async with watchdog_running(context):
        ending = await run_episode(plan, context, driver_of(agent))
    ended = sink.ended(plan.episode)
    assert ended.ending is ending
    assert context.pool.statistics()["live"] == 0
    return ended, [event for event in sink.events(plan.episode) if isinstance(event, StepTaken)]


async def test_calls_and_the_answer_are_steps() -> None:
    """Each call is a step with its result; the returned text is the last step."""
    texts: list[str] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        found = await env.call("find_member", {"name": "Anna Soll"})
        paid = await env.call("pay_fine", PAY)
        texts.extend([found.text, paid.text])
        return "It is paid."

    ended, steps = await play(agent)
    assert (ended.ending, ended.answer, ended.num_steps) == (Ending.ANSWERED, "It is paid.", 3)
    calls = [step.decision.calls for step in steps[:2] if isinstance(step.decision, Act)]
    assert [(call.name, call.arguments, call.id) for (call,) in calls] == [
        ("find_member", {"name": "Anna Soll"}, "c0-0"),
        ("pay_fine", PAY, "c1-0"),
    ]
    assert [step.reply.calls for step in steps[:2]] == calls
    assert [step.results[0].text for step in steps[:2]] == texts
    assert steps[2].decision == Answer("It is paid.")
    assert ended.state is not None and ended.state.digest == steps[1].results[0].digest


async def test_what_an_agent_knows() -> None:
    """An agent sees the task and the tools, but neither the solution nor what a call changed."""
    seen: list[Any] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        seen.extend([task, env.tools, await env.call("pay_fine", PAY)])
        return ""

    await play(agent)
    (plan,) = plans()
    task, scenario = plan.task, plan.scenario
    assert asdict(seen[0]) == {
        "episode": "e000000",
        "seed": plan.seed,
        "instruction": task.instruction,
        "rules": scenario.rules,
        "user": f"{scenario.user.name} ({scenario.user.role}, id {scenario.user.id})",
        "now": scenario.clock,
        **dict.fromkeys(("mcp_url", "model_url", "anthropic_url", "otlp_url", "model", "key"), ""),
        "is_dialogue": False,
    }
    assert "pay_fine" in [tool.name for tool in seen[1]]
    assert (seen[2].changes, seen[2].digest) == ((), "")


async def test_errors_of_tools_are_results() -> None:
    """A refusal, an unknown tool and arguments that do not fit are results, not exceptions."""
    errors: list[str | None] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        for name, arguments in (
            ("get_member", {"member_id": 999}),
            ("no_such_tool", None),
            ("get_member", {"member_id": "two"}),
            ("list_overdue", None),
        ):
            errors.append((await env.call(name, arguments)).error)
        return "done"

    ended, steps = await play(agent)
    assert errors == ["refused", "unknown_tool", "arguments", None]
    assert (ended.ending, len(steps)) == (Ending.ANSWERED, 5)


def _deep() -> Any:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    "arguments",
    [[1, 2], "text", 7, {"a": 2**70}, {"a": "\ud800"}, _deep(), {"a": [[[-(2**64)]]]}],
    ids=["list", "text", "number", "large", "surrogate", "deep", "small"],
)
async def test_arguments_that_a_model_made_up(arguments: Any) -> None:
    """Whatever JSON a model made as arguments, the agent gets a result and the episode continues;
    the world is not called."""
    results: list[ToolResult] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        results.append(await env.call("get_member", arguments))
        return "done"

    ended, steps = await play(agent)
    assert results[0].error == "arguments"
    assert results[0].text.startswith("The arguments of get_member cannot be used: ")
    assert steps[0].results[0].digest == ""
    assert ended.ending is Ending.ANSWERED


async def test_arguments_are_logged_as_they_were_at_the_call() -> None:
    """An agent may change its dict of arguments after a call; the log has the values of the
    call."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        arguments = {"name": "Anna"}
        await env.call("find_member", arguments)
        arguments["name"] = "Ben"
        await env.call("find_member", arguments)
        return "done"

    _, steps = await play(agent)
    asked = [s.decision.calls[0].arguments for s in steps if isinstance(s.decision, Act)]
    assert asked == [{"name": "Anna"}, {"name": "Ben"}]


class Faulty(Exception):
    """An exception of the user's code."""


async def _raises(task: TaskView, env: AgentEnv) -> str:
    await env.call("pay_fine", PAY)
    raise Faulty("no idea")


async def _raises_in_a_group(task: TaskView, env: AgentEnv) -> str:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(env.call, "list_overdue")
        raise Faulty("in a group")


async def _object(task: TaskView, env: AgentEnv) -> str:
    await env.call("find_member", {"name": object()})
    return "unreachable"


async def _name(task: TaskView, env: AgentEnv) -> str:
    await env.call(7, {})  # type: ignore[arg-type]
    return "unreachable"


async def _nothing(task: TaskView, env: AgentEnv) -> str:
    return None  # type: ignore[return-value]


class _Death(BaseException):
    """Neither an Exception nor able to say what it is."""

    def __str__(self) -> str:
        raise ZeroDivisionError


async def _dies(task: TaskView, env: AgentEnv) -> str:
    raise BaseExceptionGroup("the tasks of the agent", [_Death()])


async def _exits(task: TaskView, env: AgentEnv) -> str:
    sys.exit("I give up")


async def _closes(task: TaskView, env: AgentEnv) -> str:
    raise GeneratorExit("there is no more")


async def _is_without_model(task: TaskView, env: AgentEnv) -> str:
    raise PolicyError("status 503")


@pytest.mark.parametrize(
    ("agent", "error", "num_steps"),
    [
        (_raises, "Faulty: no idea (test_library.py, line ", 1),
        (_raises_in_a_group, "Faulty: in a group (test_library.py, line ", 0),
        (_object, "TypeError: Encoding objects of type object is unsupported (agent_env.py", 0),
        (_name, "TypeError: a tool's name is a str, not int (agent_env.py, line ", 0),
        (_nothing, "TypeError: the agent returned NoneType, not its answer", 0),
        (_exits, "SystemExit: I give up (test_library.py, line ", 0),
        (_dies, "_Death: ", 0),
        (_closes, "GeneratorExit: there is no more (test_library.py, line ", 0),
    ],
)
async def test_an_agent_that_fails(agent: AgentFunction, error: str, num_steps: int) -> None:
    """An exception of the user's code, or a returned value that is not a text, ends the episode
    with `agent_failed`; the error has the file and line."""
    ended, steps = await play(agent)
    assert ended.ending is Ending.AGENT_FAILED
    assert ended.error is not None and ended.error.startswith(error)
    assert len(steps) == num_steps or agent is _raises_in_a_group
    assert ended.state is not None


def test_an_episode_that_is_closed_is_no_failure_of_its_agent() -> None:
    """An event loop that is given up closes its coroutines, by the same exception that an agent may
    raise: the episode was cancelled."""
    sink, begun = MemorySink(), asyncio.Event()

    async def agent(task: TaskView, env: AgentEnv) -> str:
        begun.set()
        return await asyncio.get_running_loop().create_future()

    async def begin() -> Coroutine[Any, Any, Ending]:
        context = make_run_context(MovesPolicy(), sink)
        (plan,) = plans()
        episode = run_episode(plan, context, driver_of(agent))
        given_up.append(asyncio.create_task(episode))
        await begun.wait()
        return episode

    given_up: list[asyncio.Task[Ending]] = []
    with closing(asyncio.new_event_loop()) as loop:
        episode = loop.run_until_complete(begin())
    with suppress(RuntimeError):  # anyio's scopes are left outside of their task
        episode.close()
    given_up[0]._log_destroy_pending = False  # type: ignore[attr-defined]
    assert sink.ended("e000000").ending is Ending.CANCELLED


async def test_an_agent_whose_model_is_out_of_reach() -> None:
    """An exception that says that the model is out of reach blames no agent."""
    ended, _ = await play(_is_without_model)
    assert ended.ending is Ending.POLICY_ERROR
    assert ended.error is not None and ended.error.startswith("PolicyError: status 503")


async def test_several_calls_at_once() -> None:
    """Calls made at once are executed and logged one after the other, each with its own result."""
    results: dict[int, ToolResult] = {}
    live = most = 0

    async def agent(task: TaskView, env: AgentEnv) -> str:
        async def one(number: int) -> None:
            results[number] = await env.call("pay_fine", {**PAY, "amount_cents": number})

        async with anyio.create_task_group() as tasks:
            for number in range(1, 11):
                tasks.start_soon(one, number)
        return "paid"

    class Watching(SlowEnv):
        async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
            nonlocal live, most
            live += 1
            most = max(most, live)
            try:
                return await super().call(name, arguments, call_id)
            finally:
                live -= 1

    ended, steps = await play(agent, pool=PoolOf(lambda env: Watching(env, 3)))
    assert most == 1
    assert (ended.ending, ended.num_steps) == (Ending.ANSWERED, 11)
    by_amount = {
        step.decision.calls[0].arguments["amount_cents"]: step.results[0].text
        for step in steps
        if isinstance(step.decision, Act)
    }
    assert by_amount == {number: result.text for number, result in results.items()}
    assert json.loads(steps[9].results[0].text) == {"fine_cents": 350 - 55}
    ids = [step.decision.calls[0].id for step in steps if isinstance(step.decision, Act)]
    assert ids == [f"c{number}-0" for number in range(10)]


async def test_a_call_that_the_agent_cancels() -> None:
    """A call that the agent itself cancels changes nothing, is not a step, and does not block the
    next one."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        with anyio.move_on_after(1):
            await env.call("pay_fine", PAY)
        await env.call("list_overdue")
        return "done"

    ended, steps = await play(agent, pool=PoolOf(lambda env: SlowEnv(env, 3)))
    assert [type(step.decision) for step in steps] == [Act, Answer]
    assert ended.state is not None and ended.state.pages == {}


async def _asks(num: int, env: AgentEnv) -> None:
    for _ in range(num):
        await env.call("list_overdue")


@pytest.mark.parametrize(
    ("num_calls", "ending"),
    [(3, Ending.ANSWERED), (4, Ending.STEP_LIMIT), (5, Ending.STEP_LIMIT)],
)
async def test_the_step_limit(num_calls: int, ending: Ending) -> None:
    """The step limit counts calls and answer together, as for every policy."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await _asks(num_calls, env)
        return "done"

    ended, steps = await play(agent, limits=Limits(max_steps=4))
    assert (ended.ending, len(steps), ended.error) == (ending, 4, None)


async def test_the_step_limit_comes_from_the_task() -> None:
    """A task whose solution has 19 calls gets 48 steps, also without a limit in the settings."""
    (plan,) = plans()
    long = msgspec.structs.replace(plan.task, oracle=plan.task.oracle[:1] * 19)

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await _asks(60, env)
        return "never"

    sink = MemorySink()
    context = make_run_context(MovesPolicy(), sink)
    async with watchdog_running(context):
        await run_episode(msgspec.structs.replace(plan, task=long), context, driver_of(agent))
    ended = sink.ended(plan.episode)
    assert (ended.ending, ended.num_steps) == (Ending.STEP_LIMIT, 48)


async def test_an_agent_whose_world_fails(tmp_path: Path) -> None:
    """The call that broke raises WorldFailed, which can be caught to clean up. An agent that makes
    further calls is cancelled; whatever it returns, the episode ends with the world's error."""
    caught: list[str] = []

    async def tidy(task: TaskView, env: AgentEnv) -> str:
        await env.call("list_overdue")
        try:
            await env.call("pay_fine", PAY)
        except WorldFailed as exc:
            await anyio.sleep(5)
            caught.append(str(exc))
        return "an answer too late"

    async def stubborn(task: TaskView, env: AgentEnv) -> str:
        await env.call("list_overdue")
        while True:
            try:
                await env.call("pay_fine", PAY)
            except Exception:
                continue

    async def hasty(task: TaskView, env: AgentEnv) -> str:
        await env.call("list_overdue")
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(env.call, "pay_fine", PAY)
        return "never returned"

    broken = read(copy_with_fault(LIBRARY, tmp_path, "raises", "pay_fine"))
    failure = (
        "the world failed in a call of pay_fine: pay_fine failed with an internal error: "
        "KeyError: 'a column that is not there'"
    )
    for agent in (tidy, stubborn, hasty):
        ended, steps = await play(agent, scenario=broken)
        assert (ended.ending, ended.error, ended.answer) == (Ending.WORLD_ERROR, failure, "")
        assert [result.error for step in steps for result in step.results] == [None, "internal"]
        assert ended.state is not None and ended.state.digest == steps[0].results[0].digest
    assert caught == [failure]


async def test_an_agent_that_continues_in_a_broken_world(tmp_path: Path) -> None:
    """Without `world_stop` a call that broke has an error result."""
    errors: list[str | None] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        errors.append((await env.call("pay_fine", PAY)).error)
        return "It could not be paid."

    broken = read(copy_with_fault(LIBRARY, tmp_path, "raises", "pay_fine"))
    ended, _ = await play(agent, scenario=broken, limits=Limits(world_stop=False))
    assert errors == ["internal"]
    assert (ended.ending, ended.answer) == (Ending.ANSWERED, "It could not be paid.")


async def test_an_agent_that_ignores_the_step_limit() -> None:
    """StepLimit can be caught to clean up; an agent that makes further calls is cancelled."""
    cleaned = []

    async def tidy(task: TaskView, env: AgentEnv) -> str:
        try:
            await _asks(100, env)
        except StepLimit:
            await anyio.sleep(5)
            cleaned.append("tidy")
        return "an answer too late"

    async def stubborn(task: TaskView, env: AgentEnv) -> str:
        while True:
            try:
                await env.call("list_overdue")
            except Exception:
                continue

    for agent in (tidy, stubborn):
        ended, steps = await play(agent, limits=Limits(max_steps=4))
        assert (ended.ending, len(steps), ended.answer) == (Ending.STEP_LIMIT, 4, "")
    assert cleaned == ["tidy"]


@pytest.mark.parametrize(
    ("limits", "ending", "error"),
    [
        (Limits(time_limit=50), Ending.TIME_LIMIT, "not done within 50 s"),
        (Limits(reply_timeout=30), Ending.AGENT_FAILED, "no reply within 30 s"),
    ],
)
async def test_an_agent_that_hangs(limits: Limits, ending: Ending, error: str) -> None:
    """An agent that hangs is cut off, by the time limit of the episode or that between two
    calls."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await anyio.sleep(20)
        await env.call("list_overdue")
        await anyio.sleep_forever()
        return "unreachable"

    ended, steps = await play(agent, limits=limits)
    assert (ended.ending, ended.error, len(steps)) == (ending, error, 1)


@pytest.mark.slow
async def test_a_slow_world_is_not_the_agents_fault() -> None:
    """The time that a call takes does not count as time between two calls."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(env.call, "list_overdue")
        return "done"

    ended, _ = await play(
        agent,
        limits=Limits(reply_timeout=30, call_timeout=None),
        pool=PoolOf(lambda env: SlowEnv(env, 100)),
    )
    assert ended.ending is Ending.ANSWERED


async def test_a_world_that_breaks() -> None:
    """A broken world ends the episode with `world_error`, whatever the agent does then."""

    async def swallows(task: TaskView, env: AgentEnv) -> str:
        for _ in range(3):
            try:
                await env.call("list_overdue")
            except WorldError:
                await anyio.sleep(1)
        return "all is well"

    async def wraps(task: TaskView, env: AgentEnv) -> str:
        try:
            await env.call("list_overdue")
        except WorldError as exc:
            raise Faulty("it broke") from exc
        return "unreachable"

    for agent in (swallows, wraps):
        ended, steps = await play(agent, pool=PoolOf(lambda env: BreakingEnv(env, 0)))
        assert (ended.ending, ended.error, steps) == (Ending.WORLD_ERROR, "the worker died", [])


async def test_a_log_that_fails_stops_the_run() -> None:
    """When the log cannot be written, the run stops with its error, also where the agent catches
    the exception."""

    class FullDisk(MemorySink):
        def append(self, record: Record) -> None:
            if isinstance(record.event, StepTaken):
                raise LogError("the disk is full")
            super().append(record)

    async def agent(task: TaskView, env: AgentEnv) -> str:
        try:
            await env.call("list_overdue")
        except Exception:
            return "all is well"
        return "unreachable"

    context = make_run_context(MovesPolicy(), FullDisk())
    (plan,) = plans()
    with pytest.raises(LogError, match="the disk is full"):
        await run_episode(plan, context, driver_of(agent))


async def test_cancelled_with_its_run() -> None:
    """When the run is cancelled, the agent's episode is recorded as cancelled."""
    sink = MemorySink()
    context = make_run_context(MovesPolicy(), sink)
    (plan,) = plans()

    async def agent(task: TaskView, env: AgentEnv) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(env.call, "pay_fine", PAY)
            await anyio.sleep_forever()
        return "unreachable"

    with anyio.move_on_after(5) as scope:
        await run_episode(plan, context, driver_of(agent))
    assert scope.cancelled_caught
    ended = sink.ended(plan.episode)
    assert (ended.ending, ended.num_steps) == (Ending.CANCELLED, 1)


async def test_a_task_left_behind_cannot_call() -> None:
    """After the agent has returned its world is closed, also for tasks that it left running."""
    envs: list[AgentEnv] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        envs.append(env)
        return "done"

    sink = MemorySink()
    await play(agent, sink=sink)
    before = list(sink.records)
    with pytest.raises(RuntimeError, match="the agent has returned"):
        await envs[0].call("list_overdue")
    assert sink.records == before


async def test_a_fork_is_a_second_world() -> None:
    """A fork begins in the state of the episode's world; its calls change that world no more, and
    are neither steps nor part of the final state."""
    texts: list[str] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await env.call("pay_fine", PAY)
        second = await env.fork()
        assert second.tools == env.tools
        paid = await second.call("pay_fine", PAY)
        third = await second.fork()
        for world in (env, second, third):
            found = await world.call("get_member", {"member_id": 2})
            texts.append(found.text)
        assert paid.error is None
        bad = await third.call("no_such_tool")
        return str(bad.error)

    ended, steps = await play(agent)
    fines = [json.loads(text)["fine_cents"] for text in texts]
    assert fines == [fines[0], fines[0] - 10, fines[0] - 10]
    assert ended.answer == "unknown_tool"
    assert [
        step.decision.calls[0].name for step in steps[:-1] if isinstance(step.decision, Act)
    ] == [
        "pay_fine",
        "get_member",
    ]
    again, _ = await play(_pays_once)
    assert ended.state is not None and again.state is not None
    assert ended.state.digest == again.state.digest


async def _pays_once(task: TaskView, env: AgentEnv) -> str:
    await env.call("pay_fine", PAY)
    return "It is paid."


async def test_a_fork_ends_with_the_agent() -> None:
    """Once the agent has returned, its forks refuse calls, too."""
    kept: list[Any] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        kept.append(await env.fork())
        return "done"

    await play(agent)
    with pytest.raises(RuntimeError, match="the agent has returned"):
        await kept[0].call("list_overdue")
    with pytest.raises(RuntimeError, match="the agent has returned"):
        await kept[0].fork()


async def test_a_world_that_cannot_be_forked() -> None:
    """Where the state is not known, `fork` raises WorldError, and the episode goes on."""

    class Opaque(SlowEnv):
        def fork(self) -> Any:
            raise WorldError("its state is unknown")

    async def agent(task: TaskView, env: AgentEnv) -> str:
        try:
            await env.fork()
        except WorldError as exc:
            return str(exc)
        return "there is a fork"

    pool: Any = PoolOf(lambda env: Opaque(env, 0.0))
    ended, _ = await play(agent, pool=pool)
    assert (ended.ending, ended.answer) == (Ending.ANSWERED, "its state is unknown")
