"""The clipped ratio (PPO, arXiv:1707.06347) with separate bounds (DAPO, arXiv:2503.14476).

    r = exp(logprobs - old)
    loss = -min(r A, clip(r, 1 - low, 1 + high) A)

A token of positive advantage is pushed up until its ratio reaches 1 + high, a token of negative
advantage is pushed down until 1 - low; beyond the bound its gradient is 0. A wider upper bound lets
rare tokens grow.

A token of negative advantage whose probability grew has no bound, and a large ratio makes a large
step. The dual clip (arXiv:1912.09729) bounds it: where A < 0,

    loss = min(-min(r A, clip(r, 1 - low, 1 + high) A), -dual A)

so its gradient is 0 where the ratio is above `dual`, which is more than 1.
"""

import torch
from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.metrics import sum_and_count


class Clip:
    """Clips the ratios of tokens to `[1 - low, 1 + high]`."""

    def __init__(self, *, low: float, high: float, dual: float = 0.0) -> None:
        """`dual` bounds the ratios of tokens of negative advantage; 0: unbounded."""
        self._low = low
        self._high = high
        self._dual = dual

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        ratios = (tokens.logprobs - tokens.old).exp()  # [N]
        losses, measures = clip_losses(ratios, tokens.advantages, low=self._low, high=self._high)
        if not self._dual:
            return losses, measures
        beyond = (tokens.advantages < 0) & (ratios.detach() > self._dual)
        losses = torch.where(beyond, -self._dual * tokens.advantages, losses)
        return losses, measures | {"clipped_dual": sum_and_count(beyond)}


def clip_losses(
    ratios: Tensor, advantages: Tensor, *, low: float, high: float
) -> tuple[Tensor, Measures]:
    """The clipped losses `[N]` of ratios `[N]`, and the shares of tokens that were clipped low and
    high."""
    bounded = ratios.clamp(1 - low, 1 + high)
    losses = -torch.minimum(ratios * advantages, bounded * advantages)
    return losses, {
        "clipped_low": sum_and_count((ratios < 1 - low) & (advantages < 0)),
        "clipped_high": sum_and_count((ratios > 1 + high) & (advantages > 0)),
    }
