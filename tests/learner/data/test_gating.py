"""How far rollouts may run ahead of training, on virtual time, on both event loops."""

import random
from typing import Any

import anyio
import pytest

from rehearsal_room.learner.data.gating import Gating
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def admitted(gating: Gating, groups: int) -> list[int]:
    """Which of the first `groups` groups may start now."""
    found = []
    for group in range(groups):
        with anyio.move_on_after(1):
            if await gating.admit(group):
                found.append(group)
                gating.episode_ended()
    return found


@pytest.mark.parametrize(
    ("staleness", "publish_every", "version", "expected"),
    [
        (0, 1, 0, 2),
        (0, 1, 1, 4),
        (1, 1, 0, 4),
        (1, 1, 2, 8),
        (3, 1, 0, 8),
        (0, 2, 0, 4),
        (1, 2, 0, 8),
        (0, 3, 1, 12),
    ],
)
async def test_how_many_groups_may_start(
    staleness: int, publish_every: int, version: int, expected: int
) -> None:
    """A group may start if its batch is at most `staleness` versions ahead of the policies'
    weights."""
    gating = Gating(
        batches=100,
        groups=2,
        staleness=staleness,
        publish_every=publish_every,
        version=version,
    )
    assert await admitted(gating, expected + 4) == list(range(expected))


async def test_a_group_waits_for_the_weights_and_then_starts() -> None:
    """Strictly on policy, the next batch's groups start when the policies use the new weights."""
    gating = Gating(batches=3, groups=1, staleness=0)
    started: list[tuple[int, float]] = []

    async def episode(group: int) -> None:
        assert await gating.admit(group)
        started.append((group, anyio.current_time() - start))

    start = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for group in (2, 1, 0):
            tasks.start_soon(episode, group)
        await anyio.sleep(5)
        gating.set_version(1)
        await anyio.sleep(5)
        gating.set_version(2)
    assert started == [(0, 0.0), (1, 5.0), (2, 10.0)]


async def test_groups_after_the_last_batch_are_not_needed() -> None:
    """A group that no batch will take is refused at once; with `fill` it waits, because an earlier
    group may be dropped."""
    strict = Gating(batches=2, groups=2, staleness=9)
    assert [await strict.admit(group) for group in range(6)] == [True] * 4 + [False] * 2
    filling = Gating(batches=2, groups=2, staleness=9, fill=True)
    assert await admitted(filling, 6) == [0, 1, 2, 3]
    filling.drop(1)
    assert await admitted(filling, 6) == [0, 1, 2, 3, 4]


async def test_a_dropped_group_makes_room_for_the_next() -> None:
    """With `fill` one more group takes the free slot in the batch; without it nothing changes."""
    for fill, expected in ((True, [0, 1, 2, 3, 4]), (False, [0, 1, 2, 3])):
        gating = Gating(batches=9, groups=2, staleness=1, fill=fill)
        gating.drop(0)
        assert await admitted(gating, 8) == expected


async def test_a_resumed_run_counts_from_its_next_batch() -> None:
    """With `fill`, earlier batches used more groups than their size: the next batch starts at the
    group where the run resumes, and each batch where the previous one ended."""
    gating = Gating(batches=9, groups=2, staleness=0, fill=True, version=3, batch=3, first_group=11)
    assert [gating.batch_of(group) for group in range(11, 16)] == [3, 3, 4, 4, 5]
    gating.drop(12)
    gating.drop(12)
    assert [gating.batch_of(group) for group in range(11, 16)] == [3, 3, 3, 4, 4]
    gating.batch_taken(14)
    assert [gating.batch_of(group) for group in range(14, 17)] == [4, 4, 5]
    gating.drop(15)
    assert [gating.batch_of(group) for group in range(14, 17)] == [4, 4, 4]


async def test_closing_refuses_all_episodes() -> None:
    """Episodes that wait are refused, and so are later ones."""
    gating = Gating(batches=9, groups=1, staleness=0)
    answers: list[bool] = []

    async def episode(group: int) -> None:
        answers.append(await gating.admit(group))

    async with anyio.create_task_group() as tasks:
        for group in range(1, 5):
            tasks.start_soon(episode, group)
        await anyio.sleep(1)
        gating.close()
    assert answers == [False] * 4
    assert await gating.admit(0) is False


@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("seed", range(5))
async def test_the_bound_holds(seed: int, fill: bool) -> None:
    """For any durations of episodes and any dropped groups: no group is trained on weights more
    than `staleness` versions newer than those that sampled it, and the bound is reached."""
    rng = random.Random(seed)
    batches, groups, publish_every = 12, rng.randint(1, 3), rng.randint(1, 3)
    staleness = rng.randint(0, 3)
    gating = Gating(
        batches=batches,
        groups=groups,
        staleness=staleness,
        publish_every=publish_every,
        fill=fill,
    )
    sampled: dict[int, int] = {}  # group -> the version with which it started
    usable: dict[int, bool] = {}  # finished groups
    version = 0
    arrived = anyio.Event()
    lags: list[int] = []

    async def rollouts(worker: int) -> None:
        nonlocal arrived
        for group in range(worker, 10_000, 4):
            if not await gating.admit(group):
                return
            sampled[group] = version
            await anyio.sleep(rng.expovariate(1.0))
            usable[group] = rng.random() < 0.7
            if not usable[group]:
                gating.drop(group)
            gating.episode_ended()
            arrived.set()
            arrived = anyio.Event()

    async def end_of_batch(first_group: int) -> int:
        """The first group after the batch that starts with this group."""
        end = first_group
        left = groups
        while left:
            while end not in usable:
                await arrived.wait()
            left -= usable[end] or not fill
            end += 1
        return end

    async with anyio.create_task_group() as tasks:
        for worker in range(4):
            tasks.start_soon(rollouts, worker)
        first_group = 0
        for batch in range(batches):
            end = await end_of_batch(first_group)
            trained = [group for group in range(first_group, end) if usable[group]]
            lags += [batch // publish_every - sampled[group] for group in trained]
            first_group = end
            await anyio.sleep(1.0)
            if (batch + 1) % publish_every == 0:
                version += 1
                gating.set_version(version)
        gating.close()
    assert max(lags) == min(staleness, (batches - 1) // publish_every)
    assert min(lags) >= 0


async def test_rollouts_are_throttled_while_nothing_is_live() -> None:
    """Rollouts count as throttled while no episode is live and some wait for weights, and at no
    other time."""
    gating = Gating(batches=3, groups=1, staleness=0)

    async def episode(group: int, seconds: float) -> None:
        if await gating.admit(group):
            await anyio.sleep(seconds)
            gating.episode_ended()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(episode, 0, 3.0)
        tasks.start_soon(episode, 1, 2.0)
        await anyio.sleep(4)  # group 0 was live for 3 seconds, then group 1 waited for 1
        assert gating.throttled_s() == pytest.approx(1.0)
        await anyio.sleep(1)
        gating.set_version(1)
    assert gating.throttled_s() == pytest.approx(2.0)
