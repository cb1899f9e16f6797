"""Reward minus the group's mean, divided by its standard deviation (GRPO, arXiv:2402.03300).

    A_k = (R_k - mean(R)) / std(R),    std(R)^2 = sum_k (R_k - mean(R))^2 / (G - 1)

It is the sample's standard deviation (over G - 1), as in other trainers. They add a small number to
it to avoid a division by zero. Here nothing is added: a group whose deviation is below `EPSILON`
has equal rewards except for rounding, and its advantages are not divided.
"""

import numpy as np

from rehearsal_room.learner.advantages.base import Normalization, RewardArray

EPSILON = 1e-6  # in the unit of rewards


def mean_std(rewards: RewardArray) -> Normalization:
    """The mean and standard deviation of `rewards [G]`.

    Example: [1, 0, 0, 1] -> baseline 0.5 for all, scale 0.577: advantages 0.87, -0.87, -0.87, 0.87
    """
    deviation = float(rewards.std(ddof=1)) if len(rewards) > 1 else 0.0
    scale = deviation if deviation >= EPSILON else 1.0
    return Normalization(np.full(len(rewards), rewards.mean()), scale)
