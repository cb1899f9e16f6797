"""Clipped importance weights (CISPO, from MiniMax-M1, arXiv:2506.13585).

    w = clip(exp(logprobs - old), low, high), without gradient
    loss = -w A logprobs

The weight is bounded, not the update: every token keeps a gradient, including the rare tokens whose
gradient a clipped ratio removes. The paper has a lower bound, too, but sets it so low that it has
no effect; 0, the default, is none. With a lower bound, tokens that became rare keep more weight.
"""

from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.metrics import sum_and_count


class Cispo:
    """Bounds the tokens' weights by the ratios `low` and `high`: 5 allows a weight of up to 5."""

    def __init__(self, *, high: float, low: float = 0.0) -> None:
        self._low = low
        self._high = high

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        ratios = (tokens.logprobs.detach() - tokens.old).exp()  # [N]
        weights = ratios.clamp(self._low, self._high)
        measures = {"clipped_high": sum_and_count(ratios > self._high)}
        if self._low:
            measures["clipped_low"] = sum_and_count(ratios < self._low)
        return -weights * tokens.advantages * tokens.logprobs, measures
