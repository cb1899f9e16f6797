"""The feed: groups from logs and from live runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.trajectory import assemble
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.learner.core.errors import LearnerError, SampleError
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.group_feed import (
    KINDS,
    GroupResult,
    LiveFeed,
    group_results_of_log,
    groups_of_logs,
)
from rehearsal_room.learner.data.grouping import DroppedGroup, Grouping
from rehearsal_room.learner.data.log_source import LogSource
from tests.support.episode_logs import WORLD
from tests.support.token_logs import episode, step


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def write_log(folder: Path, *episodes: Sequence[Record]) -> Path:
    """A finished run with these episodes, whose records alternate as in a real log."""
    async with open_log(folder) as log:
        log.add_scenario(WORLD)
        for index in range(max(map(len, episodes))):
            for records in episodes:
                if index < len(records):
                    log.append(records[index])
    return folder


def pair(group: str, first: float = 1.0, second: float = 0.0) -> list[list[Record]]:
    return [
        episode(0, group=group, reward=first),
        episode(1, group=group, reward=second),
    ]


def summarize(result: GroupResult) -> Any:
    if not isinstance(result, Group):
        return result
    samples = [
        [(one.prompt.tolist(), one.tokens.tolist()) for one in rollout.samples]
        for rollout in result.rollouts
    ]
    return result.group, samples


def names(groups: Sequence[Group]) -> list[str]:
    return [group.group for group in groups]


async def test_the_groups_of_a_log_come_in_order(tmp_path: Path) -> None:
    """Complete groups come in the order of their last members, once per epoch and always the
    same."""
    one = await write_log(tmp_path / "one", *pair("g1"), *pair("g0"), *pair("g2", 1.0, 1.0))
    other = await write_log(tmp_path / "other", *pair("g0"), episode(0, group="g9"))
    grouping = Grouping()
    groups = list(groups_of_logs([one, other], grouping, epochs=2))
    assert names(groups) == ["g1", "g0", "g0"] * 2
    sample = ([1, 2, 3], [4, 5])
    assert summarize(groups[0]) == ("g1", [[sample], [sample]])
    found = grouping.statistics()
    assert (found.episodes, found.groups) == (18, 6)
    assert (found.dropped["equal"], found.dropped["incomplete"]) == (2, 2)


async def test_batches_of_logs_count_all_dropped_groups(tmp_path: Path) -> None:
    """Dropped groups are counted with the batch before them, also those after the last batch; a
    resumed run counts none twice."""
    last = [*pair("g4", 0.0, 0.0), episode(0, group="g5")]
    folder = await write_log(
        tmp_path / "run", *pair("g0", 1.0, 1.0), *pair("g1"), *pair("g2"), *pair("g3"), *last
    )

    def source(first: int) -> LogSource:
        grouping = Grouping()
        return LogSource(groups_of_logs([folder], grouping), grouping, size=1, first=first)

    async def take_all(logs: LogSource) -> list[tuple[str, int, dict[str, int]]]:
        found = []
        while (batch := await logs.take(0)) is not None:
            found.append((batch.groups[0].group, batch.end, batch.dropped))
        return found

    batches = [("g1", 1, {"equal": 1}), ("g2", 2, {}), ("g3", 3, {"incomplete": 1, "equal": 1})]
    assert await take_all(source(0)) == batches
    assert await take_all(source(2)) == batches[2:]
    assert await take_all(source(3)) == []


async def test_logs_without_a_usable_group(tmp_path: Path) -> None:
    """There is nothing to train on: the error names the reasons and a remedy."""
    folder = await write_log(tmp_path / "run", *pair("g0", 1.0, 1.0), episode(0, group="g1"))
    grouping = Grouping()
    source = LogSource(groups_of_logs([folder], grouping), grouping, size=8)
    with pytest.raises(LearnerError) as caught:
        await source.take(0)
    assert str(caught.value).startswith(
        "data.logs: none of the groups in these logs can be used (incomplete 1, equal 1): in every"
        " such group all episodes had the same reward"
    )


async def test_logs_without_any_group(tmp_path: Path) -> None:
    """A log without episodes is an error."""
    folder = await write_log(tmp_path / "run", [])
    grouping = Grouping()
    source = LogSource(groups_of_logs([folder], grouping), grouping, size=8)
    with pytest.raises(LearnerError, match="these logs have no groups of episodes"):
        await source.take(0)


async def test_a_resumed_run_uses_the_remaining_groups_of_its_log(tmp_path: Path) -> None:
    """Trained groups are skipped, and so are episodes that wait for their verdict: their groups
    stay open for the live episodes."""
    waiting = episode(1, group="g2", reward=0.0)
    episodes = [*pair("g0"), *pair("g1"), episode(0, group="g2"), waiting[:-1]]
    folder = await write_log(tmp_path / "run", *episodes)
    grouping = Grouping()
    left = list(group_results_of_log(folder, grouping, pending=True, without={"g0"}))
    assert [summarize(result)[0] for result in left] == ["g1"]
    (last,) = [grouping.add(assemble(waiting), where=str(folder))]
    assert isinstance(last, Group) and last.group == "g2"


async def test_a_log_without_tokens_is_refused(tmp_path: Path) -> None:
    """The error names the folder and the episode."""
    whole, bare = pair("g1")
    folder = await write_log(tmp_path / "run", *pair("g0"), whole, without_tokens(bare))
    with pytest.raises(SampleError, match=rf"^{folder}: episode 'g1-1' .* turn 0: token_ids"):
        list(groups_of_logs([folder], Grouping()))


def without_tokens(records: list[Record]) -> list[Record]:
    start, first, *rest = records
    bare = msgspec.structs.replace(first, event=step(Reply("Done.")))
    return [start, bare, *rest]


def feed(results: list[GroupResult], **settings: Any) -> LiveFeed:
    return LiveFeed(Grouping(), results.append, where="run", **settings)


async def serve(live: LiveFeed, records: Sequence[Record]) -> None:
    """Publish records on a bus to which the feed subscribes, and close it."""
    bus = LocalBus()
    async with (
        bus.subscribe(kinds=KINDS, depth=1) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(live.serve, subscription)
        for record in records:
            await bus.publish(record)
        bus.close()


def mixed(*episodes: Sequence[Record]) -> list[Record]:
    """The alternating records of some episodes."""
    longest = max(map(len, episodes))
    return [one[index] for index in range(longest) for one in episodes if index < len(one)]


async def test_a_live_run_gives_the_groups_of_its_log(tmp_path: Path) -> None:
    """Live, a group is complete with the verdict on its last member, and groups that are incomplete
    at the end are dropped. The log of the same run gives the same groups."""
    episodes = [*pair("g0"), *pair("g1", 1.0, 1.0), episode(0, group="g2"), *pair("g3", 0.0, 1.0)]
    results: list[GroupResult] = []
    live = feed(results)
    await serve(live, mixed(*episodes))
    folder = await write_log(tmp_path / "run", *episodes)
    groups = [summarize(group) for group in groups_of_logs([folder], Grouping())]
    assert list(map(summarize, results)) == [
        groups[0],
        DroppedGroup("g1", "equal"),
        groups[1],
        DroppedGroup("g2", "incomplete"),
    ]
    assert live.statistics() == {"live": 0}


async def test_a_group_is_available_during_the_run() -> None:
    """Each record is processed when it arrives; the group does not wait for the run's end."""
    results: list[GroupResult] = []
    live = feed(results)
    *records, last = mixed(*pair("g0"))
    for record in records:
        live.add(record)
    assert (results, live.statistics()) == ([], {"live": 1})
    live.add(last)
    assert len(results) == 1


async def test_another_attempt_replaces_the_first() -> None:
    """The records of an abandoned attempt are discarded."""
    results: list[GroupResult] = []
    first, second = pair("g0")
    again = [msgspec.structs.replace(record, attempt=2) for record in first]
    await serve(feed(results), [first[0], *again[:2], *first[1:3], *again[2:], *second])
    assert [summarize(result)[0] for result in results] == ["g0"]
    assert len(summarize(results[0])[1][0]) == 1


async def test_a_verdict_on_an_earlier_episode_loads_it_from_the_log() -> None:
    """After a crash the judge judges episodes that ended before; the log has the rest of them."""
    first, second = pair("g0")
    known = {first[0].episode: assemble(first)}
    results: list[GroupResult] = []
    await serve(feed(results, load_trajectory=known.get), [first[-1], *second])
    assert [summarize(result)[0] for result in results] == ["g0"]
    results.clear()
    await serve(feed(results), [first[-1], *second])
    assert results == [DroppedGroup("g0", "incomplete")]


async def test_a_reply_without_tokens_stops_the_run() -> None:
    """An episode without tokens cannot be trained: the error propagates out of `serve`."""
    with pytest.raises(ExceptionGroup) as caught:
        await serve(feed([]), without_tokens(pair("g0")[0]))
    (error,) = caught.value.exceptions
    assert isinstance(error, SampleError)
