"""Scores of runs on the same tasks, and the intervals of their differences."""

from pathlib import Path

import pytest

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.learner.demo.evaluate import (
    bootstrap,
    kind_of,
    outcomes,
    paired,
    score,
)
from tests.support.cli import Rehearse

YES, NO = [True], [False]


def test_a_score_has_shares_by_kind_and_pass_at_k() -> None:
    """Greedy tries are averaged by kind of task; for pass@k one completed sample of a task is
    enough."""
    greedy = {("w", "goals-1-a"): YES, ("w", "goals-1-b"): NO, ("w", "memory-a"): NO}
    sampled = {task: [False, task[1] != "memory-a", False] for task in greedy}
    found = score(greedy, sampled)
    assert found.tasks == 3
    assert found.by_kind == {"goals-1": 0.5, "memory": 0.0}
    assert found.greedy.value == pytest.approx(1 / 3)
    assert found.pass_at is not None
    assert (found.pass_at.value, found.tries) == (pytest.approx(2 / 3), 3)
    assert score(greedy).pass_at is None


@pytest.mark.slow
def test_a_bootstrap_interval_has_the_right_width() -> None:
    """With half of 400 tasks completed, it is about 1.96 standard errors wide on either side."""
    found = bootstrap([0.0, 1.0] * 200, seed=0)
    assert found.value == 0.5
    assert found.lower == pytest.approx(0.451, abs=0.004)
    assert found.upper == pytest.approx(0.549, abs=0.004)
    assert bootstrap([1.0, 1.0], seed=0) == Interval(1.0, 1.0, 1.0)


def test_a_paired_difference_has_a_narrow_interval() -> None:
    """Tasks that both runs complete, or neither, do not widen the interval."""
    before = {("w", f"goals-1-{n}"): YES if n % 2 else NO for n in range(200)}
    after = before | {("w", f"goals-1-{n}"): YES for n in range(0, 40, 2)}
    found = paired(before, after)
    assert found.value == pytest.approx(0.1)
    assert 0.05 < found.lower < found.value < found.upper < 0.15


def test_runs_of_different_tasks_are_not_compared() -> None:
    """Pairing needs the same tasks in both runs."""
    with pytest.raises(ValueError, match="different tasks"):
        paired({("w", "a-1"): YES}, {("w", "b-1"): YES})


def test_outcomes_are_read_from_a_run(rehearse: Rehearse, tmp_path: Path) -> None:
    """By scenario and task, with one try per episode."""
    run = tmp_path / "run"
    names = ["shop_support:gift-card-balance", "shop_support:new-email"]
    status, _, error = rehearse("run", *names, "-p", "noop", "-g", 2, "-o", run)
    assert status == 0, error
    assert outcomes(run) == {
        ("shop_support", "gift-card-balance"): [False, False],
        ("shop_support", "new-email"): [False, False],
    }


def test_the_kind_of_a_task() -> None:
    """It is the id without its last part, so that tasks of one kind are counted together."""
    assert (kind_of("goals-2-b"), kind_of("memory-a")) == ("goals-2", "memory")
