"""The weight of each token in the loss: the loss of a batch is sum(weights * losses).

With N trained tokens, S samples and E episodes in the whole batch, T tokens in a token's sample
and M in its episode, a token has the weight

    token       1 / N           all tokens weigh the same (DAPO, arXiv:2503.14476)
    step        1 / (S T)       all samples weigh the same: an episode of many steps counts more
    episode     1 / (E M)       all episodes weigh the same, regardless of their number of steps
    constant    1 / (E L)       all tokens weigh the same, and L is a setting: a batch of short
                                episodes makes a smaller update (Dr. GRPO, arXiv:2503.20783)

The weights of a batch add up to 1, except with `constant`, or where groups that are not trained
count in N, S and E, as in trainers that train groups of equal rewards. The denominators are global:
they are computed before the batch is split over micro-batches and processes, so the split does not
change the loss. When a batch makes several updates, the weights of each update are scaled to add up
to what those of the batch add up to; with `constant`, to what its own episodes would give
(learner.trainer.updates).
"""

from collections.abc import Sequence
from typing import Literal

from rehearsal_room.learner.core.samples import NO_GROUPS, Group, GroupSize, Rollout

Aggregate = Literal["token", "step", "episode", "constant"]


def weights_of(
    groups: Sequence[Group],
    aggregate: Aggregate | None,
    *,
    length: int = 0,
    also: GroupSize = NO_GROUPS,
) -> list[list[list[float]]]:
    """The weight of a token of each sample, by group, rollout and sample.

    `length` is L, in tokens. `also` counts in the denominators, beside the groups.

    Example: one group of two episodes, with samples of 1 and 3 tokens, and of 4 tokens ->
             token [[[1/8, 1/8], [1/8]]], step [[[1/3, 1/9], [1/12]]], episode the same as token
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    size = GroupSize.of(rollouts) + also

    def weights(rollout: Rollout) -> list[float]:
        if aggregate == "step":
            return [1 / (size.samples * len(sample.tokens)) for sample in rollout.samples]
        if aggregate == "episode":
            whole = size.episodes * rollout.num_tokens
        else:
            whole = size.episodes * length if aggregate == "constant" else size.tokens
        return [1 / whole] * len(rollout.samples)

    return [[weights(rollout) for rollout in group.rollouts] for group in groups]
