"""Versions of weights: written, taken, told and removed; and groups lined up for batches."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.core.events import WeightsPublished
from harness.core.policy_card import PolicyCard, read_card
from learner.core.errors import CheckpointError, LearnerError
from learner.core.samples import Group
from learner.data.batch_queue import BatchQueue, TakenBatch
from learner.data.grouping import DroppedGroup
from tests.support.fake_learner import CARD, PaperLearner, publisher_of
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Taker:
    """A policy that writes down what it takes."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Path]] = []

    async def take(self, version: str, folder: Path) -> None:
        self.taken.append((version, folder))


def versions_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "versions").iterdir())


async def test_a_version_is_written_then_taken_then_told(tmp_path: Path) -> None:
    """A version has its own folder and card; every policy takes it before the log hears of it."""
    one, other, told = Taker(), Taker(), []
    publisher = publisher_of(tmp_path, PaperLearner(), one, other)
    with publisher.reporting_to(lambda event: told.append((event, list(other.taken)))):
        await publisher.begin(0, 0)
        path = await publisher.publish(1, 5)
    assert path == tmp_path / "versions" / "v1"
    assert read_card(path) == PolicyCard("v1", "full", CARD.fingerprint, "native", step=5)
    taken = [("v0", tmp_path / "start"), ("v1", path)]
    assert one.taken == other.taken == taken
    assert told == [
        (WeightsPublished("v0", str(tmp_path / "start")), taken[:1]),
        (WeightsPublished("v1", str(path)), taken),
    ]
    assert publisher.version == 1


async def test_what_nobody_heard_is_told_first(tmp_path: Path) -> None:
    """Versions from before a log listened are told when it does, and none twice."""
    told: list[str] = []
    publisher = publisher_of(tmp_path, PaperLearner())
    await publisher.begin(0, 0)
    with publisher.reporting_to(lambda event: told.append(event.version)):
        await publisher.publish(1, 1)
    await publisher.publish(2, 2)
    with publisher.reporting_to(lambda event: told.append(event.version)):
        await publisher.publish(3, 3)
    assert told == ["v0", "v1", "v2", "v3"]


@pytest.mark.parametrize(("keep", "left"), [(1, ["v12"]), (3, ["v10", "v11", "v12"])])
async def test_the_last_versions_are_kept(tmp_path: Path, keep: int, left: list[str]) -> None:
    """Of the published versions the last ones stay, by number."""
    publisher = publisher_of(tmp_path, PaperLearner(), keep=keep)
    for version in range(1, 13):
        await publisher.publish(version, version)
    assert versions_in(tmp_path) == left


async def test_a_run_that_goes_on_takes_its_version(tmp_path: Path) -> None:
    """Newer versions than the checkpoint's are removed; its own is taken where it is still there,
    and written again where it is not."""
    for version in (3, 4, 5):
        await publisher_of(tmp_path, PaperLearner(), keep=9).publish(version, version)
    before = (tmp_path / "versions" / "v4" / "rehearsal.json").stat().st_ino
    taker = Taker()
    await publisher_of(tmp_path, PaperLearner(), taker).begin(4, 4)
    assert versions_in(tmp_path) == ["v3", "v4"]
    assert (tmp_path / "versions" / "v4" / "rehearsal.json").stat().st_ino == before
    await publisher_of(tmp_path, PaperLearner(), taker).begin(2, 2)
    assert versions_in(tmp_path) == ["v2"]
    assert [version for version, _ in taker.taken] == ["v4", "v2"]


async def test_a_version_that_cannot_be_written_is_nowhere(tmp_path: Path) -> None:
    """When writing fails nobody takes or hears of the version, and the one before stays."""

    def broken(folder: Path, card: PolicyCard) -> None:
        if card.version == "v2":
            raise CheckpointError(f"{folder}: it cannot be written: No space left on device")
        PaperLearner().publish(folder, card)

    taker, told = Taker(), []
    publisher = publisher_of(tmp_path, PaperLearner(), taker)
    publisher._write = broken
    with publisher.reporting_to(told.append):
        await publisher.publish(1, 1)
        with pytest.raises(CheckpointError, match="No space left"):
            await publisher.publish(2, 2)
    assert versions_in(tmp_path) == ["v1"]
    assert [version for version, _ in taker.taken] == ["v1"]
    assert [event.version for event in told] == ["v1"]
    assert publisher.version == 1


def group(number: int) -> Group:
    return Group(f"g{number}", "shop", "task", ())


async def taken(queue: BatchQueue, stale: tuple[int, ...] = ()) -> TakenBatch:
    return await queue.take(lambda group: int(group.group[1:]) in stale)


def names(found: TakenBatch) -> list[str]:
    return [one.group for one in found.groups]


@pytest.mark.parametrize("fill", [False, True])
async def test_groups_are_taken_in_order_whenever_they_come(fill: bool) -> None:
    """A batch is the next groups by number, in whatever order they come."""
    queue = BatchQueue(size=2, fill=fill, first=4)
    found: list[TakenBatch] = []

    async def take() -> None:
        found.append(await taken(queue))
        found.append(await taken(queue))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        for number in (7, 5, 6, 4):
            assert found == []
            queue.put(number, group(number))
            await anyio.sleep(1)
    assert [names(one) for one in found] == [["g4", "g5"], ["g6", "g7"]]
    assert [one.end for one in found] == [6, 8]


@pytest.mark.parametrize(
    ("fill", "expected", "end"), [(False, ["g0"], 3), (True, ["g0", "g3", "g5"], 6)]
)
async def test_groups_that_cannot_be_used(fill: bool, expected: list[str], end: int) -> None:
    """What is set aside or stale leaves the batch smaller; with `fill` the next groups take its
    place. Reasons are counted, and so are the verdicts on all its groups."""
    queue = BatchQueue(size=3, fill=fill)
    for number in (0, 2, 3, 5):
        queue.put(number, group(number))
    for number, reason in ((1, "equal"), (4, "few")):
        queue.put(number, DroppedGroup(f"g{number}", reason))  # type: ignore[arg-type]
    for number in range(6):
        queue.score(number, completed=number % 2 == 0, reward=0.5)
    found = await taken(queue, stale=(2,))
    assert (names(found), found.end) == (expected, end)
    reasons = {"equal": 1, "stale": 1} | ({"few": 1} if fill else {})
    assert found.dropped == reasons
    completed = (end + 1) // 2
    assert (found.num_labels, found.num_completed, found.reward) == (end, completed, end / 2)


async def test_a_lineup_that_is_closed() -> None:
    """What is there when no more come is taken; what is missing is an error, also for who waits."""
    queue = BatchQueue(size=2)
    for number in range(3):
        queue.put(number, group(number))
    assert names(await taken(queue)) == ["g0", "g1"]
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(LearnerError, match=r"begins with group 2 has not 2 groups"):
                await taken(queue)

        tasks.start_soon(wait)
        await anyio.sleep(1)
        queue.close()
