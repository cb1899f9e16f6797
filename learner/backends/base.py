"""The interface of backends, which compute the tokens of a prefix group, forward and backward.

All backends give the same numbers; they differ in speed and memory. `naive` is the reference: it
computes each sample as a separate row with the model's stock attention. `packed` concatenates such
rows. `twopass` computes the shared prefix once. `flex` does the same with one block mask on a GPU.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor, nn

from rehearsal_room.learner.packing.batch import PrefixGroup

# Computes the loss of a micro-batch, a scalar, from the numbers of its suffixes and, for their
# trained tokens in order, the log-probabilities [N] (with gradient) and entropies [N] (without).
LossOf = Callable[[Sequence[int], Tensor, Tensor], Tensor]


class Backend(Protocol):
    """Computes prefix groups."""

    def score(self, model: nn.Module, prefix_group: PrefixGroup) -> Tensor:
        """Log-probabilities of the trained tokens, suffix by suffix: `[N]`, without gradient."""

    def backward(self, model: nn.Module, prefix_group: PrefixGroup, loss_of: LossOf) -> None:
        """Add the gradients of the prefix group's loss, the sum over its micro-batches, to those of
        the model's parameters."""
