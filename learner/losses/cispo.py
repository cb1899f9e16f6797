"""Clipped importance weights (CISPO, from MiniMax-M1, arXiv:2506.13585).

    w = min(exp(logprobs - old), high), without gradient
    loss = -w A logprobs

It is the weight that is bounded, not the update: every token keeps a gradient, also those rare ones
that a clipped ratio silences. As in the paper there is no lower bound.
"""

from torch import Tensor

from learner.losses.base import Measures, TokenBatch
from learner.losses.metrics import averaged


class Cispo:
    """Bounds the weights of tokens by `high`, itself a ratio: 5 allows up to five times."""

    def __init__(self, *, high: float) -> None:
        self._high = high

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        ratios = (tokens.logprobs.detach() - tokens.old).exp()  # [N]
        losses = -ratios.clamp(max=self._high) * tokens.advantages * tokens.logprobs
        return losses, {"clipped_high": averaged(ratios > self._high)}
