"""Reward less the group's mean (Dr. GRPO, arXiv:2503.20783).

    A_k = R_k - mean(R)

Nothing is divided by the spread, so groups in which nearly all episodes succeed or nearly all fail
weigh no more than others.
"""

import numpy as np

from learner.advantages.base import Rewards, Yardstick


def mean(rewards: Rewards) -> Yardstick:
    """The mean of `rewards [G]`, for every episode.

    Example: [1, 0, 0, 1] -> baseline [0.5, 0.5, 0.5, 0.5], scale 1: advantages 0.5, -0.5, -0.5, 0.5
    """
    return Yardstick(np.full(len(rewards), rewards.mean()), 1.0)
