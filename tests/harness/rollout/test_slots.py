"""Parked episodes and slots, on virtual time, on both event loops."""

import gc
import tracemalloc
from random import Random
from typing import Any

import anyio
import pytest

from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.agents.driver import driver_of
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.rollout.episode import RunContext, run_episode
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.scheduler import run_all
from rehearsal_room.harness.rollout.slots import Slots
from rehearsal_room.harness.settings.limits import Limits
from tests.support.run_context import (
    DONE,
    LOOK,
    MemorySink,
    MovesPolicy,
    make_run_context,
    plans,
    watchdog_running,
)
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Running:
    """Counts those who run now, and the most at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def __enter__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *exc: object) -> None:
        self.now -= 1


@pytest.mark.parametrize("admits", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_slots_are_neither_made_nor_lost(seed: int, admits: bool) -> None:
    """Whichever episodes pause, for however long, and are cancelled while paused: every plan is run
    once, never more than the limit run at once, and all slots are free at the end."""
    rng, running, slots, begun = Random(seed), Running(), Slots(), list[str]()

    async def work(plan: EpisodePlan) -> None:
        begun.append(plan.episode)
        for _ in range(rng.randrange(4)):
            with running:
                await anyio.sleep(rng.random())
            with anyio.move_on_after(rng.choice([0.5, 9.0])) as scope:
                async with slots.paused():
                    await anyio.sleep(rng.random() * 3)
            if scope.cancelled_caught:
                return
        with running:
            await anyio.sleep(rng.random())

    async def admit(plan: EpisodePlan) -> bool:
        await anyio.sleep(rng.random())
        return True

    planned = plans(60)
    await run_all(planned, work, concurrency=5, slots=slots, admit=admit if admits else None)
    assert sorted(begun) == [plan.episode for plan in planned]
    assert running.most == 5
    assert repr(slots) == "<Slots [5 free, 0 paused, 0 waiting]>"
    assert slots.max_paused > 5


async def test_a_paused_episode_lets_others_run() -> None:
    """With one slot, a paused episode is passed by the others, and goes on when a slot is free and
    its wait is over, before an episode that has not begun."""
    slots, order = Slots(), list[str]()
    woken = anyio.Event()

    async def work(plan: EpisodePlan) -> None:
        if plan.episode == "e000000":
            async with slots.paused():
                await woken.wait()
            order.append("woken")
        await anyio.sleep(1)
        order.append(plan.episode)
        if plan.episode == "e000002":
            woken.set()
            await anyio.wait_all_tasks_blocked()

    await run_all(plans(5), work, concurrency=1, slots=slots)
    assert order == ["e000001", "e000002", "woken", "e000000", "e000003", "e000004"]


async def test_paused_episodes_do_not_wait_for_admission() -> None:
    """An episode that is paused goes on although all slots belong to episodes that wait for
    admission, which may wait for its end."""
    slots, over = Slots(), anyio.Event()

    async def admit(plan: EpisodePlan) -> bool:
        if plan.episode != "e000000":
            await over.wait()
        return True

    async def work(plan: EpisodePlan) -> None:
        if plan.episode == "e000000":
            async with slots.paused():
                await anyio.sleep(5)
            over.set()

    with anyio.fail_after(60):
        await run_all(plans(4), work, concurrency=2, slots=slots, admit=admit)


@pytest.mark.parametrize("seed", range(4))
async def test_slots_that_are_resized_are_neither_made_nor_lost(seed: int) -> None:
    """However often the number of slots changes in a run: every plan is run once, episodes above
    the number pause at their next turn, and at the end as many slots are free as there are."""
    rng, slots, begun, running = Random(seed), Slots(), list[str](), Running()
    number, over = 4, anyio.Event()

    async def work(plan: EpisodePlan) -> None:
        begun.append(plan.episode)
        for _ in range(rng.randrange(1, 6)):
            if slots.is_over:
                with anyio.move_on_after(rng.choice([1.5, 50.0])) as scope:
                    async with slots.paused():
                        pass
                if scope.cancelled_caught:
                    return
            with running:
                await anyio.sleep(rng.random())

    async def resize() -> None:
        nonlocal number
        while not over.is_set():
            await anyio.sleep(rng.random() * 3)
            change = rng.randrange(1, 9) - number
            number += change
            slots.resize(change)
            if change < 0:
                await anyio.sleep(1.0)  # every episode has come to its next turn
                assert running.now <= number

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(resize)
        planned = plans(80)
        await run_all(planned, work, concurrency=4, slots=slots)
        over.set()
    assert sorted(begun) == [plan.episode for plan in planned]
    assert repr(slots) == f"<Slots [{number} free, 0 paused, 0 waiting]>"


async def test_fewer_slots_pause_episodes_which_go_on_first() -> None:
    """When the number of slots falls, episodes pause at their next turn; when it rises they go on
    before a new one begins."""
    slots, order = Slots(), list[str]()

    async def work(plan: EpisodePlan) -> None:
        order.append(f"{plan.episode} begins")
        await anyio.sleep(1)
        if slots.is_over:
            async with slots.paused():
                order.append(f"{plan.episode} parks")
            order.append(f"{plan.episode} goes on")
        await anyio.sleep(9)

    async def resize() -> None:
        await anyio.sleep(0.5)
        slots.resize(-1)
        await anyio.sleep(3)
        slots.resize(2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(resize)
        await run_all(plans(3), work, concurrency=2, slots=slots)
    assert sorted(order[:2]) == ["e000000 begins", "e000001 begins"]
    paused = order[2].removesuffix(" parks")
    assert order[2:] == [f"{paused} parks", "e000002 begins", f"{paused} goes on"] or order[2:] == [
        f"{paused} parks",
        f"{paused} goes on",
        "e000002 begins",
    ]


async def test_refused_plans_are_not_drawn() -> None:
    """Once admission refuses a plan, the episodes that pause draw no other one; each worker draws
    one at most."""
    drawn, slots = list[str](), Slots()

    async def admit(plan: EpisodePlan) -> bool:
        drawn.append(plan.episode)
        return plan.episode < "e000002"

    async def work(plan: EpisodePlan) -> None:
        await anyio.sleep(1)
        async with slots.paused():
            await anyio.sleep(1)

    await run_all(plans(50), work, concurrency=1, slots=slots, admit=admit)
    assert len(drawn) <= 4


def context_of(sink: MemorySink, limits: Limits | None = None) -> RunContext:
    return make_run_context(MovesPolicy(), sink, limits=limits)


async def test_an_own_agent_pauses() -> None:
    """A paused agent burns no episode time: no limit ends it, its length and its turn's are
    without the wait, and its world is as it was."""
    sink = MemorySink()

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await env.call("pay_fine", {"member_id": 2, "amount_cents": 10, "method": "card"})
        async with env.paused():
            with pytest.raises(RuntimeError, match="is paused"):
                await env.call("list_overdue")
            with pytest.raises(RuntimeError, match="is paused"):
                await env.fork()
            await anyio.sleep(200)
        await anyio.sleep(4)
        member = await env.call("find_member", {"name": "Anna Soll"})
        return member.text

    limits = Limits(time_limit=10, reply_timeout=5)
    context = context_of(sink, limits)
    (plan,) = plans()
    async with watchdog_running(context):
        await run_episode(plan, context, driver_of(agent))
    ended = sink.ended(plan.episode)
    assert ended.ending is Ending.ANSWERED
    assert ended.num_steps == 3


async def test_limits_go_on_after_a_pause() -> None:
    """The time before and after the block counts against the limit."""
    sink = MemorySink()

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await anyio.sleep(4)
        async with env.paused():
            await anyio.sleep(200)
        await anyio.sleep(7)
        return "too late"

    context = context_of(sink, Limits(time_limit=10, reply_timeout=None))
    (plan,) = plans()
    async with watchdog_running(context):
        await run_episode(plan, context, driver_of(agent))
    assert sink.ended(plan.episode).ending is Ending.TIME_LIMIT


async def test_waiting_for_admission_burns_no_episode_time() -> None:
    """Episodes above a number of slots that fell wait far longer than their limit of time: they
    pause before they ask the model, no limit ends them, and their length is without the wait."""
    sink = MemorySink()

    async def slow() -> Reply:
        await anyio.sleep(2)
        return LOOK

    context = make_run_context(MovesPolicy(slow, slow, DONE), sink, limits=Limits(time_limit=10))
    planned = plans(6)

    async def resize() -> None:
        await anyio.sleep(1)
        context.slots.resize(-5)
        await anyio.sleep(2)
        assert repr(context.slots) == "<Slots [0 free, 0 paused, 5 waiting]>"
        await anyio.sleep(200)
        context.slots.resize(5)

    async with watchdog_running(context), anyio.create_task_group() as tasks:
        tasks.start_soon(resize)
        await run_all(
            planned,
            lambda plan: run_episode(plan, context),
            concurrency=6,
            slots=context.slots,
        )
    ended = [sink.ended(plan.episode) for plan in planned]
    assert {one.ending for one in ended} == {Ending.ANSWERED}
    assert {one.num_steps for one in ended} == {3}


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", [BACKENDS[0]], ids=["asyncio"])
async def test_a_paused_episode_holds_a_few_kb(anyio_backend: Any) -> None:
    """With two slots, hundreds of episodes are paused after three calls each; all that one holds,
    its world, its agent, its task and its records, is some KB."""
    context, num_episodes = context_of(MemorySink(), Limits()), 200
    held: list[float] = []  # KB an episode
    all_paused = anyio.Event()

    async def agent(task: TaskView, env: AgentEnv) -> str:
        for cents in (10, 11, 12):
            await env.call("pay_fine", {"member_id": 2, "amount_cents": cents, "method": "card"})
        async with env.paused():
            if context.slots.num_paused == num_episodes:
                gc.collect()
                held.append((tracemalloc.get_traced_memory()[0] - before) / num_episodes / 1024)
                all_paused.set()
            await all_paused.wait()
        return "Paid."

    async def work(plan: EpisodePlan) -> None:
        assert await run_episode(plan, context, driver_of(agent)) is Ending.ANSWERED

    planned = plans(num_episodes)
    await context.pool.host(planned[0].scenario)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await run_all(planned, work, concurrency=2, slots=context.slots)
    finally:
        tracemalloc.stop()
    assert [kilobytes < 32 for kilobytes in held] == [True], held
