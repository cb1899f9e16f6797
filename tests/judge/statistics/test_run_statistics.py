"""The statistics of a run's report, against known values."""

import re
import time
from random import Random

import pytest

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.run_statistics import statistics_lines
from rehearsal_room.judge.statistics.run_statistics import (
    pass_at,
    pass_hat,
    statistics_of,
    variance_split,
)


def row(
    task: str, label: Label | None, *, tags: tuple[str, ...] = (), share: float | None = None
) -> EpisodeRow:
    return EpisodeRow(
        episode="e",
        attempt=1,
        scenario="w",
        task=task,
        group="g",
        member=0,
        policy="p",
        scenario_digest="d",
        started_at=0.0,
        num_steps=2,
        ending=Ending.ANSWERED,
        label=label,
        judge="code",
        tags=tags,
        share=share,
    )


def test_pass_at_and_pass_hat() -> None:
    """Two successes of four tries: 5 of the 6 pairs have one, 1 of them has two."""
    assert pass_at(2, 4, 2) == pytest.approx(5 / 6)
    assert pass_hat(2, 4, 2) == pytest.approx(1 / 6)
    assert (pass_at(0, 4, 4), pass_hat(4, 4, 4)) == (0.0, 1.0)


def test_episodes_without_a_score_stay_out() -> None:
    """They are counted, and the bounds hold whatever they had been."""
    rows = [
        row("a", Label.COMPLETED, tags=("hard",)),
        row("a", Label.AGENT_ERROR, tags=("hard",)),
        row("b", Label.COMPLETED, tags=("simple",)),
        row("b", Label.ENVIRONMENT_ERROR),
        row("b", None),
    ]
    found = statistics_of(rows)
    assert found.completed is not None and found.completed.value == pytest.approx(2 / 3)
    assert (found.without_score, found.bounds) == (2, (0.4, 0.8))
    assert list(found.tags) == ["simple", "hard"]
    assert found.tags["hard"].completed.value == 0.5
    assert statistics_of([row("a", None)]).completed is None
    assert statistics_of([]).completed is None


def test_tags_have_the_shares_of_their_tasks() -> None:
    """A tag whose tasks have shares shows their mean, in which a task that is all or nothing counts
    1 or 0, and an episode without a verdict nothing; other tags show none."""
    rows = [
        row("a", Label.PARTIALLY_COMPLETED, tags=("hard", "mail"), share=0.25),
        row("a", Label.COMPLETED, tags=("hard", "mail"), share=1.0),
        row("b", Label.COMPLETED, tags=("mail", "simple")),
        row("c", None, tags=("mail",), share=0.5),
        row("d", Label.ENVIRONMENT_ERROR, tags=("simple",), share=0.5),
    ]
    found = statistics_of(rows)
    shares = {tag: one.share and one.share.value for tag, one in found.tags.items()}
    assert shares == {"simple": None, "hard": 0.625, "mail": pytest.approx(0.75)}
    assert found.share is not None and found.share.value == pytest.approx(0.75)
    line = next(line for line in statistics_lines(found) if "mail" in line)
    assert re.fullmatch(
        r"simple 100\.0% \(.*\); hard 50\.0% \(.*\), share 62\.5% \(.*\); "
        r"mail 66\.7% \(.*\), share 75\.0% \(.*\)",
        line,
    )


@pytest.mark.parametrize(("of_world", "of_task"), [(0.0, 0.0), (0.0, 0.2), (0.2, 0.0), (0.15, 0.2)])
def test_the_split_of_the_variance(of_world: float, of_task: float) -> None:
    """The components are those that the scores were drawn with, also with unequal numbers."""
    rng = Random(7)
    tries: dict[tuple[str, str], list[float]] = {}
    for world in range(400):
        base = 0.5 + rng.choice((-of_world, of_world))
        for task in range(rng.choice((4, 6))):
            share = base + rng.choice((-of_task, of_task))
            count = rng.choice((3, 5))
            tries[str(world), str(task)] = [float(rng.random() < share) for _ in range(count)]
    found = variance_split(tries)
    assert found is not None
    assert found.world == pytest.approx(of_world**2 / 0.25, abs=0.03)
    assert found.task == pytest.approx(of_task**2 / 0.25, abs=0.03)
    assert found.world + found.task + found.rollout == pytest.approx(1)


def test_many_tries_at_few_tasks_are_counted_once() -> None:
    """The time is linear in the tries: 30,000 at three tasks take a fraction of a second of CPU
    (several, when each try asks for the mean of its task again)."""
    labels = (Label.COMPLETED, Label.COMPLETED, Label.AGENT_ERROR)
    rows = [row(task, label) for task in "abc" for label in labels for _ in range(3_333)]
    began = time.process_time()
    found = statistics_of(rows)

    assert time.process_time() - began < 2
    assert found.variance is not None
    assert (found.variance.task, found.variance.rollout) == (0.0, 1.0)


def test_a_variance_that_cannot_be_split() -> None:
    """One try at each task, one task, or no difference at all."""
    assert variance_split({("w", "a"): [1.0], ("w", "b"): [0.0]}) is None
    assert variance_split({("w", "a"): [1.0, 0.0]}) is None
    assert variance_split({("w", "a"): [1.0, 1.0], ("w", "b"): [1.0, 1.0]}) is None


def test_the_order_of_episodes_does_not_matter() -> None:
    """Processes finish in any order, and their reports are equal to the last digit."""
    rng = Random(11)
    labels = (Label.COMPLETED, Label.AGENT_ERROR)
    rows = [row(f"t{index % 37}", rng.choice(labels), tags=("hard",)) for index in range(37 * 7)]
    found = statistics_of(rows)
    for _ in range(20):
        rng.shuffle(rows)
        assert statistics_of(rows) == found
