"""A trainer over prime-rl's files, and what prime-rl's own code reads in them.

    python -m tests.support.prime_rl_trainer read FOLDER RANKS     (prints JSON)
    python -m tests.support.prime_rl_trainer train FOLDER MODEL STEPS

Where `prime_rl` can be imported, its own loader and loss are used; otherwise files are taken apart
by position and the loss is the formula. Nothing of Rehearsal is imported. Its trainer as a whole
needs GPUs and vLLM.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

try:
    from prime_rl.configs.shared import FileSystemTransportConfig
    from prime_rl.configs.trainer import DefaultLossConfig, TrainerConfig
    from prime_rl.trainer.rl.data import DataLoader
    from prime_rl.trainer.rl.loss import compute_loss, setup_rl_loss_fn
    from prime_rl.transports.rollouts.types import MicroBatch
except ImportError:
    DataLoader = None
FIELDS = (
    *("input_ids", "loss_mask", "advantages", "inference_logprobs", "position_ids"),
    *("sequence_lengths", "temperatures", "env_names", "seq_lens"),
    *("ref_logprobs", "routed_experts", "mm_kwargs", "mm_token_type_ids"),
    *("rl_weights", "ce_weights", "ref_kl_weights"),
)


def path_of(folder: Path, step: int, rank: int) -> Path:
    return folder / "rollouts" / f"step_{step}" / f"rank_{rank}.bin"


def batches_of(folder: Path, step: int, rank: int) -> list[dict[str, Any]]:
    """The micro-batches of a file, by the fields' names."""
    rows = msgspec.msgpack.decode(path_of(folder, step, rank).read_bytes())
    return [dict(zip(FIELDS, row, strict=False)) for row in rows]


def tensors_of(folder: Path, step: int) -> list[dict[str, Any]]:
    """The same as tensors `[1, T]`, of rank 0."""
    if DataLoader is not None:
        return DataLoader(folder, step, 1, FileSystemTransportConfig()).get_batch()
    found = []
    for one in batches_of(folder, step, 0):
        values = {name: one.get(name) for name in FIELDS}
        for name, value in values.items():
            if value is not None and name not in ("env_names", "sequence_lengths"):
                values[name] = torch.tensor(value)[None]
        found.append(values)
    return found


def loss_of(one: dict[str, Any], logprobs: torch.Tensor, scales: tuple[int, int]) -> torch.Tensor:
    """The loss of a micro-batch; `logprobs` `[T]` are those of its tokens."""
    if DataLoader is None:
        return _formula(one, logprobs, scales)
    lengths = one["sequence_lengths"]

    def split(name: str) -> Any:
        return None if one[name] is None else one[name][0].split(lengths)

    loss, _ = compute_loss(
        logprobs.split(lengths),
        split("inference_logprobs"),
        None,
        split("advantages"),
        split("loss_mask"),
        split("rl_weights"),
        split("ce_weights"),
        None,
        setup_rl_loss_fn(DefaultLossConfig(kl_tau=0.0)),
        *scales,
        1,
    )
    return loss


def scales_of(batches: list[dict[str, Any]]) -> tuple[int, int]:
    """The tokens of the batch by whose numbers the policy loss and the likelihood are divided."""
    rl = ce = 0
    for one in batches:
        mask, weights = one["loss_mask"], one["rl_weights"]
        rl += int(mask.sum() if weights is None else (mask & (weights != 0)).sum())
        ce += 0 if one["ce_weights"] is None else int((one["ce_weights"] != 0).sum())
    return max(rl, 1), max(ce, 1)


def _formula(one: dict[str, Any], logprobs: torch.Tensor, scales: tuple[int, int]) -> torch.Tensor:
    mask, sampler, advantages = (
        one[name][0] for name in ("loss_mask", "inference_logprobs", "advantages")
    )
    moved = logprobs.detach().exp() - sampler.exp()
    beyond = torch.where(advantages > 0, moved > 0.2, moved < -0.2)
    losses = -advantages * (logprobs - sampler).exp() * (mask & ~beyond)
    if one["rl_weights"] is not None:
        losses = losses * one["rl_weights"][0]
    loss = losses.sum() / scales[0]
    if one["ce_weights"] is not None:
        loss = loss - (one["ce_weights"][0] * logprobs).sum() / scales[1]
    return loss


def publish(model: Any, folder: Path, step: int) -> None:
    """Publish weights as prime-rl does, with STABLE at last."""
    target = folder / "broadcasts" / f"step_{step}"
    target.mkdir(parents=True, exist_ok=True)
    weights = {name: one.detach().contiguous().bfloat16() for name, one in model.named_parameters()}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "STABLE").touch()


def train(folder: Path, start: str, steps: int) -> None:
    """Train on the batches of some steps, as they come."""
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    publish(model, folder, 0)
    for step in range(1, steps + 1):
        while not path_of(folder, step, 0).exists():
            time.sleep(0.02)
        batches = tensors_of(folder, step)
        scales = scales_of(batches)
        for one in batches:
            loss_of(one, _logprobs(model, one), scales).backward()
        optimizer.step()
        optimizer.zero_grad()
        publish(model, folder, step)


def _logprobs(model: Any, one: dict[str, Any]) -> torch.Tensor:
    """The log-probability of each token, after the tokens of its sequence."""
    found = []
    for ids in one["input_ids"][0].split(one["sequence_lengths"]):
        logits = model(input_ids=ids[None]).logits[0, :-1]
        own = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
        found.append(torch.cat([own.new_zeros(1), own]))
    return torch.cat(found)


def made_up(one: dict[str, Any]) -> torch.Tensor:
    """Log-probabilities that follow from the tokens and the sampler's, `[T]` float64."""
    noise = (one["input_ids"][0] % 11).double() / 8 - 0.6
    return (one["inference_logprobs"][0].double() + noise).clamp(max=-1e-3).requires_grad_()


def read(folder: Path, ranks: int) -> dict[str, Any]:
    """What prime-rl's own classes find in the files of step 1, its loss of them and its gradient,
    for log-probabilities that are made up; and the defaults of its configuration."""
    files = [path_of(folder, 1, rank).read_bytes() for rank in range(ranks)]
    found = [msgspec.msgpack.decode(one, type=list[MicroBatch]) for one in files]
    batches = tensors_of(folder, 1)
    logprobs = [made_up(one) for one in batches]
    scales = scales_of(batches)
    loss = sum(loss_of(one, values, scales) for one, values in zip(batches, logprobs, strict=True))
    loss.backward()
    return {
        "fields": MicroBatch.__struct_fields__,
        "ranks": [[msgspec.structs.asdict(one) for one in each] for each in found],
        "loss": loss.item(),
        "gradients": [one.grad.tolist() for one in logprobs],
        "defaults": json.loads(TrainerConfig().model_dump_json()),
    }


if __name__ == "__main__":
    if sys.argv[1] == "read":
        sys.stdout.write(json.dumps(read(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        train(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
