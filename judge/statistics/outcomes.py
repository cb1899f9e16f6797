"""What statistics needs of a run: one outcome for each episode.

Scores are those of the one rule (harness.outcomes.scores). Episodes without a verdict stay out of
every estimate and are shown beside it, with the bounds that hold whatever they would have been.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.events import EpisodeStarted
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.scores import score_of, share_of

TaskKey = tuple[str, str]  # scenario and task


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """One episode that is over."""

    scenario: str
    task: str
    seed: int
    score: float | None  # 1 completed, 0 not; None: the world failed, or there is no label
    share: float | None = None  # of the task, by the verdict; None: it is all or nothing

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
        outcome_of(row, seeds[row.episode])
        for row in reader.episodes()
        if row.ending is not None and row.has_score
    ]


def outcome_of(row: EpisodeRow, seed: int) -> Outcome:
    """The outcome of an episode that is over."""
    share = None if row.share is None else share_of(row.ending, row.label, row.share)
    return Outcome(row.scenario, row.task, seed, score_of(row.ending, row.label), share)


def have_shares(outcomes: Iterable[Outcome]) -> bool:
    """Whether the task of an episode has a share."""
    return any(one.share is not None for one in outcomes)


def by_shares(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes with shares for scores, where they have one."""
    return [
        one if one.share is None else msgspec.structs.replace(one, score=one.share)
        for one in outcomes
    ]


def filled(outcomes: Iterable[Outcome], score: float) -> list[Outcome]:
    """The outcomes with this score where there is none."""
    return [
        one if one.score is not None else msgspec.structs.replace(one, score=score)
        for one in outcomes
    ]


def by_task(outcomes: Iterable[Outcome]) -> dict[TaskKey, list[Outcome]]:
    """The outcomes with a score, by task."""
    found: dict[TaskKey, list[Outcome]] = {}
    for one in outcomes:
        if one.score is not None:
            found.setdefault(one.key, []).append(one)
    return found
