"""Every suffix as a whole row, prefix included; several rows are concatenated without padding.

Trainers without prefix sharing do this (padding-free batches, as in TRL and verl): the prefix is
computed again for every suffix. It is the baseline for measuring `twopass`.
"""

from torch import Tensor, nn

from rehearsal_room.learner.backends.base import LossOf
from rehearsal_room.learner.backends.twopass import TwoPass
from rehearsal_room.learner.packing.batch import PrefixGroup
from rehearsal_room.learner.packing.rows import rows_of


class Packed:
    """Backend `packed`. `max_tokens` bounds the rows of one micro-batch; a longer row gets a
    micro-batch alone."""

    def __init__(self, max_tokens: int) -> None:
        self._rows = TwoPass(max_tokens)

    def score(self, model: nn.Module, prefix_group: PrefixGroup) -> Tensor:
        """See Backend."""
        return self._rows.score(model, rows_of(prefix_group))

    def backward(self, model: nn.Module, prefix_group: PrefixGroup, loss_of: LossOf) -> None:
        """See Backend."""
        self._rows.backward(model, rows_of(prefix_group), loss_of)
