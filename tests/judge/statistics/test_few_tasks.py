"""Verdicts on few tasks: never against their own p, and as often right as they say.

The references are scipy's; the whole campaign is `python -m
tests.judge.statistics.verdict_campaign`.
"""

import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from rehearsal_room.judge.promotion.decision import decide
from rehearsal_room.judge.statistics.comparison import compare, interval_and_p
from rehearsal_room.judge.statistics.intervals import mean_interval, share_interval
from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.judge.statistics.planning import AgentPair, detectable, plan, power_of_pair
from rehearsal_room.judge.statistics.sign_flips import flip_bounds, flip_p, least_tasks
from tests.judge.promotion.drawn import criteria_of, facts_of
from tests.judge.statistics.verdict_campaign import (
    EQUAL,
    PROMISED,
    EqualAgents,
    PromisedPower,
    false_gates,
    false_verdicts,
    most_false,
    power_found,
)

_COUNT = 250  # comparisons of each size


def runs(*differences: float) -> tuple[list[Outcome], list[Outcome]]:
    """Two runs of tasks with these differences."""
    first = [Outcome("w", f"t{n}", 1, float(d < 0)) for n, d in enumerate(differences)]
    second = [Outcome("w", f"t{n}", 1, float(d > 0)) for n, d in enumerate(differences)]
    return first, second


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_fewer_than_six_tasks_show_nothing(tasks: int) -> None:
    """Whatever they say: a coin falls so too often. Neither `compare` nor a gate decides."""
    first, second = runs(*[1.0] * tasks)
    found = compare(first, second)
    assert found is not None
    assert (found.verdict, found.interval) == ("no difference is shown", (-1.0, 1.0))
    assert found.p == 2.0 ** (1 - tasks)
    assert found.least == 6
    gate = criteria_of("regression.vs(base) >= -0.02")
    assert decide(gate, facts_of(second), facts_of(first))[0].verdict == "inconclusive"


def test_six_tasks_can() -> None:
    """2 in 64 ways of chance are as clear as six gains."""
    found = compare(*runs(*[1.0] * 6))
    assert found is not None
    assert (found.verdict, found.p) == ("B is better by 100.0 points", 2 / 64)
    assert least_tasks(0.05) == 6
    assert least_tasks(0.01) == 8


def test_few_tasks_that_differ_among_many() -> None:
    """Five gains among 45 tasks are five throws of a coin, though the t test finds them clear."""
    found = compare(*runs(*[1.0] * 5, *[0.0] * 40))
    assert found is not None
    assert stats.ttest_1samp([1.0] * 5 + [0.0] * 40, 0).pvalue < 0.05
    assert (found.verdict, found.p) == ("no difference is shown", 2 / 32)
    assert found.interval[0] == 0.0


@pytest.mark.parametrize("seed", range(40))
def test_sign_flips_are_scipy_s(seed: int) -> None:
    """p is that of scipy's exact permutation test, and the bounds are where it begins to reject."""
    random = Random(seed)
    count, tries = random.randint(2, 10), random.choice([1, 3, 4])
    values = [random.randint(-tries, tries) / tries for _ in range(count)]
    values[0] = values[0] or 1.0

    def scipy_s(shift: float) -> float:
        shifted = np.array(values) - shift
        found = stats.permutation_test(
            (shifted, np.zeros(count)),
            lambda one, other, axis: np.mean(one - other, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        return float(found.pvalue)

    assert flip_p(values) == pytest.approx(scipy_s(0.0))
    bounds = flip_bounds(values, 0.05)
    if bounds is None:
        assert count < 6
        return
    for bound, outside in zip(bounds, (-1e-6, 1e-6), strict=True):
        assert scipy_s(bound + outside) <= 0.05
        if bounds[0] < bounds[1]:
            assert scipy_s(bound - outside) > 0.05


def test_verdict_interval_and_p_say_the_same() -> None:
    """Of any differences: the interval leaves out 0 exactly where p is below 5 %."""
    random = Random(5)
    for _ in range(500):
        count, tries = random.randint(1, 40), random.choice([1, 2, 4])
        rare = random.random()
        values = [
            random.randint(-1, tries) / tries if random.random() < rare else 0.0
            for _ in range(count)
        ]
        (lower, upper), p = interval_and_p(values)
        assert (lower > 0 or upper < 0) == (p <= 0.05), values
        assert lower <= math.fsum(values) / count <= upper


def test_one_task_says_next_to_nothing_of_a_share() -> None:
    """However often it was tried: as the exact interval of one try."""
    exact = stats.binomtest(1, 1).proportion_ci(method="exact")
    found = share_interval({"t": [1.0] * 50})
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx((exact.low, exact.high))
    none = share_interval({"t": [0.0]})
    assert none is not None
    assert (none.lower, none.upper) == pytest.approx((0.0, 0.975))


def test_equal_means_are_no_proof() -> None:
    """Two tasks with the same reward do not show that every task has it."""
    found = mean_interval({"a": [1.0], "b": [1.0]})
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx((0.05**0.5, 1.0))
    gate = criteria_of("mean_reward.lower >= 0.7")
    assert decide(gate, facts_of(runs(1.0, 1.0)[1]), ())[0].verdict == "inconclusive"


@pytest.mark.parametrize("agents", EQUAL, ids=str)
@pytest.mark.parametrize("tasks", [1, 2, 3, 6, 8, 10])
def test_equal_agents_get_no_verdict(agents: EqualAgents, tasks: int) -> None:
    """In at most 5 % of comparisons and of gates, of whatever number of tasks."""
    assert false_verdicts(agents, tasks, _COUNT) <= most_false(_COUNT)
    assert false_gates(agents, tasks, _COUNT // 5) <= most_false(_COUNT // 5)


@pytest.mark.parametrize("pair", [PROMISED[0], PROMISED[2], PROMISED[5], PROMISED[6]], ids=str)
def test_a_difference_is_found_with_its_power(pair: PromisedPower) -> None:
    """As often as `compare size` promises, within three points and the error of the draws."""
    _, promised, found = power_found(pair, _COUNT)
    error = 3 * math.sqrt(promised * (1 - promised) / _COUNT)
    assert abs(found - promised) <= 0.03 + error


def test_a_plan_knows_the_exact_test() -> None:
    """One task less has not the power; what N tasks can show is what a plan needs N tasks for."""
    found = plan(0.5)
    pair = AgentPair(0.5, noise=found.noise, tries=1)
    assert found.power == power_of_pair(pair, found.tasks, 0.05) >= 0.8
    assert power_of_pair(pair, found.tasks - 1, 0.05) < 0.8
    assert detectable(5) is None
    for tasks in (8, 20, 45):
        least = detectable(tasks)
        assert least is not None
        assert plan(least).tasks <= tasks < plan(least - 0.03).tasks


def test_agents_that_never_vary_gain_on_some_tasks() -> None:
    """A difference of 20 points without noise is one task in five, not a fifth of each task."""
    pair = AgentPair(0.2, noise=0.0, tries=4)
    assert (pair.mean, pair.variance, pair.differing) == pytest.approx((0.2, 0.16, 0.2))
    assert plan(0.2, noise=0.0, tries=4).tasks == plan(0.2, noise=0.0).tasks > 30
