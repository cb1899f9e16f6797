"""What the composition root gives to the viewer, which may not import the judge."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import EpisodeRow, ScenarioSnapshot
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics

Tries = Mapping[tuple[str, str], tuple[int, int]]  # by scenario and task: completed, in all


class ShareInterval(Protocol):
    """Estimates a share with its 95 % interval; tries at one task resemble each other."""

    def __call__(self, tries: Tries, /) -> Interval[float] | None:
        """The share that is completed; None: there is no try."""


class Labels(Protocol):
    """Labels by people, in the file that `rehearse label` writes."""

    def mine(self, folder: Path, /) -> Mapping[str, str]:
        """The labels of the present user, by episode. Raises LogError."""

    def add(self, folder: Path, trajectory: Trajectory, label: str | None, note: str, /) -> None:
        """Add a label; None withdraws it. Raises LogError."""


class JudgingParts(msgspec.Struct, frozen=True):
    """What the judge does for the viewer."""

    interval: ShareInterval
    statistics: Callable[[Sequence[EpisodeRow]], RunStatistics]
    compare: Callable[[Path, Path], Any]  # None: the runs share no task
    disagreements: Callable[[Sequence[Trajectory]], list[Any]]
    evidence: Callable[[Trajectory, ScenarioSnapshot], list[Mapping[str, str]]]
    failures: Callable[[Path, str], Awaitable[list[Any]]]  # of a run's folder and an episode
    run_failures: Callable[[Path], Awaitable[Mapping[str, Any]]]  # of a run, by episode
    labels: Labels
    labeller: str
    gate: Callable[[str], list[Any]]  # what the quality gate finds in a world
