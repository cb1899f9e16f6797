"""Tasks by their past groups: which turns are played, and what a resumed run makes of it."""

from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.batch_queue import BatchQueue, SkippedGroup
from rehearsal_room.learner.data.grouping import DroppedGroup
from rehearsal_room.learner.data.task_pools import TaskPools
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def play(pools: TaskPools, number: int, result: str) -> None:
    """Finish a group of two episodes: "11" if both completed."""
    for one in result:
        pools.judged(number, completed=one == "1")
    pools.finish(number)


async def played(results: str | dict[int, str], tasks: str, **every: int) -> list[int]:
    """The groups that are played when they come one after the other; a group's result by its
    number, or the same one for all."""
    pools, found = TaskPools(tasks, **every), []
    for number in range(len(tasks)):
        if await pools.is_played(number):
            found.append(number)
            play(pools, number, results if isinstance(results, str) else results[number])
    return found


async def test_only_every_nth_turn_of_a_solved_task_is_played() -> None:
    """A task that all solve is played at its turns 0, 3, 6; one that is mixed at every turn, and
    one that none solves as often as `never` says."""
    assert await played("11", "aaaaaaa", solved=3) == [0, 3, 6]
    assert await played("10", "aaaaaaa", solved=3, never=3) == list(range(7))
    assert await played("00", "aaaaaaa", solved=3, never=2) == [0, 2, 4, 6]
    assert await played("", "aaa", solved=3, never=3) == [0, 1, 2]  # no episode had a label


async def test_a_task_that_changes_is_played_again() -> None:
    """What counts is the task's last group: solved at turn 0, mixed at 3, never at 4."""
    results = {0: "11", 3: "01", 4: "00", 6: "11"}
    assert await played(results, "aaaaaaaa", solved=3, never=2) == [0, 3, 4, 6]


async def test_tasks_do_not_touch_each_other() -> None:
    """Each task has turns of its own."""
    results = {0: "11", 1: "10", 3: "10", 4: "11", 5: "11", 7: "01"}
    assert await played(results, "abababab", solved=2) == [0, 1, 3, 4, 5]


async def test_a_turn_waits_for_the_one_before() -> None:
    """Whether a turn is played is known only once the task's last played turn has finished; other
    tasks do not wait for it."""
    pools, found = TaskPools("aab", solved=2), []

    async def ask(number: int) -> None:
        found.append((number, await pools.is_played(number)))

    async with anyio.create_task_group() as tasks:
        for number in (0, 1, 2):
            tasks.start_soon(ask, number)
        for _ in range(5):
            await checkpoint()
        assert sorted(found) == [(0, True), (2, True)]
        play(pools, 0, "11")
    assert found[-1] == (1, False)


async def test_a_resumed_run_plays_the_same_turns() -> None:
    """With the results of any beginning read from the log, the turns that are played from there on
    are those of the undisturbed run, in whatever order the log has them."""
    chance = Random(5)
    tasks = "".join(chance.choice("abcd") for _ in range(60))
    results = {number: chance.choice(["11", "00", "10"]) for number in range(60)}
    whole = await played(results, tasks, solved=3, never=4)
    assert len(whole) < 50
    for first in (1, 13, 40):
        pools = TaskPools(tasks, solved=3, never=4)
        logged = [number for number in whole if number < first]
        chance.shuffle(logged)
        for number in logged:
            play(pools, number, results[number])
        later = []
        for number in range(first, 60):
            if await pools.is_played(number):
                later.append(number)
                play(pools, number, results[number])
        assert later == [number for number in whole if number >= first]


def test_the_counts_are_of_the_groups_before_a_batchs_end() -> None:
    """Each task is counted once, by its last group before; groups that ran ahead do not count."""
    pools = TaskPools("abcabc", solved=2)
    for number, result in enumerate(["11", "10", "00", "10"]):
        play(pools, number, result)
    assert pools.counts(2) == {"solved": 1, "mixed": 1, "never": 0, "unseen": 1}
    assert pools.counts(3) == {"solved": 1, "mixed": 1, "never": 1, "unseen": 0}
    assert pools.counts(4) == {"solved": 0, "mixed": 2, "never": 1, "unseen": 0}


async def test_where_every_task_is_solved_the_run_ends_with_a_sentence() -> None:
    """Skipped groups fill no batch: a plan of nothing but solved tasks is used up, and the error
    counts what was dropped and what was skipped."""
    queue = BatchQueue(size=1, fill=True)
    dropped: list[int] = []
    for number in range(6):
        one = DroppedGroup(f"g{number}", "equal") if number % 3 == 0 else SkippedGroup()
        queue.put(number, one)
    queue.close()
    with pytest.raises(Exception, match=r"0 of 6 are usable \(dropped: equal 2\) \(4 skipped"):
        await queue.take(lambda group: False, dropped.append)
    assert dropped == list(range(6))


async def test_skipped_groups_are_counted_by_themselves() -> None:
    """They make no batch smaller, and do not count as dropped."""
    queue = BatchQueue(size=2, fill=True)
    for number in range(5):
        one = Group(f"g{number}", "s", "t", ()) if number % 2 else SkippedGroup()
        queue.put(number, one)
    batch = await queue.take(lambda group: False)
    assert [group.group for group in batch.groups] == ["g1", "g3"]
    assert (batch.num_skipped, batch.dropped, batch.end) == (2, {}, 4)
