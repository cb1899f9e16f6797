"""What all handlers of the viewer share."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from rehearsal_room.viewer.acting.blames import AskedBlames
from rehearsal_room.viewer.acting.catalogue import Catalogue
from rehearsal_room.viewer.acting.episodes import Plays
from rehearsal_room.viewer.acting.pools import OpenPools
from rehearsal_room.viewer.acting.scratch import Scratches
from rehearsal_room.viewer.acting.tries import PlayedTries
from rehearsal_room.viewer.reading.episode_rows import episode_table
from rehearsal_room.viewer.reading.lines import EpisodeTableLine
from rehearsal_room.viewer.reading.open_runs import NotHereError, ShownRun, ShownRuns
from rehearsal_room.viewer.server.updates import IndexUpdates

T = TypeVar("T")


class Viewer(msgspec.Struct, frozen=True):
    """The runs that are shown, and what works on them."""

    runs: ShownRuns
    updates: IndexUpdates
    catalogue: Catalogue
    pools: OpenPools
    scratches: Scratches
    plays: Plays
    tries: PlayedTries
    blames: AskedBlames
    closing: anyio.Event  # set when the server ends, so that event streams end
    gates: dict[str, Any] = {}  # what the quality gate found, by scenario digest

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def first_line(self, run: ShownRun) -> EpisodeTableLine:
        """The line of the first episode of a run. Raises NotHereError where there is none yet."""
        rows = episode_table(run.index(), {"limit": ["1"]}).rows
        if not rows:
            raise NotHereError(f"{run.folder}: no episode has begun")
        return rows[0]

    async def run_of(self, name: str) -> ShownRun:
        """The run of an id, its index folded as far as it came. Raises NotHereError and
        HarnessError."""
        run = await in_thread(self.runs.get, name)
        await self.updates.look(run)
        return run


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that reads files."""
    return await anyio.to_thread.run_sync(function, *arguments)
