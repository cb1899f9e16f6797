"""The sample of a run's episodes for a study."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heapreplace
from math import sqrt
from random import Random

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.schema import EpisodeRow

# No judge gives them a label.
_NOT_JUDGEABLE = (Ending.CANCELLED, Ending.POLICY_ERROR, Ending.MODEL_REFUSED)
_Stratum = tuple[str, str]  # scenario, latest label


def sample_of(
    rows: Iterable[EpisodeRow], size: int, *, seed: int = 0, first: Collection[str] = ()
) -> list[str]:
    """The names of `size` episodes that are over and can be judged, in the rows' order, stratified
    by scenario and latest label.

    Every stratum has its proportional share, and at least one episode as far as `size` reaches,
    rare labels before rare scenarios; so the sample is similar to the run and contains its rare
    cases. `first` are chosen before others, as those that a person has labelled. The same rows in
    any order and the same seed give the same episodes.
    """
    ended = [row for row in rows if row.ending is not None and row.ending not in _NOT_JUDGEABLE]
    names = sorted(row.episode for row in ended if row.episode in first)
    chosen = set(names if len(names) <= size else Random(seed).sample(names, size))
    strata: dict[_Stratum, list[str]] = {}
    for row in sorted(ended, key=lambda row: row.episode):
        if row.episode not in chosen:
            strata.setdefault((row.scenario, row.label or ""), []).append(row.episode)
    draw = Random(seed)
    sizes = {stratum: len(strata[stratum]) for stratum in sorted(strata)}
    for stratum, num in _allocate(sizes, size - len(chosen)).items():
        chosen.update(draw.sample(strata[stratum], num))
    return [row.episode for row in ended if row.episode in chosen]


def _allocate(sizes: dict[_Stratum, int], num: int) -> dict[_Stratum, int]:
    """The number of episodes from each stratum, by Huntington and Hill's method: the next episode
    goes to the largest size / sqrt(n * (n + 1)), n being the stratum's number so far, so that
    every stratum gets its first one.

    Example: {("shop", "completed"): 97, ("shop", "agent_error"): 3}, 10
             -> {("shop", "completed"): 9, ("shop", "agent_error"): 1}
    """
    numbers = dict.fromkeys(_by_rarity(sizes)[: max(0, num)], 1)
    queue = [(_priority(sizes[stratum], 1), stratum) for stratum in numbers]
    heapify(queue)
    for _ in range(min(num, sum(sizes.values())) - len(numbers)):
        stratum = queue[0][1]
        numbers[stratum] += 1
        heapreplace(queue, (_priority(sizes[stratum], numbers[stratum]), stratum))
    return numbers


def _priority(size: int, number: int) -> float:
    """The smaller, the sooner a stratum gets its next episode. It is above -1 only when all its
    episodes are chosen, and so after every other stratum."""
    return -size / sqrt(number * (number + 1))


def _by_rarity(sizes: dict[_Stratum, int]) -> Sequence[_Stratum]:
    """Strata in the order in which they get their first episode: each label's largest stratum, the
    rarest label first, then each label's second largest, and so on."""
    labels: Counter[str] = Counter()
    for (_, label), size in sizes.items():
        labels[label] += size
    rank: dict[_Stratum, int] = {}
    seen: Counter[str] = Counter()
    for stratum in sorted(sizes, key=lambda stratum: (-sizes[stratum], stratum)):
        rank[stratum] = seen[stratum[1]]
        seen[stratum[1]] += 1
    return sorted(sizes, key=lambda stratum: (rank[stratum], labels[stratum[1]], stratum))
