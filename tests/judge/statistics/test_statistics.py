"""Intervals, comparisons and plans, worked out by hand and by simulation."""

import math
import random

import pytest
from scipy import stats

from rehearsal_room.judge.statistics.comparison import compare, paired_t
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.judge.statistics.planning import noise_of, plan, power_of
from tests.judge.statistics.designs import (
    DESIGNS,
    HARD,
    OF_WORLDS,
    Design,
    WorldDesign,
    samples,
)


def outcome(task: str, seed: int, score: float | None) -> Outcome:
    return Outcome("w", task, seed, score)


def test_tries_that_are_all_alike_count_as_one() -> None:
    """Twenty tasks tried twice with equal ends say as much as twenty tries, not forty."""
    twice = share_interval({task: [float(task % 2)] * 2 for task in range(20)})
    once = share_interval({task: [float(task % 2)] for task in range(20)})
    assert twice is not None and once is not None
    assert (twice.value, once.value) == (0.5, 0.5)
    assert twice.upper - twice.lower == pytest.approx(once.upper - once.lower, rel=0.1)


def test_an_interval_of_single_tries_is_wilson_s() -> None:
    """8 of 10 tasks, each tried once: Wilson's interval with Student's t for nine degrees of
    freedom."""
    found = share_interval({task: [float(task < 8)] for task in range(10)})
    assert found is not None
    # t = 2.2622; effective tries = 0.16 / (0.16 / 9) = 9
    square = 2.2622**2 / 9
    middle = (0.8 + square / 2) / (1 + square)
    half = 2.2622 / (1 + square) * math.sqrt(0.16 / 9 + square / 9 / 4)
    assert (found.lower, found.upper) == pytest.approx((middle - half, middle + half), abs=1e-4)


def test_an_interval_of_tries_that_are_all_alike_is_jeffreys() -> None:
    """8 of 10 tasks solved in each of 50 tries: near Jeffreys' interval of ten tries, as SciPy's
    beta distribution has it."""
    found = share_interval({task: [float(task < 8)] * 50 for task in range(10)})
    assert found is not None
    expected = stats.beta.ppf((0.025, 0.975), 8.5, 2.5)
    assert (found.lower, found.upper) == pytest.approx(tuple(expected), abs=0.05)


def test_an_interval_of_partial_scores_is_wilson_s() -> None:
    """Ten tasks with a mean of 0.8 and Wilson's interval with Student's t for nine degrees of
    freedom."""
    scores = [0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    found = share_interval({task: [score] for task, score in enumerate(scores)})
    assert found is not None
    # t = 2.2622; variance of the mean = 0.6 / 10 / 9; effective tries = 0.16 / 0.00667, at most 10
    square = 2.2622**2 / 10
    middle = (0.8 + square / 2) / (1 + square)
    half = 2.2622 / (1 + square) * math.sqrt(0.16 / 10 + square / 10 / 4)
    assert (found.lower, found.upper) == pytest.approx((middle - half, middle + half), abs=1e-4)


def test_a_share_of_nothing_or_all_still_has_an_interval() -> None:
    """Where no task was solved the upper bound is above 0, and it falls with the number of tasks;
    without any try there is no interval."""
    few, many = (share_interval({task: [0.0] for task in range(n)}) for n in (10, 100))
    assert few is not None and many is not None
    assert (few.lower, many.lower) == (0.0, 0.0)
    assert 0 < many.upper < few.upper < 0.5
    assert share_interval({}) is None


@pytest.mark.parametrize(
    "design", [DESIGNS[2], DESIGNS[6], HARD[18], HARD[47], OF_WORLDS[3]], ids=str
)
def test_intervals_hold_what_they_promise(design: Design | WorldDesign) -> None:
    """About 95 of 100 intervals contain the true share, where tries resemble each other and tasks
    have different numbers of them (all designs: just statistics)."""
    found = [share_interval(sample) for sample in samples(design, 400)]
    held = sum(one is not None and one.lower <= design.share <= one.upper for one in found)
    assert 0.91 <= held / 400 <= 0.99


def test_tries_with_the_same_seed_are_paired() -> None:
    """Where both runs have a seed, the tries are compared one by one; elsewhere by the means."""
    first = [outcome("a", 1, 0.0), outcome("a", 2, 1.0), outcome("b", 1, 0.0), outcome("b", 2, 1.0)]
    second = [outcome("a", 1, 1.0), outcome("a", 3, 0.0), outcome("b", 8, 1.0)]
    found = compare(first, second)
    assert found is not None
    assert (found.tasks, found.paired, found.delta) == (2, 1, 0.75)
    assert (found.gained, found.lost) == (("w:a", "w:b"), ())


def test_a_clear_difference_and_none() -> None:
    """Fourteen of twenty tasks gained and none lost is a difference; three gained and two lost is
    not."""
    tasks = [f"t{number}" for number in range(20)]
    none = [outcome(task, 1, 0.0) for task in tasks]
    most = [outcome(task, 1, float(number < 14)) for number, task in enumerate(tasks)]
    found = compare(none, most)
    assert found is not None
    assert found.verdict == "B is better by 70.0 points"
    assert found.p < 1e-4
    back = compare(most, none)
    assert back is not None and back.verdict == "A is better by 70.0 points"
    some = [outcome(task, 1, float(number % 6 == 0)) for number, task in enumerate(tasks)]
    other = [outcome(task, 1, float(number % 5 == 0)) for number, task in enumerate(tasks)]
    level = compare(some, other)
    assert level is not None and level.verdict == "no difference is shown"


def test_equal_runs_are_not_proved_equal() -> None:
    """Without any differing task the interval is not a point: what was not seen may still be."""
    half, p = paired_t([0.0] * 10)
    assert half == pytest.approx(1 - 0.05**0.1)
    assert p == 1.0
    assert paired_t([1.0, 1.0, 1.0])[1] == 0.25


def test_episodes_without_a_score_stay_out_and_bound_the_difference() -> None:
    """A failed world is neither a success nor a failure; the bounds hold for both."""
    first = [outcome("a", 1, 1.0), outcome("b", 1, 0.0), outcome("b", 2, None)]
    second = [outcome("a", 1, 1.0), outcome("b", 1, 0.0), outcome("c", 1, 1.0)]
    found = compare(first, second)
    assert found is not None
    assert (found.delta, found.unjudged, found.left_out) == (0.0, 1, 1)
    assert found.bounds == (-0.25, 0.0)
    assert compare(first, [outcome("z", 1, 1.0)]) is None


def test_a_plan_has_the_power_that_it_promises() -> None:
    """The smallest number of tasks reaches the power, one less does not; more tries need fewer
    tasks, and a spread of true differences more."""
    found = plan(0.1, noise=0.1)
    assert power_of(found.tasks, 0.1, 0.2, 0.05) >= 0.8 > power_of(found.tasks - 1, 0.1, 0.2, 0.05)
    # By hand: (1.96 + 0.84)^2 * 0.2 / 0.01 = 157, and two more for Student's t.
    assert found.tasks == 159
    assert plan(0.1, noise=0.1, tries=4).tasks < 50
    assert plan(0.1, noise=0.1, spread=0.04).tasks > 180


def test_a_pilot_gives_the_noise() -> None:
    """The variance within tasks is pooled over those that were tried several times."""
    tries = [outcome("a", 1, 1.0), outcome("a", 2, 0.0), outcome("b", 1, 1.0), outcome("b", 2, 1.0)]
    assert noise_of(tries) == 0.25
    assert noise_of(tries[:1]) is None


def test_an_interval_holds_where_a_few_clusters_never_succeed() -> None:
    """Most worlds succeed nearly always and some never, which no beta distribution fits: of 60
    intervals of 100 worlds and 16 tries at least 52 hold the mean (57 are expected)."""
    held = 0
    rng = random.Random(5)
    for _ in range(60):
        shares = [0.95 if rng.random() < 0.93 else 0.0 for _ in range(100)]
        tries = {w: [float(rng.random() < p) for _ in range(16)] for w, p in enumerate(shares)}
        found = share_interval(tries)
        assert found is not None
        held += found.lower <= 0.93 * 0.95 <= found.upper
    assert held >= 52
