"""Workers that cannot read the run's log: what they need of it comes with the assignment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.fleet.carried import CarriedAttempts, with_logged
from rehearsal_room.harness.fleet.coordinator import StartWorker
from rehearsal_room.harness.fleet.messages import EpisodeAssignment, EpisodeAssignments, RecordBatch
from rehearsal_room.harness.fleet.worker import WorkerSpec
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.judge.verdicts.opener import judge_opener
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.carried_worker import CarriedWorker, kinds_in

_SETTINGS = Settings(
    scenarios=("shop_support",),
    episodes=24,
    processes=2,
    concurrency=8,
    policy=PolicySettings(think="0.01:0.03"),
)


@pytest.fixture(autouse=True)
def _untuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rehearsal_room.harness.launch.tune_garbage_collector", lambda: None)


def _play(folder: Path, kinds: tuple[str, ...]) -> list[CarriedWorker]:
    """Run the settings; worker after worker dies after the first batch with the next of these
    kinds. Returns all workers."""
    workers: list[CarriedWorker] = []
    left = list(kinds)

    def dies(batch: RecordBatch) -> bool:
        if not left or left[0] not in kinds_in(batch):
            return False
        left.pop(0)
        return True

    @contextmanager
    def engine(spec: WorkerSpec) -> Iterator[StartWorker]:
        def start(number: int) -> CarriedWorker:
            workers.append(CarriedWorker(spec, folder, number, dies))
            return workers[-1]

        yield start

    opener = judge_opener(_SETTINGS)
    launch(_SETTINGS, folder, engine=engine, resume=False, open_judge=opener, progress=False)
    assert not left
    return workers


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same episodes in one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    opener = judge_opener(_SETTINGS)
    launch(_SETTINGS, folder, resume=False, open_judge=opener, progress=False)
    return folder


def _verdicts(folder: Path) -> list[str]:
    return sorted(
        one.episode for one in records_of(folder) if one.event.__struct_config__.tag == "judged"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(), ("step", "step"), ("ended", "judged", "ended")])
def test_an_episode_goes_on_with_what_its_lease_carries(
    kinds: tuple[str, ...], tmp_path: Path, alone: Path
) -> None:
    """Workers die in mid-episode, and between an end and its verdict: others go on after the
    logged turns, or judge, without the log; nothing is lost or doubled."""
    workers = _play(tmp_path / "run", kinds)
    assert len(workers) == 2 + len(kinds)
    assert outcomes_of(tmp_path / "run") == outcomes_of(alone)
    assert _verdicts(tmp_path / "run") == _verdicts(alone)
    num_continued = check_attempts(records_of(tmp_path / "run"))
    assignments = [
        assignment for each in workers for one in each.carried for assignment in one.leases
    ]
    assert any(one.attempt > 1 and one.logged for one in assignments) == (num_continued > 0)
    assert (num_continued > 0) == bool(kinds)
    assert any(one.judge_from is not None for one in assignments) == ("ended" in kinds)


def test_a_lease_carries_the_attempts_as_the_log_has_them(alone: Path) -> None:
    """What is read from the records of an assignment is what is read from the log; an assignment of
    an episode that has not begun carries nothing."""
    _, plans = planned(_SETTINGS)
    assignments = EpisodeAssignments(
        [EpisodeAssignment(0, 1), EpisodeAssignment(1, 1, 3), EpisodeAssignment(2, 2)]
    )
    carried = with_logged(assignments, alone, plans).leases
    assert carried[0] == EpisodeAssignment(0, 1)
    with open_reader(alone) as reader:
        for assignment in carried[1:]:
            episode = plans[assignment.index].episode
            found = CarriedAttempts(assignment.logged).trajectory(episode, attempt=1)
            assert found == reader.trajectory(episode, attempt=1)
            assert CarriedAttempts(assignment.logged).trajectory(episode) == found


@pytest.mark.parametrize("records", [[], [("e000001", 1, 0, "started", 0.0, b"\xc1", None)]])
def test_a_lease_that_carries_too_little_is_an_error(records: list[object]) -> None:
    """An attempt that a lease lacks, or that is damaged, is named."""
    read: Callable[..., object] = CarriedAttempts(records).trajectory  # type: ignore[arg-type]
    with pytest.raises(LogError, match="lease of episode 'e000001' does not carry attempt 1"):
        read("e000001", attempt=1)
