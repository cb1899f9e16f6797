"""Criteria: how they are read, and their verdicts."""

from random import Random

import msgspec
import pytest
from scipy import stats

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.judge.promotion.criteria import (
    CriterionResult,
    RunFacts,
    estimate,
    parse_criterion,
)
from rehearsal_room.judge.promotion.criteria_file import PromotionCriteria
from rehearsal_room.judge.promotion.decision import decide
from rehearsal_room.judge.statistics.intervals import mean_interval, quantile_interval
from rehearsal_room.judge.statistics.outcomes import Outcome
from tests.judge.promotion.drawn import criteria_of, facts_of


def episodes(share: float, *, tasks: int = 50, tries: int = 4, seed: int = 0) -> RunFacts:
    """Tries of which this share is completed."""
    rng = Random(seed)
    scores = [float(index < share * tasks * tries) for index in range(tasks * tries)]
    rng.shuffle(scores)
    return facts_of(
        Outcome("w", f"t{index % tasks}", index // tasks, score)
        for index, score in enumerate(scores)
    )


def judged(criterion: str, facts: RunFacts, base: RunFacts = ()) -> CriterionResult:
    (result,) = decide(criteria_of(criterion), facts, base)
    (found,) = result.criteria
    assert found.verdict == result.verdict
    return found


@pytest.mark.parametrize(
    ("criterion", "verdict"),
    [
        ("completed.lower >= 0.6", "pass"),
        ("completed.lower >= 0.69", "inconclusive"),
        ("completed.lower >= 0.9", "fail"),
        ("completed.upper <= 0.8", "pass"),
        ("completed.upper >= 0.72", "pass"),
        ("completed.upper >= 0.9", "fail"),
        ("completed >= 0.7", "pass"),
        ("completed > 0.71", "fail"),
        ("missing_write.upper <= 0.4", "pass"),
        ("agent_error.upper < 0.2", "fail"),
        ("mean_reward.lower >= 0.6", "pass"),
        ("pass^4.lower >= 0.6", "fail"),
        ("pass@4.lower >= 0.9", "pass"),
        ("pass^8.lower >= 0.1", "inconclusive"),
        ("p95_calls <= 4", "pass"),
        ("p95_steps <= 4", "fail"),
        ("p50_seconds.upper <= 1", "pass"),
        ("completed(these).lower >= 0.63", "pass"),
        ("completed(these).lower >= 0.64", "inconclusive"),
        ("completed(these).lower >= 0.77", "fail"),
        ("completed[hard].lower >= 0.1", "inconclusive"),
        ("finding(attack resisted).lower >= 0.1", "inconclusive"),
    ],
)
def test_verdicts(criterion: str, verdict: str) -> None:
    """70 % of 200 episodes are completed. What cannot be computed is inconclusive."""
    assert judged(criterion, episodes(0.7)).verdict == verdict


def test_one_task() -> None:
    """Its tries decide about itself, by exact bounds, and nothing about other tasks."""
    solved, failed = (episodes(share, tasks=1, tries=20) for share in (1.0, 0.5))
    assert judged("completed.lower >= 0.8", solved).verdict == "inconclusive"
    found = judged("completed(these).lower >= 0.8", solved)
    assert found.lower == pytest.approx(stats.binomtest(20, 20).proportion_ci().low)
    assert (found.verdict, found.upper) == ("pass", 1.0)
    found = judged("completed(these).lower >= 0.8", failed)
    assert found.upper == pytest.approx(stats.binomtest(10, 20).proportion_ci().high)
    assert found.verdict == "fail"


def test_regression() -> None:
    """It is about its bounds, however it is written."""
    base = episodes(0.7)
    assert judged("regression.vs(base) >= -0.2", base, base).verdict == "pass"
    assert judged("regression.vs(base) >= -0.02", episodes(0.3), base).verdict == "fail"
    assert judged("regression.vs(base) >= -0.02", episodes(0.7, seed=1), base).verdict == (
        "inconclusive"
    )
    found = judged("regression.vs(base) >= -0.02", episodes(0.3), base)
    assert found.value == pytest.approx(-0.4)
    assert found.lower is not None and found.upper is not None
    assert found.lower < -0.4 < found.upper < -0.02


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("completed", "is not of the form METRIC.BOUND >= NUMBER"),
        ("finished.lower >= 0.8", "unknown metric 'finished'; metrics: completed, completed[TAG]"),
        ("completed.least >= 0.8", ".least is not lower, upper or value"),
        ("completed.lower >= lots", "'lots' is not a number"),
        ("completed.lower >= nan", "'nan' is not a number"),
        ("pass^0 >= 0.1", "unknown metric 'pass^0'"),
        ("regression >= 0", "write regression.vs(base) >= -0.02"),
    ],
)
def test_criteria_that_are_refused(text: str, why: str) -> None:
    """With what is wrong, and what is known."""
    with pytest.raises(SettingsError) as caught:
        parse_criterion(text)
    assert why in str(caught.value)


def test_stages_are_passed_in_order() -> None:
    """The first that is not passed is the last that is judged; a failure needs more where several
    criteria could fail by accident."""
    one, two, three = (
        criteria_of(f"completed.lower >= {share}").stages[0] for share in (0.3, 0.9, 0.1)
    )
    results = decide(PromotionCriteria("g", 0.05, 0.8, (one, three)), episodes(0.7), ())
    assert [result.verdict for result in results] == ["pass", "pass"]
    results = decide(PromotionCriteria("g", 0.05, 0.8, (one, two, three)), episodes(0.7), ())
    assert [result.verdict for result in results] == ["pass", "fail"]
    facts = episodes(0.7)
    alone, among = "completed.lower >= 0.771", ["completed.lower >= 0.1"] * 20
    found = estimate("completed", facts, (), 0.95, "task")
    assert found is not None and found.upper < 0.771
    assert decide(criteria_of(alone), facts, ())[0].verdict == "fail"
    assert decide(criteria_of(alone, *among), facts, ())[0].verdict == "inconclusive"


def test_intervals_of_means_and_quantiles() -> None:
    """They hold the true value about as often as they say."""
    rng, held, held_quantile = Random(3), 0, 0
    for _ in range(400):
        values = [rng.expovariate(1) for _ in range(120)]
        mean = mean_interval({index: [value] for index, value in enumerate(values)})
        assert mean is not None
        held += mean.lower <= 1 <= mean.upper
        quantile = quantile_interval(values, 0.9)
        assert quantile is not None
        held_quantile += quantile.lower <= 2.302585 <= quantile.upper
    assert 0.91 <= held / 400 <= 0.99
    assert 0.93 <= held_quantile / 400 <= 1
    assert mean_interval({}) is None and quantile_interval([], 0.5) is None
    assert quantile_interval([3.0], 0.95) is not None


@pytest.mark.parametrize("criterion", ["mean_reward.lower >= 0.7", "finding(x).lower >= 0.7"])
def test_an_own_program_that_failed_hides_from_no_criterion(criterion: str) -> None:
    """An episode in which an own program failed has no reward and no finding if nobody judged it;
    the worst case is assumed for it."""
    solved = [msgspec.structs.replace(one, findings={"x": True}) for one in episodes(1.0, tasks=40)]
    raised = [
        msgspec.structs.replace(
            one, task=f"r{one.task}", score=0.0, reward=None, findings={}, is_judged=False
        )
        for one in episodes(1.0, tasks=20)
    ]
    assert judged(criterion, solved).verdict == "pass"
    found = judged(criterion, [*solved, *raised])
    assert (found.verdict, found.missing, found.episodes) == ("inconclusive", 80, 240)


@pytest.mark.parametrize("last", [1.0, 0.999])
def test_rewards_that_are_nearly_equal(last: float) -> None:
    """Two tasks with nearly the same reward say as little as two with the same."""
    one, other = episodes(1.0, tasks=2, tries=1)
    facts = [one, msgspec.structs.replace(other, reward=last)]
    found = judged("mean_reward.lower >= 0.7", facts)
    assert found.verdict == "inconclusive" and found.lower == pytest.approx(0.22, abs=0.01)
