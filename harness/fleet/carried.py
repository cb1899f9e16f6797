"""Assignments for a worker that cannot read the log: they carry what it has of the episode."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.harness.fleet.messages import EpisodeAssignment, EpisodeAssignments
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import EncodedRecord, record_of
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.scenarios.files import UNREADABLE


def with_logged(
    assignments: EpisodeAssignments, folder: Path, plans: Sequence[EpisodePlan]
) -> EpisodeAssignments:
    """The assignments; those that go on with an episode of the log have its attempts so far. Reads
    the log, if there are such assignments. Raises LogError."""
    if not any(map(_goes_on, assignments.leases)):
        return assignments
    with open_reader(folder) as reader:
        return EpisodeAssignments(
            [
                msgspec.structs.replace(
                    assignment,
                    logged=reader.attempts(plans[assignment.index].episode, assignment.attempt),
                )
                if _goes_on(assignment)
                else assignment
                for assignment in assignments.leases
            ]
        )


def _goes_on(assignment: EpisodeAssignment) -> bool:
    return assignment.attempt > 1 or assignment.judge_from is not None


class CarriedAttempts:
    """The attempts at an episode that an assignment carries, read as LogReader reads them."""

    def __init__(self, records: Sequence[EncodedRecord]) -> None:
        self._records = records

    def trajectory(self, episode: str, *, attempt: int | None = None) -> Trajectory:
        """One attempt (None: the latest). Raises LogError."""
        rows = [one for one in self._records if one[0] == episode]
        wanted = max((one[1] for one in rows), default=0) if attempt is None else attempt
        rows = [one for one in rows if one[1] == wanted]
        try:
            return assemble([record_of((0, *row)) for row in rows])
        except (ValueError, *UNREADABLE) as exc:
            raise LogError(
                f"the lease of episode {episode!r} does not carry attempt {wanted}: {exc}"
            ) from exc
