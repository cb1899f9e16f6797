"""What share of the loss a token has: the loss of a batch is sum(weights * losses).

With N trained tokens, S samples and E episodes in the whole batch, T tokens in a token's sample
and M in its episode, a token weighs

    token       1 / N           every token the same (DAPO, arXiv:2503.14476)
    step        1 / (S T)       every sample the same: an episode of many steps counts more
    episode     1 / (E M)       every episode the same, however many steps it took

All weights of a batch add up to 1. The denominators are global: they are those of the batch before
it is split over micro-batches and processes, so that how it is split changes nothing. Where a batch
makes several updates, the weights of each are scaled to add up to 1 (learner.trainer.updates).
"""

from collections.abc import Sequence
from typing import Literal

from learner.core.samples import Group, Rollout

Aggregate = Literal["token", "step", "episode"]


def weights_of(groups: Sequence[Group], aggregate: Aggregate) -> list[list[list[float]]]:
    """The weight of one token of each sample: by group, rollout and sample.

    Example: one group, episodes of samples of 1 and 3 and of 4 tokens ->
             token [[[1/8, 1/8], [1/8]]], step [[[1/3, 1/9], [1/12]]], episode the same as token
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    num_tokens = sum(map(_num_tokens, rollouts))
    num_samples = sum(len(rollout.samples) for rollout in rollouts)

    def weights(rollout: Rollout) -> list[float]:
        if aggregate == "step":
            return [1 / (num_samples * len(sample.tokens)) for sample in rollout.samples]
        whole = num_tokens if aggregate == "token" else len(rollouts) * _num_tokens(rollout)
        return [1 / whole] * len(rollout.samples)

    return [[weights(rollout) for rollout in group.rollouts] for group in groups]


def _num_tokens(rollout: Rollout) -> int:
    return sum(len(sample.tokens) for sample in rollout.samples)
