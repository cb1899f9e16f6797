"""Likelihood: cloning of good episodes, weighted by their advantage.

    loss = -max(A, 0) logprobs

With advantage = "reward" and rewards of 1 this is the cross-entropy of the sampled tokens. Episodes
of advantage 0 or less are not learned from: pushing tokens down has no lower bound.
"""

from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch


class Likelihood:
    """The negative log-likelihood of each token, times its advantage."""

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        return -tokens.advantages.clamp(min=0) * tokens.logprobs, {}
