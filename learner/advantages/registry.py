"""The advantages of a group's samples, as the run's settings define them."""

from collections.abc import Callable
from random import Random

import numpy as np

from rehearsal_room.learner.advantages.base import Normalization, RewardArray
from rehearsal_room.learner.advantages.leave_one_out import leave_one_out
from rehearsal_room.learner.advantages.mean import mean
from rehearsal_room.learner.advantages.mean_std import mean_std
from rehearsal_room.learner.advantages.reward import reward
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.samples import Group

_NORMALIZATIONS: dict[str, Callable[[RewardArray], Normalization]] = {
    "mean_std": mean_std,
    "mean": mean,
    "leave_one_out": leave_one_out,
    "reward": reward,
}


def advantages_of(group: Group, settings: LossSettings) -> list[list[float]]:
    """The advantage of each sample, one list per rollout.

    With rewards = "episode", all samples of an episode have the advantage of the episode's reward.
    With "step", each sample has the advantage of its own step's reward, with the same baseline and
    scale, those of the group's episode rewards: a format error of -1 then counts against the step
    that made it. Rewards are not summed over time: an earlier step gets no credit for later ones.

    With `shuffle` the group's rewards change places among its episodes, always in the same way.

    Example: episodes of rewards 1 and 0, of 2 and 1 steps, advantage "mean"
             -> [[0.5, 0.5], [-0.5]]
    """
    totals = [rollout.reward for rollout in group.rollouts]
    if settings.shuffle:
        Random(group.group).shuffle(totals)
    episodes = np.array(totals, np.float64)
    baseline, scale = _NORMALIZATIONS[settings.advantage](episodes)
    found = []
    for rollout, own, expected in zip(group.rollouts, episodes, baseline, strict=True):
        if settings.rewards == "step":
            rewards = np.array([sample.reward for sample in rollout.samples], np.float64)
        else:
            rewards = np.full(len(rollout.samples), own, np.float64)
        found.append(((rewards - expected) / scale).tolist())
    return found
