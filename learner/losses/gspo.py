"""The clipped ratio of whole sequences (GSPO, arXiv:2507.18071).

    s = exp(mean over the sequence of logprobs - old)
    loss = -min(s A, clip(s, 1 - low, 1 + high) A)

A sequence is a step (one reply) or an episode (all its replies). The losses are the paper's token
form: each token has the sequence's ratio as a constant, and its own gradient,

    s_t = stop(s) * exp(logprobs_t - stop(logprobs_t)),

so tokens of one sequence may be in several micro-batches. With aggregate = "step" (or "episode")
the sum over a sequence's tokens is the paper's objective, in value and gradient.

A step is always complete within one micro-batch. An episode need not be, so its mean is computed
outside: TokenBatch.episode_log_ratios, over all its tokens at the start of an update.
"""

import torch
from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.clip import clip_losses


class Gspo:
    """Clips the ratios of sequences to `[1 - low, 1 + high]`."""

    def __init__(self, *, low: float, high: float, whole_episodes: bool) -> None:
        self._low = low
        self._high = high
        self._whole_episodes = whole_episodes

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        own = tokens.logprobs - tokens.logprobs.detach()  # [N], zeros that carry the gradient
        ratios = (self._log_ratios(tokens) + own).exp()
        return clip_losses(ratios, tokens.advantages, low=self._low, high=self._high)

    def _log_ratios(self, tokens: TokenBatch) -> Tensor:
        if not self._whole_episodes:
            return mean_log_ratios(tokens.logprobs.detach(), tokens.old, tokens.steps)
        if tokens.episode_log_ratios is None:
            raise ValueError("GSPO over episodes needs the episodes' log-ratios")
        return tokens.episode_log_ratios


def mean_log_ratios(logprobs: Tensor, old: Tensor, sequences: Tensor) -> Tensor:
    """For each token, the mean of `logprobs - old [N]` over the tokens of its sequence.

    `sequences [N]` has an arbitrary number for each sequence; equal numbers are one sequence.

    Example: log-ratios [0.1, 0.3, 0.5] of sequences [7, 7, 2] -> [0.2, 0.2, 0.5]
    """
    _, indices = torch.unique(sequences, return_inverse=True)  # [N], from 0
    log_ratios = logprobs - old
    sums = log_ratios.new_zeros(len(indices)).index_add(0, indices, log_ratios)
    counts = torch.zeros_like(sums).index_add(0, indices, torch.ones_like(log_ratios))
    return (sums / counts.clamp(min=1))[indices]
