"""Episodes as they are finished: a listener of a run's bus from which each can be awaited."""

import anyio

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import (
    EpisodeEnded,
    EpisodeStarted,
    EventKind,
    Judged,
    Record,
)
from rehearsal_room.harness.core.trajectory import Assembly, Trajectory
from rehearsal_room.harness.rollout.running import RecordRunEvent


class Finished:
    """One episode that is awaited."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._trajectory: Trajectory | None = None
        self._failure: Exception | None = None

    async def wait(self) -> Trajectory:
        """The episode, when it is finished. Raises what stopped the run before that."""
        await self._event.wait()
        if self._trajectory is None:
            assert self._failure is not None
            raise self._failure
        return self._trajectory

    def set(self, trajectory: Trajectory | None, failure: Exception | None = None) -> None:
        """Give the episode, or why there will be none."""
        if not self._event.is_set():
            self._trajectory, self._failure = trajectory, failure
            self._event.set()


class FinishedEpisodes:
    """The episodes of a run that somebody awaits. Each is finished with its verdict, in a run
    without a judge with its end; the log has all of it on disk by then."""

    kinds: tuple[EventKind, ...] = (
        *("started", "step", "summary", "model", "output"),
        *("ended", "judged"),
    )

    def __init__(self, *, is_judged: bool) -> None:
        self._is_judged = is_judged
        self._expected: dict[str, Finished] = {}
        self._live: dict[str, Assembly] = {}

    def expect(self, episode: str) -> Finished:
        """Await an episode that has not begun."""
        self._expected[episode] = finished = Finished()
        return finished

    def forget(self, episode: str) -> None:
        """Nobody awaits the episode any more."""
        self._expected.pop(episode, None)
        self._live.pop(episode, None)

    def stop(self, failure: Exception) -> None:
        """The run is over: raise this in all who still wait."""
        for finished in self._expected.values():
            finished.set(None, failure)

    async def serve(self, subscription: Subscription, record: RecordRunEvent) -> None:
        """Collect the records until the bus is closed."""
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            for one in records:
                self._add(one)

    async def wait_until_done(self) -> None:
        """Nothing is left to do when the episodes are over."""

    def _add(self, record: Record) -> None:
        if record.episode not in self._expected:
            return
        if isinstance(record.event, EpisodeStarted):
            self._live[record.episode] = Assembly(record)
            return
        assembly = self._live[record.episode]
        assembly.add(record)
        if isinstance(record.event, Judged if self._is_judged else EpisodeEnded):
            self._expected[record.episode].set(assembly.trajectory())
