"""The weight of each token in the loss: the loss of a batch is sum(weights * losses).

With N trained tokens, S samples and E episodes in the whole batch, T tokens in a token's sample
and M in its episode, a token has the weight

    token       1 / N           all tokens weigh the same (DAPO, arXiv:2503.14476)
    step        1 / (S T)       all samples weigh the same: an episode of many steps counts more
    episode     1 / (E M)       all episodes weigh the same, regardless of their number of steps

The weights of a batch add up to 1. The denominators are global: they are computed before the batch
is split over micro-batches and processes, so the split does not change the loss. When a batch makes
several updates, the weights of each update are scaled to add up to 1 (learner.trainer.updates).
"""

from collections.abc import Sequence
from typing import Literal

from learner.core.samples import Group, Rollout

Aggregate = Literal["token", "step", "episode"]


def weights_of(groups: Sequence[Group], aggregate: Aggregate) -> list[list[list[float]]]:
    """The weight of a token of each sample, by group, rollout and sample.

    Example: one group of two episodes, with samples of 1 and 3 tokens, and of 4 tokens ->
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
