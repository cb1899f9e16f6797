"""A prefix group as rows: the prefix is put in front of every suffix."""

import msgspec
import numpy as np

from rehearsal_room.learner.core.samples import Ids
from rehearsal_room.learner.packing.batch import PrefixGroup, Suffix


def row_of(prefix: Ids, suffix: Suffix) -> Suffix:
    """The suffix with its prefix, as a row that starts at position 0.

    Example: prefix [1, 2], suffix [3, 4, 5] trained at [2] -> [1, 2, 3, 4, 5] trained at [4]
    """
    return msgspec.structs.replace(
        suffix, tokens=np.concatenate((prefix, suffix.tokens)), trained=suffix.trained + len(prefix)
    )


def rows_of(prefix_group: PrefixGroup) -> PrefixGroup:
    """A prefix group with the same trained tokens and an empty prefix."""
    return PrefixGroup(
        prefix_group.prefix[:0],
        tuple(row_of(prefix_group.prefix, suffix) for suffix in prefix_group.suffixes),
    )
