"""Reward less the group's mean, in units of its standard deviation (GRPO, arXiv:2402.03300).

    A_k = (R_k - mean(R)) / std(R),    std(R)^2 = sum_k (R_k - mean(R))^2 / (G - 1)

The deviation is the sample's (over G - 1), as the field's trainers compute it. They add a small
number to it lest they divide by zero. Here nothing is added; a group whose deviation is below
`EPSILON` is one of equal rewards, but for rounding, and is not divided.
"""

import numpy as np

from learner.advantages.base import Rewards, Yardstick

EPSILON = 1e-6  # in the unit of rewards


def mean_std(rewards: Rewards) -> Yardstick:
    """The mean and deviation of `rewards [G]`.

    Example: [1, 0, 0, 1] -> baseline 0.5 for all, scale 0.577: advantages 0.87, -0.87, -0.87, 0.87
    """
    deviation = float(rewards.std(ddof=1)) if len(rewards) > 1 else 0.0
    scale = deviation if deviation >= EPSILON else 1.0
    return Yardstick(np.full(len(rewards), rewards.mean()), scale)
