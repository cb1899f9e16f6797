"""What an advantage is: by how much a reward was better than what its group could expect.

Statistics are taken over the G episodes of a group, never over samples: an episode of many steps
counts once. An advantage function says what a reward is measured against; a reward of episode `k`,
be it the episode's own or that of one of its steps, then has the advantage

    (reward - baseline[k]) / scale
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rewards = NDArray[np.float64]


class Yardstick(NamedTuple):
    """What the rewards of one group are measured against."""

    baseline: Rewards  # [G]
    scale: float  # more than 0
