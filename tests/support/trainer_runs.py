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
from learner.packing.batch import Batch, Leaf, Star

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
    seed: int, *, stars: int = 4, leaves: int = 4, prefix: int = 180, trained: int = 4
) -> Batch:
    """Stars of several leaves, each a group; two leaves make one episode; every token weighs the
    same. By default they share so much that they are computed as stars."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / (stars * leaves * trained)

    def ids(num: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return rng.integers(0, VOCABULARY, num, dtype=np.int32)

    def leaf(number: int) -> Leaf:
        length = int(rng.integers(trained + 1, trained + 5))
        return Leaf(
            ids(length),
            np.arange(length - trained, length),
            rng.normal(-5.7, 0.3, trained).astype(np.float32),
            np.full(trained, rng.normal(), np.float32),
            np.full(trained, weight, np.float32),
            np.full(trained, number),
            np.full(trained, number // 2),
        )

    made = tuple(
        Star(ids(prefix), tuple(leaf(star * leaves + number) for number in range(leaves)), star)
        for star in range(stars)
    )
    rows = sum(prefix + len(leaf.tokens) for star in made for leaf in star.leaves)
    return Batch(made, stars * leaves, stars * leaves // 2, rows)


def changed(batch: Batch, star: int, leaf: int, **fields: Any) -> Batch:
    """The batch with other arrays in one leaf."""
    leaves = list(batch.stars[star].leaves)
    leaves[leaf] = msgspec.structs.replace(leaves[leaf], **fields)
    stars = list(batch.stars)
    stars[star] = msgspec.structs.replace(stars[star], leaves=tuple(leaves))
    return msgspec.structs.replace(batch, stars=tuple(stars))


def in_parts(batch: Batch) -> Batch:
    """The batch with each star cut in two, so that every episode of two leaves lies in both."""
    stars = [
        msgspec.structs.replace(star, leaves=star.leaves[first::2])
        for star in batch.stars
        for first in (0, 1)
    ]
    return msgspec.structs.replace(batch, stars=tuple(stars))


def logprobs_by_row(model: nn.Module, star: Star) -> list[Tensor]:
    """Log-probabilities of each leaf's trained tokens, from a plain forward of its row."""
    found = []
    for leaf in star.leaves:
        row = torch.from_numpy(np.concatenate([star.prefix, leaf.tokens])).long()
        places = torch.from_numpy(leaf.trained) + len(star.prefix)
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
