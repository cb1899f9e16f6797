"""The worlds that a server has leased to its clients, each held open by its own task.

A world lives from its lease to its release, or until it was idle for too long. This module does not
depend on HTTP.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self

import anyio
import structlog
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskStatus

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.talks import TALK, LeasedTalk, is_served
from rehearsal_room.envpool.core.types import Env, ToolSpec
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.server.api import HostedInfo, NewWorld
from rehearsal_room.envpool.server.lease import ClientLease, Family, LeaseOrigin
from rehearsal_room.envpool.server.mcp_methods import McpMethods
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.signed_states import key_of
from rehearsal_room.envpool.server.state_transfer import transfer_of
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Scenario

log = structlog.get_logger()


class LeaseRefused(Exception):
    """A world cannot be leased; `status` is the matching HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Leases(AsyncContextManagerMixin):
    """All leased worlds. Use it in `async with`, which releases the worlds that are left.

    A scenario is hosted at its first lease. Raises PoolError for a state key that cannot be used.
    """

    def __init__(
        self,
        pool: Pool,
        scenarios: Iterable[Scenario],
        settings: WorldServerSettings | None = None,
    ) -> None:
        self.scenarios: dict[str, Scenario] = {each.name: each for each in scenarios}
        self.settings = settings or WorldServerSettings()
        self.draining = False
        self.num_leases = 0
        self.num_calls = 0  # of released worlds; live worlds count their own
        self._pool = pool
        self._state_key = key_of(self.settings.state_key)
        self._mcp: dict[tuple[str, bool], McpMethods] = {}  # by package digest
        self._hosted: dict[str, HostedInfo] = {}  # by package digest
        self._hosting_locks: dict[str, anyio.Lock] = {}  # by package digest
        self._live: dict[str, ClientLease] = {}
        self._per_client: Counter[str] = Counter()
        self._empty = anyio.Event()

    def __repr__(self) -> str:
        return f"<Leases [{len(self._live)} live of {self.num_leases} leased]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with OwnedTasks() as self._tasks:
            if self.settings.idle_s:
                self._tasks.start_soon(self._release_idle)
            try:
                yield self
            finally:
                self._live.clear()

    @property
    def num_live(self) -> int:
        """Worlds that are live."""
        return len(self._live)

    @property
    def calls(self) -> int:
        """Calls executed so far."""
        return self.num_calls + sum(lease.num_calls for lease in self._live.values())

    def get(self, lease_id: str) -> ClientLease | None:
        """The live world of this id."""
        return self._live.get(lease_id)

    def all(self) -> list[ClientLease]:
        """Every live world, in the order in which they were leased."""
        return list(self._live.values())

    async def lease(self, new: NewWorld, client: str, *, owner: int | None = None) -> ClientLease:
        """Lease a fresh world to a client, for the owner of a token (None: there are no tokens).
        Raises LeaseRefused, UnknownScenario and PoolError."""
        scenario = self._scenario(new.scenario)
        task = None if new.task is None else scenario.task(new.task)
        if task is not None and not is_served(task):
            why = "its user is not an automaton, and a server plays no other; `rehearse run` does"
            raise LeaseRefused(422, f"task {task.id!r} is a dialogue that is not served: {why}")
        self._admit(client)
        try:
            states = await self._states(scenario)
            family = Family()
            block = self._pool.lease(scenario, task)
            env: Env = await self._tasks.start(_hold_open, block, family)
        except BaseException:
            self._uncount(client)
            raise
        user = None if task is None else task.user
        talk = LeasedTalk(user) if isinstance(user, UserAutomaton) else None
        transfer = transfer_of(env)
        start = None if transfer is None else transfer.snapshot()
        lease = ClientLease(
            new,
            client,
            env,
            owner=owner,
            mcp=self._mcp_methods(states, has_talk=talk is not None),
            family=family,
            origin=LeaseOrigin(scenario.digest, start, self._state_key),
            talk=talk,
        )
        return self._add(lease)

    async def fork(self, parent: ClientLease, client: str) -> ClientLease:
        """Lease a world that continues from another. Raises LeaseRefused."""
        self._admit(client)
        try:
            env = await parent.fork()
        except BaseException:
            self._uncount(client)
            raise
        parent.family.join()
        return self._add(parent.sibling(env, client))

    async def release(self, lease: ClientLease) -> None:
        """Release a world, after its running call is done."""
        if self._live.pop(lease.id, None) is None:
            return
        await lease.end()
        self.num_calls += lease.num_calls
        self._uncount(lease.client)
        lease.family.leave()
        if not self._live:
            self._empty.set()

    async def tools(self, scenario: Scenario) -> tuple[ToolSpec, ...]:
        """The tools of a scenario's worlds, without `talk_to_user`. Raises PoolError."""
        return (await self._states(scenario)).tools

    async def hosted(self, name: str) -> tuple[HostedInfo, bytes]:
        """A scenario for clients that hold states themselves, and its template's pages.

        Raises LeaseRefused and PoolError.
        """
        scenario = self._scenario(name)
        states = await self._states(scenario)
        template = states.template
        hosted = self._hosted.get(scenario.digest)
        if hosted is None:
            async with self._pool.lease(scenario, None) as env:
                transfer = transfer_of(env)
                module_state = transfer.snapshot().module_state if transfer is not None else b""
            hosted = HostedInfo(
                scenario.name, scenario.digest, template.digest, states.tools, module_state
            )
            self._hosted[scenario.digest] = hosted
        return hosted, template.image

    async def drain(self) -> None:
        """Stop leasing, and wait up to `drain_s` seconds until the live worlds are released."""
        self.draining = True
        if not self._live:
            return
        log.info("draining", live=len(self._live), seconds=self.settings.drain_s)
        self._empty = anyio.Event()
        with anyio.move_on_after(self.settings.drain_s):
            await self._empty.wait()

    async def expire(self, now: float) -> None:
        """Release the worlds that have been idle too long. `now`: a time of anyio.current_time."""
        for lease in self.all():
            if not lease.busy and now - lease.used_at >= self.settings.idle_s:
                log.info("world_expired", scenario=lease.new.scenario, calls=lease.num_calls)
                await self.release(lease)

    def _scenario(self, name: str) -> Scenario:
        scenario = self.scenarios.get(name)
        if scenario is None:
            known = ", ".join(self.scenarios)
            raise LeaseRefused(404, f"there is no scenario {name!r} here; there are {known}")
        return scenario

    def _admit(self, client: str) -> None:
        """Count a world that is about to be leased. Raises LeaseRefused."""
        settings = self.settings
        if self.draining:
            raise LeaseRefused(503, "the server is about to stop and leases no more worlds")
        if self._per_client[client] >= settings.worlds_per_client:
            limit = settings.worlds_per_client
            raise LeaseRefused(429, f"this client has {limit} worlds, which is the limit")
        if self._per_client.total() >= settings.max_worlds:
            limit = settings.max_worlds
            raise LeaseRefused(503, f"{limit} worlds are live, which is the limit of this server")
        self._per_client[client] += 1

    def _uncount(self, client: str) -> None:
        self._per_client[client] -= 1
        if not self._per_client[client]:
            del self._per_client[client]

    async def _states(self, scenario: Scenario) -> States:
        async with self._hosting_locks.setdefault(scenario.digest, anyio.Lock()):
            return await self._pool.host(scenario)

    def _mcp_methods(self, states: States, *, has_talk: bool) -> McpMethods:
        scenario = states.scenario
        key = (scenario.digest, has_talk)
        mcp = self._mcp.get(key)
        if mcp is None:
            tools = (*states.tools, TALK) if has_talk else states.tools
            mcp = self._mcp[key] = McpMethods(scenario, tools)
        return mcp

    def _add(self, lease: ClientLease) -> ClientLease:
        self._live[lease.id] = lease
        self.num_leases += 1
        return lease

    async def _release_idle(self) -> None:
        while True:
            await anyio.sleep(min(max(self.settings.idle_s / 10, 0.05), 5.0))
            await self.expire(anyio.current_time())


async def _hold_open(
    block: AbstractAsyncContextManager[Env],
    family: Family,
    *,
    task_status: TaskStatus[Env],
) -> None:
    """Hold a world open in the task that opened it. A pool that fails to release it does not end
    the other worlds."""
    is_open = False
    try:
        async with block as env:
            task_status.started(env)
            is_open = True
            await family.ended.wait()
    except WorldError as exc:
        if not is_open:
            raise
        log.warning("world_not_released", why=str(exc))
