"""What a backend is: how the tokens of a star are computed, forward and backward.

All backends give the same numbers; they differ in speed and memory. `naive` computes every sample
as a row of its own with the model's stock attention and is the reference, `packed` puts such rows
behind each other, `twopass` computes the shared prefix once, `flex` does so with one block mask on
a GPU.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor, nn

from learner.packing.batch import Star

# Given the numbers of some leaves of the star, and of their trained tokens in order the
# log-probabilities [N] (with gradient) and entropies [N] (without), gives the micro-batch's loss,
# a scalar.
LossOf = Callable[[Sequence[int], Tensor, Tensor], Tensor]


class Backend(Protocol):
    """Computes stars."""

    def score(self, model: nn.Module, star: Star) -> Tensor:
        """Log-probabilities of the star's trained tokens, leaf by leaf: `[N]`, no gradient."""

    def backward(self, model: nn.Module, star: Star, loss_of: LossOf) -> None:
        """Add the gradients of the star's loss, the sum over its micro-batches, to the model's
        parameters."""
