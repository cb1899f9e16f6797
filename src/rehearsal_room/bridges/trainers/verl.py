"""verl (0.9): an agent loop, named in the agent loop file of the rollout.

    # loops.py, imported by every agent loop worker; each has a folder of its own
    options = RunOptions(judge=ScenarioJudges)
    run = BackgroundRun(f"runs/verl/{os.getpid()}", ["shop_support"], options)
    RehearsalLoop = agent_loop(run, "path/of/the/model", name="rehearsal", module=__name__)

Each row of the data has `task` (`shop_support:cancel-duplicate`), and `agent_name = "rehearsal"`.
With `trainer.use_v1 = true`, verl's default, an episode is a list of AgentLoopOutputs, so verl
carries history windows and an agent of your own. verl's older trainer takes one AgentLoopOutput an
episode: both are refused.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.loop_backend import Generate
from rehearsal_room.bridges.trainers.player import SamplerPlayer
from rehearsal_room.bridges.trainers.segments import (
    Segment,
    TrainerEpisode,
    UnjudgedError,
    sole_segment,
)
from rehearsal_room.bridges.trainers.sequences import refuse_sequences
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling

Register = Callable[[str], Callable[[type], type]]


def agent_loop(
    run: BackgroundRun, model: str | Path, *, module: str, name: str = "rehearsal"
) -> type[Any]:
    """The class of an agent loop, registered with verl, which finds it as `RehearsalLoop` in
    `module`."""
    verl: Any = import_module("verl.experimental.agent_loop.agent_loop")
    return loop_class(run, model, module=module, name=name, verl=verl)


def loop_class(
    run: BackgroundRun, model: str | Path, *, module: str, name: str, verl: Any
) -> type[Any]:
    """The same, made from the names that `verl` has: AgentLoopBase, AgentLoopOutput,
    AgentLoopMetrics and register."""
    players: dict[int, SamplerPlayer] = {}  # by length of the context

    class RehearsalLoop(verl.AgentLoopBase):  # type: ignore[misc]  # known at run time only
        """Plays one of our episodes for each sample. Raises SettingsError for what the trainer of
        verl's settings cannot carry."""

        def __init__(self, *arguments: Any, **parts: Any) -> None:
            super().__init__(*arguments, **parts)
            if not self.config.trainer.use_v1:
                refuse_sequences("verl", run.options)

        async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
            limits = self.rollout_config
            context = limits.prompt_length + limits.response_length
            player = players.get(context)
            if player is None:
                player = players[context] = SamplerPlayer("verl", run, model, context=context)
            ask = asking(self.server_manager, sampling_params)
            is_list = self.config.trainer.use_v1
            try:
                episode = await player.play(task_of(row), ask)
            except UnjudgedError:
                if is_list:
                    return []  # which verl leaves out
                raise
            segments = episode.segments if is_list else (sole_segment(episode, trainer="verl"),)
            outputs = [
                verl.AgentLoopOutput(
                    **output_of(episode, one, limits.response_length),
                    metrics=verl.AgentLoopMetrics(),
                )
                for one in segments
            ]
            return outputs if is_list else outputs[0]

    # verl finds a registered class by its module and name.
    RehearsalLoop.__module__, RehearsalLoop.__qualname__ = module, "RehearsalLoop"
    registered: type[Any] = verl.register(name)(RehearsalLoop)
    return registered


def task_of(row: dict[str, Any]) -> str:
    """The task that a row of the data names."""
    extra = row.get("extra_info") or {}
    return str(row.get("task") or extra["task"])


def asking(server_manager: Any, params: dict[str, Any]) -> Generate:
    """Sampling of one reply on verl's servers; all replies of an episode go to one server, which
    has their common beginning cached."""
    request_id = uuid4().hex

    async def ask(prompt_ids: list[int], sampling: Sampling) -> GeneratedTokens:
        output = await server_manager.generate(
            request_id=request_id,
            prompt_ids=prompt_ids,
            sampling_params={**params, "max_tokens": sampling.max_tokens, "logprobs": True},
        )
        if output.log_probs is None:
            raise RuntimeError("verl's server returned no log-probabilities")
        cut = len(output.token_ids) >= (sampling.max_tokens or 0)
        return GeneratedTokens(output.token_ids, output.log_probs, "length" if cut else "stop")

    return ask


def output_of(episode: TrainerEpisode, one: Segment, response_length: int) -> dict[str, Any]:
    """The fields of an AgentLoopOutput for one segment of an episode."""
    return {
        "prompt_ids": one.prompt_ids,
        "response_ids": one.response_ids[:response_length],
        "response_mask": one.mask[:response_length],
        "response_logprobs": one.logprobs[:response_length],
        "reward_score": episode.reward,
        "num_turns": 2 * episode.num_turns,
        "extra_fields": {
            "turn_scores": [],
            "tool_rewards": [],
            "reward_extra_info": {},
            "label": episode.label,
            "ending": episode.ending,
        },
    }
