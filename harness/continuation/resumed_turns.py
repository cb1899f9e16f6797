"""The turns that a resumed run keeps: what the log has of episodes that were interrupted.

The next attempt at an episode begins with the replies of the attempt before. That attempt may
itself have been interrupted while it wrote its copies; then the one before it has them all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.core.events import Ending, HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import window_of_group
from rehearsal_room.harness.log.reader import open_reader


class Attempts(Protocol):
    """The logged attempts at episodes, as LogReader has them."""

    def trajectory(self, episode: str, *, attempt: int | None = None) -> Trajectory:
        """One attempt (None: the latest). Raises LogError."""


class KeptTurns:
    """Reads from a run's log with what an interrupted episode goes on. `open_resumed_turns` makes
    it for a log that is a file here."""

    def __init__(self, reader: Attempts, dialect: Dialect, history: HistoryWindow) -> None:
        self._reader = reader
        self._dialect = dialect
        self._history = history
        self._one_at_a_time = anyio.CapacityLimiter(1)  # of the reader

    async def of(self, episode: str, scenario_digest: str, *, attempt: int) -> Beginning | None:
        """The logged replies of the attempts before this one; None: there are none that it can go
        on after, so it begins at the episode's start. Raises LogError."""
        if attempt == 1:
            return None
        return await anyio.to_thread.run_sync(
            self._read, episode, scenario_digest, attempt, limiter=self._one_at_a_time
        )

    def _read(self, episode: str, scenario_digest: str, attempt: int) -> Beginning | None:
        for earlier in range(attempt - 1, 0, -1):
            trajectory = self._reader.trajectory(episode, attempt=earlier)
            if len(trajectory.replies()) >= trajectory.started.kept:
                return self._beginning(trajectory, scenario_digest)
        return None

    def _beginning(self, trajectory: Trajectory, scenario_digest: str) -> Beginning | None:
        started = trajectory.started
        same = (
            started.scenario_digest == scenario_digest
            and started.dialect == self._dialect.name
            and started.fingerprint == window_of_group(self._history, started.group).fingerprint
        )
        # A world without a digest does not reveal its state (an MCP server).
        if not same or not started.start_digest or not trajectory.replies():
            return None
        kept, unfinished = _split(trajectory, self._dialect)
        return Beginning(
            kept,
            started.start_digest,
            started.forked_from,
            unfinished,
            origin=started.origin,
            rules=started.rules,
        )


def _split(
    trajectory: Trajectory, dialect: Dialect
) -> tuple[tuple[StepTaken | HistorySummarized, ...], StepTaken | None]:
    """The finished replies of an attempt, and the step in whose calls it was cancelled (None: in no
    step)."""
    replies = trajectory.replies()
    last, ended = replies[-1], trajectory.ended
    was_cancelled = ended is not None and ended.ending is Ending.CANCELLED
    if was_cancelled and isinstance(last, StepTaken) and isinstance(last.decision, Act):
        decision = dialect.read(last.reply, turn=len(trajectory.steps) - 1)
        if isinstance(decision, Act) and len(decision.calls) > len(last.decision.calls):
            return tuple(replies[:-1]), last
    return tuple(replies), None


@contextmanager
def open_resumed_turns(
    folder: Path, dialect: Dialect, history: HistoryWindow
) -> Iterator[KeptTurns]:
    """Open the log of a run that is resumed, for the block. Raises LogError."""
    with open_reader(folder) as reader:
        yield KeptTurns(reader, dialect, history)
