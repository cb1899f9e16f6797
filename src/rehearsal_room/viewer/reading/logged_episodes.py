"""An episode of a run, read from its log."""

from typing import Any

from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.viewer.index.hand_labels import NO_LABELS, HandLabels
from rehearsal_room.viewer.reading.episode import episode_page
from rehearsal_room.viewer.reading.episode_rows import line_of
from rehearsal_room.viewer.reading.open_runs import NotHereError, ShownRun


def logged_episode(run: ShownRun, episode: str) -> tuple[Trajectory, ScenarioSnapshot | None]:
    """An episode of a log, and its scenario (None: the log does not have it). Raises LogError and
    NotHereError."""
    with run.reading() as reader:
        if not reader.has_episode(episode):
            raise NotHereError(f"{run.folder}: there is no episode {episode!r}")
        trajectory = reader.trajectory(episode)
    return trajectory, run.snapshots().get(trajectory.started.scenario_digest)


def read_episode(run: ShownRun, episode: str, labels: HandLabels = NO_LABELS) -> dict[str, Any]:
    """An episode as its page shows it. Raises HarnessError."""
    trajectory, world = logged_episode(run, episode)
    with run.reading() as reader:
        times = reader.turn_times(episode, trajectory.attempt)
    line = line_of(run.index(), episode, labels)
    return episode_page(line, trajectory, dict(enumerate(times)), world, run.text_of())
