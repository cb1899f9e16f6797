"""From a label to rewards."""

from collections.abc import Mapping

import msgspec

from harness.events import Ending, Label
from harness.trajectory import Trajectory


class RewardProfile(msgspec.Struct, frozen=True):
    """What each label is worth, and how the worth is spread over the steps.

    Every step of an episode that ended normally (`answered`) gets the reward of the task, and
    every step of another episode 0. With `step_rewards`, a step to which the format rules gave
    a reward of its own (-1 for a format error) has that one.
    """

    name: str
    labels: Mapping[Label, float]
    step_rewards: bool


# Agent World Model, arXiv:2602.10090
AWM = RewardProfile(
    "awm",
    {
        Label.COMPLETED: 1.0,
        Label.PARTIALLY_COMPLETED: 0.1,
        Label.AGENT_ERROR: 0.0,
        Label.ENVIRONMENT_ERROR: 0.0,
    },
    step_rewards=True,
)
SPARSE = RewardProfile(
    "sparse",
    {
        Label.COMPLETED: 1.0,
        Label.PARTIALLY_COMPLETED: 0.0,
        Label.AGENT_ERROR: 0.0,
        Label.ENVIRONMENT_ERROR: 0.0,
    },
    step_rewards=False,
)
PROFILES = {profile.name: profile for profile in (AWM, SPARSE)}


def rewards_of(
    label: Label, trajectory: Trajectory, profile: RewardProfile
) -> tuple[float, tuple[float, ...]]:
    """The reward of the task and those of the steps, one a step.

    Example (awm): partially_completed, three steps, answered -> (0.1, (0.1, 0.1, 0.1))
    Example (awm): agent_error, the third step a format error -> (0.0, (0.0, 0.0, -1.0))
    """
    reward = profile.labels[label]
    ended = trajectory.ended
    spread = reward if ended is not None and ended.ending is Ending.ANSWERED else 0.0
    if not profile.step_rewards:
        return reward, (spread,) * len(trajectory.steps)
    return reward, tuple(
        spread if step.reward is None else step.reward for step in trajectory.steps
    )
