"""Advantages: how much better a reward is than the reward expected in its group.

Statistics are taken over the G episodes of a group, never over samples: an episode of many steps
counts once. An advantage function returns a baseline and a scale. A reward of episode `k`, of the
whole episode or of one of its steps, then has the advantage

    (reward - baseline[k]) / scale
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RewardArray = NDArray[np.float64]


class Normalization(NamedTuple):
    """The baseline and scale with which the rewards of one group become advantages."""

    baseline: RewardArray  # [G]
    scale: float  # more than 0
