"""The microscope's draws and ranking, on a process whose values are known."""

from random import Random
from statistics import fmean, pvariance

import pytest

from rehearsal_room.learner.credit.draws import by_anchor, by_branches, by_group
from rehearsal_room.learner.credit.facts import ActionFacts, Course, MeasuredTask, StateFacts
from rehearsal_room.learner.credit.ranking import is_clear, markdown_of, ranking

DRAWS = 4_000


def courses(rewards: list[float], *anchors: int) -> tuple[Course, ...]:
    return tuple(Course(reward, anchors) for reward in rewards)


# After the trap half of the episodes still succeed, whatever is done there; from the start 4 of 5.
# One action in the state ends the episode without a reward.
GOOD = ActionFacts("good", 0.5, False, courses([1.0, 1.0, 1.0, 0.0], 7))
IDLE = ActionFacts("idle", 0.25, False, courses([1.0, 0.0, 0.0, 0.0], 7, 8))
QUIT = ActionFacts("quit", 0.25, True, courses([0.0]))
STATE = StateFacts("shop:task", 1, (1, 2), (GOOD, IDLE), (QUIT,))
STARTS = (*courses([1.0], 1, 2, 7) * 4, *courses([0.0], 1, 3))
VALUE = 0.5 * 0.75 + 0.25 * 0.25


def moments(estimate: object, action: ActionFacts) -> tuple[float, float]:
    chance = Random(1)
    found = [estimate(STATE, action, STARTS, chance) for _ in range(DRAWS)]  # type: ignore[operator]
    return fmean(found), pvariance(found)


def test_values_follow_from_the_courses() -> None:
    """V is over all actions, the rare ones included; an action that ends the episode is exact."""
    assert pytest.approx(VALUE) == STATE.value
    assert QUIT.half_width == 0.0 and GOOD.half_width == pytest.approx(1.96 * 0.25)
    many = ActionFacts("many", 1.0, False, courses([0.0, 1.0] * 135, 7))
    assert many.half_width <= 0.06
    assert is_clear(STATE, QUIT) and not is_clear(STATE, IDLE)


@pytest.mark.parametrize("is_vine", [True, False])
@pytest.mark.parametrize("width", [1, 4])
def test_branches_have_no_bias(width: int, is_vine: bool) -> None:
    """Their mean is the advantage, also of an action that ends the episode."""
    for action in (GOOD, IDLE, QUIT):
        mean, _ = moments(by_branches(width, is_vine=is_vine), action)
        assert mean == pytest.approx(action.value - VALUE, abs=0.04)


def test_more_branches_have_less_variance() -> None:
    """By their number: the values at both ends of an action are means."""
    one, four = (moments(by_branches(width, is_vine=True), GOOD)[1] for width in (1, 4))
    assert four == pytest.approx(one / 4, rel=0.15)
    assert moments(by_branches(1, is_vine=False), GOOD)[1] < one


def test_a_branch_has_the_noise_of_its_own_reward() -> None:
    """It is compared with the other branches of its state: without bias, and with a variance that
    more of these do not lower beyond that of its reward."""
    few, many = (
        moments(by_branches(width, is_vine=True, looks_ahead=False), GOOD) for width in (1, 16)
    )
    assert few[0] == pytest.approx(GOOD.value - VALUE, abs=0.04)
    assert many[0] == pytest.approx(GOOD.value - VALUE, abs=0.04)
    own, state = 0.75 * 0.25, VALUE * (1 - VALUE)
    assert few[1] == pytest.approx(own + state, abs=0.03)
    assert many[1] == pytest.approx(own + state / 16, abs=0.03)


def test_whole_episodes_are_compared_with_the_start() -> None:
    """Leave-one-out gives Q minus the value of the start (0.8), whatever the state is worth."""
    for action in (GOOD, IDLE, QUIT):
        mean, _ = moments(by_group(8, is_scaled=False), action)
        assert mean == pytest.approx(action.value - 0.8, abs=0.04)


def test_anchors_are_those_of_whole_episodes() -> None:
    """The state before the action is one that 4 of 5 others visit, too, all with reward 1: the
    step's part is near R - mean of theirs and its own."""
    mean, _ = moments(by_anchor(5, discount=1.0), QUIT)
    # Episode: 0 - mean of five, 3.2 of them expected to be right: -0.64. Step: the others that
    # visited it have reward 1, so it is -n / (n + 1) for n of them: n is binomial (4, 0.8).
    chances = [0.0016, 0.0256, 0.1536, 0.4096, 0.4096]
    step = -sum(chance * n / (n + 1) for n, chance in enumerate(chances))
    assert mean == pytest.approx(-0.64 + step, abs=0.04)


def test_the_ranking_knows_bias_and_wrong_signs() -> None:
    """Whole episodes are biased here, and vines are not; with more branches they say more."""
    tasks = {"shop:task": MeasuredTask("shop:task", STARTS)}
    state = StateFacts("shop:task", 1, (1, 2), (QUIT, GOOD), (IDLE,))
    rows = ranking([state], tasks, size=4, widths=(1, 8), discount=1.0, draws=1_500, seed=1)
    by_name = {one.name: one for one in rows}
    biased, one, eight = (
        by_name[name] for name in ("leave-one-out, 4", "vine, K = 1", "vine, K = 8")
    )
    assert biased.bias == pytest.approx(0.8 - VALUE, abs=0.03)
    assert max(one.bias, eight.bias) < 0.04
    assert eight.explained > one.explained and eight.deviation < one.deviation
    assert eight.error**2 == pytest.approx(eight.deviation**2, abs=0.01)
    assert one.wrong == 0.0 and one.silent == pytest.approx(1 - VALUE, abs=0.05)  # QUIT alone
    assert one.cost < eight.cost
    table = markdown_of(rows).splitlines()
    assert len(table) == len(rows) + 2 and table[2].startswith("| GRPO, 4 |")
