"""Reward minus the group's mean (Dr. GRPO, arXiv:2503.20783).

    A_k = R_k - mean(R)

The result is not divided by the spread, so a group in which nearly all episodes succeed, or nearly
all fail, does not weigh more than others.
"""

import numpy as np

from rehearsal_room.learner.advantages.base import Normalization, RewardArray


def mean(rewards: RewardArray) -> Normalization:
    """For each episode, the mean of `rewards [G]`.

    Example: [1, 0, 0, 1] -> baseline [0.5, 0.5, 0.5, 0.5], scale 1: advantages 0.5, -0.5, -0.5, 0.5
    """
    return Normalization(np.full(len(rewards), rewards.mean()), 1.0)
