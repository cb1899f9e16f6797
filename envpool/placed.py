"""Trust decides the place: packages of ours run in this process, everything else in workers.

The workers are started when the first scenario that needs them is hosted, by the task that entered
the pool: their own tasks end with it. So a scenario is hosted before it is leased.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Literal

from envpool.errors import PoolError
from envpool.local import LocalPool
from envpool.states import States
from envpool.types import Env, StoredState
from envpool.workers.pool import WorkerPool, WorkerSettings
from envpool.workers.wire import Verified
from scenarios.format import Scenario, Task

IN_PROCESS = "in process"
Calls = list[tuple[str, Any]]  # of one episode: tool and arguments


class PlacedPool:
    """A local pool and, where they are needed, workers. It implements envpool.types.Pool.

    `isolate` sends packages of ours to the workers too. Entered and left with `async with`.
    """

    def __init__(self, settings: WorkerSettings | None = None, *, isolate: bool = False) -> None:
        self._settings = settings or WorkerSettings()
        self._isolate = isolate
        self._local = LocalPool()
        self._workers: WorkerPool | None = None
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<PlacedPool [{self._local!r}, {self._workers!r}]>"

    async def __aenter__(self) -> "PlacedPool":
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
        """Whether the scenario's code runs in workers only."""
        return self._isolate or scenario.awm is not None

    @property
    def level(self) -> str:
        """What holds code that is not ours; empty: no worker was needed."""
        return "" if self._workers is None else self._workers.level

    def place(self, scenario: Scenario) -> str:
        """Where the scenario's code runs, and what holds it there."""
        if not self.isolates(scenario) or self._workers is None:
            return IN_PROCESS
        return self._workers.level

    async def host(self, scenario: Scenario) -> States:
        if not self.isolates(scenario):
            return self._local.world(scenario)
        await self.start()
        return await self._at_work(scenario).host(scenario)

    def hosted(self, scenario: Scenario) -> States:
        if not self.isolates(scenario):
            return self._local.world(scenario)
        return self._at_work(scenario).hosted(scenario)

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        if not self.isolates(scenario):
            return self._local.lease(scenario, task)
        return self._at_work(scenario).lease(scenario, task)

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
        return self._local.num_live + (0 if self._workers is None else self._workers.num_live)

    @property
    def max_live(self) -> int:
        """Worlds that were live at once, at most (of the two places together: an upper bound)."""
        return self._local.max_live + (0 if self._workers is None else self._workers.max_live)

    def statistics(self) -> dict[str, int]:
        counts = self._local.statistics()
        if self._workers is not None:
            for name, count in self._workers.statistics().items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def _at_work(self, scenario: Scenario) -> WorkerPool:
        if self._workers is None:
            raise PoolError(f"scenario {scenario.name!r} runs in workers and was not hosted yet")
        return self._workers
