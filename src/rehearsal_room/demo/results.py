"""What a policy reached on held-out tasks, and how it went about it.

Shares, pass@k and their intervals are computed as in a run's report, differences as by `rehearse
compare`; the unit of both is the world.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec

from rehearsal_room.demo.demonstrators import choices_entropy
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.messages import AgentCall
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.outcomes import read_outcomes
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.learner.model.logprob_agreement import MAX_DIFFERENCE
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.microworlds.offices import MISS

_LAST = 50  # batches whose mean loss is compared with its floor


class Score(msgspec.Struct, frozen=True):
    """The results of a policy; shares, with 95 % intervals over worlds."""

    tasks: int
    greedy: Interval[float]  # completed at temperature 0
    sampled: Interval[float] | None  # pass@1 at temperature 1; None: not measured
    pass_at: Interval[float] | None  # pass@k: at least one of k samples
    habits: "Habits"  # of the samples; where there are none, at temperature 0


class Habits(msgspec.Struct, frozen=True):
    """How episodes look for a record."""

    look_ups: float  # share of the episodes whose first call looks the office up
    repeats: float  # share of the searches after a miss that ask the same office again
    misses: int  # the searches after a miss


class CloneLoss(msgspec.Struct, frozen=True):
    """The loss of a clone against its floor, in nats an attempt."""

    loss: float  # mean of the last batches
    floor: float  # the entropy of what the demonstrators chose
    attempts: int  # that were kept
    played: int


def scores_of(
    worlds: Mapping[str, Sequence[Path]], greedy: Path, sampled: Path | None = None
) -> dict[str, Score]:
    """The scores by group of worlds, from the folders of a greedy run and of one with several
    samples a task, of some of the tasks. Raises LearnerError for an episode without a verdict."""
    found = {}
    for which, folders in worlds.items():
        names = frozenset(folder.name for folder in folders)
        tasks, first = _statistics(greedy, names)
        number, several = (0, first) if sampled is None else _statistics(sampled, names)
        assert first.completed is not None
        found[which] = Score(
            tasks,
            first.completed,
            several.completed if number else None,
            several.pass_at_k[max(several.pass_at_k, key=int)] if number else None,
            habits_of(sampled if sampled and number else greedy, names),
        )
    return found


def _statistics(run: Path, names: AbstractSet[str]) -> tuple[int, RunStatistics]:
    """The number of tasks and the statistics of a run's episodes in these worlds."""
    with open_reader(run) as reader:
        rows = [row for row in reader.episodes() if row.scenario in names]
    found = statistics_of(rows, "world")
    if found.without_score:
        raise LearnerError(f"{run}: {found.without_score} episodes have no verdict")
    return len({(row.scenario, row.task) for row in rows}), found


def gain(before: Path, after: Path, folders: Sequence[Path]) -> Interval[float]:
    """The increase of the share of completed tasks from one run to another, in these worlds.
    Raises LearnerError when the two runs have different tasks there."""
    names = {folder.name for folder in folders}
    runs = [[one for one in read_outcomes(run) if one.scenario in names] for run in (before, after)]
    found = compare(*runs, unit="world")
    if found is None or found.left_out:
        raise LearnerError(f"{before} and {after} have different tasks")
    return Interval(found.delta, *found.interval)


def habits_of(run: Path, names: AbstractSet[str] = frozenset()) -> Habits:
    """How the episodes of a run look for a record, in worlds of these names (empty: in all)."""
    looked, repeated, misses, number = 0, 0, 0, 0
    for trajectory in _trajectories(run):
        if names and trajectory.started.scenario not in names:
            continue
        number += 1
        missed = None
        for turn, (call, is_miss) in enumerate(_calls(trajectory)):
            office = call.arguments.get("office")
            looked += turn == 0 and call.name.startswith("where_")
            if missed is not None and office is not None:
                misses += 1
                repeated += office == missed
            missed = office if is_miss else None
    return Habits(looked / max(1, number), repeated / max(1, misses), misses)


def clone_loss(demonstrations: Path, train: Path) -> CloneLoss:
    """The loss of a clone of the completed episodes of a run, and the least that it can be."""
    kept, tokens, played = [], 0, 0
    for trajectory in _trajectories(demonstrations):
        played += 1
        if trajectory.judged and trajectory.judged[-1].label is Label.COMPLETED:
            calls = [Call(call.name, call.arguments) for call, _ in _calls(trajectory)]
            kept.append((trajectory.started.instruction, calls))
            tokens += sum(step.reply.usage.completion_tokens for step in trajectory.steps)
    losses = [float(row["loss"]) for row in read_metrics(train) if "loss" in row][-_LAST:]
    per_token = sum(losses) / len(losses)
    return CloneLoss(per_token * tokens / len(kept), choices_entropy(kept), len(kept), played)


def _trajectories(run: Path) -> Iterator[Trajectory]:
    with open_reader(run) as reader:
        yield from reader.trajectories()


def _calls(trajectory: Trajectory) -> Iterator[tuple[AgentCall, bool]]:
    """The calls of an episode, and whether each looked in an office without the record."""
    for step in trajectory.steps:
        for call, result in zip(step.executed_calls, step.results, strict=False):
            yield call, result.text == MISS


def mixed_groups(train: Path) -> list[tuple[int, float]]:
    """After each batch of GRPO, the share of its groups whose rewards differed."""
    found = []
    for row in read_metrics(train):
        equal, trained = row.get("dropped/equal", 0), row.get("groups", 0)
        if equal + trained:
            found.append((row["step"], trained / (equal + trained)))
    return found


class Agreement(msgspec.Struct, frozen=True):
    """The greatest difference between the log-probabilities of sampler and trainer for a token, in
    nats."""

    first: float  # of the first batch: both have the weights with which the run starts
    worst: float  # of all batches


def agreement(train: Path) -> Agreement:
    """The agreement of sampler and trainer in a training run without staleness.

    Raises LearnerError if they disagree in the first batch, or if it was not measured: then no
    result can be claimed.
    """
    found = [float(row["mismatch_max"]) for row in read_metrics(train) if "mismatch_max" in row]
    if not found:
        raise LearnerError(
            f"{train}: the difference between the log-probabilities of sampler and trainer was not"
            " measured"
        )
    if found[0] > MAX_DIFFERENCE:
        raise LearnerError(
            f"{train}: the log-probabilities of sampler and trainer differ by {found[0]:.2g};"
            f" at most {MAX_DIFFERENCE:.0e} is allowed"
        )
    return Agreement(found[0], max(found))
