"""Helpers of the trainer's tests: settings of a tiny model, random batches, and log-probabilities
computed with plain torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from rehearsal_room.learner.config.settings import (
    ComputeSettings,
    LoraSettings,
    LossSettings,
    OptimizerSettings,
    TrainSettings,
)
from rehearsal_room.learner.packing.batch import Batch, PrefixGroup, Suffix

VOCABULARY = 300


def settings_of(
    model: Path,
    *,
    steps: int = 10,
    loss: dict[str, Any] | None = None,
    optimizer: dict[str, Any] | None = None,
    compute: dict[str, Any] | None = None,
    lora: dict[str, Any] | None = None,
) -> TrainSettings:
    """Settings with updates that are large enough to be measured."""
    return TrainSettings(
        model=str(model),
        steps=steps,
        loss=LossSettings(**{"mismatch": "off", **(loss or {})}),
        optimizer=OptimizerSettings(**{"lr": 1e-3, **(optimizer or {})}),
        compute=ComputeSettings(**{"device": "cpu", **(compute or {})}),
        lora=LoraSettings(**(lora or {})),
    )


def random_batch(
    seed: int, *, num_groups: int = 4, num_suffixes: int = 4, prefix: int = 180, trained: int = 4
) -> Batch:
    """Prefix groups of several suffixes, each one episode group. Two suffixes are one episode, and
    all tokens weigh the same. By default they share enough to be computed as prefix groups."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / (num_groups * num_suffixes * trained)

    def ids(num: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return rng.integers(0, VOCABULARY, num, dtype=np.int32)

    def suffix(number: int) -> Suffix:
        length = int(rng.integers(trained + 1, trained + 5))
        return Suffix(
            ids(length),
            np.arange(length - trained, length),
            rng.normal(-5.7, 0.3, trained).astype(np.float32),
            np.full(trained, rng.normal(), np.float32),
            np.full(trained, weight, np.float32),
            np.full(trained, number),
            np.full(trained, number // 2),
        )

    prefix_groups = tuple(
        PrefixGroup(
            ids(prefix),
            tuple(suffix(group * num_suffixes + number) for number in range(num_suffixes)),
            group,
        )
        for group in range(num_groups)
    )
    rows = sum(prefix + len(one.tokens) for group in prefix_groups for one in group.suffixes)
    return Batch(prefix_groups, num_groups * num_suffixes, num_groups * num_suffixes // 2, rows)


def changed(batch: Batch, prefix_group: int, suffix: int, **fields: Any) -> Batch:
    """The batch with other arrays in one suffix."""
    suffixes = list(batch.prefix_groups[prefix_group].suffixes)
    suffixes[suffix] = msgspec.structs.replace(suffixes[suffix], **fields)
    prefix_groups = list(batch.prefix_groups)
    prefix_groups[prefix_group] = msgspec.structs.replace(
        prefix_groups[prefix_group], suffixes=tuple(suffixes)
    )
    return msgspec.structs.replace(batch, prefix_groups=tuple(prefix_groups))


def in_parts(batch: Batch) -> Batch:
    """The batch with each prefix group split in two, so that both have a suffix of each episode."""
    prefix_groups = [
        msgspec.structs.replace(prefix_group, suffixes=prefix_group.suffixes[first::2])
        for prefix_group in batch.prefix_groups
        for first in (0, 1)
    ]
    return msgspec.structs.replace(batch, prefix_groups=tuple(prefix_groups))


def logprobs_by_row(model: nn.Module, prefix_group: PrefixGroup) -> list[Tensor]:
    """Log-probabilities of each suffix's trained tokens, from a plain forward of its row."""
    found = []
    for suffix in prefix_group.suffixes:
        row = torch.from_numpy(np.concatenate([prefix_group.prefix, suffix.tokens])).long()
        trained = torch.from_numpy(suffix.trained) + len(prefix_group.prefix)
        logits = model(input_ids=row[None]).logits[0].float()
        found.append(logits.log_softmax(-1)[trained - 1, row[trained]])
    return found


def weights_after(model: nn.Module) -> dict[str, Tensor]:
    """A copy of a model's weights."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest absolute difference of two sets of weights with the same names."""
    assert one.keys() == other.keys()
    return max(float((one[name].float() - other[name].float()).abs().max()) for name in one)


def flat(parts: Sequence[Tensor]) -> Tensor:
    """Concatenated tensors."""
    return torch.cat(list(parts))
