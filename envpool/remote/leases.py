"""The worlds that a server has leased out, each kept open by a task of its own.

A world lives from its lease to its release, or until it was idle for too long. One call of a world
runs at a time. Nothing here knows HTTP.
"""

import secrets
from collections import Counter, OrderedDict
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Raw

from envpool.errors import PoolError, WorldError
from envpool.remote import messages as m
from envpool.remote.messages import Asked, Fault
from envpool.remote.moving import mover_of
from envpool.remote.protocol import Called, Face
from envpool.remote.settings import ServeSettings
from envpool.remote.surface import Hosted, NewWorld, WorldNow
from envpool.states import States
from envpool.types import Env, Pool
from envpool.workers.wire import Answer, Snapshot
from scenarios.format import Scenario

log = structlog.get_logger()
_REMEMBERED = 8  # call ids whose results a world still knows
_pack = msgspec.msgpack.Encoder().encode
_read_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class Refused(Exception):
    """A world cannot be leased: `status` is the HTTP status that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Lease:
    """A world that is leased out."""

    def __init__(self, new: NewWorld, client: str, env: Env, face: Face, forks: "_Family") -> None:
        self.id = secrets.token_urlsafe(16)
        self.new = new
        self.client = client
        self.face = face
        self.family = forks
        self.num_calls = 0
        self.used_at = anyio.current_time()
        self.busy = False
        self.gone = False
        self._env = env
        self._lock = anyio.Lock(fast_acquire=True)
        self._answered: OrderedDict[str, Called] = OrderedDict()
        self._mover = mover_of(env)
        # The state that our own client believes to be here: its world, its version, and what it
        # has of pages and module state. None: somebody else has called since.
        self._at: tuple[int, int] | None = None
        self._known = Snapshot({}, 0, "")

    def __repr__(self) -> str:
        return f"<Lease of {self.new.scenario!r} [{self.num_calls} calls]>"

    def now(self) -> WorldNow:
        """How it stands."""
        idle_s = 0.0 if self.busy else anyio.current_time() - self.used_at
        return WorldNow(
            self.id,
            self.new.scenario,
            self.new.task,
            self.new.seed,
            self.num_calls,
            self._env.digest,
            self._env.start_digest,
            round(idle_s, 3),
        )

    async def call(self, name: str, arguments: Raw, asked: Asked | None) -> Called:
        """Execute one call, or answer it from memory. Raises Fault."""
        async with self._lock:
            if self.gone:
                raise Fault(m.BROKEN, "This world has been given back.")
            if asked is not None and asked.id in self._answered:
                return self._answered[asked.id]
            self.busy = True
            try:
                called = await self._called(name, m.value_of(arguments), asked)
            except PoolError as exc:
                raise Fault(m.BROKEN, str(exc)) from exc
            finally:
                self.busy = False
                self.used_at = anyio.current_time()
            if asked is not None:
                self._answered[asked.id] = called
                if len(self._answered) > _REMEMBERED:
                    self._answered.popitem(last=False)
            return called

    async def reset(self) -> None:
        """Back to the start."""
        async with self._lock:
            self._at = None
            self._answered.clear()
            self.used_at = anyio.current_time()
            self._env.reset()

    async def fork(self) -> Env:
        """A second world that goes on from here."""
        async with self._lock:
            self.used_at = anyio.current_time()
            return self._env.fork()

    async def end(self) -> None:
        """Let no more calls in, once the one that runs is done."""
        async with self._lock:
            self.gone = True

    async def _called(self, name: str, arguments: object, asked: Asked | None) -> Called:
        outcome = asked is not None and asked.world is not None
        if asked is not None and outcome:
            self._bring(asked)
        at, self._at = self._at, None
        self.num_calls += 1
        result = await self._env.call(name, arguments, f"m{self.num_calls}")
        if not outcome or at is None:
            return Called(result.text, result.is_error)
        assert self._mover is not None
        before, self._known = self._known, self._mover.snapshot()
        after = self._known
        self._at = (at[0], at[1] + 1)
        answer = Answer(
            id=0,
            text="",  # which the result bears already
            error=result.error,
            changes=result.changes,
            digest=result.digest,
            pages={n: p for n, p in after.pages.items() if before.pages.get(n) is not p},
            num_pages=after.num_pages,
            memory=None if after.memory == before.memory else after.memory,
        )
        return Called(result.text, result.is_error, _pack(answer))

    def _bring(self, asked: Asked) -> None:
        """Have the world in the state for which the call is meant. Raises Fault."""
        assert asked.world is not None
        at = (asked.world, asked.version)
        if self._mover is None:
            raise Fault(m.INVALID_PARAMS, "The state of this world cannot be carried elsewhere.")
        if asked.state is not None:
            try:
                snapshot = _read_snapshot(asked.state)
            except msgspec.MsgspecError as exc:
                raise Fault(m.INVALID_PARAMS, f"Invalid params: state: {exc}") from exc
            self._mover.restore(snapshot)
            self._known = self._mover.snapshot()
        elif at != self._at:
            raise Fault(m.STALE, "This world is in another state than the call is meant for.")
        self._at = at


class _Family:
    """A leased world and its forks: the pool has them back when the last of them is released."""

    def __init__(self) -> None:
        self.size = 1
        self.over = anyio.Event()

    def leave(self) -> None:
        self.size -= 1
        if not self.size:
            self.over.set()


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
            family = _Family()
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
        parent.family.size += 1
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
    family: _Family,
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
