"""The reward itself: for cloning, where good episodes are copied and not compared.

A_k = R_k
"""

import numpy as np

from learner.advantages.base import Rewards, Yardstick


def reward(rewards: Rewards) -> Yardstick:
    """Nothing is taken off `rewards [G]`."""
    return Yardstick(np.zeros(len(rewards)), 1.0)
