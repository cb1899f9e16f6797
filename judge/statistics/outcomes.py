"""What statistics needs of a run: one outcome for each episode.

An episode counts with 1 where it is completed and with 0 otherwise. One whose world failed, and one
that no judge labelled, says nothing about the agent: its score is None. Such episodes stay out of
every estimate and are shown beside it, with the bounds that hold whatever they would have been.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.events import EpisodeStarted, Label
from rehearsal_room.harness.log.reader import LogReader, open_reader

TaskKey = tuple[str, str]  # scenario and task


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """One episode that is over."""

    scenario: str
    task: str
    seed: int
    score: float | None  # 1 completed, 0 not; None: the world failed, or there is no label

    @property
    def key(self) -> TaskKey:
        """The task, which is the cluster: tries at one task resemble each other."""
        return self.scenario, self.task


def read_outcomes(folder: Path) -> list[Outcome]:
    """The outcomes of a run's episodes that are over. Raises LogError."""
    with open_reader(folder) as reader:
        return outcomes_of(reader)


def outcomes_of(reader: LogReader) -> list[Outcome]:
    """The same of an open log."""
    seeds = {
        record.episode: record.event.seed
        for record in reader.milestones()
        if isinstance(record.event, EpisodeStarted)
    }
    return [
        Outcome(row.scenario, row.task, seeds[row.episode], score_of(row.label))
        for row in reader.episodes()
        if row.ending is not None
    ]


def score_of(label: str | None) -> float | None:
    """The score of a label; None: it says nothing about the agent.

    Example: "completed" -> 1.0; "partially_completed" -> 0.0; "environment_error" -> None
    """
    if label is None or label == Label.ENVIRONMENT_ERROR:
        return None
    return float(label == Label.COMPLETED)


def by_task(outcomes: Iterable[Outcome]) -> dict[TaskKey, list[Outcome]]:
    """The outcomes with a score, by task."""
    found: dict[TaskKey, list[Outcome]] = {}
    for one in outcomes:
        if one.score is not None:
            found.setdefault(one.key, []).append(one)
    return found
