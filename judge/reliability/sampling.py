"""Which episodes of a run are studied."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heapreplace
from math import sqrt
from random import Random

from harness.core.events import Ending
from harness.log.schema import EpisodeRow

_NOBODYS = (Ending.CANCELLED, Ending.POLICY_ERROR)  # no judge gives these a label
_Stratum = tuple[str, str]  # scenario, latest label


def sample_of(
    rows: Iterable[EpisodeRow], size: int, *, seed: int = 0, first: Collection[str] = ()
) -> list[str]:
    """So many episodes that are over and can be judged, drawn by scenario and latest label, in the
    rows' order.

    Every stratum has its share, and one at least as far as `size` reaches, rare labels before
    rare scenarios; so the sample is nearly the run in small, with what is rare in it. `first` are
    taken before others, as those that a person has labelled. The same rows in any order and the
    same seed give the same episodes.
    """
    ended = [row for row in rows if row.ending is not None and row.ending not in _NOBODYS]
    names = sorted(row.episode for row in ended if row.episode in first)
    taken = set(names if len(names) <= size else Random(seed).sample(names, size))
    strata: dict[_Stratum, list[str]] = {}
    for row in sorted(ended, key=lambda row: row.episode):
        if row.episode not in taken:
            strata.setdefault((row.scenario, row.label or ""), []).append(row.episode)
    draw = Random(seed)
    sizes = {stratum: len(strata[stratum]) for stratum in sorted(strata)}
    for stratum, num in _seats(sizes, size - len(taken)).items():
        taken.update(draw.sample(strata[stratum], num))
    return [row.episode for row in ended if row.episode in taken]


def _seats(sizes: dict[_Stratum, int], num: int) -> dict[_Stratum, int]:
    """How many are drawn of each stratum: Huntington and Hill's method, under which the next seat
    goes to the largest size / sqrt(seats * (seats + 1)), so that everybody has a first one.

    Example: {("shop", "completed"): 97, ("shop", "agent_error"): 3}, 10
             -> {("shop", "completed"): 9, ("shop", "agent_error"): 1}
    """
    seats = dict.fromkeys(_by_rarity(sizes)[: max(0, num)], 1)
    queue = [(_claim(sizes[stratum], 1), stratum) for stratum in seats]
    heapify(queue)
    for _ in range(min(num, sum(sizes.values())) - len(seats)):
        stratum = queue[0][1]
        seats[stratum] += 1
        heapreplace(queue, (_claim(sizes[stratum], seats[stratum]), stratum))
    return seats


def _claim(size: int, seats: int) -> float:
    """The smaller, the sooner a stratum gets its next seat. Above -1 only when all its episodes
    are drawn, and so behind every other."""
    return -size / sqrt(seats * (seats + 1))


def _by_rarity(sizes: dict[_Stratum, int]) -> Sequence[_Stratum]:
    """Strata in the order of their first seats: each label's largest stratum, the rarest label
    first, then each label's second largest, and so on."""
    labels: Counter[str] = Counter()
    for (_, label), size in sizes.items():
        labels[label] += size
    rank: dict[_Stratum, int] = {}
    seen: Counter[str] = Counter()
    for stratum in sorted(sizes, key=lambda stratum: (-sizes[stratum], stratum)):
        rank[stratum] = seen[stratum[1]]
        seen[stratum[1]] += 1
    return sorted(sizes, key=lambda stratum: (rank[stratum], labels[stratum[1]], stratum))
