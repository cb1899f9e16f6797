"""The loop: real rollouts in a real log beside a learner on paper."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from envpool.core.errors import WorldError
from harness.core.errors import ContextLengthError, PolicyError
from harness.core.events import (
    WEIGHTS_EPISODE,
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    WeightsPublished,
)
from harness.log.reader import open_reader
from harness.log.writer import open_log
from harness.policies.base import Assignment
from learner.core.errors import LearnerError, TrainingError
from learner.core.samples import Group
from learner.loop.progress_state import Place, Values
from learner.loop.run import beside
from tests.support.fake_learner import PaperLearner, TokenOracle, Told, opened, train_settings


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def records_of(folder: Path) -> list[Any]:
    with open_reader(folder / "rollouts") as reader:
        return [record for _, record in reader.records_after(0, 1_000_000)]


def names(*numbers: int) -> list[str]:
    return [f"g{number:06d}" for number in numbers]


async def test_a_whole_run(tmp_path: Path) -> None:
    """Batches take the plan's groups in order, each once; every batch's weights are published,
    taken, logged and saved; the folder keeps the last versions."""
    train, learner, policy, told = train_settings(), PaperLearner(), TokenOracle(), Told()
    async with opened(tmp_path, train, policy, learner, told=told) as (loop, rollouts):
        await beside(loop, rollouts)
    assert learner.batches == [names(0, 1), names(2, 3), names(4, 5)]
    assert policy.taken == ["v0", "v1", "v2", "v3"]
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["v2", "v3"]
    weights = [one for one in records_of(tmp_path) if isinstance(one.event, WeightsPublished)]
    assert [(one.episode, one.seq, one.event.version) for one in weights] == [
        (WEIGHTS_EPISODE, number, f"v{number}") for number in range(4)
    ]
    place = loop.place
    assert (place.batches, place.next_group, place.groups, place.episodes) == (3, 6, 6, 12)
    assert (place.num_trained, place.num_tokens, place.num_row_tokens) == (30, 150, 300)
    assert place.first == place.last == {"reward": 0.5, "pass_rate": 0.5}
    assert [one.batches for one in learner.places] == [1, 2, 3]
    assert learner.places[-1].next_group == 6
    assert sorted(told.figures) == [0, 1, 2, 3]
    assert {"reward": 0.5, "loss": 0.5, "entropy": 2.0, "shared": 0.5}.items() <= (
        told.figures[2].items()
    )
    assert threading.get_ident() not in learner.threads


@pytest.mark.parametrize("staleness", [0, 1, 2])
async def test_the_weights_are_as_new_as_the_bound_says(tmp_path: Path, staleness: int) -> None:
    """A batch is sampled by weights at most `staleness` versions behind those that are trained; at
    0 by exactly these."""
    train = train_settings(steps=5, loop={"staleness": staleness})
    learner, policy = PaperLearner(), TokenOracle()
    async with opened(tmp_path, train, policy, learner) as (loop, rollouts):
        await beside(loop, rollouts)
    lags = [
        batch - int(version.removeprefix("v"))
        for batch, versions in enumerate(learner.versions)
        for version in versions
    ]
    assert min(lags) >= 0 and max(lags) <= staleness
    if staleness == 0:
        assert learner.versions == [(f"v{batch}",) for batch in range(5)]


async def test_rollouts_go_on_while_the_learner_works(tmp_path: Path) -> None:
    """The next batch's episodes are played during an update: it returns only when they have."""
    both = threading.Event()
    live = 0

    async def before(assignment: Assignment) -> None:
        nonlocal live
        if assignment.episode >= "e000004":
            both.set()

    def wait(batch: int) -> None:
        assert both.wait(20)

    train, learner = train_settings(steps=2), PaperLearner(wait)
    policy = TokenOracle(before=before)
    async with opened(tmp_path, train, policy, learner) as (loop, rollouts):
        await beside(loop, rollouts)
    assert len(learner.batches) == 2


async def test_slow_groups_are_neither_dropped_nor_late(tmp_path: Path) -> None:
    """A batch waits for its own groups, however quick later ones are."""
    others = anyio.Event()
    num = 0

    async def before(assignment: Assignment) -> None:
        nonlocal num
        if assignment.episode == "e000000":
            await others.wait()
        num += 1
        if num == 6:
            others.set()

    train, learner = train_settings(steps=2), PaperLearner()
    policy = TokenOracle(is_good=lambda one: False, before=before)
    train = train_settings(steps=2, data={"keep_equal": True})
    async with opened(tmp_path, train, policy, learner) as (loop, rollouts):
        await beside(loop, rollouts)
    assert learner.batches == [names(0, 1), names(2, 3)]


def good_in(*numbers: int) -> Any:
    """In these groups the first member does the task, in the others none does."""
    episodes = {f"e{2 * number:06d}" for number in numbers}
    return lambda assignment: assignment.episode in episodes


async def test_a_batch_takes_what_is_left_of_its_groups(tmp_path: Path) -> None:
    """Without `fill` a batch is smaller by the groups that were set aside, and one without any is
    passed over without an update; all are counted."""
    train, learner, told = train_settings(), PaperLearner(), Told()
    policy = TokenOracle(is_good=good_in(0, 1, 5))
    async with opened(tmp_path, train, policy, learner, told=told) as (loop, rollouts):
        await beside(loop, rollouts)
    assert learner.batches == [names(0, 1), names(5)]
    place = loop.place
    assert (place.batches, place.groups, place.set_aside) == (3, 3, {"equal": 3})
    assert told.figures[2]["groups"] == 0 and told.figures[2]["reward"] == 0.0
    assert place.last == {"reward": 0.25, "pass_rate": 0.25}  # of equal groups, too


async def test_fill_runs_more_groups_until_a_batch_is_full(tmp_path: Path) -> None:
    """With `fill` the next groups take the place of those that were set aside, within the bound,
    and no more are run than are needed."""
    train = train_settings(steps=2, data={"fill": True}, loop={"staleness": 0})
    learner, policy = PaperLearner(), TokenOracle(is_good=good_in(0, 3, 4, 6))
    made = opened(tmp_path, train, policy, learner, episodes=40)
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    assert learner.batches == [names(0, 3), names(4, 6)]
    assert learner.versions == [("v0",), ("v1",)]
    assert loop.place.set_aside == {"equal": 3}
    begun = [one for one in records_of(tmp_path) if isinstance(one.event, EpisodeStarted)]
    assert {one.event.group for one in begun} == set(names(*range(7)))


async def test_fill_ends_when_there_are_no_more(tmp_path: Path) -> None:
    """When the plan's groups are over before a batch is full, the run says so and why, and keeps
    what was trained, whenever checkpoints are due."""
    train = train_settings(steps=2, data={"fill": True}, save={"every": 100})
    learner, policy = PaperLearner(), TokenOracle(is_good=good_in(0, 1, 2))
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(tmp_path, train, policy, learner, episodes=12) as (loop, rollouts):
            await beside(loop, rollouts)
    [failure] = caught.value.exceptions
    assert isinstance(failure, LearnerError)
    assert str(failure) == (
        "the rollouts are over, and the batch that begins with group 2 has not 2 groups that can be"
        " used: 4 were looked at (set aside: equal 3)"
    )
    assert learner.batches == [names(0, 1)]
    assert [place.batches for place in learner.places] == [1]


@pytest.mark.parametrize("staleness", [0, 1, 2])
@pytest.mark.parametrize("at", [1, 2])
async def test_fill_goes_on_where_its_checkpoint_is(
    tmp_path: Path, at: int, staleness: int
) -> None:
    """Where more groups than batches take were run, a run that goes on waits for no weights that
    never come, and makes the same batches."""

    def stop(batch: int) -> None:
        if batch == at:
            raise Stop

    train = train_settings(steps=4, data={"fill": True}, loop={"staleness": staleness})
    policy = TokenOracle(is_good=good_in(2, 3, 5, 6, 7, 10, 11, 12))
    first, second = PaperLearner(stop), PaperLearner()
    with pytest.raises(ExceptionGroup):
        async with opened(tmp_path, train, policy, first, episodes=80) as (loop, rollouts):
            await beside(loop, rollouts)
    made = opened(tmp_path, train, policy, second, place=first.places[-1], episodes=80)
    with anyio.fail_after(20):
        async with made as (loop, rollouts):
            await beside(loop, rollouts)
    batches = [names(2, 3), names(5, 6), names(7, 10), names(11, 12)]
    assert (first.batches, second.batches) == (batches[:at], batches[at:])
    assert loop.place.set_aside == {"equal": 5}


class Stop(Exception):
    """What stops a learner in a test."""


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_run_goes_on_where_its_checkpoint_is(tmp_path: Path, at: int) -> None:
    """Stopped in any batch and started again, a run makes the batches that it would have made,
    trains no group twice and runs no finished episode again."""

    def stop(batch: int) -> None:
        if batch == at:
            raise Stop

    train = train_settings()
    first = PaperLearner(stop)
    with pytest.raises(ExceptionGroup):
        async with opened(tmp_path, train, TokenOracle(), first) as (loop, rollouts):
            await beside(loop, rollouts)
    assert first.batches == [names(0, 1), names(2, 3), names(4, 5)][:at]
    before = records_of(tmp_path)
    place = first.places[-1] if first.places else Place()
    second, policy = PaperLearner(), TokenOracle()
    async with opened(tmp_path, train, policy, second, place=place) as (loop, rollouts):
        await beside(loop, rollouts)
    assert first.batches + second.batches == [names(0, 1), names(2, 3), names(4, 5)]
    assert policy.taken == [f"v{number}" for number in range(at, 4)]
    assert loop.place.groups == 6
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    ended = [
        one.episode
        for one in after
        if isinstance(one.event, EpisodeEnded) and one.event.ending is not Ending.CANCELLED
    ]
    assert sorted(ended) == [f"e{number:06d}" for number in range(12)]


async def test_groups_of_the_log_are_used_before_new_ones_are_run(tmp_path: Path) -> None:
    """Going on from an earlier checkpoint, the groups that were trained after it are trained again
    out of the log, with the weights that sampled them."""
    train, first = train_settings(), PaperLearner()
    async with opened(tmp_path, train, TokenOracle(), first) as (loop, rollouts):
        await beside(loop, rollouts)
    before = [one for one in records_of(tmp_path) if one.episode != WEIGHTS_EPISODE]
    second, policy = PaperLearner(), TokenOracle()
    place = first.places[0]
    async with opened(tmp_path, train, policy, second, place=place) as (loop, rollouts):
        await beside(loop, rollouts)
    assert second.batches == first.batches[1:]
    assert second.versions == first.versions[1:]
    assert policy.taken == ["v1", "v2", "v3"]
    assert [one for one in records_of(tmp_path) if one.episode != WEIGHTS_EPISODE] == before
    assert loop.place.episodes == 12


@pytest.mark.parametrize("share", [0.35, 0.6, 0.85])
async def test_a_log_that_was_cut_off_anywhere(tmp_path: Path, share: float) -> None:
    """From wherever the log was cut off, members that had not ended are run again, those without a
    verdict are judged, and the batches are the same."""
    train, first = train_settings(), PaperLearner()
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    async with opened(whole, train, TokenOracle(), first) as (loop, rollouts):
        await beside(loop, rollouts)
    records = [one for one in records_of(whole) if one.episode != WEIGHTS_EPISODE]
    kept = records[: round(share * len(records))]
    async with open_log(cut / "rollouts") as log:
        for record in kept:
            log.append(record)
    second = PaperLearner()
    made = opened(cut, train, TokenOracle(), second, place=first.places[0])
    async with made as (again, rollouts):
        await beside(again, rollouts)
    assert second.batches == first.batches[1:]
    assert (again.place.groups, again.place.episodes) == (6, 12)
    assert again.place.last == loop.place.last


async def test_a_run_may_be_made_shorter(tmp_path: Path) -> None:
    """Going on with fewer steps than were planned leaves what the log has beyond them alone."""
    first = PaperLearner()
    async with opened(tmp_path, train_settings(), TokenOracle(), first) as (loop, rollouts):
        await beside(loop, rollouts)
    train, second = train_settings(steps=2), PaperLearner()
    made = opened(tmp_path, train, TokenOracle(), second, place=first.places[0])
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    assert second.batches == [names(2, 3)]
    assert loop.place.batches == 2


async def test_cancelled_it_saves_where_it_is(tmp_path: Path) -> None:
    """A run that is cancelled waits for the update at work, saves the last whole batch, and logs
    what was live as cancelled."""
    train = train_settings(steps=9, save={"every": 100})
    begun = threading.Event()
    finish = threading.Event()

    def work(batch: int) -> None:
        if batch == 2:
            begun.set()
            assert finish.wait(20)

    learner, policy = PaperLearner(work), TokenOracle()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await anyio.to_thread.run_sync(begun.wait)
                scope.cancel()
                finish.set()

            tasks.start_soon(stop)
            async with opened(tmp_path, train, policy, learner) as (loop, rollouts):
                await beside(loop, rollouts)
    assert scope.cancelled_caught
    assert [place.batches for place in learner.places] == [len(learner.batches)]
    assert len(learner.batches) == 3
    with open_reader(tmp_path / "rollouts") as reader:
        assert all(row.ending is not None for row in reader.episodes())


async def test_broken_numbers_are_not_saved(tmp_path: Path) -> None:
    """A batch that cannot be trained stops the rollouts, and the checkpoint before it stays the
    last."""

    def broken(batch: int) -> None:
        if batch == 2:
            raise TrainingError("batch 3 cannot be trained: its loss is nan")

    learner = PaperLearner(broken)
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(tmp_path, train_settings(), TokenOracle(), learner) as (loop, rollouts):
            await beside(loop, rollouts)
    assert [str(one) for one in caught.value.exceptions] == [
        "batch 3 cannot be trained: its loss is nan"
    ]
    assert [place.batches for place in learner.places] == [1, 2]


async def test_a_bug_in_a_policy_stops_the_learner_which_saves(tmp_path: Path) -> None:
    """When the rollouts fail, learning ends with them, and what was trained is saved."""
    trained = anyio.Event()

    async def before(assignment: Assignment) -> None:
        if assignment.episode == "e000008":
            await trained.wait()
            raise ZeroDivisionError("a bug")

    def work(batch: int) -> None:
        if batch == 1:
            anyio.from_thread.run_sync(trained.set)

    learner = PaperLearner(work)
    train = train_settings(save={"every": 100})
    policy = TokenOracle(before=before)
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(tmp_path, train, policy, learner) as (loop, rollouts):
            await beside(loop, rollouts)
    assert caught.group_contains(ZeroDivisionError)
    assert [place.batches for place in learner.places] == [len(learner.batches)] == [2]


async def test_a_dead_model_server_does_not_use_up_the_run(tmp_path: Path) -> None:
    """A batch in which no episode got an answer ends the run with a sentence; it goes on behind it,
    and a batch that lost only some of its groups is trained on the others."""
    down = True

    async def before(assignment: Assignment) -> None:
        if down or assignment.episode == "e000006":
            raise PolicyError("the model server cannot be reached")

    train, learner = train_settings(loop={"staleness": 0}), PaperLearner()
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(tmp_path, train, TokenOracle(before=before), learner) as (loop, rollouts):
            await beside(loop, rollouts)
    assert [str(one) for one in caught.value.exceptions] == [
        "batch 1: none of its groups can be used (incomplete 2): `rehearse show` of the rollouts"
        " says why; --resume goes on behind it, with the same weights (to go back to older ones,"
        " remove the newest checkpoints)"
    ]
    [place] = learner.places
    assert learner.kept_all == [True]
    down = False
    made = opened(tmp_path, train, TokenOracle(before=before), learner, place=place)
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    assert learner.batches == [names(2), names(4, 5)]
    assert loop.place.set_aside == {"incomplete": 3}


async def test_worlds_that_leave_nothing_do_not_use_up_the_run(tmp_path: Path) -> None:
    """A batch of groups of which fewer than two episodes are left ends the run, too."""

    async def before(assignment: Assignment) -> None:
        raise ContextLengthError("the prompt has more tokens than the model takes")

    learner = PaperLearner()
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(tmp_path, train_settings(), TokenOracle(before=before), learner) as (
            loop,
            rollouts,
        ):
            await beside(loop, rollouts)
    [failure] = caught.value.exceptions
    assert str(failure).startswith("batch 1: none of its groups can be used (few 2): ")


@pytest.mark.parametrize("staleness", [0, 1])
async def test_a_dead_model_server_does_not_use_up_what_fill_may_run(
    tmp_path: Path, staleness: int
) -> None:
    """With `fill` failed groups are replaced one by one: where a batch's worth of them fails in a
    row the run ends, however long an update takes, with most of its plan left."""
    begun, failing = anyio.Event(), anyio.Event()

    async def before(assignment: Assignment) -> None:
        if assignment.episode >= "e000004":
            await begun.wait()
            failing.set()
            raise PolicyError("the model server cannot be reached")

    def work(batch: int) -> None:
        anyio.from_thread.run_sync(begun.set)
        if staleness:  # the next batch's episodes fail during this one's update
            anyio.from_thread.run(failing.wait)
            anyio.from_thread.run(anyio.wait_all_tasks_blocked)

    train = train_settings(steps=4, data={"fill": True}, loop={"staleness": staleness})
    learner, policy = PaperLearner(work), TokenOracle(before=before, is_good=good_in(*range(9)))
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(tmp_path, train, policy, learner, episodes=80) as (loop, rollouts):
            await beside(loop, rollouts)
    [failure] = caught.value.exceptions
    assert str(failure).startswith("batch 2: none of its groups can be used (incomplete 2): ")
    with open_reader(tmp_path / "rollouts") as reader:
        assert len({row.group for row in reader.episodes()}) <= 8


async def test_members_that_failed(tmp_path: Path) -> None:
    """A group goes on without members whose world failed, if two are left; one whose model failed
    a member is not compared at all."""
    worlds, models = {"e000001", "e000006", "e000008"}, {"e000005"}

    async def before(assignment: Assignment) -> None:
        if assignment.episode in worlds:
            raise WorldError("its process is gone")
        if assignment.episode in models:
            raise PolicyError("the model server cannot be reached")

    train, learner = train_settings(steps=2), PaperLearner()
    policy = TokenOracle(before=before)
    made = opened(tmp_path, train, policy, learner, group_size=3)
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    assert learner.batches == [names(0), names(3)]
    place = loop.place
    assert (place.groups, place.episodes) == (2, 5)
    assert place.set_aside == {"few": 1, "incomplete": 1}


async def test_evaluations_come_when_they_are_due(tmp_path: Path) -> None:
    """Before the first batch, every so many batches and after the last one the weights are
    evaluated, each time those that the policies have."""
    policy = TokenOracle()
    evaluated: list[tuple[int, str]] = []

    async def evaluate(batch: int) -> Values:
        evaluated.append((batch, policy.version))
        return {"pass_rate": batch / 10}

    train = train_settings(steps=5, loop={"evaluate_every": 2})
    learner, told = PaperLearner(), Told()
    made = opened(tmp_path, train, policy, learner, told=told, evaluate=evaluate)
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    assert evaluated == [(0, "v0"), (2, "v2"), (4, "v4"), (5, "v5")]
    assert loop.place.evaluations == {batch: {"pass_rate": batch / 10} for batch in (0, 2, 4, 5)}
    assert told.figures[4]["evaluation/pass_rate"] == 0.4
    assert "evaluation/pass_rate" not in told.figures[3]


async def test_versions_may_be_rarer_than_batches(tmp_path: Path) -> None:
    """With publish_every 2 every second batch's weights are published, and those of the last."""
    train = train_settings(
        steps=5, loop={"publish_every": 2, "staleness": 0}, save={"every": 2, "keep_published": 9}
    )
    learner, policy = PaperLearner(), TokenOracle()
    async with opened(tmp_path, train, policy, learner) as (loop, rollouts):
        await beside(loop, rollouts)
    assert policy.taken == ["v0", "v1", "v2", "v3"]
    assert learner.versions == [("v0",), ("v0",), ("v1",), ("v1",), ("v2",)]
    made = opened(tmp_path, train, policy, learner, place=loop.place)
    async with made as (again, rollouts):
        await beside(again, rollouts)
    assert policy.taken[4:] == ["v3"]  # it is finished: the last version is the one to have


async def test_the_last_evaluation_is_of_the_last_weights(tmp_path: Path) -> None:
    """Also where versions are rarer than batches, the last batch's weights are published before
    they are evaluated."""
    train = train_settings(
        steps=5, loop={"publish_every": 2, "evaluate_every": 2}, save={"every": 2}
    )
    learner, policy = PaperLearner(), TokenOracle()
    evaluated: list[tuple[int, str]] = []

    async def evaluate(batch: int) -> Values:
        evaluated.append((batch, policy.version))
        return {"pass_rate": 0.5}

    made = opened(tmp_path, train, policy, learner, evaluate=evaluate)
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    assert evaluated == [(0, "v0"), (2, "v1"), (4, "v2"), (5, "v3")]


@pytest.mark.parametrize(("at", "every"), [(0, 1), (2, 1), (2, 2), (3, 1)])
async def test_cancelled_in_an_evaluation_it_goes_on_there(
    tmp_path: Path, at: int, every: int
) -> None:
    """An evaluation that was cut short is made when the run goes on, also after the last batch, and
    the figures of its batch are told with it."""
    policy, learner, told = TokenOracle(), PaperLearner(), Told()
    evaluated: list[tuple[int, str]] = []
    train = train_settings(loop={"evaluate_every": every, "publish_every": every})
    with anyio.CancelScope() as scope:

        async def evaluate(batch: int) -> Values:
            if batch == at and not scope.cancel_called:
                scope.cancel()
                await anyio.sleep_forever()
            evaluated.append((batch, policy.version))
            return {"pass_rate": batch / 10}

        made = opened(tmp_path, train, policy, learner, told=told, evaluate=evaluate)
        async with made as (loop, rollouts):
            await beside(loop, rollouts)
    assert sorted(told.figures) == list(range(at))
    place = learner.places[-1] if learner.places else None
    made = opened(tmp_path, train, policy, learner, told=told, evaluate=evaluate, place=place)
    async with made as (loop, rollouts):
        await beside(loop, rollouts)
    due = {0, 3} | set(range(0, 4, every))
    assert evaluated == [(batch, f"v{-(-batch // every)}") for batch in sorted(due)]
    assert loop.place.evaluations == {batch: {"pass_rate": batch / 10} for batch in due}
    assert sorted(told.figures) == [0, 1, 2, 3]
    assert [told.figures[batch]["groups"] for batch in (1, 2, 3)] == [2, 2, 2]
    assert told.figures[at]["evaluation/pass_rate"] == at / 10
    last = learner.places[-1]
    assert (last.batches, last.evaluations, last.untold) == (3, loop.place.evaluations, {})
    assert len(learner.batches) == 3


async def test_a_finished_run_has_nothing_to_do(tmp_path: Path) -> None:
    """Going on with a run that is finished trains, plays and writes nothing."""
    train, first = train_settings(), PaperLearner()
    async with opened(tmp_path, train, TokenOracle(), first) as (loop, rollouts):
        await beside(loop, rollouts)
    second = PaperLearner()
    made = opened(tmp_path, train, TokenOracle(), second, place=loop.place)
    async with made as (again, rollouts):
        await beside(again, rollouts)
    assert (second.batches, second.places) == ([], [])
    assert again.place == loop.place


def test_groups_are_of_the_type_that_learners_take() -> None:
    """The learner on paper takes what the real one takes."""
    assert PaperLearner().step([Group("g", "s", "t", ())]).num_trained == 10
