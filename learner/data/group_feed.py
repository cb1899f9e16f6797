"""Where groups come from: the log of a run, or the run itself while it goes on.

Both hand whole groups on in the order in which their last members were done, one episode in memory
beside those of groups that are not whole yet. Neither waits for training: how much there can be is
bounded by whoever admits episodes.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel

from harness.bus.local import Subscription
from harness.core.events import EpisodeStarted, Judged, Kind, Record
from harness.core.trajectory import Assembly, Trajectory
from harness.log.reader import open_reader
from learner.core.samples import Group
from learner.data.grouping import Grouping, SetAside

Outcome = Group | SetAside
KINDS: tuple[Kind, ...] = ("started", "step", "summary", "ended", "judged")  # that a feed hears

_SLICE = 0.005  # seconds after which other tasks have their turn


def groups_of_logs(
    folders: Iterable[Path], grouping: Grouping, *, epochs: int = 1
) -> Iterator[Group]:
    """The groups of finished runs, `epochs` times over; in the same order whenever it is asked.

    What is set aside is counted by the grouping. Raises LogError and SampleError.
    """
    places = list(folders)
    for _ in range(epochs):
        for folder in places:
            for outcome in outcomes_of_log(folder, grouping):
                if isinstance(outcome, Group):
                    yield outcome
            grouping.close()


def outcomes_of_log(
    folder: Path,
    grouping: Grouping,
    *,
    pending: bool = False,
    without: Collection[str] = (),
) -> Iterator[Outcome]:
    """What becomes of the groups of one run's log, those named in `without` left out.

    `pending`: the run shall go on, so episodes without a verdict are passed over: they come again.
    The groups that are not whole stay open in the grouping. Raises LogError and SampleError.
    """
    with open_reader(folder) as reader:
        grouping.know(reader.scenarios())
        for row in reader.episodes():
            if row.group in without or (pending and row.judge is None):
                continue
            outcome = grouping.add(reader.trajectory(row.episode), where=str(folder))
            if outcome is not None:
                yield outcome


class LiveFeed:
    """Hears the facts of a run and gives its groups as soon as they are whole."""

    def __init__(
        self,
        grouping: Grouping,
        give: Callable[[Outcome], None],
        *,
        where: str,
        recall: Callable[[str], Trajectory | None] | None = None,
    ) -> None:
        """`give` is called on the loop and must not block. `where` names the run, as the folder
        names it whose log was read before into the same grouping. `recall` gives an episode that
        began before this feed listened and is judged only now; None: it is passed over.
        """
        self._grouping = grouping
        self._give = give
        self._where = where
        self._recall = recall
        self._live: dict[str, Assembly] = {}

    def __repr__(self) -> str:
        return f"<LiveFeed {self._where!r} [{len(self._live)} live]>"

    async def serve(self, subscription: Subscription) -> None:
        """Take facts of `KINDS` until the bus is closed; what is not whole then is set aside.

        Raises SampleError.
        """
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                break
            turn_ends = time.perf_counter() + _SLICE
            for record in records:
                self.take(record)
                if time.perf_counter() > turn_ends:
                    await anyio.lowlevel.checkpoint()
                    turn_ends = time.perf_counter() + _SLICE
        for left in self._grouping.close():
            self._give(left)

    def take(self, record: Record) -> None:
        """Take a fact. Raises SampleError."""
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
        elif isinstance(event, Judged) and self._recall is not None:
            trajectory = self._recall(record.episode)
        if trajectory is not None:
            outcome = self._grouping.add(trajectory, where=self._where)
            if outcome is not None:
                self._give(outcome)

    def statistics(self) -> dict[str, int]:
        """Counts of what is held."""
        return {"live": len(self._live)}
