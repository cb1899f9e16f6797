"""A leased world of a server whose state is declared."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.refusals import refusal
from rehearsal_room.envpool.core.types import StoredState, ToolErrorKind, ToolResult, ToolSpec
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode, LoggedAnswers
from rehearsal_room.envpool.mcp_worlds.mirror import MirrorStates
from rehearsal_room.envpool.mcp_worlds.own_ids import OwnIds
from rehearsal_room.envpool.mcp_worlds.renewal import MadeCall, Renewal
from rehearsal_room.envpool.mcp_worlds.server import Server
from rehearsal_room.envpool.store.digest import hex_digest
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Task

_REMEMBERED = 8  # call ids whose results a lease remembers
StartServer = Callable[[], Awaitable[Server]]


class _Beside:
    """A new process in which an episode's calls are made, too: another one answers the agent, and
    has served episodes before."""

    def __init__(self, server: Server, overlay: Overlay) -> None:
        self.server = server
        self.overlay = overlay  # as it is there
        self.num_calls = 0  # of the episode, that it has made


class ServerEnv:
    """A leased world. It implements envpool.core.types.Env.

    A fork makes the calls of its origin again, in a server of its own, before its own first call:
    the server may remember more than it writes. Ids that it makes by itself then stand for those of
    the origin (envpool.mcp_worlds.own_ids). A cancelled call leaves the world broken.
    """

    awaits = True  # a call takes as long as the server does

    def __init__(
        self,
        states: MirrorStates,
        start: StartServer,
        start_fork: StartServer,
        renewal: Renewal,
        of_lease: "list[ServerEnv]",
    ) -> None:
        self._states = states
        self._start = start
        self._start_fork = start_fork  # at once: the lease that waits would wait for itself
        self._renewal = renewal
        self._of_lease = of_lease  # the worlds of the lease: this one, and its forks
        self._of_lease.append(self)
        self.server: Server | None = None  # None: the next call starts one
        self.calls: list[MadeCall] = []  # those that reached the server, in order
        self._overlay = states.template.overlay()
        self._tools: Sequence[ToolSpec] = states.tools
        self._broken = ""  # why the world can no longer be used; empty: it is usable
        self._ids = OwnIds()  # of the server that runs
        self._expected: ToolResult | None = None  # how the next call went before
        self._answerer: Answerer | None = None  # None: nobody answers the server
        self._is_stale = False  # the server is not in the state after `calls`
        self._beside: _Beside | None = None  # None: no call was doubtful so far
        self._left: tuple[Overlay, list[MadeCall]] | None = None  # where it is then; None: unknown
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()

    def __repr__(self) -> str:
        return f"<ServerEnv {self.server!r} [{self._broken or 'live'}]>"

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    @property
    def start_digest(self) -> str:
        return self._states.start_digest

    @property
    def digest(self) -> str:
        return hex_digest(self._overlay.total)

    @property
    def asks(self) -> AskMode:
        """See envpool.mcp.asks.AsksBack."""
        return "refuse" if self.server is None else self.server.asks

    @property
    def num_own_ids(self) -> int:
        """See envpool.core.types.Recalls."""
        return len(self._ids)

    def expect(self, logged: ToolResult | None) -> None:
        """See envpool.core.types.Recalls."""
        self._expected = logged

    def answer_with(self, answerer: Answerer) -> None:
        """See envpool.mcp.asks.AsksBack."""
        self._answerer = answerer
        if self.server is not None:
            self.server.answer_with(answerer)

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        if self._broken:
            raise WorldError(self._broken)
        if call_id and call_id in self._answered:
            return self._answered[call_id]
        result = await self._called(name, arguments)
        if call_id:
            self._answered[call_id] = result
            if len(self._answered) > _REMEMBERED:
                self._answered.popitem(last=False)
        return result

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return ()

    def state(self) -> StoredState:
        """The state now, with what the server has written since its last answer."""
        if self._broken:
            raise WorldError(self._broken)
        if self.server is not None and not self._is_stale:
            try:
                reading = self._ids.rows_to_log(self.server.state.read())
            except PoolError as exc:
                self._broken = str(exc)
                raise WorldError(self._broken) from exc
            self._states.apply(self._overlay, reading)
        return self._states.stored(self._overlay)

    def fork(self) -> "ServerEnv":
        """A second world in the state that this one has now."""
        second = ServerEnv(
            self._states, self._start_fork, self._start_fork, self._renewal, self._of_lease
        )
        second.calls = list(self.calls)
        second._overlay = self._overlay.copy()
        return second

    def reset(self) -> None:
        """Return to the start: the next call is made in a server that is there."""
        self._left = None if self._broken else (self._overlay, self.calls)
        self._overlay, self.calls = self._states.template.overlay(), []
        self._answered.clear()
        self._broken = ""
        self._is_stale = True

    async def open(self) -> None:
        """Start the server now. Raises PoolError."""
        self.server = await self._start()

    async def close(self) -> Server | None:
        """End the server, unless it is at the start again: then it is returned."""
        if not self._is_stale:
            self.reset()
        beside, self._beside = self._beside, None
        if beside is not None:
            await beside.server.end()
        server, self.server = self.server, None
        if server is None:
            return None
        if self._left is not None and await self._renewal.renew(server, *self._left):
            return server
        await server.end()
        return None

    async def _called(self, name: str, arguments: Any) -> ToolResult:
        try:
            server = await self._running()
            await server.renew_tools()
            self._tools = server.tools
            if (refused := refusal(self._tools, name, arguments)) is not None:
                return ToolResult(*refused, digest=self.digest)
            expected, self._expected = self._expected, None
            made, error = await self._call(server, self._overlay, name, arguments, expected)
            if self._renewal.is_doubtful(server, made.way):
                made, error = await self._made_beside(server, made, error, expected)
            self.calls.append(made)
        except PoolError as exc:
            self._broken = str(exc)
            raise WorldError(self._broken) from exc
        except BaseException:
            self._broken = f"a call of {name} was stopped before the MCP server had answered it"
            raise
        return ToolResult(made.text, error, made.changes, self.digest, asked=made.asked)

    async def _running(self) -> Server:
        """The server, in the state after `calls`. Raises PoolError."""
        if self._is_stale:
            self.server = await self.close()
            self._is_stale = False
        if self.server is None:
            self.server = await self._start()
            try:
                await self._brought(self.server)
            except WorldError:
                if not self.server.served:
                    raise
                self._renewal.why_not = "it remembers an episode that is over"
                await self.server.end()
                self.server = await self._renewal.fresh()
                await self._brought(self.server)
            if self._answerer is not None:
                self.server.answer_with(self._answerer)
        return self.server

    async def _made_beside(
        self,
        server: Server,
        made: MadeCall,
        error: ToolErrorKind | None,
        expected: ToolResult | None,
    ) -> tuple[MadeCall, ToolErrorKind | None]:
        """Make the last call, and those before it, in a new process, too; where it does something
        else there, go on in that process: the other one remembers an episode that is over."""
        ids, beside = self._ids, self._beside or await self._beside_here()
        self._beside, ends = None, beside.server
        try:
            await self._catch_up(beside)
            ends.answer_with(LoggedAnswers(made.asked))
            again, other = await self._call(
                ends, beside.overlay, made.name, made.arguments, expected
            )
            if (again.text, again.total) != (made.text, made.total):
                self._renewal.why_not = f"{made.name} did something else after another episode"
                self.server, self._overlay, ends = beside.server, beside.overlay, server
                if self._answerer is not None:
                    self.server.answer_with(self._answerer)
                return again, other
            beside.num_calls += 1
            self._renewal.is_equal(server, made.way)
            self._ids = ids
            if server.is_seeded:  # otherwise it has ids of its own from here on
                self._beside = beside
            return made, error
        finally:
            if self._beside is None:
                with anyio.CancelScope(shield=True):
                    await ends.end()

    async def _beside_here(self) -> "_Beside":
        return _Beside(await self._renewal.fresh(), self._states.template.overlay())

    async def _catch_up(self, beside: "_Beside") -> None:
        """Make the calls of the episode that a process beside it has not made yet. Raises
        PoolError."""
        await self._repeat(beside.server, beside.overlay, self.calls[beside.num_calls :])
        beside.num_calls = len(self.calls)

    async def _call(
        self,
        server: Server,
        overlay: Overlay,
        name: str,
        arguments: dict[str, Any],
        known: ToolResult | None,
    ) -> tuple[MadeCall, ToolErrorKind | None]:
        """Make a call; see `_made`."""
        text, error, changes = await self._made(server, overlay, name, arguments, known)
        asked, failed = server.last_asked, error is not None
        return MadeCall(name, arguments, text, overlay.total, changes, asked, failed), error

    async def _made(
        self,
        server: Server,
        overlay: Overlay,
        name: str,
        arguments: dict[str, Any],
        known: ToolResult | None,
    ) -> tuple[str, ToolErrorKind | None, tuple[RowChange, ...]]:
        """Make a call, and write its changes into a world. `known`: how it went before."""
        ids = self._ids
        text, error = await server.call(name, ids.to_server(arguments))
        reading = server.state.read()
        if known is not None and not server.is_seeded:
            ids.learn(text, known.text)
            ids.learn_rows(reading.writes, known.changes)
        if len(ids):
            text, reading = ids.to_log(text), ids.rows_to_log(reading)
        return text, error, self._states.apply(overlay, reading)

    async def _brought(self, server: Server) -> None:
        """Bring a server at the start into the state after `calls`. Raises PoolError."""
        self._ids = OwnIds()
        await self._repeat(server, self._states.template.overlay(), self.calls)

    async def _repeat(self, server: Server, overlay: Overlay, calls: Sequence[MadeCall]) -> None:
        """Make calls again, which must do what they did. Raises PoolError."""
        for call in calls:
            server.answer_with(LoggedAnswers(call.asked))
            known = ToolResult(call.text, None, call.changes)
            text, _, _ = await self._made(server, overlay, call.name, call.arguments, known)
            if text != call.text or overlay.total != call.total:
                what = "text" if text != call.text else "change of rows"
                raise WorldError(
                    f"the world cannot be forked: {call.name}, called again, gave another {what}"
                    f"{': ' + _parting(call.text, text) if text != call.text else ''}"
                )


def _parting(first: str, second: str) -> str:
    """Where two texts part, shortly."""
    start = next(
        (at for at, (one, two) in enumerate(zip(first, second, strict=False)) if one != two),
        min(len(first), len(second)),
    )
    begin = max(0, start - 20)
    return f"{first[begin : begin + 60]!r} and {second[begin : begin + 60]!r}"
