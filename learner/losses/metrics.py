"""Measurements of a loss: taken per micro-batch, merged over micro-batches and processes, averaged.

Names that end in `_max` keep the greatest value; all others are added up.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from rehearsal_room.learner.losses.base import Measures

Sums = dict[str, tuple[float, float]]  # measurements as numbers: name -> (sum, count)


def sum_and_count(values: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and the count of `values [N]`, detached, in float32 or better."""
    found = values.detach()
    if not found.is_floating_point():
        found = found.float()
    return found.sum(), found.new_tensor(found.numel())


def max_and_count(values: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of `values [N]`, none of which may be below 0, and a count of 1; for a
    measurement named `*_max`."""
    found = values.detach()
    return torch.cat([found, found.new_zeros(1)]).max(), found.new_tensor(1)


def to_numbers(measures: Measures) -> Sums:
    """The measurements as Python numbers, off the device."""
    return {name: (value.item(), count.item()) for name, (value, count) in measures.items()}


def merge(parts: Iterable[Sums]) -> Sums:
    """Merge the measurements of several micro-batches or processes. A part may lack some names.

    Example: {"a": (1, 2), "b_max": (3, 1)} and {"a": (3, 2), "b_max": (2, 1)}
             -> {"a": (4, 4), "b_max": (3, 1)}
    """
    total: Sums = {}
    for part in parts:
        for name, (value, count) in part.items():
            if name not in total:
                total[name] = value, count
            elif name.endswith("_max"):
                total[name] = max(total[name][0], value), count
            else:
                total[name] = total[name][0] + value, total[name][1] + count
    return total


def means_of(sums: Sums) -> dict[str, float]:
    """The mean of each measurement; names with a count of 0 are left out.

    From `mismatch_weight` and its mean square it computes `mismatch_ess`, the effective sample size
    as a share of the tokens: (sum w)^2 / (N sum w^2), which is 1 when all weights are equal.
    """
    found = {name: value / count for name, (value, count) in sums.items() if count}
    square = found.pop("mismatch_weight_squared", None)
    if square is not None:
        found["mismatch_ess"] = found["mismatch_weight"] ** 2 / square if square else 0.0
    return found
