"""The input of one optimiser step: the samples of some groups, laid out so that shared tokens are
computed once.

Windows of one group start with the same tokens (system prompt, tools, task) and then differ. They
form a prefix group: one prefix and many suffixes. A suffix holds the tokens after the prefix of one
sample, or of several samples of one episode of which each extends the previous one, token for
token. Every sampled token is trained exactly once.

A suffix starts with a token of its prompt (if necessary the last token that all prompts share), so
every trained prediction is made by a token of its own suffix:

    prompt 1 2 3 4, sampled 5 6, and prompt 1 2 3 7, sampled 8     ->
    prefix 1 2 3      suffixes [4 5 6], trained [1 2];  [7 8], trained [1]
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from rehearsal_room.learner.core.samples import Floats, Ids

Int64Array = NDArray[np.int64]


class Suffix(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Tokens after a shared prefix: L tokens, N of them trained.

    The token at index `i` has position `len(prefix) + i` and is predicted by the token at index
    `i - 1`.
    """

    tokens: Ids  # [L]
    trained: Int64Array  # [N], ascending indices of the sampled tokens, from 1 to L - 1
    sampler: Floats  # [N], the sampler's log-probabilities of them
    advantages: Floats  # [N]
    weights: Floats  # [N], shares of the loss: the loss is sum(weights * losses)
    steps: Int64Array  # [N], the number of the token's sample in the batch, from 0
    episodes: Int64Array  # [N], the number of its episode in the batch, from 0

    def __post_init__(self) -> None:
        """Raises ValueError where a trained token is not predicted by a token of the suffix: the
        first one has no token before it, and its log-probability would be another token's."""
        if len(self.trained) and not 1 <= self.trained.min() <= self.trained.max() < len(
            self.tokens
        ):
            raise ValueError(
                f"a suffix of {len(self.tokens)} tokens trains the tokens at"
                f" {self.trained.min()} to {self.trained.max()}: expected indices from 1 to"
                f" {len(self.tokens) - 1}"
            )


class PrefixGroup(msgspec.Struct, frozen=True, eq=False):
    """Suffixes with the same prefix: those of a group, or of an episode if the group shares little.
    With an empty prefix nothing is shared, and suffixes are whole rows."""

    prefix: Ids  # [P]; positions 0 to P - 1
    suffixes: tuple[Suffix, ...]
    group: int = 0  # the number of its episode group in the batch

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed."""
        return len(self.prefix) + sum(len(suffix.tokens) for suffix in self.suffixes)

    @property
    def num_trained(self) -> int:
        """Tokens that are trained."""
        return sum(len(suffix.trained) for suffix in self.suffixes)


class Batch(msgspec.Struct, frozen=True, eq=False):
    """The input of one optimiser step."""

    prefix_groups: tuple[PrefixGroup, ...]
    num_steps: int  # samples in it
    num_episodes: int
    num_row_tokens: int  # tokens if each sample were a separate row

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed."""
        return sum(prefix_group.num_tokens for prefix_group in self.prefix_groups)

    @property
    def num_trained(self) -> int:
        """Tokens that are trained."""
        return sum(prefix_group.num_trained for prefix_group in self.prefix_groups)


def microbatches(suffixes: Sequence[Suffix], max_tokens: int) -> list[list[int]]:
    """The micro-batches, as lists of suffix numbers in order. Each has as many suffixes as fit into
    `max_tokens`, and at least one.

    Example: suffixes of 30, 40 and 50 tokens, max_tokens 80 -> [[0, 1], [2]]
    """
    parts: list[list[int]] = []
    room = 0
    for number, suffix in enumerate(suffixes):
        if not parts or len(suffix.tokens) > room:
            parts.append([])
            room = max_tokens
        parts[-1].append(number)
        room -= len(suffix.tokens)
    return parts
