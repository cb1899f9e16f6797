"""Versions of weights are written, loaded, reported and removed; groups queue up for batches."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from rehearsal_room.harness.core.events import WeightsPublished
from rehearsal_room.harness.core.policy_card import PolicyCard, read_card
from rehearsal_room.learner.core.errors import CheckpointError, LearnerError
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.batch_queue import BatchQueue, TakenBatch
from rehearsal_room.learner.data.grouping import DroppedGroup
from tests.support.fake_learner import CARD, RecordingLearner, publisher_of
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class RecordingPolicy:
    """A policy that records the versions that it loads."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Path]] = []

    async def take(self, version: str, folder: Path) -> None:
        self.taken.append((version, folder))


def versions_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "versions").iterdir())


async def test_a_version_is_written_then_loaded_then_reported(tmp_path: Path) -> None:
    """A version has its own folder and model card; every policy loads it before it is reported to
    the log."""
    one, other, reported = RecordingPolicy(), RecordingPolicy(), []
    publisher = publisher_of(tmp_path, RecordingLearner(), one, other)
    with publisher.reporting_to(lambda event: reported.append((event, list(other.taken)))):
        await publisher.begin(0, 0)
        path = await publisher.publish(1, 5)
    assert path == tmp_path / "versions" / "v1"
    assert read_card(path) == PolicyCard("v1", "full", CARD.fingerprint, "native", step=5)
    taken = [("v0", tmp_path / "start"), ("v1", path)]
    assert one.taken == other.taken == taken
    assert reported == [
        (WeightsPublished("v0", str(tmp_path / "start")), taken[:1]),
        (WeightsPublished("v1", str(path)), taken),
    ]
    assert publisher.version == 1


async def test_unreported_versions_are_reported_first(tmp_path: Path) -> None:
    """Versions that were published without a log are reported as soon as there is one, each
    once."""
    reported: list[str] = []
    publisher = publisher_of(tmp_path, RecordingLearner())
    await publisher.begin(0, 0)
    with publisher.reporting_to(lambda event: reported.append(event.version)):
        await publisher.publish(1, 1)
    await publisher.publish(2, 2)
    with publisher.reporting_to(lambda event: reported.append(event.version)):
        await publisher.publish(3, 3)
    assert reported == ["v0", "v1", "v2", "v3"]


@pytest.mark.parametrize(("keep", "left"), [(1, ["v12"]), (3, ["v10", "v11", "v12"])])
async def test_the_newest_versions_are_kept(tmp_path: Path, keep: int, left: list[str]) -> None:
    """Of the published versions the newest ones stay, by number."""
    publisher = publisher_of(tmp_path, RecordingLearner(), keep=keep)
    for version in range(1, 13):
        await publisher.publish(version, version)
    assert versions_in(tmp_path) == left


async def test_a_resumed_run_loads_its_version(tmp_path: Path) -> None:
    """Versions newer than the checkpoint's are removed. The checkpoint's own version is loaded if
    it still exists, and written again if not."""
    for version in (3, 4, 5):
        await publisher_of(tmp_path, RecordingLearner(), keep=9).publish(version, version)
    before = (tmp_path / "versions" / "v4" / "rehearsal.json").stat().st_ino
    policy = RecordingPolicy()
    await publisher_of(tmp_path, RecordingLearner(), policy).begin(4, 4)
    assert versions_in(tmp_path) == ["v3", "v4"]
    assert (tmp_path / "versions" / "v4" / "rehearsal.json").stat().st_ino == before
    await publisher_of(tmp_path, RecordingLearner(), policy).begin(2, 2)
    assert versions_in(tmp_path) == ["v2"]
    assert [version for version, _ in policy.taken] == ["v4", "v2"]


async def test_a_version_that_cannot_be_written_is_not_published(tmp_path: Path) -> None:
    """If writing fails, no policy loads the version, it is not reported, and the previous one
    stays."""

    def broken(folder: Path, card: PolicyCard) -> None:
        if card.version == "v2":
            raise CheckpointError(f"{folder}: cannot be written: No space left on device")
        RecordingLearner().publish(folder, card)

    policy, reported = RecordingPolicy(), []
    publisher = publisher_of(tmp_path, RecordingLearner(), policy)
    publisher._write = broken
    with publisher.reporting_to(reported.append):
        await publisher.publish(1, 1)
        with pytest.raises(CheckpointError, match="No space left"):
            await publisher.publish(2, 2)
    assert versions_in(tmp_path) == ["v1"]
    assert [version for version, _ in policy.taken] == ["v1"]
    assert [event.version for event in reported] == ["v1"]
    assert publisher.version == 1


def group(number: int) -> Group:
    return Group(f"g{number}", "shop", "task", ())


async def take(queue: BatchQueue, stale: tuple[int, ...] = ()) -> TakenBatch:
    return await queue.take(lambda group: int(group.group[1:]) in stale)


def names(found: TakenBatch) -> list[str]:
    return [one.group for one in found.groups]


@pytest.mark.parametrize("fill", [False, True])
async def test_groups_are_taken_in_order(fill: bool) -> None:
    """A batch has the next groups by number, in whichever order they arrive."""
    queue = BatchQueue(size=2, fill=fill, first=4)
    found: list[TakenBatch] = []

    async def take_two() -> None:
        found.append(await take(queue))
        found.append(await take(queue))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_two)
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
    """Dropped and stale groups make the batch smaller; with `fill` the next groups replace them.
    Reasons are counted, and so are the verdicts on all groups of the batch."""
    queue = BatchQueue(size=3, fill=fill)
    for number in (0, 2, 3, 5):
        queue.put(number, group(number))
    for number, reason in ((1, "equal"), (4, "few")):
        queue.put(number, DroppedGroup(f"g{number}", reason))  # type: ignore[arg-type]
    for number in range(6):
        queue.score(number, completed=number % 2 == 0, reward=0.5)
    found = await take(queue, stale=(2,))
    assert (names(found), found.end) == (expected, end)
    reasons = {"equal": 1, "stale": 1} | ({"few": 1} if fill else {})
    assert found.dropped == reasons
    completed = (end + 1) // 2
    assert (found.num_labels, found.num_completed, found.reward) == (end, completed, end / 2)


async def test_a_closed_queue() -> None:
    """The groups that arrived can still be taken; a batch with missing groups is an error, also for
    a task that already waits for it."""
    queue = BatchQueue(size=2)
    for number in range(3):
        queue.put(number, group(number))
    assert names(await take(queue)) == ["g0", "g1"]
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(LearnerError, match=r"group 2 needs 2 usable groups: 1 of 1"):
                await take(queue)

        tasks.start_soon(wait)
        await anyio.sleep(1)
        queue.close()
