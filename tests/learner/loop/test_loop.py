"""The loop: real rollouts in a real log, with a learner that only records its calls."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.harness.core.errors import ContextLengthError, PolicyError
from rehearsal_room.harness.core.events import (
    WEIGHTS_EPISODE,
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    WeightsPublished,
)
from rehearsal_room.harness.core.policy_card import read_card
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.learner.core.errors import LearnerError, TimeIsUpError, TrainingError
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.loop.progress_state import ProgressValues, TrainProgress
from rehearsal_room.learner.loop.report import lines_of, report_of
from rehearsal_room.learner.loop.run import run_with_rollouts
from tests.support.fake_learner import (
    RecordedMetrics,
    RecordingLearner,
    TokenOracle,
    open_loop,
    train_settings,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def records_of(folder: Path) -> list[Any]:
    with open_reader(folder / "rollouts") as reader:
        return [record for _, record in reader.records_after(0, 1_000_000)]


def names(*numbers: int) -> list[str]:
    return [f"g{number:06d}" for number in numbers]


async def test_a_whole_run(tmp_path: Path) -> None:
    """Batches take the plan's groups in order, each once. Every batch's weights are published,
    loaded, logged and saved; the folder keeps the newest versions."""
    train, learner, policy, metrics = (
        train_settings(),
        RecordingLearner(),
        TokenOracle(),
        RecordedMetrics(),
    )
    async with open_loop(tmp_path, train, policy, learner, metrics=metrics) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert learner.batches == [names(0, 1), names(2, 3), names(4, 5)]
    assert policy.taken == ["v0", "v1", "v2", "v3"]
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["v2", "v3"]
    weights = [one for one in records_of(tmp_path) if isinstance(one.event, WeightsPublished)]
    assert [(one.episode, one.seq, one.event.version) for one in weights] == [
        (WEIGHTS_EPISODE, number, f"v{number}") for number in range(4)
    ]
    progress = loop.progress
    assert (progress.batches, progress.next_group, progress.groups, progress.episodes) == (
        3,
        6,
        6,
        12,
    )
    assert (progress.num_trained, progress.num_tokens, progress.num_row_tokens) == (30, 150, 300)
    assert progress.first == progress.last == {"reward": 0.5, "pass_rate": 0.5}
    assert [one.batches for one in learner.saved] == [1, 2, 3]
    assert learner.saved[-1].next_group == 6
    assert sorted(metrics.steps) == [0, 1, 2, 3]
    assert {"reward": 0.5, "loss": 0.5, "entropy": 2.0, "shared": 0.5}.items() <= (
        metrics.steps[2].items()
    )
    assert threading.get_ident() not in learner.threads


@pytest.mark.parametrize("staleness", [0, 1, 2])
async def test_the_weights_are_as_new_as_the_bound_requires(tmp_path: Path, staleness: int) -> None:
    """A batch is sampled by weights at most `staleness` versions behind the trained ones; with 0,
    by exactly these."""
    train = train_settings(steps=5, loop={"staleness": staleness})
    learner, policy = RecordingLearner(), TokenOracle()
    async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    lags = [
        batch - int(version.removeprefix("v"))
        for batch, versions in enumerate(learner.versions)
        for version in versions
    ]
    assert min(lags) >= 0 and max(lags) <= staleness
    if staleness == 0:
        assert learner.versions == [(f"v{batch}",) for batch in range(5)]


async def test_rollouts_run_during_an_update(tmp_path: Path) -> None:
    """The next batch's episodes run during an update: here the update returns only after they
    started."""
    both = threading.Event()
    live = 0

    async def before(assignment: Assignment) -> None:
        nonlocal live
        if assignment.episode >= "e000004":
            both.set()

    def wait(batch: int) -> None:
        assert both.wait(20)

    train, learner = train_settings(steps=2), RecordingLearner(wait)
    policy = TokenOracle(before=before)
    async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert len(learner.batches) == 2


async def test_slow_groups_are_neither_dropped_nor_delayed(tmp_path: Path) -> None:
    """A batch waits for its own groups, even if later ones finish first."""
    others = anyio.Event()
    num = 0

    async def before(assignment: Assignment) -> None:
        nonlocal num
        if assignment.episode == "e000000":
            await others.wait()
        num += 1
        if num == 6:
            others.set()

    train, learner = train_settings(steps=2), RecordingLearner()
    policy = TokenOracle(is_good=lambda one: False, before=before)
    train = train_settings(steps=2, data={"keep_equal": True})
    async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert learner.batches == [names(0, 1), names(2, 3)]


def good_in(*numbers: int) -> Any:
    """In these groups the first member completes the task, in the others no member does."""
    episodes = {f"e{2 * number:06d}" for number in numbers}
    return lambda assignment: assignment.episode in episodes


async def test_a_batch_takes_its_usable_groups(tmp_path: Path) -> None:
    """Without `fill` dropped groups make a batch smaller, and a batch without usable groups makes
    no update; all of them are counted."""
    train, learner, metrics = train_settings(), RecordingLearner(), RecordedMetrics()
    policy = TokenOracle(is_good=good_in(0, 1, 5))
    async with open_loop(tmp_path, train, policy, learner, metrics=metrics) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert learner.batches == [names(0, 1), names(5)]
    progress = loop.progress
    assert (progress.batches, progress.groups, progress.dropped) == (3, 3, {"equal": 3})
    assert metrics.steps[2]["groups"] == 0 and metrics.steps[2]["reward"] == 0.0
    assert metrics.steps[2]["groups_dropped"] == metrics.steps[2]["dropped/equal"] == 2
    assert progress.last == {"reward": 0.25, "pass_rate": 0.25}  # includes the dropped groups


async def test_a_run_in_which_nothing_can_be_trained_warns(tmp_path: Path) -> None:
    """The first batch whose groups were all equal logs a warning with a remedy, the next ones do
    not repeat it; the run continues to its end, and its report states that nothing was trained."""
    train, learner = train_settings(), RecordingLearner()
    policy = TokenOracle(is_good=lambda assignment: False)
    with capture_logs() as logs:
        async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    warnings = [entry for entry in logs if entry["event"] == "batch_not_trained"]
    assert [(one["log_level"], one["batch"], one["groups_dropped"]) for one in warnings] == [
        ("warning", 1, {"equal": 2})
    ]
    assert "data.keep_equal = true" in warnings[0]["remedy"]
    assert (learner.batches, loop.progress.batches) == ([], 3)
    report = report_of(loop.progress, published=tmp_path)
    assert report.warning.startswith("nothing was trained: all 6 groups were dropped (equal 6): ")


async def test_fill_runs_more_groups_until_a_batch_is_full(tmp_path: Path) -> None:
    """With `fill` the next groups replace dropped ones, within the bound, and no more groups run
    than needed."""
    train = train_settings(steps=2, data={"fill": True}, loop={"staleness": 0})
    learner, policy = RecordingLearner(), TokenOracle(is_good=good_in(0, 3, 4, 6))
    opening = open_loop(tmp_path, train, policy, learner, episodes=40)
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert learner.batches == [names(0, 3), names(4, 6)]
    assert learner.versions == [("v0",), ("v1",)]
    assert loop.progress.dropped == {"equal": 3}
    started = [one for one in records_of(tmp_path) if isinstance(one.event, EpisodeStarted)]
    assert {one.event.group for one in started} == set(names(*range(7)))


async def test_fill_ends_when_there_are_no_more(tmp_path: Path) -> None:
    """If the plan has no more groups before a batch is full, the run ends with an error that names
    the reasons, and saves what was trained, whenever checkpoints are due."""
    train = train_settings(steps=2, data={"fill": True}, save={"every": 100})
    learner, policy = RecordingLearner(), TokenOracle(is_good=good_in(0, 1, 2))
    with pytest.raises(ExceptionGroup) as caught:
        async with open_loop(tmp_path, train, policy, learner, episodes=12) as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    [failure] = caught.value.exceptions
    assert isinstance(failure, LearnerError)
    assert str(failure) == (
        "the rollouts have ended, and the batch that starts with group 2 needs 2 usable groups: 1"
        " of 4 are usable (dropped: equal 3)"
    )
    assert learner.batches == [names(0, 1)]
    assert [progress.batches for progress in learner.saved] == [1]


@pytest.mark.parametrize("staleness", [0, 1, 2])
@pytest.mark.parametrize("at", [1, 2])
async def test_fill_goes_on_where_its_checkpoint_is(
    tmp_path: Path, at: int, staleness: int
) -> None:
    """If earlier batches used more groups than their size, a resumed run does not wait for weights
    that never come, and makes the same batches."""

    def stop(batch: int) -> None:
        if batch == at:
            raise Stop

    train = train_settings(steps=4, data={"fill": True}, loop={"staleness": staleness})
    policy = TokenOracle(is_good=good_in(2, 3, 5, 6, 7, 10, 11, 12))
    first, second = RecordingLearner(stop), RecordingLearner()
    with pytest.raises(ExceptionGroup):
        async with open_loop(tmp_path, train, policy, first, episodes=80) as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    opening = open_loop(tmp_path, train, policy, second, progress=first.saved[-1], episodes=80)
    with anyio.fail_after(20):
        async with opening as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    batches = [names(2, 3), names(5, 6), names(7, 10), names(11, 12)]
    assert (first.batches, second.batches) == (batches[:at], batches[at:])
    assert loop.progress.dropped == {"equal": 5}


class Stop(Exception):
    """Stops a learner in a test."""


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_run_resumes_at_its_checkpoint(tmp_path: Path, at: int) -> None:
    """Stopped in any batch and started again, a run makes the same batches as without the stop,
    trains no group twice and repeats no finished episode."""

    def stop(batch: int) -> None:
        if batch == at:
            raise Stop

    train = train_settings()
    first = RecordingLearner(stop)
    with pytest.raises(ExceptionGroup):
        async with open_loop(tmp_path, train, TokenOracle(), first) as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    assert first.batches == [names(0, 1), names(2, 3), names(4, 5)][:at]
    before = records_of(tmp_path)
    progress = first.saved[-1] if first.saved else TrainProgress()
    second, policy = RecordingLearner(), TokenOracle()
    async with open_loop(tmp_path, train, policy, second, progress=progress) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert first.batches + second.batches == [names(0, 1), names(2, 3), names(4, 5)]
    assert policy.taken == [f"v{number}" for number in range(at, 4)]
    assert loop.progress.groups == 6
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    ended = [
        one.episode
        for one in after
        if isinstance(one.event, EpisodeEnded) and one.event.ending is not Ending.CANCELLED
    ]
    assert sorted(ended) == [f"e{number:06d}" for number in range(12)]


async def test_logged_groups_are_used_before_new_ones_run(tmp_path: Path) -> None:
    """When a run resumes from an earlier checkpoint, the groups that were trained after it are
    trained again from the log, with the versions that sampled them."""
    train, first = train_settings(), RecordingLearner()
    async with open_loop(tmp_path, train, TokenOracle(), first) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    before = [one for one in records_of(tmp_path) if one.episode != WEIGHTS_EPISODE]
    second, policy = RecordingLearner(), TokenOracle()
    progress = first.saved[0]
    async with open_loop(tmp_path, train, policy, second, progress=progress) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert second.batches == first.batches[1:]
    assert second.versions == first.versions[1:]
    assert policy.taken == ["v1", "v2", "v3"]
    assert [one for one in records_of(tmp_path) if one.episode != WEIGHTS_EPISODE] == before
    assert loop.progress.episodes == 12


@pytest.mark.parametrize("share", [0.35, 0.6, 0.85])
async def test_a_log_may_be_cut_off_anywhere(tmp_path: Path, share: float) -> None:
    """After a log was cut off at any record, members that had not ended run again, those without a
    verdict are judged, and the batches are the same."""
    train, first = train_settings(), RecordingLearner()
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    async with open_loop(whole, train, TokenOracle(), first) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    records = [one for one in records_of(whole) if one.episode != WEIGHTS_EPISODE]
    first_records = records[: round(share * len(records))]
    async with open_log(cut / "rollouts") as log:
        for record in first_records:
            log.append(record)
    second = RecordingLearner()
    opening = open_loop(cut, train, TokenOracle(), second, progress=first.saved[0])
    async with opening as (again, rollouts):
        await run_with_rollouts(again, rollouts)
    assert second.batches == first.batches[1:]
    assert (again.progress.groups, again.progress.episodes) == (6, 12)
    assert again.progress.last == loop.progress.last


async def test_a_resumed_run_may_have_fewer_steps(tmp_path: Path) -> None:
    """It ignores the logged groups beyond its last step."""
    first = RecordingLearner()
    async with open_loop(tmp_path, train_settings(), TokenOracle(), first) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    train, second = train_settings(steps=2), RecordingLearner()
    opening = open_loop(tmp_path, train, TokenOracle(), second, progress=first.saved[0])
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert second.batches == [names(2, 3)]
    assert loop.progress.batches == 2


async def test_without_time_for_one_batch_no_checkpoint_is_claimed(tmp_path: Path) -> None:
    """A run whose time is over before it has trained says so."""
    learner = RecordingLearner()
    async with open_loop(tmp_path, train_settings(), TokenOracle(), learner) as (loop, rollouts):
        loop._deadline = 0.0
        with pytest.raises(BaseExceptionGroup) as error:
            await run_with_rollouts(loop, rollouts)
    assert [str(one) for one in error.value.exceptions] == [
        "save.must_save_by: there is no time for another batch; none of 3 was trained, so there is"
        " no checkpoint"
    ]
    assert not learner.saved


async def test_when_the_time_is_over_a_batch_that_is_ready_is_not_taken(tmp_path: Path) -> None:
    """Where rollouts are faster than training, no batch is waited for."""

    class Ready:
        async def take(self, version: int) -> TakenBatch | None:
            return None

    opening = open_loop(tmp_path, train_settings(), TokenOracle(), RecordingLearner())
    async with opening as (loop, _):
        loop._source, loop._deadline = Ready(), 0.0
        with pytest.raises(TimeIsUpError):
            await loop.run()


async def test_a_cancelled_run_saves_its_progress(tmp_path: Path) -> None:
    """It waits for the current update, saves the last complete batch, and logs live episodes as
    cancelled."""
    train = train_settings(steps=9, save={"every": 100})
    started = threading.Event()
    finish = threading.Event()

    def work(batch: int) -> None:
        if batch == 2:
            started.set()
            assert finish.wait(20)

    learner, policy = RecordingLearner(work), TokenOracle()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await anyio.to_thread.run_sync(started.wait)
                scope.cancel()
                finish.set()

            tasks.start_soon(stop)
            async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
                await run_with_rollouts(loop, rollouts)
    assert scope.cancelled_caught
    assert [progress.batches for progress in learner.saved] == [len(learner.batches)]
    assert len(learner.batches) == 3
    with open_reader(tmp_path / "rollouts") as reader:
        assert all(row.ending is not None for row in reader.episodes())


async def test_a_batch_with_broken_numbers_is_not_saved(tmp_path: Path) -> None:
    """A batch that cannot be trained stops the rollouts, and the checkpoint before it stays the
    newest."""

    def broken(batch: int) -> None:
        if batch == 2:
            raise TrainingError("batch 3 cannot be trained: its loss is nan")

    learner = RecordingLearner(broken)
    with pytest.raises(ExceptionGroup) as caught:
        async with open_loop(tmp_path, train_settings(), TokenOracle(), learner) as (
            loop,
            rollouts,
        ):
            await run_with_rollouts(loop, rollouts)
    assert [str(one) for one in caught.value.exceptions] == [
        "batch 3 cannot be trained: its loss is nan"
    ]
    assert [progress.batches for progress in learner.saved] == [1, 2]


async def test_a_bug_in_a_policy_ends_training_after_a_save(tmp_path: Path) -> None:
    """If the rollouts fail, training ends, too, and what was trained is saved."""
    trained = anyio.Event()

    async def before(assignment: Assignment) -> None:
        if assignment.episode == "e000008":
            await trained.wait()
            raise ZeroDivisionError("a bug")

    def work(batch: int) -> None:
        if batch == 1:
            anyio.from_thread.run_sync(trained.set)

    learner = RecordingLearner(work)
    train = train_settings(save={"every": 100})
    policy = TokenOracle(before=before)
    with pytest.raises(ExceptionGroup) as caught:
        async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    assert caught.group_contains(ZeroDivisionError)
    assert [progress.batches for progress in learner.saved] == [len(learner.batches)] == [2]


async def test_a_dead_model_server_does_not_use_up_the_run(tmp_path: Path) -> None:
    """A batch in which the model never answered ends the run with an error. The run can be resumed
    with the next batch, and a batch that lost only some groups is trained on the others."""
    down = True

    async def before(assignment: Assignment) -> None:
        if down or assignment.episode == "e000006":
            raise PolicyError("the model server cannot be reached")

    train, learner = train_settings(loop={"staleness": 0}), RecordingLearner()
    with pytest.raises(ExceptionGroup) as caught:
        async with open_loop(tmp_path, train, TokenOracle(before=before), learner) as (
            loop,
            rollouts,
        ):
            await run_with_rollouts(loop, rollouts)
    assert [str(one) for one in caught.value.exceptions] == [
        "batch 1: none of its groups can be used (incomplete 2): episodes of these groups were"
        " cancelled, or their model could not be reached: see `rehearse show` of the rollouts;"
        " --resume continues with the next batch and the same weights (to return to older weights,"
        " remove the newest checkpoints)"
    ]
    [progress] = learner.saved
    assert learner.keep_all == [True]
    down = False
    opening = open_loop(tmp_path, train, TokenOracle(before=before), learner, progress=progress)
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert learner.batches == [names(2), names(4, 5)]
    assert loop.progress.dropped == {"incomplete": 3}


async def test_unusable_episodes_do_not_use_up_the_run(tmp_path: Path) -> None:
    """A batch whose groups have fewer than two usable episodes ends the run, too: here no prompt
    fits into the model's context."""

    async def before(assignment: Assignment) -> None:
        raise ContextLengthError("the prompt has more tokens than the model takes")

    learner = RecordingLearner()
    with pytest.raises(ExceptionGroup) as caught:
        async with open_loop(tmp_path, train_settings(), TokenOracle(before=before), learner) as (
            loop,
            rollouts,
        ):
            await run_with_rollouts(loop, rollouts)
    [failure] = caught.value.exceptions
    assert str(failure).startswith("batch 1: none of its groups can be used (incomplete 2): ")


@pytest.mark.parametrize("staleness", [0, 1])
async def test_a_dead_model_server_does_not_use_up_the_groups_of_fill(
    tmp_path: Path, staleness: int
) -> None:
    """With `fill` failed groups are replaced one by one. If as many as a batch has fail in a row,
    the run ends with most of its plan left, however long an update takes."""
    started, failing = anyio.Event(), anyio.Event()

    async def before(assignment: Assignment) -> None:
        if assignment.episode >= "e000004":
            await started.wait()
            failing.set()
            raise PolicyError("the model server cannot be reached")

    def work(batch: int) -> None:
        anyio.from_thread.run_sync(started.set)
        if staleness:  # the next batch's episodes fail during this one's update
            anyio.from_thread.run(failing.wait)
            anyio.from_thread.run(anyio.wait_all_tasks_blocked)

    train = train_settings(steps=4, data={"fill": True}, loop={"staleness": staleness})
    learner, policy = RecordingLearner(work), TokenOracle(before=before, is_good=good_in(*range(9)))
    with pytest.raises(ExceptionGroup) as caught:
        async with open_loop(tmp_path, train, policy, learner, episodes=80) as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    [failure] = caught.value.exceptions
    assert str(failure).startswith("batch 2: none of its groups can be used (incomplete 2): ")
    with open_reader(tmp_path / "rollouts") as reader:
        assert len({row.group for row in reader.episodes()}) <= 8


async def test_groups_with_failed_members(tmp_path: Path) -> None:
    """A group is used without the members whose world failed, if two are left; a group with a
    member whose model failed is dropped."""
    worlds, models = {"e000001", "e000006", "e000008"}, {"e000005"}

    async def before(assignment: Assignment) -> None:
        if assignment.episode in worlds:
            raise WorldError("its process is gone")
        if assignment.episode in models:
            raise PolicyError("the model server cannot be reached")

    train, learner = train_settings(steps=2), RecordingLearner()
    policy = TokenOracle(before=before)
    opening = open_loop(tmp_path, train, policy, learner, group_size=3)
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert learner.batches == [names(0), names(3)]
    progress = loop.progress
    assert (progress.groups, progress.episodes) == (2, 5)
    assert progress.dropped == {"few": 1, "incomplete": 1}


async def test_when_evaluations_run(tmp_path: Path) -> None:
    """The policies' current weights are evaluated before the first batch, every `evaluate_every`
    batches, and after the last one."""
    policy = TokenOracle()
    evaluated: list[tuple[int, str]] = []

    async def evaluate(batch: int) -> ProgressValues:
        evaluated.append((batch, policy.version))
        return {"pass_rate": batch / 10}

    train = train_settings(steps=5, loop={"evaluate_every": 2})
    learner, metrics = RecordingLearner(), RecordedMetrics()
    opening = open_loop(tmp_path, train, policy, learner, metrics=metrics, evaluate=evaluate)
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert evaluated == [(0, "v0"), (2, "v2"), (4, "v4"), (5, "v5")]
    assert loop.progress.evaluations == {batch: {"pass_rate": batch / 10} for batch in (0, 2, 4, 5)}
    assert report_of(loop.progress, published=tmp_path).best == 5
    assert metrics.steps[4]["evaluation/pass_rate"] == 0.4
    assert "evaluation/pass_rate" not in metrics.steps[3]


async def test_versions_may_be_published_less_often(tmp_path: Path) -> None:
    """With publish_every 2 the weights of every second batch and of the last one are published."""
    train = train_settings(
        steps=5, loop={"publish_every": 2, "staleness": 0}, save={"every": 2, "keep_published": 9}
    )
    learner, policy = RecordingLearner(), TokenOracle()
    async with open_loop(tmp_path, train, policy, learner) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert policy.taken == ["v0", "v1", "v2", "v3"]
    assert learner.versions == [("v0",), ("v0",), ("v1",), ("v1",), ("v2",)]
    opening = open_loop(tmp_path, train, policy, learner, progress=loop.progress)
    async with opening as (again, rollouts):
        await run_with_rollouts(again, rollouts)
    assert policy.taken[4:] == ["v3"]  # the run is finished: the policy loads the last version


async def test_the_weights_of_the_best_evaluation_are_kept(tmp_path: Path) -> None:
    """Beside the newest, also by a run that is resumed; of equal ones the first is the best."""
    rates = {0: 0.0, 2: 0.7, 4: 0.7, 6: 0.1, 7: 0.2}

    async def evaluate(batch: int) -> ProgressValues:
        return {"pass_rate": rates[batch], "reward": rates[batch]}

    def fail(batch: int) -> None:
        if batch == 4:
            raise TrainingError("the machine is gone")

    train = train_settings(steps=7, loop={"evaluate_every": 2})
    first = RecordingLearner(fail)
    opening = open_loop(tmp_path, train, TokenOracle(), first, evaluate=evaluate)
    with pytest.raises(BaseExceptionGroup):
        async with opening as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    opening = open_loop(
        tmp_path,
        train,
        TokenOracle(),
        RecordingLearner(),
        evaluate=evaluate,
        progress=first.saved[-1],
    )
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    kept = sorted(path.name for path in (tmp_path / "versions").iterdir())
    assert kept == ["best", "v6", "v7"]
    card = read_card(tmp_path / "versions" / "best")
    assert card is not None and (card.version, card.step) == ("v2", 2)
    report = report_of(loop.progress, published=tmp_path)
    assert report.best == 2
    assert "evaluation after 2 steps: pass_rate 0.700, reward 0.700 (the best" in "\n".join(
        lines_of(report)
    )


async def test_the_best_weights_outlive_their_number(tmp_path: Path) -> None:
    """A finished run that gets more steps publishes other weights under the number of its last
    version, which was the best."""
    rates = {0: 0.0, 4: 0.9, 8: 0.1}

    async def evaluate(batch: int) -> ProgressValues:
        return {"pass_rate": rates[batch], "reward": rates[batch]}

    learner = RecordingLearner()
    for steps in (4, 8):
        train = train_settings(
            steps=steps, loop={"publish_every": 3, "evaluate_every": 4}, save={"every": 1}
        )
        progress = learner.saved[-1] if learner.saved else None
        opening = open_loop(
            tmp_path, train, TokenOracle(), learner, evaluate=evaluate, progress=progress
        )
        async with opening as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    versions = tmp_path / "versions"
    best, second = read_card(versions / "best"), read_card(versions / "v2")
    assert best is not None and second is not None
    assert (best.version, best.step, second.step) == ("v2", 4, 6)


async def test_the_last_evaluation_is_of_the_last_weights(tmp_path: Path) -> None:
    """Also with a publish_every above 1, the last batch's weights are published before they are
    evaluated."""
    train = train_settings(
        steps=5, loop={"publish_every": 2, "evaluate_every": 2}, save={"every": 2}
    )
    learner, policy = RecordingLearner(), TokenOracle()
    evaluated: list[tuple[int, str]] = []

    async def evaluate(batch: int) -> ProgressValues:
        evaluated.append((batch, policy.version))
        return {"pass_rate": 0.5}

    opening = open_loop(tmp_path, train, policy, learner, evaluate=evaluate)
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert evaluated == [(0, "v0"), (2, "v1"), (4, "v2"), (5, "v3")]


@pytest.mark.parametrize(("at", "every"), [(0, 1), (2, 1), (2, 2), (3, 1)])
async def test_a_run_cancelled_in_an_evaluation_resumes_there(
    tmp_path: Path, at: int, every: int
) -> None:
    """An interrupted evaluation runs when the run is resumed, also after the last batch, and the
    metrics of its batch are reported with it."""
    policy, learner, metrics = TokenOracle(), RecordingLearner(), RecordedMetrics()
    evaluated: list[tuple[int, str]] = []
    train = train_settings(loop={"evaluate_every": every, "publish_every": every})
    with anyio.CancelScope() as scope:

        async def evaluate(batch: int) -> ProgressValues:
            if batch == at and not scope.cancel_called:
                scope.cancel()
                await anyio.sleep_forever()
            evaluated.append((batch, policy.version))
            return {"pass_rate": batch / 10}

        opening = open_loop(tmp_path, train, policy, learner, metrics=metrics, evaluate=evaluate)
        async with opening as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
    assert sorted(metrics.steps) == list(range(at))
    progress = learner.saved[-1] if learner.saved else None
    opening = open_loop(
        tmp_path, train, policy, learner, metrics=metrics, evaluate=evaluate, progress=progress
    )
    async with opening as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    due = {0, 3} | set(range(0, 4, every))
    assert evaluated == [(batch, f"v{-(-batch // every)}") for batch in sorted(due)]
    assert loop.progress.evaluations == {batch: {"pass_rate": batch / 10} for batch in due}
    assert sorted(metrics.steps) == [0, 1, 2, 3]
    assert [metrics.steps[batch]["groups"] for batch in (1, 2, 3)] == [2, 2, 2]
    assert metrics.steps[at]["evaluation/pass_rate"] == at / 10
    last = learner.saved[-1]
    assert (last.batches, last.evaluations, last.unreported) == (3, loop.progress.evaluations, {})
    assert len(learner.batches) == 3


async def test_a_finished_run_has_nothing_to_resume(tmp_path: Path) -> None:
    """Resuming a finished run trains nothing, runs no episode and writes nothing."""
    train, first = train_settings(), RecordingLearner()
    async with open_loop(tmp_path, train, TokenOracle(), first) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    second = RecordingLearner()
    opening = open_loop(tmp_path, train, TokenOracle(), second, progress=loop.progress)
    async with opening as (again, rollouts):
        await run_with_rollouts(again, rollouts)
    assert (second.batches, second.saved) == ([], [])
    assert again.progress == loop.progress


def test_the_recording_learner_accepts_groups() -> None:
    """It takes the same type as the real learner."""
    assert RecordingLearner().step([Group("g", "s", "t", ())]).num_trained == 10
