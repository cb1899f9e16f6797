"""A policy that repeats the replies of a logged run.

In the same world under the same settings the run repeats itself, without asking a model. In a
changed world, under other limits or other faults it shows what the same replies would have led to;
the dialect must be the one of the logged run. The command `rehearse replay` does something else: it
executes logged calls and compares their results.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.events import HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FIXED_SUMMARY


class ReplayPolicy(AsyncContextManagerMixin):
    """Repeats the episodes of a log. The members of a task's group repeat the task's episodes in
    order; a larger group starts again with the first.

    An async context manager that owns the open log. Raises SettingsError for a log that was
    written in another dialect, and LogError for a log that cannot be read.
    """

    name = "replay"

    def __init__(self, folder: Path, dialect: str) -> None:
        self._folder = folder
        self._dialect = dialect
        self._reader: LogReader | None = None
        with open_reader(folder) as reader:
            rows = reader.episodes()
            self._check(reader, rows)
        self._episodes: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if row.ending is not None:
                self._episodes.setdefault((row.scenario, row.task), []).append(row.episode)
        self._num_replies = 0

    def require(self, tasks: Iterable[tuple[str, str]]) -> None:
        """Check before a run that the log has each (scenario, task). Raises SettingsError."""
        for scenario, task in tasks:
            if (scenario, task) not in self._episodes:
                raise SettingsError(
                    f"replay: {self._folder} has no finished episode of task {task!r} of scenario"
                    f" {scenario!r}"
                )

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that repeats the replies of its member's episode."""
        assert self._reader is not None
        episodes = self._episodes[assignment.scenario.name, assignment.task.id]
        episode = episodes[assignment.member % len(episodes)]
        trajectory = self._reader.trajectory(episode)
        return _ReplayAgent(trajectory, assignment.kept, self._count_reply)

    def statistics(self) -> dict[str, float]:
        """Counts since the start: replies."""
        return {"replies": self._num_replies}

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        with open_reader(self._folder) as self._reader:
            try:
                yield self
            finally:
                self._reader = None

    def _count_reply(self) -> None:
        self._num_replies += 1

    def _check(self, reader: LogReader, rows: list[EpisodeRow]) -> None:
        if not rows:
            raise SettingsError(f"replay: {self._folder} contains no episode")
        logged = reader.trajectory(rows[0].episode).started.dialect
        if logged != self._dialect:
            raise SettingsError(
                f"dialect: the replies of {self._folder} are in {logged}, not {self._dialect}"
            )


class _ReplayAgent:
    __slots__ = ("_count_reply", "_episode", "_steps", "_summaries")

    def __init__(
        self,
        trajectory: Trajectory,
        kept: Sequence[StepTaken | HistorySummarized],
        count_reply: Callable[[], None],
    ) -> None:
        self._episode = trajectory.episode
        num_steps = sum(isinstance(event, StepTaken) for event in kept)
        steps = [step.reply for step in trajectory.steps]
        summaries = [summary.reply for summary in trajectory.summaries]
        self._steps: Iterator[Reply] = iter(steps[num_steps:])
        self._summaries: Iterator[Reply] = iter(summaries[len(kept) - num_steps :])
        self._count_reply = count_reply

    async def reply(self, window: Window) -> Reply:
        """The next logged reply. Raises PolicyError when there is none left."""
        self._count_reply()
        if window.asks_for_summary:
            return next(self._summaries, FIXED_SUMMARY)
        reply = next(self._steps, None)
        if reply is None:
            raise PolicyError(f"the logged episode {self._episode} has no further reply")
        return reply
