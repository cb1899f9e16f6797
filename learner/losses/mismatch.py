"""Truncated importance sampling for the mismatch between sampler and trainer.

Sampler and trainer are different programs, which compute slightly different probabilities from the
same weights; and the sampler's weights may be some versions older. Tokens then come from a
distribution other than the one that the ratios start from. Each token's loss is multiplied, without
gradient, by

    token    min(exp(old - sampler), cap)
    step     min(exp(sum over the step's tokens of old - sampler), cap)
    episode  min(exp(sum over the episode's tokens of old - sampler), cap)

(truncated importance sampling: Ionides 2008; between engines: "Your Efficient RL Framework Secretly
Brings You Off-Policy RL Training", Yao et al. 2025). The token form ignores how a token changes the
probability of the tokens after it; the step form includes that and has a higher variance, the
episode form, which includes the later steps too, the highest. AWM (arXiv:2602.10090) corrects
sequences.
"""

import torch
from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.metrics import max_and_count, sum_and_count


def token_weights(tokens: TokenBatch, *, cap: float) -> Tensor:
    """The weight of each token, `[N]` without gradient."""
    return _log_ratios(tokens).exp().clamp(max=cap)


def step_weights(tokens: TokenBatch, *, cap: float) -> Tensor:
    """The weight of each token's step, `[N]` without gradient. A step is complete within one
    micro-batch."""
    _, indices = torch.unique(tokens.steps, return_inverse=True)
    log_ratios = _log_ratios(tokens)
    sums = torch.zeros_like(log_ratios).index_add(0, indices, log_ratios)
    return sums[indices].exp().clamp(max=cap)


def episode_weights(tokens: TokenBatch, *, cap: float) -> Tensor:
    """The weight of each token's episode, `[N]` without gradient. An episode may be in several
    micro-batches, so its sum is computed outside: TokenBatch.episode_mismatch."""
    if tokens.episode_mismatch is None:
        raise ValueError("mismatch 'episode' needs the episodes' sums of old - sampler")
    return tokens.episode_mismatch.exp().clamp(max=cap)


def mismatch_measures(tokens: TokenBatch, weights: Tensor, *, cap: float) -> Measures:
    """Measurements of the difference between sampler and trainer.

    mismatch_k3         estimate of KL(sampler || trainer) per token: r - 1 - log r, where
                        r = exp(old - sampler); never negative (joschu.net/blog/kl-approx.html)
    mismatch_max        the greatest |old - sampler|; it should be 1e-4 or less in float32
    mismatch_truncated  the share of tokens whose weight was truncated to the cap
    mismatch_weight     the mean weight; with its mean square it gives the effective sample size
    """
    log_ratios = _log_ratios(tokens)
    return {
        "mismatch_k3": sum_and_count(log_ratios.expm1() - log_ratios),
        "mismatch_max": max_and_count(log_ratios.abs()),
        "mismatch_truncated": sum_and_count(weights >= cap),
        "mismatch_weight": sum_and_count(weights),
        "mismatch_weight_squared": sum_and_count(weights**2),
    }


def _log_ratios(tokens: TokenBatch) -> Tensor:
    return tokens.old.detach() - tokens.sampler
