"""The two sources of groups: the log of a run, and a run that has not ended.

Both emit complete groups in the order in which their last members finished. In memory they hold the
episodes of incomplete groups and one more. Neither waits for training: the gating of episodes
bounds how many can accumulate.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import EpisodeStarted, EventKind, Judged, Record
from rehearsal_room.harness.core.trajectory import Assembly, Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.grouping import DroppedGroup, Grouping

GroupResult = Group | DroppedGroup
KINDS: tuple[EventKind, ...] = (
    "started",
    "step",
    "summary",
    "model",
    "ended",
    "judged",
)  # that a feed needs

_SLICE_S = 0.005  # after this many seconds of work, other tasks get their turn


def groups_of_logs(
    folders: Iterable[Path], grouping: Grouping, *, epochs: int = 1
) -> Iterator[Group]:
    """The groups of finished runs, `epochs` times, always in the same order.

    The grouping counts the dropped groups. Raises LogError and SampleError.
    """
    runs = list(folders)
    for _ in range(epochs):
        for folder in runs:
            for result in group_results_of_log(folder, grouping):
                if isinstance(result, Group):
                    yield result
            grouping.close()


def group_results_of_log(
    folder: Path,
    grouping: Grouping,
    *,
    pending: bool = False,
    without: Collection[str] = (),
) -> Iterator[GroupResult]:
    """The groups of one run's log, usable or dropped; those named in `without` are skipped.

    `pending`: the run will be continued, so episodes without a verdict are skipped: they come
    again. Incomplete groups stay open in the grouping. Raises LogError and SampleError.
    """
    with open_reader(folder) as reader:
        grouping.use_scenarios(reader.scenarios())
        for row in reader.episodes():
            if row.group in without or (pending and row.judge is None):
                continue
            result = grouping.add(reader.trajectory(row.episode), where=str(folder))
            if result is not None:
                yield result


class LiveFeed:
    """Receives the records of a run and emits its groups as soon as they are complete."""

    def __init__(
        self,
        grouping: Grouping,
        emit: Callable[[GroupResult], None],
        *,
        where: str,
        load_trajectory: Callable[[str], Trajectory | None] | None = None,
    ) -> None:
        """`emit` is called on the event loop and must not block.

        `where` names the run for messages; it is the same string under which the run's log was
        read into the grouping before. `load_trajectory` gives an episode that started before this
        feed was subscribed and is judged only now; None: such episodes are skipped.
        """
        self._grouping = grouping
        self._emit = emit
        self._where = where
        self._load_trajectory = load_trajectory
        self._live: dict[str, Assembly] = {}

    def __repr__(self) -> str:
        return f"<LiveFeed {self._where!r} [{len(self._live)} live]>"

    async def serve(self, subscription: Subscription) -> None:
        """Take records of `KINDS` until the bus is closed; then drop the incomplete groups.

        Raises SampleError.
        """
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                break
            turn_ends = time.perf_counter() + _SLICE_S
            for record in records:
                self.add(record)
                if time.perf_counter() > turn_ends:
                    await anyio.lowlevel.checkpoint()
                    turn_ends = time.perf_counter() + _SLICE_S
        for dropped in self._grouping.close():
            self._emit(dropped)

    def add(self, record: Record) -> None:
        """Take a record. Raises SampleError."""
        event = record.event
        if isinstance(event, EpisodeStarted):
            self._live[record.episode] = Assembly(record)
            return
        assembly = self._live.get(record.episode)
        trajectory: Trajectory | None = None
        if assembly is not None and assembly.attempt == record.attempt:
            assembly.add(record)
            if isinstance(event, Judged):
                del self._live[record.episode]
                trajectory = assembly.trajectory()
        elif isinstance(event, Judged) and self._load_trajectory is not None:
            trajectory = self._load_trajectory(record.episode)
        if trajectory is not None:
            result = self._grouping.add(trajectory, where=self._where)
            if result is not None:
                self._emit(result)

    def statistics(self) -> dict[str, int]:
        """The number of live episodes."""
        return {"live": len(self._live)}
