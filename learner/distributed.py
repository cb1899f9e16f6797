"""Several processes that train one model."""

from typing import Any, NamedTuple, TypeVar

import torch.distributed as dist

_T = TypeVar("_T")


class Processes(NamedTuple):
    """Those that train together, and which of them this is."""

    rank: int = 0
    size: int = 1

    def gathered(self, value: _T) -> list[_T]:
        """The value of every process, by rank. All must ask."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


ALONE = Processes()
