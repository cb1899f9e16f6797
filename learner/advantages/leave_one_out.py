"""Reward minus the mean of the group's other episodes (RLOO, arXiv:2402.14740).

    A_k = R_k - sum_{j != k} R_j / (G - 1)

The baseline of an episode does not depend on that episode, so the gradient stays unbiased. For
rewards of whole episodes this is G / (G - 1) times the advantage of `mean`.
"""

from rehearsal_room.learner.advantages.base import Normalization, RewardArray


def leave_one_out(rewards: RewardArray) -> Normalization:
    """For each episode of `rewards [G]`, the mean of the other episodes.

    Example: [1, 0, 0] -> baseline [0, 0.5, 0.5], scale 1: advantages 1, -0.5, -0.5

    Raises ValueError for a group of one episode.
    """
    if len(rewards) < 2:
        raise ValueError(f"leave-one-out needs two episodes or more in a group, not {len(rewards)}")
    return Normalization((rewards.sum() - rewards) / (len(rewards) - 1), 1.0)
