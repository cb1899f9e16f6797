"""Runs that are still played and judged by other processes as a source of batches.

The batches follow from the logs alone, however they grow and whenever they are read:

- the groups come in the order in which the last of their episodes began, as from a finished log;
- of each episode counts the first attempt that ended and was judged, and the first verdict on it:
  what is played or judged again later changes no batch that a resumed training run has to repeat.

A batch waits for its episodes. It ends with its last group: what is dropped after that is counted
with the next batch.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from rehearsal_room.harness.core.events import Ending, EpisodeEnded, EpisodeStarted, Judged, Record
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.writer import has_writer
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.group_feed import GroupResult
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.log_source import Counting, no_groups, taken_batch

IsComplete = Callable[[Path, LogReader], bool]  # whether a run has ended all that it planned
_WAIT_S = 0.2  # seconds between two looks at a log in which nothing is new

_log = structlog.get_logger(__name__)


class FollowedLog:
    """The episodes of one log in the order in which they began, each once it is judged."""

    def __init__(self, folder: Path, reader: LogReader) -> None:
        self.reader = reader
        self.folder = folder
        self._position = 0  # up to where the log was looked through
        self._waiting: deque[str] = deque()  # episodes that began, in order
        self._ended: dict[str, int] = {}  # the latest attempt of theirs that ended
        self._judged: dict[str, int] = {}  # the first attempt of theirs that was judged
        self._begun: set[str] = set()
        self.has_scenarios = False  # whether the grouping has this log's

    def look(self) -> bool:
        """Look through all that is new. False: there was nothing."""
        is_new = False
        while rows := self.reader.milestones_after(self._position):
            is_new = True
            self._position = rows[-1][0]
            for _, record in rows:
                self._note(record)
        return is_new

    def _note(self, record: Record) -> None:
        episode, event = record.episode, record.event
        if isinstance(event, EpisodeStarted):
            if episode not in self._begun:
                self._begun.add(episode)
                self._waiting.append(episode)
        elif isinstance(event, EpisodeEnded) and event.ending is not Ending.CANCELLED:
            self._ended[episode] = record.attempt
        elif isinstance(event, Judged) and self._ended.get(episode) == record.attempt:
            self._judged.setdefault(episode, record.attempt)

    @property
    def num_waiting(self) -> int:
        """Episodes that began, and were not returned."""
        return len(self._waiting)

    def next_episode(self) -> tuple[str, int] | None:
        """The next episode, and the attempt that counts; None: it is not judged yet."""
        if not self._waiting or self._waiting[0] not in self._judged:
            return None
        episode = self._waiting.popleft()
        return episode, self._judged[episode]


class FollowedSource:
    """Returns the groups of followed logs in batches; the last batch may be smaller."""

    def __init__(
        self,
        folders: Sequence[Path],
        grouping: Grouping,
        *,
        size: int,
        first: int = 0,
        epochs: int = 1,
        is_complete: IsComplete,
    ) -> None:
        """The logs are followed one after the other, `epochs` times; the first `first` of their
        groups were in earlier batches."""
        self._grouping = grouping
        self._size = size
        self._num_taken = first
        self._to_skip = first
        self._is_complete = is_complete
        self._counting = Counting(grouping)
        self._stack = ExitStack()
        self._folders: Iterator[Path] = iter([*folders] * epochs)
        self._current: FollowedLog | None = None  # None: the next one has not been opened
        self._is_reported = False  # the user knows what this log waits for

    def close(self) -> None:
        """Close the log that is followed now."""
        self._stack.close()

    async def take(self, version: int) -> TakenBatch | None:
        """The next batch, as soon as its episodes are judged; None: the logs have no more groups.

        Raises LogError and SampleError, and LearnerError when no group can be used.
        """
        groups: list[Group] = []
        while len(groups) < self._size:
            result = await self._next()
            if result is None:
                break
            if not isinstance(result, Group):
                continue
            if not self._to_skip:
                groups.append(result)
                continue
            self._to_skip -= 1
            if not self._to_skip:
                self._counting.start_again()  # earlier batches have reported these
        if not groups:
            if not self._num_taken:
                raise no_groups(self._counting.dropped())
            return None
        self._num_taken += len(groups)
        dropped, equal_size = self._counting.dropped(), self._counting.equal_size()
        return taken_batch(groups, self._num_taken, dropped, equal_size)

    async def _next(self) -> GroupResult | None:
        """The next group, usable or dropped; waits for it. None: there are no more."""
        while True:
            if self._current is None and not self._open_next():
                return None
            assert self._current is not None
            found = await anyio.to_thread.run_sync(self._look, self._current)
            if isinstance(found, bool):
                if found:  # this log has ended
                    self._grouping.close()
                    self._current = None
                else:
                    await anyio.sleep(_WAIT_S)
            else:
                return found

    def _open_next(self) -> bool:
        self._stack.close()
        folder = next(self._folders, None)
        if folder is not None:
            self._current = FollowedLog(folder, self._stack.enter_context(open_reader(folder)))
            self._is_reported = False
        return folder is not None

    def _look(self, log: FollowedLog) -> GroupResult | bool:
        """The next group of a log; True: it has ended, False: the next one is not complete yet."""
        is_live = has_writer(log.folder)  # first: what its writer wrote before it ended is read
        is_new = log.look()
        while (found := log.next_episode()) is not None:
            result = self._add(log, *found)
            if result is not None:
                return result
        if is_live or is_new:
            return False
        if not log.num_waiting and self._is_complete(log.folder, log.reader):
            return True
        if not self._is_reported:
            self._is_reported = True
            _log.warning(
                "run_not_finished", run=str(log.folder), unjudged=log.num_waiting, waits=True
            )
        return False

    def _add(self, log: FollowedLog, episode: str, attempt: int) -> GroupResult | None:
        if not log.has_scenarios:  # the log has them before its first record
            log.has_scenarios = True
            self._grouping.use_scenarios(log.reader.scenarios())
        trajectory = log.reader.trajectory(episode, attempt=attempt, first_verdict=True)
        return self._grouping.add(trajectory, where=str(log.folder))
