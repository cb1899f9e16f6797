"""Clipped importance weights (CISPO, from MiniMax-M1, arXiv:2506.13585).

    w = min(exp(logprobs - old), high), without gradient
    loss = -w A logprobs

The weight is bounded, not the update: every token keeps a gradient, including the rare tokens whose
gradient a clipped ratio removes. As in the paper there is no lower bound.
"""

from torch import Tensor

from learner.losses.base import Measures, TokenBatch
from learner.losses.metrics import sum_and_count


class Cispo:
    """Bounds the tokens' weights by the ratio `high`: 5 allows a weight of up to 5."""

    def __init__(self, *, high: float) -> None:
        self._high = high

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        ratios = (tokens.logprobs.detach() - tokens.old).exp()  # [N]
        losses = -ratios.clamp(max=self._high) * tokens.advantages * tokens.logprobs
        return losses, {"clipped_high": sum_and_count(ratios > self._high)}
