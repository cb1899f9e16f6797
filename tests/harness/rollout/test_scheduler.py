"""Many episodes with bounded concurrency, on virtual time, on both event loops."""

from typing import Any

import anyio
import pytest

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.scheduler import run_all
from tests.support.run_context import (
    DONE,
    LOOK,
    MemorySink,
    MovesPolicy,
    after,
    make_run_context,
    never,
    plans,
)
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    ("episodes", "concurrency", "most"), [(20, 3, 3), (20, 1, 1), (5, 64, 5), (700, 600, 600)]
)
async def test_the_bound_is_kept_and_reached(episodes: int, concurrency: int, most: int) -> None:
    """As many episodes as allowed are live at once, never more, and each plan is run once."""
    begun: list[str] = []
    live = set()
    seen = 0

    async def work(plan: EpisodePlan) -> None:
        nonlocal seen
        begun.append(plan.episode)
        live.add(plan.episode)
        seen = max(seen, len(live))
        await anyio.sleep(1 + len(begun) % 5)
        live.remove(plan.episode)

    planned = plans(episodes)
    await run_all(iter(planned), work, concurrency=concurrency)
    assert sorted(begun) == [plan.episode for plan in planned]
    assert seen == most
    assert not live


async def test_plans_are_drawn_one_by_one() -> None:
    """The plans may be endless: the next one is drawn when an episode ends."""
    drawn = 0

    def endless() -> Any:
        nonlocal drawn
        while True:
            drawn += 1
            yield from plans(1)

    async def work(plan: EpisodePlan) -> None:
        await anyio.sleep(1)

    with anyio.move_on_after(10.5):
        await run_all(endless(), work, concurrency=4)
    assert drawn == 44


async def test_no_plans() -> None:
    """Without plans it returns at once."""

    async def work(plan: EpisodePlan) -> None:
        raise AssertionError("there is no plan")

    await run_all([], work, concurrency=4)


async def test_a_bug_stops_the_run() -> None:
    """A bug is raised unchanged; the other live episodes are recorded as cancelled, and no further
    one begins."""
    sink = MemorySink()
    bug = KeyError("a bug")
    policy = MovesPolicy(
        LOOK,
        never,
        by_episode={"e000000": [after(1, DONE)], "e000003": [after(2, LOOK), bug]},
    )
    context = make_run_context(policy, sink)
    with pytest.raises(KeyError) as caught:
        await run_all(plans(9), lambda plan: run_episode(plan, context), concurrency=4)
    assert caught.value is bug
    assert sink.endings() == {
        "e000000": Ending.ANSWERED,
        "e000001": Ending.CANCELLED,
        "e000002": Ending.CANCELLED,
        "e000003": Ending.CANCELLED,
        "e000004": Ending.CANCELLED,
    }
    assert sink.ended("e000001").error == "the run was cancelled"
    assert sink.ended("e000003").error == "the run was stopped by KeyError: 'a bug'"
    assert context.pool.statistics()["live"] == 0


async def test_a_cancelled_run() -> None:
    """A cancelled run records the end of every episode that began."""
    sink = MemorySink()
    context = make_run_context(MovesPolicy(LOOK, never), sink)
    with anyio.move_on_after(10) as scope:
        await run_all(plans(300), lambda plan: run_episode(plan, context), concurrency=280)
    assert scope.cancelled_caught
    assert sink.endings() == {f"e{number:06d}": Ending.CANCELLED for number in range(280)}


async def test_a_slow_log_slows_the_episodes_and_loses_nothing() -> None:
    """While the log has no room the episodes wait, so the number of records in memory is
    bounded."""
    sink = MemorySink(capacity=10)
    context = make_run_context(MovesPolicy(LOOK, LOOK, LOOK, DONE), sink)
    async with anyio.create_task_group() as tasks:

        async def drain() -> None:
            while True:
                await anyio.sleep(1)
                sink.take()

        tasks.start_soon(drain)
        await run_all(plans(40), lambda plan: run_episode(plan, context), concurrency=5)
        tasks.cancel_scope.cancel()
    assert sink.endings() == {f"e{number:06d}": Ending.ANSWERED for number in range(40)}
    assert len(sink.records) == 40 * 6
    # Each episode adds its start, its last step and its end without waiting for room.
    assert sink.most_waiting <= 10 + 5 * 2
