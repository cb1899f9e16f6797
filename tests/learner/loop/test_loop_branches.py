"""The loop with groups that branch: real rollouts in a real log, and a learner that records."""

from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import EpisodeStarted
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.loop.progress_state import TrainProgress
from rehearsal_room.learner.loop.run import run_with_rollouts
from tests.support.fake_learner import (
    RecordedMetrics,
    RecordingLearner,
    TokenOracle,
    open_loop,
    train_settings,
)

TREE = {"advantage": "tree"}
BRANCHES = {"group_size": 4, "branch_roots": 2, "branch_width": 2}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Keeping(RecordingLearner):
    """Keeps the groups as well."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[Group] = []

    def step(self, groups: Any, also: Any = None) -> Any:
        self.groups += groups
        return super().step(groups)


@pytest.mark.anyio
@pytest.mark.parametrize("staleness", [0, 1])
async def test_branches_are_trained_with_their_group(tmp_path: Path, staleness: int) -> None:
    """In the plan's order, whatever waits for whom; a branch has the turns after its source's."""
    train = train_settings(loss=TREE, loop={"staleness": staleness})
    learner, metrics = Keeping(), RecordedMetrics()
    policy = TokenOracle(is_good=lambda assignment: assignment.member in (0, 2))
    opened = open_loop(tmp_path, train, policy, learner, metrics=metrics, **BRANCHES)
    async with opened as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert [len(names) for names in learner.batches] == [2, 2, 2]
    for group in learner.groups:
        first, other, *branches = group.rollouts
        assert [(one.branching, one.reward) for one in (first, other)] == [(None, 1.0), (None, 0.0)]
        assert len(branches) == 2
        for one in branches:
            assert one.branching is not None and one.branching.episode == first.episode
            assert one.samples[0].turn == one.branching.turn > 0
    assert metrics.steps[3]["groups"] == 2


@pytest.mark.anyio
async def test_refused_branches_count_in_no_rate(tmp_path: Path) -> None:
    """They took no turn: live, and when the log is read again."""
    train = train_settings(loss=TREE, steps=1)
    settings = {**BRANCHES, "branch_tokens": 1}
    learner, metrics = Keeping(), RecordedMetrics()
    async with open_loop(tmp_path, train, TokenOracle(), learner, metrics=metrics, **settings) as (
        loop,
        rollouts,
    ):
        await run_with_rollouts(loop, rollouts)
    assert [len(group.rollouts) for group in learner.groups] == [2, 2]
    assert metrics.steps[1]["pass_rate"] == metrics.steps[1]["reward"] == 0.5
    again, found = Keeping(), RecordedMetrics()
    async with open_loop(
        *(tmp_path, train, TokenOracle(), again),
        progress=TrainProgress(),
        metrics=found,
        **settings,
    ) as (loop, rollouts):
        await run_with_rollouts(loop, rollouts)
    assert found.steps[1]["pass_rate"] == 0.5
    with open_reader(tmp_path / "rollouts") as reader:
        started = [
            record.event
            for _, record in reader.records_after(0, 10_000)
            if isinstance(record.event, EpisodeStarted)
        ]
    assert len(started) == 8  # the second loop played nothing again


@pytest.mark.anyio
async def test_refused_branches_make_no_task_mixed(tmp_path: Path) -> None:
    """A task whose played episodes all complete is solved, live and when the log is read again: a
    resumed run skips the turns that the undisturbed one skips."""
    data = {"groups": 1, "keep_equal": True, "fill": True, "revisit_solved": 2}
    train = train_settings(loss=TREE, steps=1, data=data)
    found: list[Any] = []
    for _ in range(2):
        metrics = RecordedMetrics()
        opened = open_loop(
            *(tmp_path, train, TokenOracle(is_good=lambda assignment: True), Keeping()),
            metrics=metrics,
            progress=TrainProgress(),
            **BRANCHES,
            branch_tokens=1,
        )
        async with opened as (loop, rollouts):
            await run_with_rollouts(loop, rollouts)
        found.append({name: metrics.steps[1][f"tasks/{name}"] for name in ("solved", "mixed")})
    assert found == [{"solved": 1, "mixed": 0}] * 2
