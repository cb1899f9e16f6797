"""How a batch is split into optimiser updates, and over processes."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from rehearsal_room.learner.packing.batch import PrefixGroup
from rehearsal_room.learner.packing.rows import rows_of

_PASS_OVERHEAD = 512  # starting a pass costs about as much time as computing this many tokens


def minibatches(prefix_groups: Sequence[PrefixGroup], num: int) -> list[list[PrefixGroup]]:
    """The prefix groups of each update, in order.

    Episode groups are never split, and updates have about the same number of trained tokens. There
    are `num` updates, or fewer when there are fewer groups.

    Example: groups of 10, 10, 20 and 30 trained tokens, 2 updates -> [[10, 10, 20], [30]]
    """
    total = _num_trained(prefix_groups)
    parts: list[list[PrefixGroup]] = [[] for _ in range(num)]
    before = 0
    for _, together in groupby(prefix_groups, key=attrgetter("group")):
        group = list(together)
        size = _num_trained(group)
        # A group belongs to the update that contains its middle token.
        parts[min(num - 1, int(num * (before + size / 2) / total))] += group
        before += size
    return [part for part in parts if _num_trained(part)]


def share_of_loss(prefix_groups: Sequence[PrefixGroup]) -> float:
    """The sum of the weights of all tokens: 1 for a whole batch."""
    return sum(
        float(suffix.weights.sum(dtype=float))
        for prefix_group in prefix_groups
        for suffix in prefix_group.suffixes
    )


def num_episodes(prefix_groups: Sequence[PrefixGroup]) -> int:
    """The number of episodes."""
    return len(
        {
            episode
            for prefix_group in prefix_groups
            for suffix in prefix_group.suffixes
            for episode in suffix.episodes.tolist()
        }
    )


def balanced_shares(sizes: Sequence[int], num_shares: int) -> list[list[int]]:
    """Distribute items over shares of about equal size; return the item numbers of each share.

    The largest item goes first, always to the share that is smallest so far (Graham's rule: the
    largest share is at most 4/3 of the optimum).

    Example: sizes 5, 9, 4, 2 and two shares -> [[1, 3], [0, 2]], of sizes 11 and 9
    """
    filled = [0] * num_shares
    share_of: dict[int, int] = {}
    for number in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        share = filled.index(min(filled))
        share_of[number] = share
        filled[share] += sizes[number]
    return [[n for n in range(len(sizes)) if share_of[n] == share] for share in range(num_shares)]


def merge_small_groups(prefix_groups: Sequence[PrefixGroup]) -> list[PrefixGroup]:
    """Prefix groups with the same tokens that need fewer passes over the model.

    Prefix groups that share little become rows of a single one, which are computed side by side.
    This helps behaviour cloning, whose groups have one short episode each.

    Example: prefix groups of one suffix each, [1, 2 | 3] and [4 | 5, 6] -> one without a prefix and
        with two suffixes, [1, 2, 3] and [4, 5, 6]
    """
    small = [one for one in prefix_groups if _saved_tokens(one) <= _PASS_OVERHEAD]
    if len(small) < 2:
        return list(prefix_groups)
    large = [one for one in prefix_groups if _saved_tokens(one) > _PASS_OVERHEAD]
    rows = tuple(row for one in small for row in rows_of(one).suffixes)
    return [*large, PrefixGroup(small[0].prefix[:0], rows)]


def _num_trained(prefix_groups: Sequence[PrefixGroup]) -> int:
    return sum(prefix_group.num_trained for prefix_group in prefix_groups)


def _saved_tokens(prefix_group: PrefixGroup) -> int:
    """Tokens that would be computed again if the suffixes were separate rows."""
    return len(prefix_group.prefix) * (len(prefix_group.suffixes) - 1)
