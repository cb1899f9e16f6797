"""What the trainer's tests share: settings of a tiny model, random batches, and the same update
written out with nothing but torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from learner.config.settings import ComputeSettings, LossSettings, OptimizerSettings, TrainSettings
from learner.packing.batch import Batch, PrefixGroup, Suffix

VOCABULARY = 300


def settings_of(
    model: Path,
    *,
    steps: int = 10,
    loss: dict[str, Any] | None = None,
    optimizer: dict[str, Any] | None = None,
    compute: dict[str, Any] | None = None,
) -> TrainSettings:
    """Settings in which an update is large enough to be seen."""
    return TrainSettings(
        model=str(model),
        steps=steps,
        loss=LossSettings(**{"mismatch": "off", **(loss or {})}),
        optimizer=OptimizerSettings(**{"lr": 1e-3, **(optimizer or {})}),
        compute=ComputeSettings(**{"device": "cpu", **(compute or {})}),
    )


def random_batch(
    seed: int, *, prefix_groups: int = 4, suffixes: int = 4, prefix: int = 180, trained: int = 4
) -> Batch:
    """Stars of several leaves, each a group; two leaves make one episode; every token weighs the
    same. By default they share so much that they are computed as stars."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / (prefix_groups * suffixes * trained)

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

    made = tuple(
        PrefixGroup(
            ids(prefix),
            tuple(suffix(prefix_group * suffixes + number) for number in range(suffixes)),
            prefix_group,
        )
        for prefix_group in range(prefix_groups)
    )
    rows = sum(
        prefix + len(suffix.tokens) for prefix_group in made for suffix in prefix_group.suffixes
    )
    return Batch(made, prefix_groups * suffixes, prefix_groups * suffixes // 2, rows)


def changed(batch: Batch, prefix_group: int, suffix: int, **fields: Any) -> Batch:
    """The batch with other arrays in one leaf."""
    suffixes = list(batch.prefix_groups[prefix_group].suffixes)
    suffixes[suffix] = msgspec.structs.replace(suffixes[suffix], **fields)
    prefix_groups = list(batch.prefix_groups)
    prefix_groups[prefix_group] = msgspec.structs.replace(
        prefix_groups[prefix_group], suffixes=tuple(suffixes)
    )
    return msgspec.structs.replace(batch, prefix_groups=tuple(prefix_groups))


def in_parts(batch: Batch) -> Batch:
    """The batch with each star cut in two, so that every episode of two leaves lies in both."""
    prefix_groups = [
        msgspec.structs.replace(prefix_group, suffixes=prefix_group.suffixes[first::2])
        for prefix_group in batch.prefix_groups
        for first in (0, 1)
    ]
    return msgspec.structs.replace(batch, prefix_groups=tuple(prefix_groups))


def logprobs_by_row(model: nn.Module, prefix_group: PrefixGroup) -> list[Tensor]:
    """Log-probabilities of each leaf's trained tokens, from a plain forward of its row."""
    found = []
    for suffix in prefix_group.suffixes:
        row = torch.from_numpy(np.concatenate([prefix_group.prefix, suffix.tokens])).long()
        places = torch.from_numpy(suffix.trained) + len(prefix_group.prefix)
        logits = model(input_ids=row[None]).logits[0].float()
        found.append(logits.log_softmax(-1)[places - 1, row[places]])
    return found


def weights_after(model: nn.Module) -> dict[str, Tensor]:
    """A copy of a model's weights."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Of all weights; they must be the same ones."""
    assert one.keys() == other.keys()
    return max(float((one[name].float() - other[name].float()).abs().max()) for name in one)


def flat(parts: Sequence[Tensor]) -> Tensor:
    """Tensors behind each other."""
    return torch.cat(list(parts))
