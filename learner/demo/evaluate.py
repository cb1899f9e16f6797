"""The scores of runs on the same held-out tasks, and the intervals of their differences."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.outcomes.bootstrap import Bootstrap
from rehearsal_room.harness.outcomes.intervals import Interval

_RESAMPLES = 10_000
Outcomes = Mapping[tuple[str, str], Sequence[bool]]  # (scenario, task) -> each try's completion


class Score(msgspec.Struct, frozen=True):
    """The score of a policy on the held-out tasks."""

    tasks: int
    greedy: Interval[float]  # completed at temperature 0
    by_kind: dict[str, float]  # the mean of the same, by kind of task
    # Completed in at least one of k tries; None: not measured.
    pass_at: Interval[float] | None = None
    tries: int = 0  # k; 0: not measured


def outcomes(run: Path) -> dict[tuple[str, str], list[bool]]:
    """Whether each try of each task of a run was completed; an episode without a verdict was
    not."""
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    with open_reader(run) as reader:
        for row in reader.episodes():
            found[row.scenario, row.task].append(row.label is Label.COMPLETED)
    return dict(found)


def score(greedy: Outcomes, sampled: Outcomes | None = None, *, seed: int = 0) -> Score:
    """The score from a run with one greedy try per task, and from one with several samples."""
    first = {task: float(tries[0]) for task, tries in greedy.items()}
    kinds: dict[str, list[float]] = defaultdict(list)
    for (_, task), value in first.items():
        kinds[kind_of(task)].append(value)
    tries = max(map(len, sampled.values()), default=0) if sampled else 0
    return Score(
        tasks=len(first),
        greedy=bootstrap(list(first.values()), seed=seed),
        by_kind={kind: _mean(values) for kind, values in sorted(kinds.items())},
        pass_at=(
            bootstrap([float(any(one)) for one in sampled.values()], seed=seed) if sampled else None
        ),
        tries=tries,
    )


def paired(before: Outcomes, after: Outcomes, *, seed: int = 0) -> Interval[float]:
    """The increase of the share of completed tasks. Raises ValueError when the two runs have
    different tasks.

    Example: before {a: no, b: no}, after {a: yes, b: no} -> value 0.5
    """
    if before.keys() != after.keys():
        raise ValueError("the two runs have different tasks")
    differences = [_mean(after[task]) - _mean(tries) for task, tries in before.items()]
    return bootstrap(differences, seed=seed)


def bootstrap(values: Sequence[float], *, seed: int) -> Interval[float]:
    """The mean of the tasks' values with its 95 % interval over resampled tasks (see
    harness.outcomes.bootstrap)."""
    found = Bootstrap(Counter(values), seed=seed, num_resamples=_RESAMPLES).of(
        lambda units: sum(value * n for value, n in units.items()) / len(values)
    )
    mean = _mean(values)
    if found.lower is None or found.upper is None:  # all values are equal
        return Interval(mean, mean, mean)
    return Interval(mean, found.lower, found.upper)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def kind_of(task: str) -> str:
    """The kind of a micro-world's task.

    Example: kind_of("goals-2-b") -> "goals-2"
    """
    return task.rpartition("-")[0]
