"""Batches from a log that still grows: a function of the log alone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random

import anyio
import anyio.lowlevel
import msgspec
import pytest

from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Judged,
    Label,
    Record,
)
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.writer import LogWriter, open_log
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.learner.data import followed_logs
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.followed_logs import FollowedSource
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.log_source import LogSource
from tests.support.budgets import repeats
from tests.support.episode_logs import WORLD
from tests.support.token_logs import episode

SIZE, NUM_GROUPS, MEMBERS = 3, 9, 3

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source looks again soon."""
    monkeypatch.setattr(followed_logs, "_WAIT_S", 0.002)


def played(random: Random) -> list[list[Record]]:
    """The episodes of some groups: some are equal in their rewards and dropped, some unjudged."""
    found = []
    for number in range(NUM_GROUPS):
        rewards = random.choice(([0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]))
        for member, reward in enumerate(rewards):
            given = None if random.random() < 0.05 else reward
            found.append(episode(member, reward=given, size=MEMBERS, group=f"g{number}"))
    return found


def interleaved(random: Random, episodes: Sequence[list[Record]]) -> list[Record]:
    """The episodes as a run with some slots writes them, their verdicts later and in any order."""
    left, live, unjudged, log = list(episodes), [], [], []
    while left or live or unjudged:
        if left and len(live) < 4:
            live.append(list(left.pop(0)))
        if unjudged and random.random() < 0.3:
            log.append(unjudged.pop(random.randrange(len(unjudged))))
        if live:
            chosen = random.choice(live)
            log.append(chosen.pop(0))
            if isinstance(chosen[0].event, Judged):
                unjudged.append(chosen[0])
                live.remove(chosen)
    return log


def interrupted(random: Random, records: Sequence[Record]) -> list[Record]:
    """The same with later facts: episodes that were played again after their verdict, attempts that
    were cut off or cancelled before the one that counts, and second verdicts of other content."""
    log: list[Record] = []
    for record in records:
        first = msgspec.structs.replace(record, attempt=record.attempt + 1)
        if isinstance(record.event, EpisodeStarted) and random.random() < 0.3:
            log.append(record)  # cut off here
            if random.random() < 0.5:
                end = EpisodeEnded(Ending.CANCELLED, "", 0, None)
                log.append(msgspec.structs.replace(record, seq=1, event=end))
        log.append(first)
        if isinstance(record.event, Judged):
            if random.random() < 0.3:
                again = Judged("other", Label.PARTIALLY_COMPLETED, 0.25)
                log.append(msgspec.structs.replace(first, seq=record.seq + 1, event=again))
            if random.random() < 0.3:
                other = msgspec.structs.replace(record.event, reward=0.5)
                log += [
                    msgspec.structs.replace(
                        one,
                        attempt=first.attempt + 1,
                        event=other if isinstance(one.event, Judged) else one.event,
                    )
                    for one in records
                    if one.episode == record.episode
                ]
    return log


def grouping() -> Grouping:
    return Grouping(DataSettings())


def source(folder: Path, *, planned: int = NUM_GROUPS * MEMBERS, first: int = 0) -> FollowedSource:
    def is_complete(_folder: Path, reader: LogReader) -> bool:
        return sum(row.ending is not None for row in reader.episodes()) >= planned

    return FollowedSource([folder], grouping(), size=SIZE, first=first, is_complete=is_complete)


async def batches(of: FollowedSource | LogSource) -> list[TakenBatch]:
    """All batches of a source."""
    found = []
    while (batch := await of.take(0)) is not None:
        found.append(batch)
    return found


def names(found: Sequence[TakenBatch]) -> list[list[str]]:
    return [[group.group for group in batch.groups] for batch in found]


@asynccontextmanager
async def growing(folder: Path, records: Sequence[Record], random: Random) -> AsyncIterator[None]:
    """A log to which these records are written beside the block, by writers that come and go."""
    left = list(records)

    async def write(log: LogWriter, number: int) -> None:
        for _ in range(min(number, len(left))):
            log.append(left.pop(0))
            if random.random() < 0.2:
                await log.flush()
                await anyio.lowlevel.checkpoint()

    async def write_all() -> None:
        while left:
            async with open_log(folder, resume=True) as log:
                await write(log, random.randint(1, 60))
            await anyio.sleep(0.003)

    async with open_log(folder) as log:
        log.add_scenario(WORLD)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_all)
        yield


@pytest.mark.parametrize("seed", range(repeats(short=4, long=100)))
async def test_a_growing_log_gives_the_batches_of_the_finished_one(
    tmp_path: Path, seed: int
) -> None:
    """However a log grows, the batches are those of the finished log, in order, and of a source
    that is opened again before any batch; what is played or judged again later changes none."""
    random = Random(seed)
    plain = interleaved(random, played(random))
    finished = tmp_path / "finished"
    async with open_log(finished) as log:
        log.add_scenario(WORLD)
        for record in plain:
            log.append(record)
    groups = groups_of_logs([finished], one := grouping())
    expected = await batches(LogSource(groups, one, size=SIZE))
    assert len(expected) > 1

    folder = tmp_path / "growing"
    async with growing(folder, interrupted(random, plain), random):
        with closing(source(folder)) as followed:
            found = await batches(followed)
    assert names(found) == names(expected)
    assert [batch.reward for batch in found] == [batch.reward for batch in expected]
    for number in range(len(found) + 1):
        with closing(source(folder, first=sum(map(len, names(found[:number]))))) as resumed:
            assert repr(await batches(resumed)) == repr(found[number:])  # arrays have no ==


async def test_a_run_that_was_interrupted_is_waited_for(tmp_path: Path) -> None:
    """A log without a writer is not taken for finished while episodes of the plan are missing, and
    its last group comes when they have been played."""
    first, second = episode(0, reward=1.0, size=2), episode(1, reward=0.0, size=2)
    async with open_log(tmp_path) as log:
        log.add_scenario(WORLD)
        for record in first:
            log.append(record)
    found: list[TakenBatch] = []

    async def take(followed: FollowedSource) -> None:
        found.extend(await batches(followed))

    with closing(source(tmp_path, planned=2)) as followed:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, followed)
            await anyio.sleep(0.02)
            assert not found
            async with open_log(tmp_path, resume=True) as log:
                for record in second:
                    log.append(record)
    assert names(found) == [["g0"]]


async def test_nothing_to_learn_from(tmp_path: Path) -> None:
    """A run without a usable group is an error that says why, as for finished logs."""
    async with open_log(tmp_path) as log:
        log.add_scenario(WORLD)
        for member in range(2):
            for record in episode(member, reward=1.0, size=2):
                log.append(record)
    unusable = pytest.raises(LearnerError, match="none of the groups in these logs can be used")
    with closing(source(tmp_path, planned=2)) as followed, unusable:
        await followed.take(0)


async def test_an_open_log_ends_with_its_source(tmp_path: Path) -> None:
    """A source that is cancelled while it waits can be closed; the log is not harmed."""
    async with open_log(tmp_path) as log:
        log.add_scenario(WORLD)
        log.append(episode(0, size=2)[0])
        await log.flush()
        with closing(source(tmp_path)) as followed:
            with anyio.move_on_after(0.02) as scope:
                await followed.take(0)
    assert scope.cancelled_caught
    with open_reader(tmp_path) as reader:
        assert reader.counts() == {"started": 1}
