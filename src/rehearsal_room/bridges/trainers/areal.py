"""AReaL (1.0): trainer-samples and harness-samples.

    RehearsalAgent(run)                       # trainer-samples: an agent for AReaL's own proxy
    RehearsalWorkflow(run, model, gconfig)  # harness-samples: a RolloutWorkflow on the inference
    engine

Each row of the data has `task` (`shop_support:cancel-duplicate`). A workflow returns one row of
tensors for each segment of the episode, so AReaL carries every history window; None, which AReaL
leaves out, if the episode could not be judged.
"""

from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.loop_backend import Generate
from rehearsal_room.bridges.trainers.play import play
from rehearsal_room.bridges.trainers.player import SamplerPlayer
from rehearsal_room.bridges.trainers.segments import Segment, UnjudgedError
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling


class RehearsalAgent:
    """An agent of AReaL: one of our episodes against the proxy, which captures the tokens."""

    def __init__(self, run: BackgroundRun, *, model: str = "default", **fields: Any) -> None:
        self._run = run
        self._model = model
        self._fields = fields

    async def run(self, data: dict[str, Any], **proxy: Any) -> float:
        """Play the row's task; return its reward. AReaL gives `base_url`, `api_key` and
        `http_client` (not used: our client has connections of its own)."""
        url, key = proxy["base_url"], proxy["api_key"]
        return await play(data["task"], url, key, self._model, run=self._run, **self._fields)


class RehearsalWorkflow:
    """A RolloutWorkflow of AReaL, which asks for one method only."""

    def __init__(
        self, run: BackgroundRun, model: str | Path, gconfig: Any, *, api: Any = None
    ) -> None:
        """`gconfig` are AReaL's GenerationHyperparameters; `api` is the module with ModelRequest
        (None: AReaL's own)."""
        self._gconfig = gconfig
        self._api = api or import_module("areal.api")
        self._player = SamplerPlayer("AReaL", run, model, context=gconfig.max_tokens)

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any] | None:
        """Play the row's task; return its segments as padded tensors."""
        versions: dict[str, int] = {}
        sampling = Sampling(max_tokens=self._gconfig.max_new_tokens)
        try:
            episode = await self._player.play(
                data["task"], self._asking(engine, versions), sampling=sampling
            )
        except UnjudgedError:
            return None
        return tensors_of(episode.segments)

    def _asking(self, engine: Any, versions: dict[str, int]) -> Generate:
        rid = uuid4().hex
        stops = list(self._player.chat.end_ids)

        async def ask(prompt_ids: list[int], sampling: Sampling) -> GeneratedTokens:
            config = self._gconfig.new(
                n_samples=1, max_new_tokens=sampling.max_tokens, stop_token_ids=stops
            )
            request = self._api.ModelRequest(rid=rid, input_ids=prompt_ids, gconfig=config)
            reply = await engine.agenerate(request)
            version = str(reply.output_versions[-1]) if reply.output_versions else ""
            finish = "length" if reply.stop_reason == "length" else "stop"
            return GeneratedTokens(reply.output_tokens, reply.output_logprobs, finish, version)

        return ask


def rows_of(segments: tuple[Segment, ...]) -> dict[str, list[list[Any]]]:
    """The rows of a batch, one for each segment, not yet padded. Versions are those of a segment's
    last reply; -1 in prompts, as in AReaL's own workflows."""
    rows: dict[str, list[list[Any]]] = {
        name: [] for name in ("input_ids", "loss_mask", "logprobs", "versions", "attention_mask")
    }
    for one in segments:
        num_prompt = len(one.prompt_ids)
        version = int(one.weights) if one.weights.lstrip("-").isdigit() else -1
        rows["input_ids"].append(one.prompt_ids + one.response_ids)
        rows["loss_mask"].append([0] * num_prompt + one.mask)
        rows["logprobs"].append([0.0] * num_prompt + one.logprobs)
        rows["versions"].append(
            [-1] * num_prompt + [version if sampled else -1 for sampled in one.mask]
        )
        rows["attention_mask"].append([True] * (num_prompt + len(one.response_ids)))
    return rows


def tensors_of(segments: tuple[Segment, ...]) -> dict[str, Any]:
    """A batch of tensors `[S, T]`, padded at the right with 0, and `rewards` `[S]`."""
    torch: Any = import_module("torch")
    rows = rows_of(segments)
    length = max(len(row) for row in rows["input_ids"])
    kinds = {"logprobs": torch.float32, "attention_mask": torch.bool}
    batch = {
        name: torch.tensor(
            [row + [0] * (length - len(row)) for row in values], dtype=kinds.get(name, torch.int32)
        )
        for name, values in rows.items()
    }
    batch["rewards"] = torch.tensor([one.reward for one in segments], dtype=torch.float32)
    return batch
