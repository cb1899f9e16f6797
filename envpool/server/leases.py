"""The worlds that a server has leased out, each kept open by a task of its own.

A world lives from its lease to its release, or until it was idle for too long. Nothing here knows
HTTP.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from envpool.core.errors import WorldError
from envpool.core.types import Env
from envpool.server.api import Hosted, NewWorld
from envpool.server.lease import Family, Lease
from envpool.server.mcp import Face
from envpool.server.settings import ServeSettings
from envpool.server.state_transfer import mover_of
from envpool.store.pool_protocol import Pool
from envpool.store.states import States
from scenarios.format import Scenario

log = structlog.get_logger()


class Refused(Exception):
    """A world cannot be leased: `status` is the HTTP status that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Leases:
    """All that is leased out. Entered and left with `async with`, which releases what is left.

    A scenario is hosted when it is wanted first.
    """

    def __init__(
        self,
        pool: Pool,
        scenarios: Iterable[Scenario],
        settings: ServeSettings | None = None,
    ) -> None:
        self.scenarios: dict[str, Scenario] = {each.name: each for each in scenarios}
        self.settings = settings or ServeSettings()
        self.draining = False
        self.num_leases = 0
        self.num_calls = 0  # of worlds that are gone; those of live ones are their own
        self._pool = pool
        self._faces: dict[str, Face] = {}  # package digest -> face
        self._hosted: dict[str, Hosted] = {}
        self._hosting: dict[str, anyio.Lock] = {}  # by package digest
        self._live: dict[str, Lease] = {}
        self._per_client: Counter[str] = Counter()
        self._empty = anyio.Event()
        self._stack = AsyncExitStack()
        self._group: TaskGroup

    def __repr__(self) -> str:
        return f"<Leases [{len(self._live)} live of {self.num_leases} leased]>"

    async def __aenter__(self) -> "Leases":
        await self._stack.__aenter__()
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        if self.settings.idle_s:
            self._group.start_soon(self._sweep)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._group.cancel_scope.cancel()
        self._live.clear()
        if isinstance(exc, Exception):  # of the block: it is raised as it is, in no group
            kind = exc = trace = None
        await self._stack.__aexit__(kind, exc, trace)

    @property
    def num_live(self) -> int:
        """Worlds that are live."""
        return len(self._live)

    @property
    def calls(self) -> int:
        """Calls executed so far."""
        return self.num_calls + sum(lease.num_calls for lease in self._live.values())

    def get(self, lease_id: str) -> Lease | None:
        """The live world of this id."""
        return self._live.get(lease_id)

    def all(self) -> list[Lease]:
        """Every live world, in the order in which they were leased."""
        return list(self._live.values())

    async def lease(self, new: NewWorld, client: str) -> Lease:
        """A fresh world. Raises Refused, UnknownScenario and PoolError."""
        scenario = self._scenario(new.scenario)
        task = None if new.task is None else scenario.task(new.task)
        self._admit(client)
        try:
            states = await self._states(scenario)
            family = Family()
            leasing = self._pool.lease(scenario, task)
            env: Env = await self._group.start(_keep, leasing, family)
        except BaseException:
            self._discount(client)
            raise
        return self._enter(Lease(new, client, env, self._face(states), family))

    async def fork(self, parent: Lease, client: str) -> Lease:
        """A world that goes on from another. Raises Refused."""
        self._admit(client)
        try:
            env = await parent.fork()
        except BaseException:
            self._discount(client)
            raise
        parent.family.join()
        return self._enter(Lease(parent.new, client, env, parent.face, parent.family))

    async def release(self, lease: Lease) -> None:
        """Give a world back, once the call that it executes is done."""
        if self._live.pop(lease.id, None) is None:
            return
        await lease.end()
        self.num_calls += lease.num_calls
        self._discount(lease.client)
        lease.family.leave()
        if not self._live:
            self._empty.set()

    async def hosted(self, name: str) -> tuple[Hosted, bytes]:
        """A scenario for clients that hold states themselves, and its template's pages.

        Raises Refused and PoolError.
        """
        scenario = self._scenario(name)
        states = await self._states(scenario)
        template = states.template
        hosted = self._hosted.get(scenario.digest)
        if hosted is None:
            async with self._pool.lease(scenario, None) as env:
                mover = mover_of(env)
                memory = mover.snapshot().memory if mover is not None else b""
            hosted = Hosted(scenario.name, scenario.digest, template.digest, states.tools, memory)
            self._hosted[scenario.digest] = hosted
        return hosted, template.image

    async def drain(self) -> None:
        """Lease no more, and give those that are live `drain_s` seconds to be released."""
        self.draining = True
        if not self._live:
            return
        log.info("draining", live=len(self._live), seconds=self.settings.drain_s)
        self._empty = anyio.Event()
        with anyio.move_on_after(self.settings.drain_s):
            await self._empty.wait()

    async def expire(self, now: float) -> None:
        """Release the worlds that were idle too long. `now` is anyio's time."""
        for lease in self.all():
            if not lease.busy and now - lease.used_at >= self.settings.idle_s:
                log.info("world_expired", scenario=lease.new.scenario, calls=lease.num_calls)
                await self.release(lease)

    def _scenario(self, name: str) -> Scenario:
        scenario = self.scenarios.get(name)
        if scenario is None:
            known = ", ".join(self.scenarios)
            raise Refused(404, f"there is no scenario {name!r} here; there are {known}")
        return scenario

    def _admit(self, client: str) -> None:
        """Count a world that is about to be leased. Raises Refused."""
        settings = self.settings
        if self.draining:
            raise Refused(503, "the server is about to stop and leases no more worlds")
        if self._per_client[client] >= settings.worlds_per_client:
            raise Refused(429, f"{settings.worlds_per_client} worlds are yours already, at most")
        if self._per_client.total() >= settings.max_worlds:
            raise Refused(503, f"{settings.max_worlds} worlds are live already, at most")
        self._per_client[client] += 1

    def _discount(self, client: str) -> None:
        self._per_client[client] -= 1
        if not self._per_client[client]:
            del self._per_client[client]

    async def _states(self, scenario: Scenario) -> States:
        async with self._hosting.setdefault(scenario.digest, anyio.Lock()):
            return await self._pool.host(scenario)

    def _face(self, states: States) -> Face:
        face = self._faces.get(states.scenario.digest)
        if face is None:
            face = self._faces[states.scenario.digest] = Face(states.scenario, states.tools)
        return face

    def _enter(self, lease: Lease) -> Lease:
        self._live[lease.id] = lease
        self.num_leases += 1
        return lease

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(min(max(self.settings.idle_s / 10, 0.05), 5.0))
            await self.expire(anyio.current_time())


async def _keep(
    leasing: AbstractAsyncContextManager[Env],
    family: Family,
    *,
    task_status: TaskStatus[Env],
) -> None:
    """Hold a world open in the task that opened it. A pool that cannot give it back is no reason
    for the others to end."""
    given = False
    try:
        async with leasing as env:
            task_status.started(env)
            given = True
            await family.over.wait()
    except WorldError as exc:
        if not given:
            raise
        log.warning("world_not_given_back", why=str(exc))
