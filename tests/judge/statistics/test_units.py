"""The unit of generalisation, against SciPy and ways to get a narrower interval than is true."""

from random import Random

import pytest
from scipy import stats

from rehearsal_room.harness.outcomes.units import by_unit, choose_unit
from rehearsal_room.judge.statistics.comparison import Comparison, compare
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.judge.statistics.planning import (
    detectable_by,
    plan_worlds,
    power_of,
    power_of_means,
)

Sizes = dict[str, int]


def keys(sizes: Sizes) -> list[tuple[str, str]]:
    """So many tasks in each world."""
    return [(world, f"t{number}") for world, size in sizes.items() for number in range(size)]


def equal(worlds: int, size: int) -> Sizes:
    """Worlds with the same number of tasks."""
    return {f"w{number}": size for number in range(worlds)}


@pytest.mark.parametrize(
    ("sizes", "unit"),
    [
        (equal(10, 10), "world"),
        (equal(8, 10), "world"),
        (equal(7, 10), "task"),  # too few worlds to see how much they differ
        (equal(8, 9), "task"),
        (equal(500, 1), "task"),  # a benchmark whose entries are worlds of their own
        (equal(19, 3) | {"easy": 100}, "world"),  # a mean of eight tasks, most of them in one
        ({}, "task"),
    ],
)
def test_the_unit_follows_from_the_tasks(sizes: Sizes, unit: str) -> None:
    """The world where a task has nine others in its world, and there are eight worlds."""
    assert choose_unit(keys(sizes)).unit == unit


def test_a_sentence_says_what_the_intervals_are_about() -> None:
    """Also where worlds are too few, or were not asked for."""
    assert choose_unit(keys(equal(12, 10))).about == (
        "the unit is the world: the intervals are about other worlds like these 12"
    )
    assert choose_unit(keys(equal(3, 20))).about == (
        "the unit is the task: the intervals are about further tasks of these 3 worlds alone; "
        "8 worlds would let them speak of others"
    )
    assert choose_unit(keys(equal(12, 10)), "task").about.endswith("12 worlds alone, as asked")
    assert "hold in 90 to 98 %" in choose_unit(keys(equal(3, 20)), "world").about
    assert choose_unit(keys(equal(500, 1))).about.endswith("about other tasks like these")


def test_a_world_s_hundred_easy_tasks_make_no_narrow_interval() -> None:
    """Nine worlds of ten tasks that are solved half of the time, and one of a hundred that always
    are: the interval is as wide as that of ten worlds, not of 190 tasks."""
    random = Random(1)
    tries = {key: [float(random.random() < 0.5)] for key in keys(equal(9, 10))}
    easy = {("easy", f"t{number}"): [1.0] for number in range(100)}
    choice = choose_unit([*tries, *easy])
    honest = share_interval(by_unit(tries | dict(list(easy.items())[:10]), choice.unit))
    padded = share_interval(by_unit(tries | easy, choice.unit))
    by_task = share_interval(by_unit(tries | easy, "task"))
    assert honest is not None and padded is not None and by_task is not None
    assert padded.upper - padded.lower > 0.8 * (honest.upper - honest.lower)
    assert padded.upper - padded.lower > 2 * (by_task.upper - by_task.lower)
    assert padded.lower < 0.6


def runs(worlds: int, size: int, seed: int = 3, gain: float = 0.0) -> tuple[list[Outcome], ...]:
    """Two runs of the same tasks. Worlds differ in what the second agent gains in them."""
    random, found = Random(seed), ([], [])
    for world in range(worlds):
        first = random.uniform(0.2, 0.8)
        second = min(1.0, max(0.0, first + gain + random.choice((-0.15, 0.15))))
        for number in range(size):
            for outcomes, share in zip(found, (first, second), strict=True):
                score = float(random.random() < share)
                outcomes.append(Outcome(f"w{world}", f"t{number}", 1, score))
    return found


def world_differences(first: list[Outcome], second: list[Outcome]) -> list[float]:
    """Each world's share in the second run less that in the first."""
    means: list[dict[str, float]] = []
    for outcomes in (first, second):
        scores: dict[str, list[float]] = {}
        for one in outcomes:
            scores.setdefault(one.scenario, []).append(one.score or 0.0)
        means.append({world: sum(some) / len(some) for world, some in scores.items()})
    return [means[1][world] - value for world, value in means[0].items()]


def found_of(first: list[Outcome], second: list[Outcome], unit: str | None = None) -> Comparison:
    found = compare(first, second, unit=unit)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_many_worlds_are_compared_by_scipy_s_t_test() -> None:
    """Twenty worlds: SciPy's test of their means, with its interval."""
    first, second = runs(20, 12)
    found = found_of(first, second)
    expected = stats.ttest_1samp(world_differences(first, second), 0.0)
    bounds = expected.confidence_interval(0.95)
    assert (found.unit, found.units) == ("world", 20)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx((bounds.low, bounds.high))


def test_few_worlds_are_compared_by_scipy_s_permutations_too() -> None:
    """Nine worlds: p is the greater one of the t test and of all ways to flip signs."""
    first, second = runs(9, 12, gain=0.2)
    found = found_of(first, second)
    differences = world_differences(first, second)
    flips = stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
    )
    expected = max(flips.pvalue, stats.ttest_1samp(differences, 0.0).pvalue)
    assert found.p == pytest.approx(expected)


def test_equal_agents_seldom_differ_by_world() -> None:
    """Agents that are equal on average, with worlds that suit one or the other: by world at most
    5 % of comparisons find a difference, and far more where the tasks are taken for independent."""
    false = {"task": 0, "world": 0}
    for seed in range(200):
        first, second = runs(10, 20, seed)
        for unit in false:
            false[unit] += found_of(first, second, unit).verdict != "no difference is shown"
    assert false["world"] <= 19  # more than the 99.5 % bound of a true 5 %
    assert false["task"] > 20


def test_a_world_that_is_broken_where_it_goes_badly_gains_nothing() -> None:
    """B breaks its world in every task that it would fail: none of these has a verdict, also not
    in B's other tries. They stay in the bounds, and B is not called better."""
    tasks = [f"t{number}" for number in range(40)]
    first = [Outcome("w", task, 1, float(number % 2)) for number, task in enumerate(tasks)]
    fair = [Outcome("w", task, 1, float(number % 3 > 0)) for number, task in enumerate(tasks)]
    broken = [one if one.score else Outcome("w", one.task, 1, None) for one in fair]
    found = found_of(first, broken)
    assert found.interval[0] > 0  # of the tasks that have a verdict
    assert (found.verdict, found.unjudged) == ("no difference is shown", 14)
    assert found.bounds[0] == pytest.approx(found_of(first, fair).delta)
    assert found.bounds[0] < 0.2 < found.bounds[1]


def test_broken_worlds_do_not_choose_the_unit() -> None:
    """Three of ten worlds without any verdict: the world stays the unit."""
    first, second = runs(10, 10)
    broken = [
        Outcome(one.scenario, one.task, 1, None) if one.scenario < "w3" else one for one in second
    ]
    found = found_of(first, broken)
    assert (found.unit, found.units, found.unjudged) == ("world", 7, 30)


def test_a_plan_by_worlds_has_the_power_that_it_promises() -> None:
    """The power of the plan is SciPy's of a t test; more tasks in a world do not help against what
    differs between worlds; and agents that differ so are found so often."""
    found = plan_worlds(0.1, tasks_each=10, world_spread=0.01)
    assert found.worlds is not None and found.tasks == 10 * found.worlds
    variance = 0.01 + 0.25 / 10
    shift, degrees = 0.1 * (found.worlds / variance) ** 0.5, found.worlds - 1
    border = stats.t.ppf(0.975, degrees)
    expected = stats.nct.sf(border, degrees, shift) + stats.nct.cdf(-border, degrees, shift)
    assert found.power == pytest.approx(expected) and found.power >= 0.8
    assert power_of(found.worlds - 1, 0.1, variance, 0.05) < 0.8
    endless = plan_worlds(0.1, tasks_each=10_000, world_spread=0.01)
    assert endless.worlds is not None and endless.worlds > 8
    assert detectable_by(found.worlds, variance, power=0.8, alpha=0.05) == pytest.approx(0.1)
    assert power_of_means(5, 0.9, variance, 0.05) == 0.0  # five worlds show nothing
