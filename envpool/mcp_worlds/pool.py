"""The pool of worlds of MCP servers whose state is declared (scenarios.core.server_record).

    async with ServerWorldPool() as pool:
        await pool.host(scenario)  # starts the server once: its tools, and the rows at the start
        async with pool.lease(scenario) as env:
            result = await env.call("add_note", {"text": "milk"}, "c0-0")
            result.changes  # the rows that the server wrote

Every lease has a process to itself, whose folder begins as a copy of the world's seed. A process
must start in the same state as the first one did; else its lease raises PoolError. A process that
can be reset while it runs is used again (envpool.mcp_worlds.renewal); otherwise the next one is
started when a lease ends. A server has the rights of the user who starts the run, unless the pool
isolates.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import anyio
import anyio.to_thread
import structlog
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.inprocess.verifiers import PackageVerifiers
from rehearsal_room.envpool.mcp_worlds.databases import WorldDatabases
from rehearsal_room.envpool.mcp_worlds.env import ServerEnv
from rehearsal_room.envpool.mcp_worlds.mirror import MirrorStates
from rehearsal_room.envpool.mcp_worlds.renewal import Renewal
from rehearsal_room.envpool.mcp_worlds.server import Server
from rehearsal_room.envpool.mcp_worlds.state import Start
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.store.pool_protocol import VerifierKind
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import Scenario, Task

_log = structlog.get_logger(__name__)
_STARTS = 2  # servers of a world that start concurrently
_EAGER = 4  # servers of a world that are started as soon as a lease needs one
_START_S = 1.0  # that an ordinary server takes to start
_WEIGHT = 0.2  # of a lease in the moving average of their seconds


class _World:
    """One hosted world, and its servers.

    A lease waits for the first server that is free: one that another lease gives back, or a new
    one. Beyond the first few, one is started only where the leases that wait would wait longer than
    its start takes: so quick episodes share few servers, and long ones get one each.
    """

    def __init__(
        self, pool: "ServerWorldPool", states: MirrorStates, start: Start, first: Server
    ) -> None:
        self._pool = pool
        self.states = states
        self.start = start
        self.renewal = Renewal(states, start, self.fresh)
        self._free: list[Server | PoolError] = [first]  # at the start; or why none is
        self._taken: dict[Server, float] = {}  # those in use, and since when
        self._changed = anyio.Condition()
        self._num_waiting = self._num_starting = 0
        self._lease_s: float | None = None  # a moving average; None: no lease has ended
        self._has_warned = False

    async def clean(self) -> Server:
        """A server in the state at the start. Raises PoolError."""
        async with self._changed:
            self._num_waiting += 1
            try:
                while (server := self._free_one()) is None:
                    if self._needs_another():
                        self._num_starting += 1
                        self._pool.begin(self._start_one)
                    with anyio.move_on_after(_START_S):
                        await self._changed.wait()
            finally:
                self._num_waiting -= 1
        if isinstance(server, PoolError):
            raise server
        self._taken[server] = anyio.current_time()
        return server

    async def another(self) -> Server:
        """A server in the state at the start, at once: for who has one already. Raises
        PoolError."""
        server = self._free_one()
        if server is not None and not isinstance(server, PoolError):
            return server
        return await self._pool.started(self.states.scenario, self)

    async def fresh(self) -> Server:
        """A server that has served nothing, at once. Raises PoolError."""
        for server in self._free:
            if not isinstance(server, PoolError) and server.is_unused and not server.has_ended:
                self._free.remove(server)
                return server
        return await self._pool.started(self.states.scenario, self)

    def _needs_another(self) -> bool:
        if self._num_starting >= min(_STARTS, self._num_waiting):
            return False
        now = anyio.current_time()
        used = [now - since for server, since in self._taken.items() if not server.has_ended]
        if len(used) + self._num_starting < _EAGER:
            return True
        each = max(*used, self._lease_s or 0.0)
        return self._num_waiting * each / len(used) > 2 * _START_S

    async def take_back(self, env: ServerEnv) -> None:
        """Keep a world's server for the next lease, or start another one where it cannot be
        kept."""
        since = self._taken.pop(env.server, None) if env.server is not None else None
        if env.server is not None:
            self._warn_of_mode(env.server)
        server = await env.close()
        if since is not None:
            seconds = anyio.current_time() - since
            known = seconds if self._lease_s is None else self._lease_s
            self._lease_s = known + _WEIGHT * (seconds - known)
        async with self._changed:
            if server is not None:
                self._free.append(server)
                self._changed.notify()
            elif self.renewal.why_not and not (self._free or self._num_starting):
                self._num_starting += 1
                self._pool.begin(self._start_one)

    def _warn_of_mode(self, server: Server) -> None:
        """Say once that a database has left the mode that the world sets."""
        record = self.states.scenario.server
        assert record is not None
        if record.state.journal and not self._has_warned and (names := server.state.without_log):
            self._has_warned = True
            _log.warning(
                "journal_mode_of_the_servers_own",
                scenario=self.states.scenario.name,
                databases=names,
                hint="the server sets another mode than state.journal; each call compares the file",
            )

    def _free_one(self) -> Server | PoolError | None:
        while self._free:
            server = self._free.pop()
            if isinstance(server, PoolError):
                return server
            if not server.has_ended:
                remembers = bool(self.renewal.why_not) and not server.is_unused
                if not remembers and not self._has_moved(server):
                    return server
                # A late write of an episode that is over, or of a server whose memory was found
                # after it had been used.
                self._pool.begin(server.end)
        return None

    def _has_moved(self, server: Server) -> bool:
        """Whether a server has left the start while nobody used it."""
        try:
            return bool(self.other_start(server))
        except PoolError:
            return True

    async def _start_one(self) -> None:
        found: Server | PoolError
        try:
            found = await self._pool.started(self.states.scenario, self)
        except PoolError as exc:
            found = exc
        async with self._changed:
            self._num_starting -= 1
            self._free.append(found)
            self._changed.notify()

    def other_start(self, server: Server) -> str:
        """Why a server did not start as the first one did; empty: it did."""
        changes = self.states.apply(self.states.template.overlay(), server.state.read())
        if not changes:
            return ""
        tables = ", ".join(dict.fromkeys(change.table for change in changes))
        return (
            f"{self.states.scenario.path}: its MCP server starts in another state each time: rows "
            f"of {tables} differ; put them into the seed, or list the tables as state.ignore if "
            "they do not count as what the agent changes"
        )


class ServerWorldPool(AsyncContextManagerMixin):
    """Leases worlds of servers. It implements envpool.store.pool_protocol.Pool.

    To be used in `async with`. With `isolate`, the servers run under bubblewrap, and the caller
    runs the verifiers elsewhere.
    """

    _tasks: TaskGroup  # while the block is open

    def __init__(self, *, isolate: bool = False) -> None:
        self._isolate = isolate
        self._worlds: dict[str, _World] = {}  # by the scenario's digest
        self._databases: dict[str, WorldDatabases] = {}  # of worlds on PostgreSQL, likewise
        self._hosting = anyio.Lock()
        self._verifiers = PackageVerifiers()
        self.num_live = 0
        self.max_live = 0
        self._num_leases = 0
        self._num_calls = 0
        self._num_starts = 0

    def __repr__(self) -> str:
        return (
            f"<ServerWorldPool [{self.num_live} live of {self._num_leases} leased | "
            f"{len(self._worlds)} worlds, {self._num_starts} starts]>"
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        try:
            async with OwnedTasks() as self._tasks:
                yield self
        finally:
            for world in self._worlds.values():
                world.states.close()
            for databases in self._databases.values():
                databases.close()

    async def host(self, scenario: Scenario) -> States:
        """Start the server once, for its tools and its rows at the start. Raises PoolError."""
        async with self._hosting:
            if scenario.digest not in self._worlds:
                await self._make_databases(scenario)
                server = await self.started(scenario, None)
                state, start = server.state, server.state.start()
                states = MirrorStates(scenario, server.tools, state.shapes, state.all_rows())
                self._worlds[scenario.digest] = _World(self, states, start, server)
        return self._worlds[scenario.digest].states

    async def _make_databases(self, scenario: Scenario) -> None:
        """Make the template of a world on PostgreSQL. Raises PoolError."""
        assert scenario.server is not None
        if not scenario.server.state.postgres or scenario.digest in self._databases:
            return
        file = scenario.path / "scenario.toml"
        if self._isolate:
            raise PoolError(
                f"{file}: a world on PostgreSQL cannot be isolated: its server needs a network; "
                "put the world below $REHEARSE_WORLDS, and leave out --isolate"
            )
        try:
            from rehearsal_room.envpool.mcp_worlds.postgres import PostgresDatabases
        except ModuleNotFoundError as exc:
            raise PoolError(missing_package("state.postgres", exc, "postgres")) from exc
        except ImportError as exc:  # psycopg without libpq
            raise PoolError(f"{file}: state.postgres: psycopg cannot be used: {exc}") from exc
        make = anyio.to_thread.run_sync
        self._databases[scenario.digest] = await make(PostgresDatabases, scenario)

    def hosted(self, scenario: Scenario) -> States:
        """The mirror of a scenario that is hosted already."""
        return self._worlds[scenario.digest].states

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the servers run under bubblewrap."""
        return self._isolate

    def why_not_again(self, scenario: Scenario) -> str:
        """Why no process serves a second episode; empty: they do, as far as is known."""
        return self._worlds[scenario.digest].renewal.why_not

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return self._lease(scenario)

    @asynccontextmanager
    async def _lease(self, scenario: Scenario) -> AsyncIterator[Env]:
        await self.host(scenario)
        world = self._worlds[scenario.digest]
        self._num_leases += 1
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)
        envs: list[ServerEnv] = []
        try:
            env = ServerEnv(world.states, world.clean, world.another, world.renewal, envs)
            await env.open()
            yield env
        finally:
            self.num_live -= 1
            with anyio.CancelScope(shield=True):
                for env in envs:
                    self._num_calls += len(env.calls)
                    await world.take_back(env)

    def begin(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task until the pool is closed."""
        self._tasks.start_soon(task)

    async def started(self, scenario: Scenario, world: "_World | None") -> Server:
        """A new server, in the state at the start. Raises PoolError."""
        try:
            from rehearsal_room.envpool.mcp_worlds.running import RunningServer
        except ModuleNotFoundError as exc:
            raise PoolError(missing_package("mcp", exc, "mcp")) from exc
        start = None if world is None else world.start
        databases = self._databases.get(scenario.digest)
        server = RunningServer(scenario, start, isolate=self._isolate, databases=databases)
        await self._tasks.start(server.run)
        self._num_starts += 1
        if world is not None and (why := world.other_start(server)):
            await server.end()
            raise PoolError(why)
        return server

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        states = self._worlds[scenario.digest].states
        return self._verifiers.verify(states, task, state, answer)

    def statistics(self) -> dict[str, int]:
        return {
            "worlds": len(self._worlds),
            "live": self.num_live,
            "max_live": self.max_live,
            "leases": self._num_leases,
            "calls": self._num_calls,
            "starts": self._num_starts,
        }
