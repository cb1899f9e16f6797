"""The statistics of a run's report: estimates with intervals, by tag, and the split of variance.

Intervals are for clusters (judge.statistics.intervals): tasks, or worlds where these are the unit
(harness.outcomes.units). pass@k and pass^k are
estimated without bias from n tries of which c succeed: 1 - C(n-c, k) / C(n, k) (M. Chen et al.,
arXiv:2107.03374) and C(c, k) / C(n, k) (S. Yao et al., arXiv:2406.12045). The split of the variance
is the nested analysis of variance with unequal numbers (S. R. Searle, Linear Models, 1971, ch. 11);
a component below 0 counts as 0.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.run_statistics import (
    STRATA,
    RunStatistics,
    TagCount,
    VarianceSplit,
)
from rehearsal_room.harness.outcomes.scores import score_of, share_of
from rehearsal_room.harness.outcomes.units import Unit, by_unit, choose_unit
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import TaskKey

Tries = dict[TaskKey, list[float]]
Chance = Callable[[int, int, int], float]  # of successes, tries and k
_MAX_K = 64


def statistics_of(rows: Sequence[EpisodeRow], unit: Unit | None = None) -> RunStatistics:
    """The statistics of the episodes that are over; `rows` are all of a run. `unit` None: it
    follows from the tasks."""
    counted = ((row.scenario, row.task) for row in rows if row.ending and row.has_score)
    choice = choose_unit(counted, unit)
    unit = choice.unit
    # Scores and shares, by task and tags.
    alike: dict[tuple[str, str, tuple[str, ...]], tuple[list[float], list[float]]] = {}
    ended = without = 0
    with_share: set[str] = set()  # tags of tasks that have one
    for row in rows:
        if row.ending is None or not row.has_score:
            continue
        ended += 1
        score = score_of(row.ending, row.label)
        if score is None:
            without += 1
            continue
        if row.share is not None:
            with_share.update(row.tags)
        one = alike.setdefault((row.scenario, row.task, row.tags), ([], []))
        one[0].append(score)
        one[1].append(share_of(row.ending, row.label, row.share) or 0.0)
    tries: Tries = {}
    shares: Tries = {}
    by_tag: dict[str, tuple[Tries, Tries]] = {}
    for (scenario, name, tags), found in alike.items():
        for both in ((tries, shares), *(by_tag.setdefault(tag, ({}, {})) for tag in tags)):
            for values, more in zip(both, found, strict=True):
                values.setdefault((scenario, name), []).extend(more)
    if not tries:
        return RunStatistics(without_score=without, unit=unit, about=choice.about)
    done = math.fsum(map(math.fsum, tries.values()))
    part = math.fsum(map(math.fsum, shares.values()))
    has_share = any(row.share is not None for row in rows)
    return RunStatistics(
        completed=estimate_of(tries, unit),
        bounds=(done / ended, (done + without) / ended),
        without_score=without,
        pass_at_k=_by_k(tries, pass_at, unit),
        pass_hat_k=_by_k(tries, pass_hat, unit),
        tags={
            tag: _tag_count(*by_tag[tag], unit, has_share=tag in with_share)
            for tag in sorted(by_tag, key=_order_of_tag)
        },
        variance=variance_split(tries),
        unit=unit,
        about=choice.about,
        share=estimate_of(shares, unit) if has_share else None,
        share_bounds=(part / ended, (part + without) / ended),
    )


def estimate_of(tries: Mapping[TaskKey, Sequence[float]], unit: Unit) -> Interval[float]:
    """The mean of all tries with its interval; there must be at least one."""
    found = share_interval(by_unit(tries, unit))
    assert found is not None
    return found


def _tag_count(tries: Tries, shares: Tries, unit: Unit, *, has_share: bool) -> TagCount:
    return TagCount(
        len(tries),
        sum(map(len, tries.values())),
        estimate_of(tries, unit),
        share=estimate_of(shares, unit) if has_share else None,
    )


def _order_of_tag(tag: str) -> tuple[int, str]:
    return (STRATA.index(tag) if tag in STRATA else len(STRATA)), tag


def pass_at(successes: int, tries: int, k: int) -> float:
    """The chance that at least one of k tries at a task succeeds, estimated from `tries`."""
    return 1 - math.comb(tries - successes, k) / math.comb(tries, k)


def pass_hat(successes: int, tries: int, k: int) -> float:
    """The chance that all of k tries at a task succeed, estimated from `tries`."""
    return math.comb(successes, k) / math.comb(tries, k)


def _by_k(
    tries: Mapping[TaskKey, Sequence[float]], chance: Chance, unit: Unit
) -> dict[str, Interval[float]]:
    """The mean over tasks for each k that all tasks were tried: 1, 2, 4, … and the largest."""
    most = min(_MAX_K, min(map(len, tries.values())))
    counts = {key: (round(sum(one)), len(one)) for key, one in tries.items()}
    found = {}
    for k in _numbers_up_to(most):
        found[str(k)] = estimate_of(
            {key: [chance(*count, k)] for key, count in counts.items()}, unit
        )
    return found


def _numbers_up_to(most: int) -> Iterable[int]:
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return sorted({*powers, most})


def variance_split(tries: Mapping[TaskKey, Sequence[float]]) -> VarianceSplit | None:
    """Split the variance into world, task and rollout; None: no task was tried twice, there is only
    one task, or all scores are equal."""
    worlds: dict[str, list[Sequence[float]]] = {}
    for (world, _), scores in tries.items():
        worlds.setdefault(world, []).append(scores)
    total = sum(map(len, tries.values()))
    num_tasks, num_worlds = len(tries), len(worlds)
    if total <= num_tasks or num_tasks < 2:
        return None
    mean = math.fsum(map(math.fsum, tries.values())) / total
    means = {key: _mean(one) for key, one in tries.items()}
    within = math.fsum((score - means[key]) ** 2 for key, one in tries.items() for score in one)
    rollout = within / (total - num_tasks)
    world_sizes = {name: sum(map(len, tasks)) for name, tasks in worlds.items()}
    world_means = {name: sum(map(sum, tasks)) / world_sizes[name] for name, tasks in worlds.items()}
    between_tasks = math.fsum(
        len(one) * (_mean(one) - world_means[name]) ** 2
        for name, tasks in worlds.items()
        for one in tasks
    )
    # The mean number of tries of a task, in the sums of squares between tasks and between worlds.
    squares = {name: sum(len(one) ** 2 for one in tasks) for name, tasks in worlds.items()}
    inner = math.fsum(squares[name] / world_sizes[name] for name in worlds)
    task = 0.0
    if num_tasks > num_worlds:
        tries_each = (total - inner) / (num_tasks - num_worlds)
        task = max(0.0, (between_tasks / (num_tasks - num_worlds) - rollout) / tries_each)
    among_worlds = 0.0
    if num_worlds > 1:
        spread = math.fsum(
            size * (world_means[name] - mean) ** 2 for name, size in world_sizes.items()
        )
        of_task = (inner - sum(squares.values()) / total) / (num_worlds - 1)
        of_world = (total - sum(size**2 for size in world_sizes.values()) / total) / (
            num_worlds - 1
        )
        among_worlds = max(0.0, (spread / (num_worlds - 1) - rollout - of_task * task) / of_world)
    if (whole := among_worlds + task + rollout) <= 0:
        return None
    return VarianceSplit(among_worlds / whole, task / whole, rollout / whole)


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores)
