"""SkyRL (0.3): a generator in place of SkyRLGymGenerator.

    class Experiment(BasePPOExp):
        def get_generator(self, cfg, tokenizer, inference_engine_client):
            run = BackgroundRun("runs/skyrl", ["shop_support"], RunOptions(judge=ScenarioJudges))
            return RehearsalGenerator(run, cfg.trainer.policy.model.path, inference_engine_client)

`env_extras` of a prompt has `task`. With `step_wise_trajectories` a segment is a row, so SkyRL
carries every history window and an agent of your own; without it both are refused.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.loop_backend import Generate
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.segments import TrainerEpisode, UnjudgedError, sole_segment
from rehearsal_room.bridges.trainers.sequences import refuse_sequences
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling


class RehearsalGenerator:
    """A GeneratorInterface of SkyRL, which asks for one method only."""

    def __init__(
        self,
        run: BackgroundRun,
        model: str | Path,
        inference_engine_client: Any,
        *,
        context: int = 32_768,
        step_wise: bool = True,
    ) -> None:
        """`step_wise` is `generator.step_wise_trajectories`. Raises SettingsError."""
        if not step_wise:
            refuse_sequences("SkyRL", run.options)
        self._player = SamplerPlayer("SkyRL", run, model, context=context)
        self._client = inference_engine_client
        self._step_wise = step_wise

    async def generate(self, input_batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Play an episode for each prompt; a GeneratorOutput. An episode that could not be judged
        is a row without a token to train."""
        params = dict(input_batch.get("sampling_params") or {})
        ids = input_batch.get("trajectory_ids") or [None] * len(input_batch["prompts"])
        extras = input_batch.get("env_extras") or [{}] * len(ids)
        episodes = await asyncio.gather(
            *(
                self._play(one["task"], which, params)
                for one, which in zip(extras, ids, strict=True)
            )
        )
        rows = _Rows()
        for episode, which in zip(episodes, ids, strict=True):
            rows.add(episode, which, step_wise=self._step_wise)
        return rows.output(step_wise=self._step_wise)

    async def _play(self, task: str, which: Any, params: dict[str, Any]) -> TrainerEpisode | None:
        member = Member()
        if which is not None:
            member = Member(f"g{which.instance_id}", which.repetition_id, which.repetition_id + 1)
        asked = params.get("max_generate_length") or params.get("max_tokens")
        try:
            return await self._player.play(
                task, self._asking(params), sampling=Sampling(max_tokens=asked), member=member
            )
        except UnjudgedError:
            return None

    def _asking(self, params: dict[str, Any]) -> Generate:
        async def ask(prompt_ids: list[int], sampling: Sampling) -> GeneratedTokens:
            output = await self._client.generate(
                {
                    "prompts": None,
                    "prompt_token_ids": [prompt_ids],
                    "sampling_params": {**params, "max_tokens": sampling.max_tokens, "logprobs": 0},
                    "session_ids": None,
                    "mm_features": None,
                    "cache_salt": None,
                }
            )
            return GeneratedTokens(
                output["response_ids"][0],
                output["response_logprobs"][0],
                output["stop_reasons"][0] or "stop",
            )

        return ask


class _Rows:
    """The rows of a GeneratorOutput."""

    def __init__(self) -> None:
        self.prompts: list[list[int]] = []
        self.responses: list[list[int]] = []
        self.rewards: list[list[float]] = []
        self.masks: list[list[int]] = []
        self.logprobs: list[list[float]] = []
        self.reasons: list[str] = []
        self.ids: list[Any] = []
        self.last: list[bool] = []

    def add(self, episode: TrainerEpisode | None, which: Any, *, step_wise: bool) -> None:
        """Add an episode; its reward is at the last token of its last row."""
        if episode is None:
            self._append(([0], [0], [0], [0.0]), 0.0, "unjudged", which, is_last=True)
            return
        segments = episode.segments if step_wise else (sole_segment(episode, trainer="SkyRL"),)
        for number, one in enumerate(segments, 1):
            is_last = number == len(segments)
            row = (one.prompt_ids, one.response_ids, one.mask, one.logprobs)
            reason = "length" if is_last and episode.is_truncated else "stop"
            self._append(row, episode.reward if is_last else 0.0, reason, which, is_last=is_last)

    def _append(
        self, row: Sequence[Any], reward: float, reason: str, which: Any, *, is_last: bool
    ) -> None:
        prompt, response, mask, logprobs = row
        self.prompts.append(prompt)
        self.responses.append(response)
        self.masks.append(mask)
        self.logprobs.append(logprobs)
        self.rewards.append([0.0] * (len(response) - 1) + [reward])
        self.reasons.append(reason)
        self.ids.append(which)
        self.last.append(is_last)

    def output(self, *, step_wise: bool) -> dict[str, Any]:
        """All rows, as a GeneratorOutput."""
        return {
            "prompt_token_ids": self.prompts,
            "response_ids": self.responses,
            "rewards": self.rewards,
            "loss_masks": self.masks,
            "stop_reasons": self.reasons,
            "rollout_metrics": None,
            "rollout_logprobs": self.logprobs,
            "trajectory_ids": self.ids if step_wise else None,
            "trajectory_generation_times": None,
            "rollout_expert_indices": None,
            "is_last_step": self.last if step_wise else None,
            "env_metrics": None,
        }
