"""Truncated importance sampling for the mismatch of sampler and trainer.

Two programs compute the same weights a little differently, and a sampler's weights may be some
versions older. Tokens then come from another distribution than the one that ratios start from.
Each token's loss is multiplied, without gradient, by

    token    min(exp(old - sampler), cap)
    step     min(exp(sum over the step's tokens of old - sampler), cap)

(truncated importance sampling: Ionides 2008; between engines: "Your Efficient RL Framework Secretly
Brings You Off-Policy RL Training", Yao et al. 2025). The token form leaves out how a token changes
the chance of those after it; the step form does not, and varies more. AWM (arXiv:2602.10090)
corrects sequences.
"""

import torch
from torch import Tensor

from learner.losses.base import Measures, TokenBatch
from learner.losses.metrics import averaged, greatest


def token_weights(tokens: TokenBatch, *, cap: float) -> Tensor:
    """The weight of each token, `[N]` without gradient."""
    return _log_ratios(tokens).exp().clamp(max=cap)


def step_weights(tokens: TokenBatch, *, cap: float) -> Tensor:
    """The weight of each token's step, `[N]` without gradient. Steps are whole in a micro-batch."""
    _, places = torch.unique(tokens.steps, return_inverse=True)
    log_ratios = _log_ratios(tokens)
    sums = torch.zeros_like(log_ratios).index_add(0, places, log_ratios)
    return sums[places].exp().clamp(max=cap)


def mismatch_measures(tokens: TokenBatch, weights: Tensor, *, cap: float) -> Measures:
    """How far sampler and trainer are apart.

    mismatch_k3         estimate of KL(sampler || trainer) per token: r - 1 - log r, where
                        r = exp(old - sampler); never negative (joschu.net/blog/kl-approx.html)
    mismatch_max        the greatest |old - sampler|: what should be 1e-4 or less in float32
    mismatch_truncated  the share of tokens whose weight was cut to the cap
    mismatch_weight     the mean weight; with its mean square it becomes the effective sample size
    """
    log_ratios = _log_ratios(tokens)
    return {
        "mismatch_k3": averaged(log_ratios.expm1() - log_ratios),
        "mismatch_max": greatest(log_ratios.abs()),
        "mismatch_truncated": averaged(weights >= cap),
        "mismatch_weight": averaged(weights),
        "mismatch_weight_squared": averaged(weights**2),
    }


def _log_ratios(tokens: TokenBatch) -> Tensor:
    return tokens.old.detach() - tokens.sampler
