"""slime: `--custom-generate-function-path MODULE.generate`, where MODULE is yours:

    run = BackgroundRun("runs/slime", ["shop_support"], RunOptions(judge=ScenarioJudges))
    generate = generate_function(run, "path/of/the/model")

Each sample's `prompt` or `metadata["task"]` names a task (`shop_support:cancel-duplicate`). An
episode whose window moved gives several samples, siblings with one `rollout_id`. So slime carries
every history window. Sampling goes through slime's router, tokens in and tokens out.
"""

import copy
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.loop_backend import Generate
from rehearsal_room.bridges.trainers.player import Member, SamplerPlayer
from rehearsal_room.bridges.trainers.segments import Segment, TrainerEpisode, UnjudgedError
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling

Post = Callable[..., Awaitable[dict[str, Any]]]


def generate_function(
    run: BackgroundRun, model: str | Path, *, context: int = 32_768, post: Post | None = None
) -> Callable[..., Awaitable[Any]]:
    """slime's generate function. `context` is the most tokens of a prompt and its reply; `post`
    sends a request to slime's router (None: slime's own function)."""
    player = SamplerPlayer("slime", run, model, context=context)

    async def generate(args: Any, sample: Any, sampling_params: dict[str, Any]) -> list[Any]:
        ask = _asking(args, sample, sampling_params, post or _slime_post())
        member = Member(
            f"g{sample.group_index}" if sample.group_index is not None else "",
            number=(sample.index or 0) % args.n_samples_per_prompt,
            size=args.n_samples_per_prompt,
        )
        sampling = Sampling(max_tokens=sampling_params.get("max_new_tokens"))
        try:
            episode = await player.play(_task(sample), ask, sampling=sampling, member=member)
        except UnjudgedError:
            sample.status = type(sample).Status.ABORTED
            sample.remove_sample = True
            return [sample]
        return [_filled(sample, episode, segment) for segment in episode.segments]

    return generate


def _task(sample: Any) -> str:
    return str(sample.metadata.get("task") or sample.prompt)


def _filled(sample: Any, episode: TrainerEpisode, segment: Segment) -> Any:
    """A copy of the sample with one segment of its episode."""
    filled = copy.copy(sample)
    filled.tokens = segment.prompt_ids + segment.response_ids
    filled.response_length = len(segment.response_ids)
    filled.loss_mask = list(segment.mask)
    filled.rollout_log_probs = list(segment.logprobs)
    filled.reward = segment.reward
    filled.rollout_id = sample.index if sample.rollout_id is None else sample.rollout_id
    filled.weight_versions = [segment.weights] if segment.weights else []
    status = type(sample).Status
    filled.status = status.TRUNCATED if episode.is_truncated else status.COMPLETED
    filled.metadata = {**sample.metadata, "label": episode.label, "ending": episode.ending}
    return filled


def _asking(args: Any, sample: Any, params: dict[str, Any], post: Post) -> Generate:
    """Sampling of one reply through slime's router, as slime's own generate function does it."""
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    is_sticky = sample.session_id and getattr(args, "router_policy", "") == "consistent_hashing"
    headers = {"X-SMG-Routing-Key": sample.session_id} if is_sticky else None

    async def ask(prompt_ids: list[int], sampling: Sampling) -> GeneratedTokens:
        body = {
            "input_ids": prompt_ids,
            "sampling_params": {**params, "max_new_tokens": sampling.max_tokens},
            "return_logprob": True,
        }
        output = await post(url, body, headers=headers)
        meta = output["meta_info"]
        pairs = meta["output_token_logprobs"]
        finish = meta["finish_reason"]["type"]
        if finish == "abort":
            raise RuntimeError("slime aborted the request")
        return GeneratedTokens(
            [pair[1] for pair in pairs],
            [pair[0] for pair in pairs],
            finish,
            str(meta.get("weight_version", "")),
            meta.get("cached_tokens", 0),
        )

    return ask


def _slime_post() -> Post:
    post: Post = import_module("slime.utils.http_utils").post
    return post
