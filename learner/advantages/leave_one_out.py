"""Reward less the mean of the group's other episodes (RLOO, arXiv:2402.14740).

    A_k = R_k - sum_{j != k} R_j / (G - 1)

The baseline does not know the episode that it is taken from, so the gradient stays unbiased. Of
whole episodes this is G / (G - 1) times the advantage of `mean`.
"""

from learner.advantages.base import Rewards, Yardstick


def leave_one_out(rewards: Rewards) -> Yardstick:
    """The mean of the others, for every episode of `rewards [G]`.

    Example: [1, 0, 0] -> baseline [0, 0.5, 0.5], scale 1: advantages 1, -0.5, -0.5

    Raises ValueError for a group of one.
    """
    if len(rewards) < 2:
        raise ValueError("leave-one-out needs two episodes or more in a group, not 1")
    return Yardstick((rewards.sum() - rewards) / (len(rewards) - 1), 1.0)
