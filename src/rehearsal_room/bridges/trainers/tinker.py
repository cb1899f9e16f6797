"""tinker-cookbook (0.6): environments, groups and a dataset for `rl/train.py`.

    player = SamplerPlayer("tinker-cookbook", run, "path/of/the/model", context=32_768)
    dataset = RehearsalDataset(player, group_size=8, groups_per_batch=16)

The cookbook's loop samples: an environment gives it the prompt of each turn and gets the tokens.
The prompts are our windows, or the requests of an agent of your own, one after the other, and the
cookbook begins another datum where one does not continue the last. So it carries every history
window and every agent. The log has no log-probabilities: the cookbook has them.

A reply for which the agent no longer waits is bound to no turn: its step has the metric by which
the cookbook leaves a step out of training.
"""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.segments import TrainerEpisode
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling

LEFT_OUT = "parse_error_masked"  # the metric of a step that the cookbook does not train


class _Asked(NamedTuple):
    """A prompt, and the tokens that follow it."""

    prompt_ids: list[int]
    reply: asyncio.Future[GeneratedTokens]


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
        self._asked: asyncio.Queue[_Asked] = asyncio.Queue()
        self._shown: _Asked | None = None  # that the cookbook samples now
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
        assert self._shown is not None
        reply, metrics = self._shown.reply, dict[str, float]()
        if reply.done():  # cancelled
            metrics[LEFT_OUT] = 1.0
        else:
            reply.set_result(GeneratedTokens(action, [0.0] * len(action), finish))
        prompt = await self._next_prompt()
        if prompt is not None:
            shown = self._types.ModelInput.from_ints(prompt)
            return self._types.StepResult(0.0, False, shown, self._stops, metrics)
        assert self._playing is not None
        episode = await self._playing
        metrics |= {
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
        asked = _Asked(prompt_ids, asyncio.get_running_loop().create_future())
        self._asked.put_nowait(asked)
        return await asked.reply

    async def _next_prompt(self) -> list[int] | None:
        """The next prompt; None: the episode is over. Raises what stopped it."""
        assert self._playing is not None
        while True:
            next_one = asyncio.ensure_future(self._asked.get())
            await asyncio.wait({next_one, self._playing}, return_when=asyncio.FIRST_COMPLETED)
            if not next_one.done():
                next_one.cancel()
                self._playing.result()
                return None
            self._shown = next_one.result()
            if not self._shown.reply.done():
                return self._shown.prompt_ids


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
