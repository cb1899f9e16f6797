"""The total-variation mask (DPPO, binary form, arXiv:2602.04879).

    r = exp(logprobs - old),    d = exp(logprobs) - exp(old)
    loss = 0 where A > 0 and d > bound, or A < 0 and d < -bound; else -r A

A ratio is a poor measure of how far a policy has moved: from 0.001 to 0.002 is a ratio of 2 and
hardly a change, from 0.6 to 0.9 is a ratio of 1.5 and a large change. Here the change of the
token's probability is bounded, which is the total variation between "this token" and "any other
token". A token beyond the bound is dropped only if its advantage would push it further. The paper
measures the change from the sampler; here, as in all these losses, ratios start from the trainer's
own log-probabilities, and learner.losses.mismatch corrects the difference to the sampler.
"""

from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.metrics import sum_and_count


class Tv:
    """Drops tokens whose probability has changed by more than `bound` (from 0 to 1)."""

    def __init__(self, *, bound: float) -> None:
        self._bound = bound

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        moved = tokens.logprobs.detach().exp() - tokens.old.exp()  # [N]
        low = (moved < -self._bound) & (tokens.advantages < 0)
        high = (moved > self._bound) & (tokens.advantages > 0)
        ratios = (tokens.logprobs - tokens.old).exp()
        losses = (-ratios * tokens.advantages).masked_fill(low | high, 0.0)
        return losses, {"clipped_low": sum_and_count(low), "clipped_high": sum_and_count(high)}
