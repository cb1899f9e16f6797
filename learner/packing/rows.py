"""A star as rows: the prefix put before every leaf."""

import msgspec
import numpy as np

from learner.core.samples import Ids
from learner.packing.batch import Leaf, Star


def row_of(prefix: Ids, leaf: Leaf) -> Leaf:
    """A leaf that begins at position 0.

    Example: prefix [1, 2], leaf [3, 4, 5] trained at [2] -> [1, 2, 3, 4, 5] trained at [4]
    """
    return msgspec.structs.replace(
        leaf, tokens=np.concatenate((prefix, leaf.tokens)), trained=leaf.trained + len(prefix)
    )


def rows_of(star: Star) -> Star:
    """The same trained tokens with nothing shared."""
    return Star(star.prefix[:0], tuple(row_of(star.prefix, leaf) for leaf in star.leaves))
