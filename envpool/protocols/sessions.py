"""The sessions of all protocols: each has at most one leased world, whose calls are recorded.

A session that its client has left is closed `idle_s` seconds after its last request, and its world
is released; a WebSocket holds its session until it closes. There are at most as many sessions as
worlds (`max_worlds`, and `worlds_per_client` for one address), whether they have a world or not.
This module does not depend on HTTP.
"""

import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Self

import anyio
import structlog
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.answers import cut_answer
from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.protocols.episodes import Episodes, PlayedWorld, WorldVerdict
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.lease import ClientLease
from rehearsal_room.envpool.server.leases import LeaseRefused, Leases
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

MAX_CALLS = 10_000  # of one episode: all of them are kept until it is judged
MAX_BYTES = 64 * 2**20  # of the arguments and results that an episode keeps, refused ones too
_PER_VALUE = 64  # bytes that a value takes beside its text

log = structlog.get_logger()


class SessionError(Exception):
    """A request cannot be served in the state of its session."""


class NotBegun(SessionError):
    """There is no episode: none has begun, or its world was released."""


class Session:
    """One client's session with the worlds of a server."""

    def __init__(self, key: str, sessions: "Sessions", client: str, owner: int | None) -> None:
        self.key = key
        self.client = client
        self.owner = owner  # the number of its token; None: without tokens
        self.used_at = anyio.current_time()
        self.is_attached = False  # a WebSocket holds it
        self.view: object = None  # what its protocol keeps about it
        self.is_closing = False  # it closes when its WebSocket does
        self.is_closed = False
        self.verdict: WorldVerdict | None = None  # None: the episode was not judged yet
        self.num_calls = 0  # of the episode
        self.num_bytes = 0  # that its calls keep, about
        self._is_judged = False  # or is being judged
        self._sessions = sessions
        self._lease: ClientLease | None = None
        self._task: Task | None = None
        self._began_at = 0.0
        self._episode = 0  # number of the episode in this session
        self._broken: str | None = None
        self._lock = anyio.Lock(fast_acquire=True)

    def __repr__(self) -> str:
        return f"<Session [{self.num_calls} calls, {self._lease!r}]>"

    @property
    def lease(self) -> ClientLease | None:
        """The world of the episode; None: there is none, or it was released."""
        return self._lease if self._lease is not None and not self._lease.released else None

    @property
    def task(self) -> Task | None:
        """The task of the episode; None: it has none."""
        return self._task

    def touch(self) -> None:
        """The client has shown that it is there."""
        self.used_at = anyio.current_time()
        if self._lease is not None:
            self._lease.used_at = self.used_at

    async def begin(
        self, scenario: Scenario, task: Task | None, *, reserved: Collection[str] = ()
    ) -> None:
        """Begin an episode in a fresh world; the one before is released. `reserved` are the names
        that mean something else on the wire than a tool. Raises LeaseRefused, PoolError, and
        SessionError where a tool has such a name."""
        tools = await self._sessions.tools(scenario)
        if taken := sorted({tool.name for tool in tools} & set(reserved)):
            raise SessionError(
                f"world {scenario.name!r} has a tool {taken[0]!r}, which means something else on "
                "this wire; it is served on others"
            )
        async with self._lock:
            await self._release()
            if self.is_closed:
                raise NotBegun("this session is closed")
            new = NewWorld(scenario.name, None if task is None else task.id)
            leases = self._sessions.leases
            lease = await leases.lease(new, self.client, owner=self.owner)
            lease.recorded = []
            self._lease, self._task = lease, task
            self._episode += 1
            self._began_at = self.used_at = anyio.current_time()

    async def call(self, name: str, arguments: object) -> ToolResult:
        """Execute a call of the episode. Raises NotBegun, SessionError after the verdict and beyond
        the limits, and PoolError where the world breaks."""
        lease = self._live()
        if self._is_judged:
            raise SessionError("this episode is judged, so it takes no more calls; begin another")
        if self.num_calls >= MAX_CALLS:
            raise SessionError(f"this episode has {MAX_CALLS:,} calls, which is the limit")
        size = bytes_of(name) + bytes_of(arguments)
        if self.num_bytes + size > MAX_BYTES:
            limit = MAX_BYTES // 2**20
            raise SessionError(f"the calls of this episode take more than {limit} MiB, the limit")
        self.num_calls += 1
        self.num_bytes += size
        self.used_at = anyio.current_time()
        try:
            result = await lease.execute(name, arguments)
            self.num_bytes += bytes_of(result.text) + _bytes_of_changes(result)
            return result
        except WorldError as exc:
            self._broken = str(exc)
            raise

    async def judge(self, wire: str, answer: str) -> WorldVerdict:
        """The verdict on the episode as it is now. It is made once: later calls and answers change
        nothing about it. Raises NotBegun, SessionError where there is no task."""
        async with self._lock:
            if self.verdict is not None:
                return self.verdict
            lease, task = self._live(), self._task
            answer = cut_answer(answer)  # and judged: its length saves nobody from the verdict
            if task is None:
                raise SessionError("this episode has no task, so there is nothing to judge")
            self._is_judged = True
            played = await self._played(wire, lease, task, answer)
            self.verdict = await self._sessions.episodes.verdict(played)
            self.used_at = anyio.current_time()
            return self.verdict

    async def end(self) -> None:
        """End the episode and release its world; the session stays."""
        async with self._lock:
            await self._release()

    def _live(self) -> ClientLease:
        if self._lease is None:
            raise NotBegun("no episode has begun in this session")
        if self._lease.released:
            raise NotBegun("the world of this session was idle for too long and was released")
        return self._lease

    async def _played(self, wire: str, lease: ClientLease, task: Task, answer: str) -> PlayedWorld:
        state: StoredState | None = None
        checked: tuple[Finding, ...] = ()
        error = self._broken
        if error is None:
            try:
                state, checked = await lease.finish(task, answer)
            except PoolError as exc:
                error = str(exc)
        return PlayedWorld(
            scenario=self._sessions.leases.scenarios[lease.new.scenario],
            task=task,
            episode=f"{self.key[:12]}-{self._episode}",
            wire=wire,
            calls=tuple(lease.recorded or ()),
            answer=answer,
            start_digest=lease.start_digest,
            state=state,
            checked=checked,
            error=error,
            seconds=anyio.current_time() - self._began_at,
        )

    async def _release(self) -> None:
        lease, self._lease, self._task = self._lease, None, None
        self.verdict, self._broken, self.num_calls = None, None, 0
        self.num_bytes, self._is_judged = 0, False
        if lease is not None:
            await self._sessions.leases.release(lease)


def bytes_of(value: object) -> int:
    """About the memory that a value of JSON or of a row takes.

    Example: {"ids": [1, 2]} -> 5 values and 3 letters: 323
    """
    total, left = 0, [value]
    while left:
        one = left.pop()
        total += _PER_VALUE
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, dict):
            left += one.keys()
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
        elif isinstance(one, bytes):
            total += len(one)
    return total


def _bytes_of_changes(result: ToolResult) -> int:
    """The memory of the rows that a call changed: a short call may change many long ones."""
    return sum(bytes_of((one.key, one.before, one.after)) for one in result.changes)


class Sessions(AsyncContextManagerMixin):
    """All sessions of a server's protocols. Use it in `async with`, inside of that of the
    leases."""

    def __init__(self, leases: Leases, episodes: Episodes) -> None:
        self.leases = leases
        self.episodes = episodes
        self._live: dict[str, Session] = {}
        self._per_client: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Sessions [{len(self._live)} live]>"

    def __len__(self) -> int:
        return len(self._live)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with OwnedTasks() as tasks:
            if self.leases.settings.idle_s:
                tasks.start_soon(self._close_idle)
            yield self

    def open(self, client: str, owner: int | None, *, key: str | None = None) -> Session:
        """A new session. `key` None: a new key, which cannot be guessed. Raises LeaseRefused where
        there are too many, and SessionError for a key that is taken."""
        settings = self.leases.settings
        if self.leases.draining:
            raise LeaseRefused(503, "the server is about to stop and opens no more sessions")
        if self._per_client[client] >= settings.worlds_per_client:
            limit = settings.worlds_per_client
            raise LeaseRefused(429, f"this client has {limit} sessions, which is the limit")
        if len(self._live) >= settings.max_worlds:
            limit = settings.max_worlds
            raise LeaseRefused(503, f"{limit} sessions are open, which is the limit of this server")
        key = secrets.token_urlsafe(24) if key is None else key
        if key in self._live:
            raise SessionError("a session with this id is open already")
        session = self._live[key] = Session(key, self, client, owner)
        self._per_client[client] += 1
        return session

    def get(self, key: str, owner: int | None) -> Session | None:
        """The open session of this key, if it is the caller's."""
        session = self._live.get(key)
        if session is None or session.owner != owner:
            return None
        session.touch()
        return session

    def of_anyone(self, key: str) -> Session | None:
        """The open session of this key, whatever token came with it."""
        return self._live.get(key)

    async def close(self, session: Session) -> None:
        """Close a session and release its world."""
        if self._live.pop(session.key, None) is None:
            return
        session.is_closed = True
        self._per_client[session.client] -= 1
        if not self._per_client[session.client]:
            del self._per_client[session.client]
        with anyio.CancelScope(shield=True):
            await session.end()

    async def expire(self, now: float) -> None:
        """Close the sessions that have been idle too long. `now`: a time of anyio.current_time."""
        for session in list(self._live.values()):
            lease = session.lease
            is_busy = session.is_attached or (lease is not None and lease.busy)
            if not is_busy and now - session.used_at >= self.leases.settings.idle_s:
                log.info("session_expired", calls=session.num_calls)
                await self.close(session)

    async def tools(self, scenario: Scenario) -> tuple[ToolSpec, ...]:
        """The tools of a world, without `talk_to_user`. Raises PoolError."""
        return await self.leases.tools(scenario)

    async def _close_idle(self) -> None:
        while True:
            await anyio.sleep(min(max(self.leases.settings.idle_s / 10, 0.05), 5.0))
            await self.expire(anyio.current_time())
