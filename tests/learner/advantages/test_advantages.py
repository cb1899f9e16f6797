"""Advantages of a group's samples, and the weight of a token in the loss."""

from statistics import stdev

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.learner.advantages.leave_one_out import leave_one_out
from rehearsal_room.learner.advantages.mean import mean
from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.samples import Group, GroupSize, Rollout, Sample
from rehearsal_room.learner.losses.aggregation import Aggregate, weights_of


def sample(num_tokens: int, reward: float = 0.0) -> Sample:
    return Sample(
        tail=np.array([1], np.int32),
        tokens=np.arange(num_tokens, dtype=np.int32),
        logprobs=np.zeros(num_tokens, np.float32),
        reward=reward,
        turn=0,
        weights="v0",
    )


def group(*episodes: tuple[float, list[Sample]]) -> Group:
    """A group of episodes, each given as its reward and its samples."""
    rollouts = tuple(
        Rollout(
            episode=f"e{member}",
            member=member,
            reward=reward,
            samples=tuple(samples),
            ending="answered",
            label="completed",
        )
        for member, (reward, samples) in enumerate(episodes)
    )
    return Group(group="g", scenario="shop", task="buy", rollouts=rollouts)


def one_each(*rewards: float) -> Group:
    return group(*((reward, [sample(2)]) for reward in rewards))


def flat(advantages: list[list[float]]) -> list[float]:
    return [advantage for samples in advantages for advantage in samples]


def test_mean_subtracts_the_groups_mean() -> None:
    """The mean is over episodes: one of three steps counts once, and its steps have the same
    advantage."""
    found = advantages_of(
        group((1.0, [sample(2)]), (0.0, [sample(1), sample(5), sample(3)]), (0.2, [sample(1)])),
        LossSettings(advantage="mean"),
    )
    assert [len(samples) for samples in found] == [1, 3, 1]
    assert flat(found) == pytest.approx([0.6, -0.4, -0.4, -0.4, -0.2])


def test_mean_std_divides_by_the_samples_standard_deviation() -> None:
    """The standard deviation is the one over G - 1, without an added epsilon."""
    rewards = [1.0, 0.1, 0.1, -1.0]
    found = flat(advantages_of(one_each(*rewards), LossSettings(advantage="mean_std")))
    assert found == pytest.approx([(r - 0.05) / stdev(rewards) for r in rewards], rel=1e-12)
    found = flat(advantages_of(one_each(1.0, 0.0, 0.0, 1.0), LossSettings()))
    assert found == pytest.approx([0.75**0.5, -(0.75**0.5), -(0.75**0.5), 0.75**0.5])


def test_leave_one_out_subtracts_the_mean_of_the_others() -> None:
    """It equals the values computed by hand, and G / (G - 1) times the advantage of the mean."""
    settings = LossSettings(advantage="leave_one_out")
    assert flat(advantages_of(one_each(1.0, 0.0, 0.0), settings)) == [1.0, -0.5, -0.5]
    rewards = np.array([0.3, -1.0, 0.1, 1.0])
    found = rewards - leave_one_out(rewards).baseline
    assert found == pytest.approx((rewards - mean(rewards).baseline) * 4 / 3)


def test_leave_one_out_needs_other_episodes() -> None:
    """A group of one episode has no baseline: it is refused."""
    with pytest.raises(ValueError, match="two episodes or more"):
        advantages_of(one_each(1.0), LossSettings(advantage="leave_one_out"))


def test_reward_subtracts_nothing() -> None:
    """The advantage is the reward, also in a group of one."""
    settings = LossSettings(advantage="reward")
    assert advantages_of(one_each(1.0, 0.1), settings) == [[1.0], [0.1]]
    assert advantages_of(one_each(0.1), settings) == [[0.1]]


@pytest.mark.parametrize("advantage", ["mean", "mean_std", "leave_one_out"])
def test_groups_of_equal_rewards_have_no_advantage(advantage: str) -> None:
    """Also if the mean of equal numbers is not exactly that number: rounding is not amplified."""
    settings = LossSettings(advantage=advantage)  # type: ignore[arg-type]  # an allowed value
    found = flat(advantages_of(one_each(*[0.1] * 7), settings))
    assert found == pytest.approx([0.0] * 7, abs=1e-15)


@pytest.mark.parametrize("advantage", ["mean", "mean_std"])
def test_a_group_of_one_has_no_advantage(advantage: str) -> None:
    """There is nothing to compare it with, so it is 0."""
    settings = LossSettings(advantage=advantage)  # type: ignore[arg-type]  # an allowed value
    assert advantages_of(one_each(1.0), settings) == [[0.0]]


def test_step_rewards_use_the_episodes_baseline() -> None:
    """The -1 of a format error counts against its step; earlier steps have the advantage of their
    own rewards."""
    broken = (-1.0, [sample(2, 0.0), sample(2, 0.0), sample(2, -1.0)])
    solved = (1.0, [sample(2, 1.0), sample(2, 1.0)])
    both = group(broken, solved)
    found = advantages_of(both, LossSettings(advantage="mean", rewards="step"))
    assert found == [[0.0, 0.0, -1.0], [1.0, 1.0]]
    found = advantages_of(both, LossSettings(advantage="mean_std", rewards="step"))
    assert flat(found) == pytest.approx([0.0, 0.0, -(0.5**0.5), 0.5**0.5, 0.5**0.5])
    found = advantages_of(both, LossSettings(advantage="leave_one_out", rewards="step"))
    assert found == [[-1.0, -1.0, -2.0], [2.0, 2.0]]
    found = advantages_of(both, LossSettings(advantage="reward", rewards="step"))
    assert found == [[0.0, 0.0, -1.0], [1.0, 1.0]]


def test_step_rewards_in_a_group_of_equal_episodes_are_not_amplified() -> None:
    """If the episodes do not differ, there is no deviation to divide by."""
    broken = (-1.0, [sample(2, 0.0), sample(2, -1.0)])
    found = advantages_of(group(broken, broken), LossSettings(rewards="step"))
    assert found == [[1.0, 0.0], [1.0, 0.0]]


# Two groups: three episodes, five samples, 20 tokens.
GROUPS = [
    group((0.0, [sample(1), sample(3)]), (0.0, [sample(4)])),
    group((0.0, [sample(2), sample(10)])),
]


@pytest.mark.parametrize(
    ("aggregate", "weights"),
    [
        ("token", [[[1 / 20, 1 / 20], [1 / 20]], [[1 / 20, 1 / 20]]]),
        ("step", [[[1 / 5, 1 / 15], [1 / 20]], [[1 / 10, 1 / 50]]]),
        ("episode", [[[1 / 12, 1 / 12], [1 / 12]], [[1 / 36, 1 / 36]]]),
    ],
)
def test_the_aggregation_defines_a_tokens_weight(
    aggregate: Aggregate, weights: list[list[list[float]]]
) -> None:
    """It is the same for every token, every sample, or every episode; expected values by hand."""
    assert weights_of(GROUPS, aggregate) == weights


@pytest.mark.parametrize(
    ("aggregate", "weights"),
    [
        ("token", [[[1 / 30, 1 / 30], [1 / 30]], [[1 / 30, 1 / 30]]]),
        ("step", [[[1 / 8, 1 / 24], [1 / 32]], [[1 / 16, 1 / 80]]]),
        ("episode", [[[1 / 20, 1 / 20], [1 / 20]], [[1 / 60, 1 / 60]]]),
        ("constant", [[[1 / 500, 1 / 500], [1 / 500]], [[1 / 500, 1 / 500]]]),
    ],
)
def test_groups_that_are_not_trained_count_in_denominators(
    aggregate: Aggregate, weights: list[list[list[float]]]
) -> None:
    """Beside GROUPS there are two episodes of three samples and 10 tokens; by hand."""
    also = GroupSize(tokens=10, samples=3, episodes=2)
    assert weights_of(GROUPS, aggregate, length=100, also=also) == weights


def test_a_constant_length_makes_no_difference_between_lengths() -> None:
    """Dr. GRPO: every token weighs 1 / (3 episodes x 100), however long its episode is."""
    weights = weights_of(GROUPS, "constant", length=100)
    assert weights == [[[1 / 300, 1 / 300], [1 / 300]], [[1 / 300, 1 / 300]]]


@given(
    shape=st.lists(
        st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
    aggregate=st.sampled_from(["token", "step", "episode"]),
)
def test_the_weights_of_a_batch_add_up_to_one(
    shape: list[list[list[int]]], aggregate: Aggregate
) -> None:
    """This holds for any groups, episodes, samples and tokens."""
    groups = [group(*((0.0, [sample(n) for n in sizes]) for sizes in rows)) for rows in shape]
    weights = weights_of(groups, aggregate)
    total = sum(
        weight * num
        for of_group, rows in zip(weights, shape, strict=True)
        for of_episode, sizes in zip(of_group, rows, strict=True)
        for weight, num in zip(of_episode, sizes, strict=True)
    )
    assert total == pytest.approx(1.0)


def test_shuffled_rewards_are_those_of_the_group_in_another_order() -> None:
    """What an episode is given does not depend on what it did: over many groups the one that was
    completed has it as often as any other. The same group is dealt the same way."""
    settings = LossSettings(advantage="mean", shuffle=True)
    plain = one_each(1.0, 0.0, 0.0, 0.0)
    groups = [msgspec.structs.replace(plain, group=f"g{number}") for number in range(400)]
    found = [flat(advantages_of(one, settings)) for one in groups]
    assert all(sorted(one) == [-0.25, -0.25, -0.25, 0.75] for one in found)
    firsts = sum(one[0] > 0 for one in found)
    assert 70 < firsts < 130
    assert found == [flat(advantages_of(one, settings)) for one in groups]
    with pytest.raises(ValueError, match="'step' cannot be dealt out"):
        LossSettings(shuffle=True, rewards="step")
