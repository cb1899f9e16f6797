"""The advantages of a group's samples, by the run's settings."""

from collections.abc import Callable

import numpy as np

from learner.advantages.base import Rewards, Yardstick
from learner.advantages.leave_one_out import leave_one_out
from learner.advantages.mean import mean
from learner.advantages.mean_std import mean_std
from learner.advantages.reward import reward
from learner.config.settings import LossSettings
from learner.core.samples import Group

_YARDSTICKS: dict[str, Callable[[Rewards], Yardstick]] = {
    "mean_std": mean_std,
    "mean": mean,
    "leave_one_out": leave_one_out,
    "reward": reward,
}


def advantages_of(group: Group, settings: LossSettings) -> list[list[float]]:
    """The advantage of every sample, by rollout.

    With rewards = "episode" all samples of an episode have the advantage of the episode's reward.
    With "step" each has that of its own step's reward, measured against the same yardstick, the
    rewards of the group's episodes: a format error of -1 then falls on the step that made it. What
    earlier steps did for later ones does not count: rewards are not added up over time.

    Example: episodes of rewards 1 and 0, of 2 and 1 steps, advantage "mean"
             -> [[0.5, 0.5], [-0.5]]
    """
    episodes = np.array([rollout.reward for rollout in group.rollouts], np.float64)
    baseline, scale = _YARDSTICKS[settings.advantage](episodes)
    found = []
    for rollout, ours in zip(group.rollouts, baseline, strict=True):
        if settings.rewards == "step":
            rewards = np.array([sample.reward for sample in rollout.samples], np.float64)
        else:
            rewards = np.full(len(rollout.samples), rollout.reward, np.float64)
        found.append(((rewards - ours) / scale).tolist())
    return found
