"""Penalties for length reduce the rewards of long replies, and never pay for silence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.samples import Group, Rollout, Sample
from rehearsal_room.learner.losses.penalties import penalised

OVERLONG = LossSettings(overlong_from=100, overlong_to=200)
LENGTH = LossSettings(length_penalty=0.2)


def rollout(reward: float, *lengths: int) -> Rollout:
    """An episode whose replies have these lengths."""
    ids = np.zeros(1, np.int32)
    samples = tuple(
        Sample(ids, np.zeros(one, np.int32), np.zeros(one, np.float32), reward, turn, "v0")
        for turn, one in enumerate(lengths)
    )
    return Rollout("e", 0, reward, samples, "answered", "completed")


def rewards(settings: LossSettings, *rollouts: Rollout) -> list[float]:
    return [one.reward for one in penalised(rollouts, settings)]


def test_the_soft_punishment_is_daposs_formula() -> None:
    """With L the longest reply: nothing up to 100 tokens, (L - 100) / 100 between, 1 from 200 on;
    the sum of an episode's replies does not count."""
    lengths = [(50, 60), (100,), (150, 10), (200,), (900,)]
    found = rewards(OVERLONG, *(rollout(1.0, *one) for one in lengths))
    assert found == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])


def test_the_longest_success_loses_its_share() -> None:
    """Successes lose in proportion to their sampled tokens; failures lose nothing."""
    found = rewards(LENGTH, rollout(1, 100), rollout(1, 150, 150), rollout(1, 200), rollout(0, 5))
    assert found == pytest.approx([1.0, 0.8, 0.9, 0.0])


def test_without_penalties_nothing_changes() -> None:
    """The settings' defaults reduce nothing."""
    assert rewards(LossSettings(), rollout(1.0, 900), rollout(-1.0, 3)) == [1.0, -1.0]


@pytest.mark.parametrize("settings", [OVERLONG, LENGTH])
def test_where_nobody_succeeds_silence_is_not_paid(settings: LossSettings) -> None:
    """A group without a rewarded episode keeps its equal rewards, and is dropped as before: else
    the one that says least would be the best of it."""
    assert rewards(settings, rollout(0, 1), rollout(0, 300), rollout(0, 120)) == [0, 0, 0]


def test_no_success_is_worth_less_than_silence() -> None:
    """However long it is, whatever its reward, and however great the penalties are: an episode that
    says nothing has 0."""
    settings = LossSettings(
        overlong_from=100, overlong_to=200, overlong_penalty=2.0, length_penalty=0.5
    )
    episodes = rollout(1.0, 900), rollout(0.1, 800), rollout(1.0, 10), rollout(0.0, 1)
    assert rewards(settings, *episodes) == pytest.approx([0.0, 0.0, 1.0, 0.0])
    assert rewards(settings, rollout(1.0, 10), rollout(0.0, 900)) == [1.0, -2.0]  # DAPO's


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 400)), min_size=2, max_size=8))
def test_silence_never_beats_a_success(episodes: list[tuple[bool, int]]) -> None:
    """Whatever the lengths, an episode that fails with one token never has a greater advantage than
    one that succeeds, and the shortest success has the greatest one of all."""
    done = [rollout(float(good), length) for good, length in episodes]
    settings = LossSettings(length_penalty=0.9, advantage="mean")
    group = Group("g", "s", "t", penalised([*done, rollout(0.0, 1)], settings))
    advantages = [one[0] for one in advantages_of(group, settings)]
    good = {n: one[1] for n, one in enumerate(episodes) if one[0]}
    bad = [advantages[n] for n in range(len(advantages)) if n not in good]
    assert all(advantages[n] > max(bad) for n in good)
    if good:
        assert advantages[min(good, key=good.__getitem__)] == max(advantages)
