"""From the arrays of a prefix group's suffixes to the tensors of a loss."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rehearsal_room.learner.losses.base import TokenBatch
from rehearsal_room.learner.losses.metrics import Sums
from rehearsal_room.learner.packing.batch import PrefixGroup, Suffix


class Scores(NamedTuple):
    """Values of a prefix group that are computed before an update; None: not needed. All are `[N]`,
    suffix by suffix, as `Backend.score` returns them."""

    old: Tensor | None = None  # log-probabilities before the batch's first update
    reference: Tensor | None = None  # log-probabilities of the reference model
    episode_log_ratios: Tensor | None = None  # see TokenBatch
    episode_mismatch: Tensor | None = None  # see TokenBatch
    episode_mismatch_mean: Tensor | None = None  # see TokenBatch


def token_batch(
    prefix_group: PrefixGroup,
    numbers: Sequence[int],
    logprobs: Tensor,
    entropy: Tensor,
    scores: Scores,
) -> TokenBatch:
    """The trained tokens of the suffixes with these numbers, in the order of `numbers`.

    Without old log-probabilities the current ones are used: before the first update they are equal,
    and the ratio is 1 with the correct gradient.
    """
    suffixes = [prefix_group.suffixes[number] for number in numbers]

    def floats(field: str) -> Tensor:
        return _concatenate(suffixes, field).to(logprobs.device, logprobs.dtype)

    def select(values: Tensor | None) -> Tensor | None:
        return None if values is None else _select(prefix_group, numbers, values).to(logprobs.dtype)

    old = select(scores.old)
    return TokenBatch(
        logprobs=logprobs,
        old=logprobs.detach() if old is None else old,
        sampler=floats("sampler"),
        advantages=floats("advantages"),
        weights=floats("weights"),
        steps=_concatenate(suffixes, "steps").to(logprobs.device),
        episodes=_concatenate(suffixes, "episodes").to(logprobs.device),
        entropy=entropy,
        reference=select(scores.reference),
        episode_log_ratios=select(scores.episode_log_ratios),
        episode_mismatch=select(scores.episode_mismatch),
        episode_mismatch_mean=select(scores.episode_mismatch_mean),
    )


def episode_sums(prefix_group: PrefixGroup, values_N: Tensor) -> Sums:
    """For each episode in the prefix group, the sum and count of its tokens' values, by the
    episode's number.

    Example: values 1, 2, 4 of tokens of episodes 7, 7, 8 -> {"7": (3, 2), "8": (4, 1)}
    """
    of_tokens = _concatenate(prefix_group.suffixes, "episodes")
    episodes, indices = torch.unique(of_tokens, return_inverse=True)
    sums = torch.zeros(len(episodes), dtype=torch.float64)
    sums.index_add_(0, indices, values_N.to(sums))
    counts = torch.bincount(indices)
    names = map(str, episodes.tolist())
    return dict(zip(names, zip(sums.tolist(), counts.tolist(), strict=True), strict=True))


def sampler_logprobs(prefix_group: PrefixGroup) -> Tensor:
    """The sampler's log-probabilities of the prefix group's trained tokens, `[N]`."""
    return _concatenate(prefix_group.suffixes, "sampler")


def spread_over_tokens(prefix_group: PrefixGroup, values: Mapping[str, float]) -> Tensor:
    """For each token, the value of its episode: `[N]` float64."""
    episodes = _concatenate(prefix_group.suffixes, "episodes").tolist()
    return torch.tensor([values[str(episode)] for episode in episodes], dtype=torch.float64)


def _concatenate(suffixes: Sequence[Suffix], field: str) -> Tensor:
    """The concatenated arrays of several suffixes, on the CPU."""
    return torch.from_numpy(np.concatenate([getattr(suffix, field) for suffix in suffixes]))


def _select(prefix_group: PrefixGroup, numbers: Sequence[int], values_N: Tensor) -> Tensor:
    """The values of the suffixes with these numbers, out of those of the whole prefix group."""
    by_suffix = torch.split(values_N, [len(suffix.trained) for suffix in prefix_group.suffixes])
    return torch.cat([by_suffix[number] for number in numbers])
