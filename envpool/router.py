"""The pool that sends each scenario to the right place: this process, workers, or an outside pool.

Trusted packages run in this process (scenarios.catalogue.is_trusted), all other code in workers.
The server of a package that has one is started by envpool.mcp_worlds, with the user's rights; where
the package is isolated, under bubblewrap, and its verifiers run in workers.
With `--sandbox required` only bundled packages are trusted; without it, the user who starts a run
trusts the packages that it names, and is shown which of them run here. An outside pool (worlds on
another machine or of an MCP server) runs the tools of all scenarios; workers here then only verify.

The workers are started when the first scenario that needs them is hosted, by the task that entered
the pool: their own tasks end with it. So a scenario is hosted before it is leased.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import anyio
import anyio.to_thread
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.mcp.checks import require_known_calls
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.envpool.store.pool_protocol import Pool, VerifierKind
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.workers.pool import (
    OpenSpawner,
    WorkerPool,
    WorkerSettings,
    open_fork_server,
    verifier_source,
)
from rehearsal_room.envpool.workers.sandbox import why_no_bubblewrap
from rehearsal_room.scenarios.catalogue import is_trusted
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

_MAX_HOSTING = 16  # scenarios that are hosted concurrently


@runtime_checkable
class ScoringPool(Protocol):
    """A pool whose suite scores episodes."""

    async def score(
        self,
        scenario: Scenario,
        task: Task,
        talk: list[dict[str, Any]],
        answers: Sequence[str] | None = None,
        *,
        broken_off: bool = False,
    ) -> tuple[Finding, ...]:
        """The suite's findings on an episode. `answers` of a model to `questions`; None: none was
        asked. `broken_off`: the episode did not end by its talk. Raises PoolError."""

    async def questions(
        self,
        scenario: Scenario,
        task: Task,
        talk: list[dict[str, Any]],
        answers: Sequence[str] = (),
    ) -> list[list[dict[str, str]]]:
        """What the score asks a model after these answers: messages, each with role and content;
        none: nothing more. Raises PoolError."""


ReportTrusted = Callable[[Sequence[Scenario]], None]
Calls = list[tuple[str, Any]]  # of one episode: tool and arguments


class RoutingPool(AsyncContextManagerMixin):
    """A local pool, and workers where they are needed. It implements
    envpool.store.pool_protocol.Pool. Use it in `async with`.

    `isolate` sends trusted packages to the workers too. `elsewhere` is an outside pool that runs
    all worlds; its owner enters and leaves it. `report_trusted` is called with packages that are
    not bundled and whose code will run in this process, before it does, once for each.
    `open_spawner` returns what starts the workers.
    """

    def __init__(
        self,
        settings: WorkerSettings | None = None,
        *,
        isolate: bool = False,
        elsewhere: Pool | None = None,
        report_trusted: ReportTrusted | None = None,
        open_spawner: OpenSpawner = open_fork_server,
    ) -> None:
        self._settings = settings or WorkerSettings()
        self._isolate = isolate
        self._strict = self._settings.sandbox == "required"
        self._bundled: dict[tuple[str, Path], bool] = {}  # digest and path of a package
        self._report_trusted = report_trusted
        self._reported: set[str] = set()  # digests
        self._remote = elsewhere
        self._open_spawner = open_spawner
        self._local = LocalPool()
        self._servers = ServerWorldPool()
        self._isolated_servers = ServerWorldPool(isolate=True)
        self._workers: WorkerPool | None = None
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<RoutingPool [{self._remote or self._local!r}, {self._workers!r}]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator["RoutingPool"]:
        try:
            async with self._servers, self._isolated_servers, self._stack:
                yield self
        finally:
            self._local.close()

    async def start(self) -> None:
        """Start the workers now, so that other tasks can host scenarios."""
        if self._workers is None:
            workers = WorkerPool(self._settings, open_spawner=self._open_spawner)
            self._workers = await self._stack.enter_async_context(workers)

    async def _host_server(self, scenario: Scenario) -> States:
        """Host the world of a server. Raises PoolError where it must be isolated and cannot be."""
        if not self.isolates(scenario):
            return await self._servers.host(scenario)
        if why := await anyio.to_thread.run_sync(why_no_bubblewrap):
            raise PoolError(
                f"{scenario.path}: the world's MCP server is a command, which this run would "
                f"isolate, and {why}; install bubblewrap, put the world below $REHEARSE_WORLDS, or "
                "pass --trust-run if you trust the folder that names it"
            )
        await self.start()
        return await self._isolated_servers.host(scenario)

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the scenario's code, verifiers included, runs in worker processes only."""
        if self._isolate or not is_trusted(scenario):
            return True
        return self._strict and not self._is_bundled(scenario)

    def announce(self, scenarios: Iterable[Scenario]) -> None:
        """Report those whose code will run in this process, though they are not bundled."""
        if self._report_trusted is None:
            return
        here = [
            scenario
            for scenario in scenarios
            if scenario.digest not in self._reported
            and scenario.has_code
            and not (self.isolates(scenario) or self._is_bundled(scenario))
        ]
        if here:
            self._reported |= {scenario.digest for scenario in here}
            self._report_trusted(here)

    def _is_bundled(self, scenario: Scenario) -> bool:
        key = scenario.digest, scenario.path
        if key not in self._bundled:
            self._bundled[key] = is_trusted(scenario, strict=True)
        return self._bundled[key]

    @property
    def level(self) -> str:
        """The sandbox level of the workers; empty: no workers were needed."""
        return "" if self._workers is None else self._workers.level

    async def host(self, scenario: Scenario) -> States:
        self.announce([scenario])
        if scenario.server is not None and self._remote is None:
            return await self._host_server(scenario)
        if self.isolates(scenario):
            await self.start()
            states = await self._started_workers(scenario).host(scenario)
            return states if self._remote is None else await self._remote.host(scenario)
        if self._remote is not None:
            elsewhere = await self._remote.host(scenario)
            if scenario.foreign is not None and scenario.foreign.target:
                require_known_calls(scenario, elsewhere.tools)
            return elsewhere
        return self._local.world(scenario)

    async def host_all(self, scenarios: Iterable[Scenario]) -> None:
        """Host several scenarios, concurrently in workers. Raises the PoolError of the first."""
        distinct = {scenario.digest: scenario for scenario in scenarios}
        self.announce(distinct.values())
        faults: dict[str, Exception] = {}
        limiter = anyio.CapacityLimiter(_MAX_HOSTING)

        async def host_one(scenario: Scenario) -> None:
            async with limiter:
                try:
                    await self.host(scenario)
                except Exception as exc:
                    faults[scenario.digest] = exc

        for scenario in distinct.values():
            if self.isolates(scenario):
                await self.start()
        async with anyio.create_task_group() as group:
            for scenario in distinct.values():
                group.start_soon(host_one, scenario)
        for digest in distinct:
            if digest in faults:
                raise faults[digest]

    def hosted(self, scenario: Scenario) -> States:
        return self._pool_of(scenario).hosted(scenario)

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return self._pool_of(scenario).lease(scenario, task)

    def drop(self, scenario: Scenario) -> None:
        """Unload a scenario without live worlds from the workers."""
        if self._workers is not None:
            self._workers.drop(scenario)

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """The result of the task's verifier on an end state: in a worker where the scenario is
        isolated. Raises PoolError."""
        pool: Pool = self._pool_of(scenario)
        if self.isolates(scenario):
            workers = pool = self._started_workers(scenario)
            if scenario.server is not None:
                source = await anyio.to_thread.run_sync(verifier_source, scenario)
                world = self._isolated_servers.hosted(scenario)
                return await workers.verify_state(world, source, task, state, answer, which)
        return await pool.verify(scenario, task, state, answer, which)

    async def score(
        self,
        scenario: Scenario,
        task: Task,
        talk: list[dict[str, Any]],
        answers: Sequence[str] | None = None,
        *,
        broken_off: bool = False,
    ) -> tuple[Finding, ...]:
        """See ScoringPool."""
        suite = self._scoring(scenario)
        return await suite.score(scenario, task, talk, answers, broken_off=broken_off)

    async def questions(
        self,
        scenario: Scenario,
        task: Task,
        talk: list[dict[str, Any]],
        answers: Sequence[str] = (),
    ) -> list[list[dict[str, str]]]:
        """See ScoringPool."""
        return await self._scoring(scenario).questions(scenario, task, talk, answers)

    def _scoring(self, scenario: Scenario) -> ScoringPool:
        if not isinstance(self._remote, ScoringPool):
            raise PoolError(f"scenario {scenario.name!r} is scored by its suite, which is not open")
        return self._remote

    async def bare_cpu_s(self, scenario: Scenario, episodes: Sequence[Calls]) -> float:
        """CPU seconds of the episodes' calls, back to back in one worker. Raises PoolError."""
        return await self._started_workers(scenario).replay_cpu_s(scenario, episodes)

    def cpu_s(self) -> float:
        """CPU seconds of all workers so far."""
        return 0.0 if self._workers is None else self._workers.cpu_s()

    def rss(self) -> int:
        """Resident memory of the workers, in bytes."""
        return 0 if self._workers is None else self._workers.rss()

    @property
    def num_live(self) -> int:
        """Worlds that are live now."""
        return sum(pool.num_live for pool in self._pools())

    @property
    def max_live(self) -> int:
        """The largest number of worlds that were live at once (an upper bound where several pools
        have worlds)."""
        return sum(pool.max_live for pool in self._pools())

    def statistics(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for pool in self._pools():
            for name, count in pool.statistics().items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def _pools(self) -> list[Pool]:
        pools = (
            *(self._local, self._servers, self._isolated_servers),
            *(self._workers, self._remote),
        )
        return [pool for pool in pools if pool is not None]

    def _pool_of(self, scenario: Scenario) -> Pool:
        if self._remote is not None:
            return self._remote
        if scenario.server is not None:
            return self._isolated_servers if self.isolates(scenario) else self._servers
        return self._started_workers(scenario) if self.isolates(scenario) else self._local

    def _started_workers(self, scenario: Scenario) -> WorkerPool:
        if self._workers is None:
            raise PoolError(f"scenario {scenario.name!r} runs in workers and was not hosted yet")
        return self._workers
