"""Episodes that begin in the final state of another one of their run (`Task.follows`).

Such an episode waits, without a slot, until the other one has ended. Then a fresh world is brought
into that state by the calls of the other one, and of those in whose final state that one began in
turn. Its own log has these calls (`EpisodeStarted.origin`), so nothing else is needed to resume,
replay or fork it. Any number of episodes may begin in one final state; none changes it.
"""

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.core.events import Ending, EventKind, Origin
from rehearsal_room.harness.core.messages import AgentCall
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader

_KINDS: tuple[EventKind, ...] = ("ended",)
_FAILED = (Ending.POLICY_ERROR, Ending.MODEL_REFUSED, Ending.WORLD_ERROR)  # no fault of the agent


class Sequels:
    """How the episodes that follow others begin. A listener of the run's session."""

    kinds = _KINDS

    def __init__(self, folder: Path, missing: Sequence[str]) -> None:
        """`folder` is the run's; `missing` are the names of the episodes that will be played: all
        others have ended."""
        self._folder = folder
        self._awaited = {name: anyio.Event() for name in missing}
        self._read: dict[str, Trajectory] = {}
        self._reading = anyio.Lock()

    async def beginning(self, source: str) -> Beginning:
        """How an episode begins in the final state of this one, when that has ended. Raises
        LogError."""
        if source in self._awaited:
            await self._awaited[source].wait()
        async with self._reading:
            if source not in self._read:
                self._read[source] = await anyio.to_thread.run_sync(
                    _trajectory, self._folder, source
                )
        return after(self._read[source])

    async def serve(self, subscription: Subscription, record: object) -> None:
        """Hear which episodes end, until the bus is closed."""
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            for one in records:
                if one.episode in self._awaited:
                    self._awaited[one.episode].set()

    async def wait_until_done(self) -> None:
        """It has nothing to finish."""


def _trajectory(folder: Path, episode: str) -> Trajectory:
    with open_reader(folder) as reader:
        return reader.trajectory(episode)


def after(source: Trajectory) -> Beginning:
    """The beginning of an episode in the final state of this one, which has ended."""
    started, ended = source.started, source.ended
    assert ended is not None
    if ended.ending in _FAILED:
        broken = (
            f"episode {source.episode}, in whose final state it begins, ended in {ended.ending}"
        )
        return Beginning(
            (),
            started.start_digest,
            broken=f"{broken}: {ended.error or 'no reason is logged'}",
            lacks_reply=ended.ending.lacks_reply,
        )
    if not started.start_digest or ended.state is None:
        broken = f"the final state of episode {source.episode}, in which it begins, is not known"
        return Beginning((), started.start_digest, broken=broken)
    before = started.origin
    calls = tuple(
        AgentCall(call.name, call.arguments, call.id)
        for step in source.steps
        for call, result in zip(step.executed_calls, step.executed_results, strict=False)
        if not result.injected and result.error != "unknown_tool"  # those were not executed
    )
    moves = [result.changes for step in source.steps for result in step.executed_results]
    origin = Origin(
        episode=source.episode,
        start_digest=started.start_digest if before is None else before.start_digest,
        calls=calls if before is None else before.calls + calls,
        changes=net_changes(moves if before is None else [before.changes, *moves]),
    )
    return Beginning((), ended.state.digest, origin=origin)
