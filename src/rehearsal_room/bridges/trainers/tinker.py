"""tinker-cookbook (0.6): environments, groups and a dataset for `rl/train.py`.

    player = SamplerPlayer("tinker-cookbook", run, "path/of/the/model", context=32_768)
    dataset = RehearsalDataset(player, group_size=8, groups_per_batch=16)

The cookbook's loop samples: an environment gives it the prompt of each turn and gets the tokens.
The prompts are our windows, and the cookbook begins another datum where one does not continue the
last, so it carries every history window. The log has no log-probabilities: the cookbook has them.
"""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.segments import TrainerEpisode
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling


class RehearsalEnv:
    """An Env of the cookbook: one of our episodes, used once."""

    def __init__(
        self, player: SamplerPlayer, task: str, member: Member, *, types: Any = None
    ) -> None:
        """`types` has ModelInput and StepResult (None: the cookbook's own)."""
        self._player = player
        self._task = task
        self._member = member
        self._types = types or _Types()
        self._prompts: asyncio.Queue[list[int]] = asyncio.Queue()
        self._actions: asyncio.Queue[GeneratedTokens] = asyncio.Queue()
        self._playing: asyncio.Task[TrainerEpisode] | None = None

    async def initial_observation(self) -> tuple[Any, list[int]]:
        """Begin the episode; return its first prompt and the ids that end a reply."""
        played = self._player.play(self._task, self._generate, member=self._member)
        self._playing = asyncio.create_task(played)
        prompt = await self._next_prompt()
        if prompt is None:
            raise RuntimeError(f"task {self._task!r}: the episode ended before its first turn")
        return self._types.ModelInput.from_ints(prompt), self._stops

    async def step(self, action: Sequence[int], *, extra: Any = None) -> Any:
        """Take a turn with the sampled tokens; a StepResult, whose reward comes at the end. Raises
        UnjudgedError for an episode without a reward."""
        finish = str((extra or {}).get("stop_reason") or "stop")
        self._actions.put_nowait(GeneratedTokens(action, [0.0] * len(action), finish))
        prompt = await self._next_prompt()
        if prompt is not None:
            shown = self._types.ModelInput.from_ints(prompt)
            return self._types.StepResult(0.0, False, shown, self._stops)
        assert self._playing is not None
        episode = await self._playing
        metrics = {
            "completed": float(episode.label == "completed"),
            "turns": episode.num_turns,
            f"stop/{'max_turns' if episode.ending == 'step_limit' else episode.ending}": 1.0,
        }
        shown = self._types.ModelInput.from_ints([])
        return self._types.StepResult(episode.reward, True, shown, self._stops, metrics)

    def cancel(self) -> None:
        """End the episode if it is live; its world is given back."""
        if self._playing is not None:
            self._playing.cancel()

    @property
    def _stops(self) -> list[int]:
        return list(self._player.chat.end_ids)

    async def _generate(self, prompt_ids: list[int], _sampling: Sampling) -> GeneratedTokens:
        self._prompts.put_nowait(prompt_ids)
        return await self._actions.get()

    async def _next_prompt(self) -> list[int] | None:
        """The next prompt; None: the episode is over. Raises what stopped it."""
        assert self._playing is not None
        shown = asyncio.ensure_future(self._prompts.get())
        await asyncio.wait({shown, self._playing}, return_when=asyncio.FIRST_COMPLETED)
        if shown.done():
            return shown.result()
        shown.cancel()
        self._playing.result()
        return None


class RehearsalGroup:
    """An EnvGroupBuilder: the members of one group. It stays in this process."""

    def __init__(self, player: SamplerPlayer, task: str, size: int, name: str) -> None:
        self._player = player
        self._task = task
        self._members = [Member(name, number, size) for number in range(size)]
        self._envs: list[RehearsalEnv] = []

    async def make_envs(self) -> Sequence[RehearsalEnv]:
        self._envs = [RehearsalEnv(self._player, self._task, one) for one in self._members]
        return self._envs

    async def compute_group_rewards(
        self, trajectory_group: Sequence[Any], env_group: Sequence[Any]
    ) -> list[tuple[float, dict[str, float]]]:
        """Nothing is added to the rewards of the steps."""
        return [(0.0, {}) for _ in trajectory_group]

    async def cleanup(self) -> None:
        """End what is still live."""
        for env in self._envs:
            env.cancel()

    def logging_tags(self) -> list[str]:
        """The world's name, by which metrics are aggregated."""
        return [self._task.partition(":")[0]]


class RehearsalDataset:
    """An RLDataset: every task of the run, again and again in the same order."""

    def __init__(self, player: SamplerPlayer, *, group_size: int, groups_per_batch: int) -> None:
        self._player = player
        self._tasks = list(player.run.tasks)
        self._size = group_size
        self._per_batch = groups_per_batch

    def get_batch(self, index: int) -> list[RehearsalGroup]:
        first = index * self._per_batch
        numbers = range(first, first + self._per_batch)
        names = [(self._tasks[one % len(self._tasks)], f"g{one:06d}") for one in numbers]
        return [RehearsalGroup(self._player, task, self._size, name) for task, name in names]

    def __len__(self) -> int:
        return max(1, len(self._tasks) // self._per_batch)


class _Types:
    """The names of tinker and its cookbook."""

    def __init__(self) -> None:
        self.ModelInput: Any = import_module("tinker").ModelInput
        self.StepResult: Any = import_module("tinker_cookbook.rl.types").StepResult
