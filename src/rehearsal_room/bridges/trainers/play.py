"""The trainer samples: one of our episodes against a trainer's own OpenAI-compatible proxy.

    reward = await play("shop_support:cancel-duplicate", base_url, api_key, "policy", run=run)

The trainer's proxy sees each request and captures its tokens; it needs the reward only. So the
episode's history windows, and the requests of an agent of the user's own, are requests like all
others, and whether the trainer can carry them is a matter of how it turns requests into sequences
(see bridges.trainers.sequences).
"""

from functools import partial
from typing import Any

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.segments import UnjudgedError, reason_of, reward_of
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings


async def play(
    task: str, base_url: str, api_key: str, model: str, *, run: BackgroundRun, **fields: Any
) -> float:
    """Play an episode of a task; return its reward. May be awaited in any asyncio event loop.

    `fields` are more OpenAISettings (`temperature`, `max_tokens`, …). Raises SettingsError, and
    UnjudgedError for an episode without a reward: the model or the world failed, or no judge could
    judge it.
    """
    return required_reward(await play_episode(task, base_url, api_key, model, run=run, **fields))


async def play_episode(
    task: str, base_url: str, api_key: str, model: str, *, run: BackgroundRun, **fields: Any
) -> Trajectory:
    """The same; return the whole episode."""
    settings = OpenAISettings(model, base_url, api_key, **fields)
    return await run.run(partial(_play, settings=settings), task)


def required_reward(trajectory: Trajectory) -> float:
    """The reward of a finished episode. Raises UnjudgedError, which says why there is none."""
    reward = reward_of(trajectory)
    if reward is None:
        raise UnjudgedError(reason_of(trajectory))
    return reward


async def _play(run: OpenRun, task: str, *, settings: OpenAISettings) -> Trajectory:
    async with OpenAIPolicy(settings) as policy:
        return await run.play_with(task, model=policy)
