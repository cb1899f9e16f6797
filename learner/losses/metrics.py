"""Measures: how they are taken, added up over micro-batches and processes, and finished.

Names ending in `_max` keep the greatest value, all others add up.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from learner.losses.base import Measures

Sums = dict[str, tuple[float, float]]  # measures as numbers: name -> (sum, count)


def averaged(values: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and count of `values [N]`, detached, in at least float32."""
    found = values.detach()
    if not found.is_floating_point():
        found = found.float()
    return found.sum(), found.new_tensor(found.numel())


def greatest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The greatest of `values [N]`, none of which is below 0, as a measure named `*_max`."""
    found = values.detach()
    return torch.cat([found, found.new_zeros(1)]).max(), found.new_tensor(1)


def numbers(measures: Measures) -> Sums:
    """Measures that left the device."""
    return {name: (value.item(), count.item()) for name, (value, count) in measures.items()}


def merged(parts: Iterable[Sums]) -> Sums:
    """The measures of several micro-batches or processes as one. A name may be missing from a part.

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


def finished(sums: Sums) -> dict[str, float]:
    """The means, and what is made of them; names that counted nothing are left out.

    `mismatch_weight` and its mean square become `mismatch_ess`, the effective sample size as a
    share of the tokens: (sum w)^2 / (N sum w^2), 1 where all weights are equal.
    """
    found = {name: value / count for name, (value, count) in sums.items() if count}
    square = found.pop("mismatch_weight_squared", None)
    if square is not None:
        found["mismatch_ess"] = found["mismatch_weight"] ** 2 / square if square else 0.0
    return found
