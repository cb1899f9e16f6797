"""The reward itself: for behaviour cloning, where good episodes are copied and not compared.

A_k = R_k
"""

import numpy as np

from rehearsal_room.learner.advantages.base import Normalization, RewardArray


def reward(rewards: RewardArray) -> Normalization:
    """A baseline of zero for `rewards [G]`."""
    return Normalization(np.zeros(len(rewards)), 1.0)
