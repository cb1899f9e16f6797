"""Where worlds are: trust decides the place, unless they are somebody else's.

Packages that people wrote run in this process, everything else in workers. A pool of worlds
elsewhere (on another machine, in an MCP server) takes all of them, and workers of ours only verify.

The workers are started when the first scenario that needs them is hosted, by the task that entered
the pool: their own tasks end with it. So a scenario is hosted before it is leased.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Literal

import anyio

from envpool.core.errors import PoolError
from envpool.core.types import Env, StoredState
from envpool.inprocess.pool import LocalPool
from envpool.store.pool_protocol import Pool
from envpool.store.states import States
from envpool.workers.pool import WorkerPool, WorkerSettings
from envpool.workers.wire import Verified
from scenarios.catalogue import is_trusted
from scenarios.format import Scenario, Task

_AT_ONCE = 16  # scenarios that are hosted side by side
Calls = list[tuple[str, Any]]  # of one episode: tool and arguments


class RoutingPool:
    """A local pool, and workers where they are needed. It implements
    envpool.store.pool_protocol.Pool.

    `isolate` sends packages of ours to the workers too. `elsewhere` has all the worlds; whoever
    made it enters and leaves it. Entered and left with `async with`.
    """

    def __init__(
        self,
        settings: WorkerSettings | None = None,
        *,
        isolate: bool = False,
        elsewhere: Pool | None = None,
    ) -> None:
        self._settings = settings or WorkerSettings()
        self._isolate = isolate
        self._elsewhere = elsewhere
        self._local = LocalPool()
        self._workers: WorkerPool | None = None
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<RoutingPool [{self._elsewhere or self._local!r}, {self._workers!r}]>"

    async def __aenter__(self) -> "RoutingPool":
        await self._stack.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._stack.__aexit__(kind, exc, trace)
        finally:
            self._local.close()

    async def start(self) -> None:
        """Start the workers now, so that scenarios may be hosted by other tasks."""
        if self._workers is None:
            self._workers = await self._stack.enter_async_context(WorkerPool(self._settings))

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the scenario's code, its verifiers included, runs in workers only."""
        return self._isolate or not is_trusted(scenario)

    @property
    def level(self) -> str:
        """What holds code that is not ours; empty: no worker was needed."""
        return "" if self._workers is None else self._workers.level

    async def host(self, scenario: Scenario) -> States:
        if self.isolates(scenario):
            await self.start()
            held = await self._at_work(scenario).host(scenario)
            return held if self._elsewhere is None else await self._elsewhere.host(scenario)
        if self._elsewhere is not None:
            return await self._elsewhere.host(scenario)
        return self._local.world(scenario)

    async def host_all(self, scenarios: Iterable[Scenario]) -> None:
        """Host several, side by side where workers do it. Raises the first's PoolError."""
        wanted = {scenario.digest: scenario for scenario in scenarios}
        faults: dict[str, Exception] = {}
        room = anyio.CapacityLimiter(_AT_ONCE)

        async def one(scenario: Scenario) -> None:
            async with room:
                try:
                    await self.host(scenario)
                except Exception as exc:
                    faults[scenario.digest] = exc

        if any(map(self.isolates, wanted.values())):
            await self.start()
        async with anyio.create_task_group() as group:
            for scenario in wanted.values():
                group.start_soon(one, scenario)
        for digest in wanted:
            if digest in faults:
                raise faults[digest]

    def hosted(self, scenario: Scenario) -> States:
        return self._place(scenario).hosted(scenario)

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return self._place(scenario).lease(scenario, task)

    def drop(self, scenario: Scenario) -> None:
        """Forget a scenario of which no world is live, where workers have it."""
        if self._workers is not None:
            self._workers.drop(scenario)

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: Literal["code", "sql"] = "code",
    ) -> Verified:
        """What the task's verifier says of an end, asked in a worker. Raises PoolError."""
        return await self._at_work(scenario).verify(scenario, task.id, state, answer, which)

    async def bare_cpu_s(self, scenario: Scenario, episodes: Sequence[Calls]) -> float:
        """CPU seconds of the episodes' calls, back to back in one worker. Raises PoolError."""
        return await self._at_work(scenario).replay_cpu_s(scenario, episodes)

    def cpu_s(self) -> float:
        """CPU seconds of all workers so far."""
        return 0.0 if self._workers is None else self._workers.cpu_s()

    def rss(self) -> int:
        """Bytes that the workers hold."""
        return 0 if self._workers is None else self._workers.rss()

    @property
    def num_live(self) -> int:
        """Worlds that are live."""
        return sum(pool.num_live for pool in self._pools())

    @property
    def max_live(self) -> int:
        """Worlds that were live at once, at most (an upper bound where there are two places)."""
        return sum(pool.max_live for pool in self._pools())

    def statistics(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for pool in self._pools():
            for name, count in pool.statistics().items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def _pools(self) -> list[Pool]:
        return [pool for pool in (self._local, self._workers, self._elsewhere) if pool is not None]

    def _place(self, scenario: Scenario) -> Pool:
        if self._elsewhere is not None:
            return self._elsewhere
        return self._at_work(scenario) if self.isolates(scenario) else self._local

    def _at_work(self, scenario: Scenario) -> WorkerPool:
        if self._workers is None:
            raise PoolError(f"scenario {scenario.name!r} runs in workers and was not hosted yet")
        return self._workers
