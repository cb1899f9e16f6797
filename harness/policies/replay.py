"""Replies out of a log: what an agent once said, said again.

In the same world under the same settings the run repeats itself, at no cost. In a changed world,
under other limits or other faults it shows what the same words would have led to; the dialect must
be the one in which they were said. `rehearse replay` is another thing: it executes logged calls and
compares.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.core.errors import PolicyError, SettingsError
from harness.core.events import HistorySummarized, StepTaken
from harness.core.messages import Reply, Window
from harness.core.trajectory import Trajectory
from harness.log.reader import LogReader, open_reader
from harness.log.schema import EpisodeRow
from harness.policies.base import Agent, Assignment
from harness.policies.known_calls import SUMMARY


class ReplayedPolicy:
    """Plays the episodes of a log: for each task, its episodes in order to the members of a group,
    and from the first again when the group is larger.

    An async context manager that owns the open log. Raises SettingsError for a log that was
    written in another dialect; opening raises LogError.
    """

    name = "replay"

    def __init__(self, folder: Path, dialect: str) -> None:
        self._folder = folder
        self._dialect = dialect
        self._opened: AbstractContextManager[LogReader] = open_reader(folder)
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
        """Check before a run that each (scenario, task) was played. Raises SettingsError."""
        for scenario, task in tasks:
            if (scenario, task) not in self._episodes:
                raise SettingsError(
                    f"replay: {self._folder} has no finished episode of task {task!r} of scenario"
                    f" {scenario!r}"
                )

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that says what its member of the group once said."""
        assert self._reader is not None
        episodes = self._episodes[assignment.scenario.name, assignment.task.id]
        episode = episodes[assignment.member % len(episodes)]
        return _Replayed(self._reader.trajectory(episode), self._said)

    def statistics(self) -> dict[str, float]:
        """Counts since the start: replies."""
        return {"replies": self._num_replies}

    async def __aenter__(self) -> Self:
        self._reader = self._opened.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader = None
        self._opened.__exit__(kind, exc, trace)

    def _said(self) -> None:
        self._num_replies += 1

    def _check(self, reader: LogReader, rows: list[EpisodeRow]) -> None:
        if not rows:
            raise SettingsError(f"replay: {self._folder} holds no episode")
        spoken = reader.trajectory(rows[0].episode).started.dialect
        if spoken != self._dialect:
            raise SettingsError(
                f"dialect: the replies of {self._folder} are in {spoken}, not {self._dialect}"
            )


class _Replayed:
    __slots__ = ("_episode", "_said", "_steps", "_summaries")

    def __init__(self, trajectory: Trajectory, said: Callable[[], None]) -> None:
        replies = trajectory.replies()
        self._episode = trajectory.episode
        self._steps: Iterator[Reply] = iter(
            [event.reply for event in replies if isinstance(event, StepTaken)]
        )
        self._summaries: Iterator[Reply] = iter(
            [event.reply for event in replies if isinstance(event, HistorySummarized)]
        )
        self._said = said

    async def reply(self, window: Window) -> Reply:
        """The next logged reply. Raises PolicyError when there is none left."""
        self._said()
        if window.asks_for_summary:
            return next(self._summaries, SUMMARY)
        reply = next(self._steps, None)
        if reply is None:
            raise PolicyError(f"the logged episode {self._episode} says nothing more")
        return reply
