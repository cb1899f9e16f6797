"""Backends by name."""

from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.backends.flex import Flex
from rehearsal_room.learner.backends.naive import Naive
from rehearsal_room.learner.backends.packed import Packed
from rehearsal_room.learner.backends.twopass import TwoPass
from rehearsal_room.learner.config.settings import ComputeSettings


def backend_of(settings: ComputeSettings) -> Backend:
    """The backend that the settings name, with their limit on micro-batches."""
    if settings.backend == "naive":
        return Naive()
    if settings.backend == "packed":
        return Packed(settings.max_tokens)
    if settings.backend == "flex":
        return Flex(settings.max_tokens)
    return TwoPass(settings.max_tokens)
