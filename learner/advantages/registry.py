"""The advantages of a group's samples, as the run's settings define them."""

from collections.abc import Callable, Sequence

import numpy as np

from rehearsal_room.learner.advantages.base import Normalization, RewardArray
from rehearsal_room.learner.advantages.forest import Credits, Path, at_turn
from rehearsal_room.learner.advantages.gigpo import Visit, gigpo
from rehearsal_room.learner.advantages.leave_one_out import leave_one_out
from rehearsal_room.learner.advantages.mean import mean
from rehearsal_room.learner.advantages.mean_std import mean_std
from rehearsal_room.learner.advantages.reward import reward
from rehearsal_room.learner.advantages.tree import tree
from rehearsal_room.learner.advantages.vine import vine
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.samples import Group, Rollout

_NORMALIZATIONS: dict[str, Callable[[RewardArray], Normalization]] = {
    "mean_std": mean_std,
    "mean": mean,
    "leave_one_out": leave_one_out,
    "reward": reward,
}
_FORESTS: dict[str, Callable[[Sequence[Path]], Credits]] = {"tree": tree, "vine": vine}


def advantages_of(group: Group, settings: LossSettings) -> list[list[float]]:
    """The advantage of each sample, one list per rollout.

    With rewards = "episode", all samples of an episode have the advantage of the episode's reward.
    With "step", each sample has the advantage of its own step's reward, with the same baseline and
    scale, those of the group's episode rewards: a format error of -1 then counts against the step
    that made it. Rewards are not summed over time: an earlier step gets no credit for later ones.
    The advantages "tree", "vine" and "gigpo" differ from step to step by the episodes' rewards.

    Example: episodes of rewards 1 and 0, of 2 and 1 steps, advantage "mean"
             -> [[0.5, 0.5], [-0.5]]
    """
    episodes = np.array([rollout.reward for rollout in group.rollouts], np.float64)
    if (by_segment := _FORESTS.get(settings.advantage)) is not None:
        paths = [Path(one.episode, one.reward, one.branching) for one in group.rollouts]
        credits = by_segment(paths)
        return [
            [at_turn(of_episode, sample.turn) for sample in rollout.samples]
            for rollout, of_episode in zip(group.rollouts, credits, strict=True)
        ]
    if settings.advantage == "gigpo":
        visits = [_visits(rollout) for rollout in group.rollouts]
        return gigpo(
            episodes, visits, discount=settings.gigpo_discount, weight=settings.gigpo_weight
        )
    baseline, scale = _NORMALIZATIONS[settings.advantage](episodes)
    found = []
    for rollout, expected in zip(group.rollouts, baseline, strict=True):
        if settings.rewards == "step":
            rewards = np.array([sample.reward for sample in rollout.samples], np.float64)
        else:
            rewards = np.full(len(rollout.samples), rollout.reward, np.float64)
        found.append(((rewards - expected) / scale).tolist())
    return found


def _visits(rollout: Rollout) -> list[Visit]:
    """The anchors of an episode's samples: the world's digest and the window's tokens."""
    last = rollout.samples[-1].turn
    return [
        Visit((sample.state, sample.prompt.tobytes()), last - sample.turn)
        for sample in rollout.samples
    ]
