"""Whether a world's server can be reset while it runs: its state is put back under it.

Most servers read their files again at each call, and some remember. So each tool is tried once:
when an episode has used it, the state is put back, the episode's calls are made again, and all
their texts and rows must be the same. From then on, an episode that used only such tools is
followed by the next one in the same process. One difference, and every episode of the world gets a
process of its own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import ServerRequest
from rehearsal_room.envpool.mcp_worlds.mirror import MirrorStates
from rehearsal_room.envpool.mcp_worlds.server import Server
from rehearsal_room.envpool.mcp_worlds.state import Start
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.scenarios.api import RowChange


class MadeCall(NamedTuple):
    """A call that reached the server, and what it did."""

    name: str
    arguments: dict[str, Any]
    text: str
    total: int  # the row sum of the state after it
    changes: tuple[RowChange, ...] = ()
    asked: tuple[ServerRequest, ...] = ()  # what the server asked meanwhile


class Renewal:
    """What is known of one world's servers. `why_not` is a sentence once a difference was found."""

    def __init__(self, states: MirrorStates, start: Start) -> None:
        self._states = states
        self._start = start
        self._tried: set[str] = set()  # tools that gave the same once more
        self.why_not = ""

    async def renew(self, server: Server, overlay: Overlay, calls: Sequence[MadeCall]) -> bool:
        """Whether a server, in the state `overlay` after these calls, is at its start again."""
        if self.why_not or any(call.asked for call in calls):
            return False  # an answer is a part of what the server knows
        used = {call.name for call in calls}
        if not self._put_back(server, overlay):
            return False
        if not used <= self._tried:
            if not await self._repeats(server, calls):
                return False
            self._tried |= used
        return True

    def _put_back(self, server: Server, overlay: Overlay) -> bool:
        try:
            if not server.put_back(self._start):
                return False  # it holds a lock, such as an open transaction: this one is ended
            self._states.apply(overlay, server.state.read())
        except PoolError as exc:
            self.why_not = str(exc)
            return False
        if overlay.total != self._states.template.total:
            self.why_not = "its state cannot be put back while it runs"
        return not self.why_not

    async def _repeats(self, server: Server, calls: Sequence[MadeCall]) -> bool:
        """Make the calls again, which must do the same, and put the state back."""
        overlay = self._states.template.overlay()
        try:
            for call in calls:
                text, _ = await server.call(call.name, call.arguments)
                self._states.apply(overlay, server.state.read())
                if text != call.text or overlay.total != call.total:
                    self.why_not = f"{call.name} did something else once its state was put back"
                    return False
        except PoolError as exc:
            self.why_not = str(exc)
            return False
        return self._put_back(server, overlay)
