"""From the arrays of a star's leaves to the tensors that a loss sees."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from learner.losses.base import TokenBatch
from learner.losses.metrics import Sums
from learner.packing.batch import Leaf, Star


class Scores(NamedTuple):
    """What was computed of a star before an update; None: nobody needs it. All `[N]`, leaf by leaf,
    as `Backend.score` gives them."""

    old: Tensor | None = None  # log-probabilities before the batch's first update
    reference: Tensor | None = None  # those of the reference model
    episode_log_ratios: Tensor | None = None  # see TokenBatch


def token_batch(
    star: Star, numbers: Sequence[int], logprobs: Tensor, entropy: Tensor, scores: Scores
) -> TokenBatch:
    """The trained tokens of some leaves of the star, in the order of `numbers`.

    Without old log-probabilities the present ones stand in for them: before the first update they
    are the same, and the ratio is 1 with the gradient that it should have.
    """
    leaves = [star.leaves[number] for number in numbers]

    def floats(field: str) -> Tensor:
        return _joined(leaves, field).to(logprobs.device, logprobs.dtype)

    def picked(values: Tensor | None) -> Tensor | None:
        return None if values is None else _picked(star, numbers, values).to(logprobs.dtype)

    old = picked(scores.old)
    return TokenBatch(
        logprobs=logprobs,
        old=logprobs.detach() if old is None else old,
        sampler=floats("sampler"),
        advantages=floats("advantages"),
        weights=floats("weights"),
        steps=_joined(leaves, "steps").to(logprobs.device),
        episodes=_joined(leaves, "episodes").to(logprobs.device),
        entropy=entropy,
        reference=picked(scores.reference),
        episode_log_ratios=picked(scores.episode_log_ratios),
    )


def episode_sums(star: Star, values_N: Tensor) -> Sums:
    """The sum of the numbers of each episode's tokens in the star, and how many they are, by the
    episode's number.

    Example: numbers 1, 2, 4 of tokens of episodes 7, 7, 8 -> {"7": (3, 2), "8": (4, 1)}
    """
    episodes, places = torch.unique(_joined(star.leaves, "episodes"), return_inverse=True)
    sums = torch.zeros(len(episodes), dtype=torch.float64)
    sums.index_add_(0, places, values_N.to(sums))
    counts = torch.bincount(places)
    names = map(str, episodes.tolist())
    return dict(zip(names, zip(sums.tolist(), counts.tolist(), strict=True), strict=True))


def of_episodes(star: Star, values: Mapping[str, float]) -> Tensor:
    """The number of each token's episode, `[N]`."""
    episodes = _joined(star.leaves, "episodes").tolist()
    return torch.tensor([values[str(episode)] for episode in episodes], dtype=torch.float64)


def _joined(leaves: Sequence[Leaf], field: str) -> Tensor:
    """One array of several leaves, behind each other, on the CPU."""
    return torch.from_numpy(np.concatenate([getattr(leaf, field) for leaf in leaves]))


def _picked(star: Star, numbers: Sequence[int], values_N: Tensor) -> Tensor:
    """Of numbers for the whole star those of some leaves."""
    of_leaves = torch.split(values_N, [len(leaf.trained) for leaf in star.leaves])
    return torch.cat([of_leaves[number] for number in numbers])
