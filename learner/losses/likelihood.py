"""Likelihood: cloning of good episodes, weighted by what they are worth.

    loss = -max(A, 0) logprobs

With advantage = "reward" and rewards of 1 this is the cross-entropy of the sampled tokens. An
episode worth nothing is not learned from, and one worth less than nothing is not either: to push
tokens down has no end.
"""

from torch import Tensor

from learner.losses.base import Measures, TokenBatch


class Likelihood:
    """The negative log-likelihood of each token, times its advantage."""

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        return -tokens.advantages.clamp(min=0) * tokens.logprobs, {}
