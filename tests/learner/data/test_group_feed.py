"""The feed: groups out of logs and out of runs that go on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from harness.bus.local import LocalBus
from harness.core.events import Record
from harness.core.messages import Reply
from harness.core.trajectory import assemble
from harness.log.writer import open_log
from learner.core.errors import LearnerError, SampleError
from learner.core.samples import Group
from learner.data.group_feed import KINDS, LiveFeed, Outcome, groups_of_logs, outcomes_of_log
from learner.data.grouping import Grouping, SetAside
from learner.data.log_source import LogSource
from tests.support.episode_logs import WORLD
from tests.support.token_logs import episode, took


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def logged(folder: Path, *episodes: Sequence[Record]) -> Path:
    """A finished run with these episodes, their facts taking turns as in a real log."""
    async with open_log(folder) as log:
        log.add_scenario(WORLD)
        for place in range(max(map(len, episodes))):
            for records in episodes:
                if place < len(records):
                    log.append(records[place])
    return folder


def pair(group: str, first: float = 1.0, second: float = 0.0) -> list[list[Record]]:
    return [
        episode(0, group=group, reward=first),
        episode(1, group=group, reward=second),
    ]


def told(outcome: Outcome) -> Any:
    if not isinstance(outcome, Group):
        return outcome
    samples = [
        [(one.prompt.tolist(), one.tokens.tolist()) for one in rollout.samples]
        for rollout in outcome.rollouts
    ]
    return outcome.group, samples


def names(groups: Sequence[Group]) -> list[str]:
    return [group.group for group in groups]


async def test_a_log_gives_its_groups_in_order(tmp_path: Path) -> None:
    """Whole groups, in the order of their last members, as often as there are epochs; a second
    reading gives the same."""
    one = await logged(tmp_path / "one", *pair("g1"), *pair("g0"), *pair("g2", 1.0, 1.0))
    other = await logged(tmp_path / "other", *pair("g0"), episode(0, group="g9"))
    grouping = Grouping()
    groups = list(groups_of_logs([one, other], grouping, epochs=2))
    assert names(groups) == ["g1", "g0", "g0"] * 2
    sample = ([1, 2, 3], [4, 5])
    assert told(groups[0]) == ("g1", [[sample], [sample]])
    found = grouping.statistics()
    assert (found.episodes, found.groups) == (18, 6)
    assert (found.set_aside["equal"], found.set_aside["incomplete"]) == (2, 2)


async def test_logs_in_batches_count_all_that_they_leave_out(tmp_path: Path) -> None:
    """What is set aside is told with the batch before it, behind the last one, too; a run that goes
    on tells nothing twice."""
    last = [*pair("g4", 0.0, 0.0), episode(0, group="g5")]
    folder = await logged(
        tmp_path / "run", *pair("g0", 1.0, 1.0), *pair("g1"), *pair("g2"), *pair("g3"), *last
    )

    def source(first: int) -> LogSource:
        grouping = Grouping()
        return LogSource(groups_of_logs([folder], grouping), grouping, size=1, first=first)

    async def told_by(made: LogSource) -> list[tuple[str, int, dict[str, int]]]:
        found = []
        while (taken := await made.take(0)) is not None:
            found.append((taken.groups[0].group, taken.end, taken.set_aside))
        return found

    batches = [("g1", 1, {"equal": 1}), ("g2", 2, {}), ("g3", 3, {"incomplete": 1, "equal": 1})]
    assert await told_by(source(0)) == batches
    assert await told_by(source(2)) == batches[2:]
    assert await told_by(source(3)) == []


async def test_logs_without_any_group_that_can_be_used(tmp_path: Path) -> None:
    """There is nothing to train on: an error says so, and why."""
    folder = await logged(tmp_path / "run", *pair("g0", 1.0, 1.0), episode(0, group="g1"))
    grouping = Grouping()
    source = LogSource(groups_of_logs([folder], grouping), grouping, size=8)
    with pytest.raises(LearnerError) as caught:
        await source.take(0)
    assert str(caught.value) == (
        "data.logs: none of their groups can be used (incomplete 1, equal 1)"
    )


async def test_a_run_that_goes_on_takes_from_its_log_what_is_left(tmp_path: Path) -> None:
    """Groups that were trained are passed over, and so are episodes that wait for their verdict:
    their groups stay open for those that come live."""
    waiting = episode(1, group="g2", reward=0.0)
    episodes = [*pair("g0"), *pair("g1"), episode(0, group="g2"), waiting[:-1]]
    folder = await logged(tmp_path / "run", *episodes)
    grouping = Grouping()
    left = list(outcomes_of_log(folder, grouping, pending=True, without={"g0"}))
    assert [told(outcome)[0] for outcome in left] == ["g1"]
    (last,) = [grouping.add(assemble(waiting), where=str(folder))]
    assert isinstance(last, Group) and last.group == "g2"


async def test_a_log_without_tokens_is_refused(tmp_path: Path) -> None:
    """The error names the folder and the episode."""
    whole, bare = pair("g1")
    folder = await logged(tmp_path / "run", *pair("g0"), whole, without_tokens(bare))
    with pytest.raises(SampleError, match=rf"^{folder}: episode 'g1-1' .* turn 0: token_ids"):
        list(groups_of_logs([folder], Grouping()))


def without_tokens(records: list[Record]) -> list[Record]:
    start, step, *rest = records
    bare = msgspec.structs.replace(step, event=took(Reply("Done.")))
    return [start, bare, *rest]


def feed(given: list[Outcome], **settings: Any) -> LiveFeed:
    return LiveFeed(Grouping(), given.append, where="run", **settings)


async def served(live: LiveFeed, records: Sequence[Record]) -> None:
    """Publish records on a bus that the feed hears, and close it."""
    bus = LocalBus()
    async with bus.subscribe(kinds=KINDS, depth=1) as heard, anyio.create_task_group() as tasks:
        tasks.start_soon(live.serve, heard)
        for record in records:
            await bus.publish(record)
        bus.close()


def mixed(*episodes: Sequence[Record]) -> list[Record]:
    """The facts of some episodes by turns."""
    longest = max(map(len, episodes))
    return [one[place] for place in range(longest) for one in episodes if place < len(one)]


async def test_a_run_gives_what_its_log_gives(tmp_path: Path) -> None:
    """Live, a group comes with the verdict on its last member; what is not whole at the end is set
    aside. The log of the same run gives the same groups."""
    episodes = [*pair("g0"), *pair("g1", 1.0, 1.0), episode(0, group="g2"), *pair("g3", 0.0, 1.0)]
    given: list[Outcome] = []
    live = feed(given)
    await served(live, mixed(*episodes))
    folder = await logged(tmp_path / "run", *episodes)
    groups = [told(group) for group in groups_of_logs([folder], Grouping())]
    assert list(map(told, given)) == [
        groups[0],
        SetAside("g1", "equal"),
        groups[1],
        SetAside("g2", "incomplete"),
    ]
    assert live.statistics() == {"live": 0}


async def test_a_group_is_there_before_the_run_is_over() -> None:
    """Each fact is looked at when it comes; none is held back."""
    given: list[Outcome] = []
    live = feed(given)
    *facts, last = mixed(*pair("g0"))
    for record in facts:
        live.take(record)
    assert (given, live.statistics()) == ([], {"live": 1})
    live.take(last)
    assert len(given) == 1


async def test_another_attempt_takes_the_place_of_the_first() -> None:
    """Facts of an attempt that was given up are forgotten."""
    given: list[Outcome] = []
    first, second = pair("g0")
    again = [msgspec.structs.replace(record, attempt=2) for record in first]
    await served(feed(given), [first[0], *again[:2], *first[1:3], *again[2:], *second])
    assert [told(outcome)[0] for outcome in given] == ["g0"]
    assert len(told(given[0])[1][0]) == 1


async def test_a_verdict_on_an_episode_of_an_earlier_sitting_is_looked_up() -> None:
    """After a crash the judge judges what ended before; the log has the rest of the episode."""
    first, second = pair("g0")
    known = {first[0].episode: assemble(first)}
    given: list[Outcome] = []
    await served(feed(given, recall=known.get), [first[-1], *second])
    assert [told(outcome)[0] for outcome in given] == ["g0"]
    given.clear()
    await served(feed(given), [first[-1], *second])
    assert given == [SetAside("g0", "incomplete")]


async def test_a_reply_without_tokens_stops_the_run() -> None:
    """What cannot be trained on at all is no silence: the error reaches whoever serves the feed."""
    with pytest.raises(ExceptionGroup) as caught:
        await served(feed([]), without_tokens(pair("g0")[0]))
    (error,) = caught.value.exceptions
    assert isinstance(error, SampleError)
