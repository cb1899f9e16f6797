"""Drawing tokens: every request has its own random numbers.

The n-th token of a request is drawn with the n-th number of a generator that is seeded with the
request's seed (Philox, which is counter-based), by inverting the cumulative distribution. So the
tokens of a request depend on its seed and its distribution, not on the requests that are computed
with it. They can differ only when a number falls within float rounding of a boundary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rehearsal_room.learner.core.errors import ModelError

_CHUNK = 64  # numbers drawn at once
_MIN_TEMPERATURE = 1e-5  # lower ones count as 0, as in vLLM: dividing logits by them overflows


class RandomDraws:
    """A request's random numbers, uniform in [0, 1)."""

    __slots__ = ("_generator", "_numbers")

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=seed))
        self._numbers: list[float] = []

    def __call__(self) -> float:
        if not self._numbers:
            self._numbers = self._generator.random(_CHUNK).tolist()[::-1]
        return self._numbers.pop()


def sample_tokens(
    logits_RV: Tensor,
    draws_R: Sequence[float],
    temperatures_R: Sequence[float],
    top_ps_R: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """A token for each request, `[R]` int64, and its log-probability `[R]` float32 in the sampled
    distribution, that is after temperature and top_p.

    Temperature 0 takes the most likely token. Its log-probability is the one at temperature 1 and
    top_p 1, as in vLLM, because the probability of a forced choice carries no information.
    """
    device = logits_RV.device
    logits_RV = logits_RV.float()
    temperatures_R = [one if one >= _MIN_TEMPERATURE else 0.0 for one in temperatures_R]
    top_ps_R = [
        top_p if warm else 1.0 for top_p, warm in zip(top_ps_R, temperatures_R, strict=True)
    ]
    if any(temperature not in (0.0, 1.0) for temperature in temperatures_R):
        scales = [temperature or 1.0 for temperature in temperatures_R]
        logits_RV = logits_RV / torch.tensor(scales, device=device)[:, None]
    logprobs_RV = torch.log_softmax(logits_RV, -1)
    if any(top_p < 1.0 for top_p in top_ps_R):
        logprobs_RV = _nucleus(logprobs_RV, torch.tensor(top_ps_R, device=device))
    tokens_R = _invert_cdf(logprobs_RV, torch.tensor(draws_R, dtype=torch.float64, device=device))
    if not all(temperatures_R):
        greedy = torch.tensor([not temperature for temperature in temperatures_R], device=device)
        tokens_R = torch.where(greedy, logprobs_RV.argmax(-1), tokens_R)
    return tokens_R, logprobs_RV.gather(1, tokens_R[:, None])[:, 0]


def _invert_cdf(logprobs_RV: Tensor, draws_R: Tensor) -> Tensor:
    """The tokens at which the cumulative probabilities exceed the drawn numbers.

    In float64, a share below 1 of the sum stays below the sum, so a token of probability 0 is never
    drawn. Raises ModelError for probabilities that are not finite.
    """
    sums_RV = logprobs_RV.exp().cumsum(-1, dtype=torch.float64)
    if not sums_RV[:, -1].isfinite().all():
        raise ModelError("the model's probabilities are not finite: its weights are broken")
    return torch.searchsorted(sums_RV, draws_R[:, None] * sums_RV[:, -1:], right=True)[:, 0]


def _nucleus(logprobs_RV: Tensor, top_ps_R: Tensor) -> Tensor:
    """The distribution of the most likely tokens that together reach top_p (arXiv:1904.09751),
    including the one that reaches it; -inf for the rest."""
    ordered, indices = logprobs_RV.sort(-1, descending=True)
    before_RV = ordered.exp().cumsum(-1) - ordered.exp()
    dropped = before_RV >= top_ps_R[:, None]
    dropped[:, 0] = False
    dropped &= (top_ps_R < 1.0)[:, None]
    dropped_RV = torch.zeros_like(dropped).scatter_(1, indices, dropped)
    return torch.log_softmax(logprobs_RV.masked_fill(dropped_RV, float("-inf")), -1)
