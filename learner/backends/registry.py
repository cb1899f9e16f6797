"""Backends by name."""

from learner.backends.base import Backend
from learner.backends.flex import Flex
from learner.backends.naive import Naive
from learner.backends.packed import Packed
from learner.backends.twopass import TwoPass
from learner.config.settings import ComputeSettings


def backend_of(settings: ComputeSettings) -> Backend:
    """The backend that the settings name, with their limit on micro-batches."""
    if settings.backend == "naive":
        return Naive()
    if settings.backend == "packed":
        return Packed(settings.max_tokens)
    if settings.backend == "flex":
        return Flex(settings.max_tokens)
    return TwoPass(settings.max_tokens)
