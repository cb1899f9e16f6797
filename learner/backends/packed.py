"""Every leaf as a whole row, prefix included, several rows behind each other without padding.

What trainers do that share nothing (padding-free batches, as in TRL and verl): the prefix is
computed anew for every leaf. It is what `twopass` is measured against.
"""

from torch import Tensor, nn

from learner.backends.base import LossOf
from learner.backends.twopass import TwoPass
from learner.packing.batch import Star
from learner.packing.rows import rows_of


class Packed:
    """Backend `packed`. `max_tokens` bounds the rows of one micro-batch; a longer row is one of its
    own."""

    def __init__(self, max_tokens: int) -> None:
        self._whole = TwoPass(max_tokens)

    def score(self, model: nn.Module, star: Star) -> Tensor:
        """See Backend."""
        return self._whole.score(model, rows_of(star))

    def backward(self, model: nn.Module, star: Star, loss_of: LossOf) -> None:
        """See Backend."""
        self._whole.backward(model, rows_of(star), loss_of)
