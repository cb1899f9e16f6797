"""What one optimiser step sees: the samples of some groups, laid out so that shared tokens are
computed once.

Windows of one group begin alike (system prompt, tools, task) and then differ: a star of one prefix
and many leaves. A leaf is what follows the prefix in one sample, or in several samples of one
episode each of which extends the one before, token for token. Every sampled token is trained in
exactly one place.

A leaf begins with a token of its prompt (the last of those that all share, if need be), so that
every prediction that is trained is made by a token of its leaf:

    prompt 1 2 3 4, sampled 5 6, and prompt 1 2 3 7, sampled 8     ->
    prefix 1 2 3      leaves [4 5 6], trained [1 2];  [7 8], trained [1]
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner.core.samples import Floats, Ids

Numbers = NDArray[np.int64]


class Leaf(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Tokens after a shared prefix: L tokens, N of them trained.

    The token at place `i` stands at position `len(prefix) + i` and is predicted by place `i - 1`.
    """

    tokens: Ids  # [L]
    trained: Numbers  # [N], ascending places of sampled tokens, each from 1 to L - 1
    sampler: Floats  # [N], log-probabilities that the sampler gave them
    advantages: Floats  # [N]
    weights: Floats  # [N], a token's share of the loss: sum(weights * losses) is the loss
    steps: Numbers  # [N], the number of the token's sample in the batch, from 0
    episodes: Numbers  # [N], the number of its episode in the batch, from 0


class Star(msgspec.Struct, frozen=True, eq=False):
    """Tokens that begin alike: a group's, or where it shares little an episode's. Without prefix
    nothing is shared: leaves are whole rows."""

    prefix: Ids  # [P]; positions 0 to P - 1
    leaves: tuple[Leaf, ...]
    group: int = 0  # the number of its group in the batch

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed."""
        return len(self.prefix) + sum(len(leaf.tokens) for leaf in self.leaves)

    @property
    def num_trained(self) -> int:
        """Tokens that are trained."""
        return sum(len(leaf.trained) for leaf in self.leaves)


class Batch(msgspec.Struct, frozen=True, eq=False):
    """What one optimiser step sees."""

    stars: tuple[Star, ...]
    num_steps: int  # samples in it
    num_episodes: int
    num_row_tokens: int  # tokens if each sample were a row of its own

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed."""
        return sum(star.num_tokens for star in self.stars)

    @property
    def num_trained(self) -> int:
        """Tokens that are trained."""
        return sum(star.num_trained for star in self.stars)


def microbatches(leaves: Sequence[Leaf], max_tokens: int) -> list[list[int]]:
    """Which leaves are computed together: the numbers of leaves, in order, as many as fit
    `max_tokens` and at least one.

    Example: leaves of 30, 40 and 50 tokens, 80 -> [[0, 1], [2]]
    """
    parts: list[list[int]] = []
    room = 0
    for number, leaf in enumerate(leaves):
        if not parts or len(leaf.tokens) > room:
            parts.append([])
            room = max_tokens
        parts[-1].append(number)
        room -= len(leaf.tokens)
    return parts
