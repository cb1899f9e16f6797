"""Whether a world's server can be reset while it runs: its state is put back under it.

Most servers read their files again at each call, and some remember. So tools are tried, each pair
of them once for each way in which their calls ended (they failed, read, or wrote: a call that is
refused early shows nothing of one that writes). When an episode has used both, the state is put
back, and the episode's calls are made twice more, first in reverse order, then as they were. In
reverse order they must do what they do in a second process; as they were, what they did. A counter
in memory shows in that, and so does a cache: what was read after a write is then read before it.
From then on, an episode that used only such pairs is followed by the next one in the same process.
When that one makes a call that was not tried together with what the process has served, the call is
made in a new process, too, before the agent reads its result. One difference, and every episode of
the world gets a process of its own.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import anyio

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import ServerRequest
from rehearsal_room.envpool.mcp_worlds.mirror import MirrorStates
from rehearsal_room.envpool.mcp_worlds.server import Server, Way
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
    failed: bool = False

    @property
    def way(self) -> Way:
        """Its tool, and how it ended."""
        return self.name, self.failed, bool(self.changes)


class Renewal:
    """What is known of one world's servers. `why_not` is a sentence once a difference was found.

    `fresh` gives a process that has served nothing. The second process is kept: it makes the calls
    of proofs only, so it remembers nothing else as long as none failed; then it is not asked again.
    """

    def __init__(
        self, states: MirrorStates, start: Start, fresh: Callable[[], Awaitable[Server]]
    ) -> None:
        self._states = states
        self._start = start
        self.fresh = fresh
        self._second: Server | None = None
        self._proving = anyio.Lock()
        self._tried: set[tuple[Way, Way]] = set()  # pairs, each in order
        self._met: set[tuple[Way, Way]] = set()  # in two episodes of one process: equal as well
        self.why_not = ""

    def is_doubtful(self, server: Server, way: Way) -> bool:
        """Whether a call may have been answered from what the server remembers of episodes before:
        what they did was not tried together with it."""
        pairs = {_pair(way, known) for known in server.served}
        return not pairs <= self._tried | self._met

    def is_equal(self, server: Server, way: Way) -> None:
        """Take down that such a call, made in a new process, did the same."""
        self._met |= {_pair(way, known) for known in server.served}

    async def renew(self, server: Server, overlay: Overlay, calls: Sequence[MadeCall]) -> bool:
        """Whether a server, in the state `overlay` after these calls, is at its start again."""
        if self.why_not or any(call.asked for call in calls):
            return False  # an answer is a part of what the server knows
        if not self._put_back(server, overlay):
            return False
        ways = sorted({call.way for call in calls})
        used = set(combinations_with_replacement(ways, 2))
        if not used <= self._tried:
            async with self._proving:
                if not await self._proved(server, calls):
                    return False
                self._tried |= used
        server.served.update(ways)
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

    async def _proved(self, server: Server, calls: Sequence[MadeCall]) -> bool:
        """Make the calls in both orders, each time from the start, and put the state back."""
        try:
            second = await self._second_server()
            reverse = calls[::-1]
            for one, expected in (
                (reverse, await self._facts(second, reverse)),
                (calls, [(call.text, call.total) for call in calls]),
            ):
                found = None if expected is None else await self._facts(server, one)
                if expected is None or found is None:
                    return False  # a state could not be put back this time
                for call, fact, known in zip(one, found, expected, strict=True):
                    if fact != known:
                        self.why_not = f"{call.name} did something else once its state was put back"
                        return False
        except PoolError as exc:
            self.why_not = str(exc)
            return False
        return True

    async def _second_server(self) -> Server:
        if self._second is None or self._second.has_ended:
            self._second = await self.fresh()
        return self._second

    async def _facts(
        self, server: Server, calls: Sequence[MadeCall]
    ) -> list[tuple[str, int]] | None:
        """The texts of calls from the start, and the row sums after them; then the state is put
        back. None: it could not be. Raises PoolError."""
        overlay, found = self._states.template.overlay(), []
        for call in calls:
            text, _ = await server.call(call.name, call.arguments)
            self._states.apply(overlay, server.state.read())
            found.append((text, overlay.total))
        if self._put_back(server, overlay):
            return found
        if server is self._second:
            await server.end()
        return None


def _pair(one: Way, other: Way) -> tuple[Way, Way]:
    return (one, other) if one <= other else (other, one)
