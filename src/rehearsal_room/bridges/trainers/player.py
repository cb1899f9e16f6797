"""The harness samples: our episodes with a trainer's own sampler.

    async def generate(prompt_ids: list[int], sampling: Sampling) -> Generated: ...

    player = SamplerPlayer("slime", run, "path/of/the/model", context=32_768)
    episode = await player.play("shop_support:cancel-duplicate", generate)
    episode.segments        # prompt and response ids, mask, log-probabilities, reward

The episode runs in the thread of the run: its loop, history windows, log and judge are those of
every run, and its agent is the `TokenAgent` of policies `vllm` and `local`, or an agent of the
user's own (`RunOptions.agent`), which asks that one at its URL. Only `generate` runs in the
trainer's event loop, one call for each reply. Promises: what is trained is what was sampled (no
text is tokenized again), each sampled token once; and an episode that no judge could judge raises
UnjudgedError.
"""

import asyncio
from functools import partial
from pathlib import Path

import msgspec

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.loop_backend import Generate, LoopBackend
from rehearsal_room.bridges.trainers.segments import TrainerEpisode, episode_of
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.model_api.request import ModelRequest
from rehearsal_room.harness.model_api.sampling_fields import sampling_fields
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.token_agent import Sampling, TokenAgent
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template


class Member(msgspec.Struct, frozen=True):
    """Which member of which group an episode is, as the trainer counts them."""

    group: str = ""  # empty: a group of its own
    number: int = 0
    size: int = 1
    seed: int | None = None  # of the episode; None: drawn from the run's seed


ALONE = Member()


class SamplerPlayer:
    """Plays episodes of a run for one trainer. All coroutines of a trainer may share it."""

    def __init__(
        self,
        trainer: str,
        run: BackgroundRun,
        model: str | Path,
        *,
        context: int,
        sampling: Sampling | None = None,
    ) -> None:
        """`model` is a folder with tokenizer and chat template; `context` is the most tokens of a
        prompt and its reply together.

        Raises SettingsError for a chat template that cannot show the windows of the run's dialect.
        """
        self.trainer = trainer
        self.run = run
        self.chat = ChatTokenizer.open(Path(model))
        check_template(self.chat, run.options.dialect, model=str(model))
        self.context = context
        self.sampling = sampling or Sampling()

    async def play(
        self,
        task: str,
        generate: Generate,
        *,
        sampling: Sampling | None = None,
        member: Member = ALONE,
    ) -> TrainerEpisode:
        """Play an episode of a task; return it as segments. `sampling` None: the player's own.

        Raises SettingsError for an unknown task and UnjudgedError. An exception of `generate` ends
        the episode, which then has no reward; an agent of the user's own may try again first.
        Cancellation cancels the episode.
        """
        backend = LoopBackend(self.trainer, generate, asyncio.get_running_loop())
        policy = _SamplerPolicy(self, backend, sampling or self.sampling)
        trajectory: Trajectory = await self.run.run(
            partial(
                OpenRun.play_with,
                model=policy,
                seed=member.seed,
                group=member.group,
                member=member.number,
                group_size=member.size,
            ),
            task,
        )
        return episode_of(trajectory, where=f"{self.trainer} ({task})")


class _SamplerPolicy:
    """The policy of one episode."""

    def __init__(self, player: SamplerPlayer, backend: LoopBackend, sampling: Sampling) -> None:
        self.name = f"trainer:{player.trainer}"
        self._player = player
        self._backend = backend
        self._sampling = sampling

    def agent(self, assignment: Assignment) -> Agent:
        return _SamplerAgent(
            self._backend,
            self._player.chat,
            self._sampling,
            context=self._player.context,
            episode_seed=assignment.seed,
            kept=assignment.kept,
        )


class _SamplerAgent(TokenAgent):
    """The model of one episode."""

    __slots__ = ()

    async def reply(self, window: Window) -> Reply:
        """Ask the model. Raises UnsupportedRequest, too, where an agent of the user's own asks for
        what a trainer's sampler does not do, such as stop words."""
        if window.fields:
            sampling_fields(ModelRequest("", window.messages, window.tools, window.fields))
        return await super().reply(window)
