"""How a batch is split: over the updates that are made of it, and over the processes."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from learner.packing.batch import Star
from learner.packing.rows import rows_of

_PASS = 512  # tokens that are computed in about the time that it takes a pass to begin


def minibatches(stars: Sequence[Star], num: int) -> list[list[Star]]:
    """The stars of each update, in order: whole groups, about as many trained tokens in each; as
    many updates as are wanted and there are groups for.

    Example: groups of 10, 10, 20 and 30 trained tokens, 2 updates -> [[10, 10, 20], [30]]
    """
    total = _num_trained(stars)
    parts: list[list[Star]] = [[] for _ in range(num)]
    before = 0
    for _, together in groupby(stars, key=attrgetter("group")):
        group = list(together)
        size = _num_trained(group)
        # A group belongs where its middle token does.
        parts[min(num - 1, int(num * (before + size / 2) / total))] += group
        before += size
    return [part for part in parts if _num_trained(part)]


def share_of_loss(stars: Sequence[Star]) -> float:
    """The sum of the weights of all tokens in some stars: 1 for a whole batch."""
    return sum(float(leaf.weights.sum(dtype=float)) for star in stars for leaf in star.leaves)


def dealt(sizes: Sequence[int], hands: int) -> list[list[int]]:
    """Which things each of some hands gets, by number, so that the largest hand is small: the
    largest thing first, always to the smallest hand (Graham's rule: at most 4/3 of the best).

    Example: sizes 5, 9, 4, 2 and two hands -> [[1, 3], [0, 2]], of 11 and 9
    """
    filled = [0] * hands
    hand_of: dict[int, int] = {}
    for number in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        hand = filled.index(min(filled))
        hand_of[number] = hand
        filled[hand] += sizes[number]
    return [[n for n in range(len(sizes)) if hand_of[n] == hand] for hand in range(hands)]


def fewer_passes(stars: Sequence[Star]) -> list[Star]:
    """The same work in fewer passes over the model: stars that share little become rows of one
    star, which are computed side by side. The groups of behaviour cloning, of one short episode
    each, are such.

    Example: stars of one leaf each, [1, 2 | 3] and [4 | 5, 6] -> one of no prefix and two leaves,
        [1, 2, 3] and [4, 5, 6]
    """
    small = [star for star in stars if _shared(star) <= _PASS]
    if len(small) < 2:
        return list(stars)
    rows = tuple(leaf for star in small for leaf in rows_of(star).leaves)
    return [*(star for star in stars if _shared(star) > _PASS), Star(small[0].prefix[:0], rows)]


def _num_trained(stars: Sequence[Star]) -> int:
    return sum(star.num_trained for star in stars)


def _shared(star: Star) -> int:
    """Tokens that would be computed more often, were the star's leaves rows."""
    return len(star.prefix) * (len(star.leaves) - 1)
