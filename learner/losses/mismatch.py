"""Corrections for the mismatch between sampler and trainer: weights, masks and rejection.

Sampler and trainer are different programs, which compute slightly different probabilities from the
same weights; and the sampler's weights may be some versions older. Tokens then come from a
distribution other than the one that the ratios start from. Each token's loss is multiplied, without
gradient, by the weight w of its unit:

    token    exp(old - sampler)
    step     exp(sum over the step's tokens of old - sampler)
    episode  exp(sum over the episode's tokens of old - sampler)

A weight above the cap is set to it (`truncate`) or to 0 (`mask`). Truncation is importance sampling
with a bounded weight (Ionides 2008; between engines: "Your Efficient RL Framework Secretly Brings
You Off-Policy RL Training", Yao et al. 2025). A mask leaves out the units that the sampler should
hardly have drawn (TRL's `sequence_mask`, with a cap of 3). The token form ignores how a token
changes the probability of the tokens after it; the step form includes that and has a higher
variance, the episode form, which includes the later steps too, the highest. AWM (arXiv:2602.10090)
corrects sequences.

Rejection leaves out steps or episodes by the geometric mean of their tokens' ratios,
exp(mean of old - sampler), which does not grow with their length (verl's `seq_mean_k1`). What is
left out still counts in the denominators of the loss: a batch of which much is left out makes a
smaller update. If all of it is, the loss and its gradient are 0.
"""

import torch
from torch import Tensor

from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.metrics import max_and_count, sum_and_count


def mismatch_weights(tokens: TokenBatch, settings: LossSettings) -> Tensor:
    """The weight of each token, `[N]` without gradient."""
    weights = _raw_weights(tokens, settings).exp()
    above = weights > settings.mismatch_cap
    if settings.mismatch_above == "mask":
        return weights.masked_fill(above, 0.0)
    return weights.masked_fill(above, settings.mismatch_cap)


def is_kept(tokens: TokenBatch, settings: LossSettings) -> Tensor:
    """Whether each token is left in by `reject`: `[N]` bool."""
    if settings.reject == "off":
        return torch.ones_like(tokens.old, dtype=torch.bool)
    if settings.reject == "episode":
        means = _of_episodes(tokens.episode_mismatch_mean)
    else:
        sums, counts = _step_sums(tokens)
        means = sums / counts
    ratios = means.exp()
    return (ratios >= settings.reject_low) & (ratios <= settings.reject_high)


def mismatch_measures(tokens: TokenBatch, weights: Tensor, kept: Tensor, *, cap: float) -> Measures:
    """Measurements of the difference between sampler and trainer.

    mismatch_k3         estimate of KL(sampler || trainer) per token: r - 1 - log r, where
                        r = exp(old - sampler); never negative (joschu.net/blog/kl-approx.html)
    mismatch_max        the greatest |old - sampler|; it should be 1e-4 or less in float32
    mismatch_truncated  the share of tokens whose weight was truncated to the cap
    mismatch_masked     the share of tokens that a mask or a rejection left out
    mismatch_weight     the mean weight; with its mean square it gives the effective sample size
    """
    log_ratios = _log_ratios(tokens)
    return {
        "mismatch_k3": sum_and_count(log_ratios.expm1() - log_ratios),
        "mismatch_max": max_and_count(log_ratios.abs()),
        "mismatch_truncated": sum_and_count(weights >= cap),
        "mismatch_masked": sum_and_count((weights == 0) | ~kept),
        "mismatch_weight": sum_and_count(weights),
        "mismatch_weight_squared": sum_and_count(weights**2),
    }


def _raw_weights(tokens: TokenBatch, settings: LossSettings) -> Tensor:
    """The logarithm of each token's weight before the cap. A step is complete within one
    micro-batch; an episode may be in several, so its sum is computed outside."""
    match settings.mismatch:
        case "step":
            return _step_sums(tokens)[0]
        case "episode":
            return _of_episodes(tokens.episode_mismatch)
        case _:
            return _log_ratios(tokens)


def _of_episodes(values: Tensor | None) -> Tensor:
    if values is None:
        raise ValueError("mismatch and rejection by 'episode' need values of whole episodes")
    return values


def _step_sums(tokens: TokenBatch) -> tuple[Tensor, Tensor]:
    """For each token, the sum over its step's tokens of old - sampler, and their number."""
    _, indices = torch.unique(tokens.steps, return_inverse=True)
    log_ratios = _log_ratios(tokens)
    zeros = torch.zeros_like(log_ratios)
    sums = zeros.index_add(0, indices, log_ratios)
    counts = zeros.index_add(0, indices, torch.ones_like(log_ratios))
    return sums[indices], counts[indices]


def _log_ratios(tokens: TokenBatch) -> Tensor:
    return tokens.old.detach() - tokens.sampler
