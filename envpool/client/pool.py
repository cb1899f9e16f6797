"""Worlds of another machine's server, leased and called over HTTP, their truth held here.

A `RemotePool` leases a world on the server for each of its own, and calls its tools over MCP. Each
answer brings what the call did to the state (the pages it wrote, the rows, the digest), so that
`state`, `fork` and `reset` need no network, and a server that has lost a world, or has it in
another state, is sent the state along with the call. A call is therefore never executed twice on
one state: sent again after a lost reply, it is answered from memory or executed on the state that
it was meant for.
"""

import secrets
from types import TracebackType
from typing import Any

import anyio
import msgspec
import structlog

from envpool.client.calls import Response, answer_in, packed, read_response, request_of
from envpool.client.http import Connection, NoReply, Reply
from envpool.core.errors import PoolError, SeedError, WorldError
from envpool.core.host_answers import Answer
from envpool.core.types import Env
from envpool.offloaded.env import OffloadedEnv, OffloadedScenario
from envpool.offloaded.pool import OffloadedPool
from envpool.server import jsonrpc as m
from envpool.server.api import Complaint, Hosted, NewWorld, WorldLease
from envpool.server.jsonrpc import Asked
from scenarios.format import Scenario, Task

log = structlog.get_logger()
_RELEASE_S = 5.0  # a server that does not answer gives the world back by itself, when it is idle
_MAX_TRIES = 40  # of a call that the server puts off


class _Place:
    """A world on the server: where our calls are executed."""

    __slots__ = ("at", "id", "new")

    def __init__(self, lease_id: str, new: NewWorld) -> None:
        self.id = lease_id
        self.new = new
        # Which world of ours it has, in which version; None: it is not known to have one.
        self.at: tuple[int, int] | None = None


class RemotePool(OffloadedPool):
    """A pool of worlds on another machine. It implements envpool.store.pool_protocol.Pool.

    `url` is the server's (`rehearse serve --http`), `token` its bearer token. Entered and left with
    `async with`, which gives back what is still leased.
    """

    def __init__(
        self, url: str, *, token: str = "", connections: int = 64, patience_s: float = 120.0
    ) -> None:
        self.url = url.rstrip("/")
        super().__init__(f"on {self.url}")
        self._http = Connection(
            self.url, token=token, connections=connections, patience_s=patience_s
        )
        self._places: dict[int, _Place] = {}  # by the number of the OffloadedEnv that was leased
        self._carriers: dict[str, _Place] = {}  # package digest -> where forks are executed
        self._carrying = anyio.Lock()
        self._nonce = secrets.token_hex(4)  # so that ids of calls are ours alone

    def __repr__(self) -> str:
        counts = self.statistics()
        return f"<RemotePool {self.url} [{counts['live']} live of {counts['leases']} leased]>"

    async def __aenter__(self) -> "RemotePool":
        await self._http.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for place in (*self._places.values(), *self._carriers.values()):
            await self._release(place)
        self._places.clear()
        self._carriers.clear()
        self._close_worlds()
        await self._http.close()

    def lease(self, scenario: Scenario, task: Task | None = None) -> "_Leasing":
        return _Leasing(self, scenario, task)

    async def execute(self, env: OffloadedEnv, name: str, arguments: Any) -> Answer:
        """Execute one call on the server (see envpool.offloaded.env.Executor)."""
        place = self._places.get(env.number) or await self._carrier(env)
        at = (env.number, env.version)
        send_state = place.at != at
        place.at = None
        for _ in range(_MAX_TRIES):
            response = await self._call(place, env, name, arguments, send_state=send_state)
            if response is None:  # the server has forgotten the world
                await self._renew(place)
                send_state = True
            elif response.error is None:
                try:
                    answer = answer_in(response)
                except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                    raise WorldError(f"{self.url} told garbage of a call: {exc}") from exc
                place.at = (at[0], at[1] + 1)
                return answer
            elif response.error.code == m.STALE and not send_state:
                send_state = True
            else:
                raise WorldError(response.error.message)
        raise WorldError(f"{self.url} has forgotten the world {_MAX_TRIES} times during one call")

    def distrust(self, env: OffloadedEnv, why: str) -> None:
        """The server told what cannot be: it is a matter of that world, and logged."""
        log.warning("remote_world_broken", server=self.url, why=why)

    async def _build(self, scenario: Scenario) -> OffloadedScenario:
        """The scenario as the server hosts it; its package must be the same."""
        path = f"/scenarios/{scenario.name}"
        hosted = _decoded(await self._ask("GET", path), Hosted, self.url)
        if hosted.digest != scenario.digest:
            raise PoolError(
                f"scenario {scenario.name!r} is another one on {self.url}: its package has digest "
                f"{hosted.digest} there and {scenario.digest} here"
            )
        image = (await self._ask("GET", f"{path}/image")).body
        try:
            world = OffloadedScenario(scenario, image, hosted.tools, memory=hosted.memory)
        except SeedError as exc:
            raise PoolError(f"{self.url}: {exc}") from exc
        if world.template.digest != hosted.template:
            world.close()
            raise PoolError(f"{self.url} sent a damaged database of scenario {scenario.name!r}")
        return world

    async def _enter(self, scenario: Scenario, task: Task | None) -> OffloadedEnv:
        world = await self.host(scenario)
        place = await self._lease(NewWorld(scenario.name, None if task is None else task.id))
        env = world.lease(self)
        self._places[env.number] = place
        self._came()
        return env

    async def _leave(self, env: OffloadedEnv) -> None:
        self.num_live -= 1
        place = self._places.pop(env.number, None)
        if place is not None:
            await self._release(place)

    async def _lease(self, new: NewWorld) -> _Place:
        world = _decoded(await self._ask("POST", "/worlds", m.encode(new)), WorldLease, self.url)
        return _Place(world.id, new)

    async def _release(self, place: _Place) -> None:
        with anyio.move_on_after(_RELEASE_S, shield=True):
            try:
                await self._http.ask("DELETE", f"/worlds/{place.id}")
            except NoReply as exc:
                log.warning("world_not_given_back", server=self.url, why=str(exc))

    async def _renew(self, place: _Place) -> None:
        try:
            place.id = (await self._lease(place.new)).id
        except PoolError as exc:
            raise WorldError(f"the world is gone from {self.url}: {exc}") from exc

    async def _carrier(self, env: OffloadedEnv) -> _Place:
        """Where forks of a scenario are executed, one after the other."""
        scenario = env.world.scenario
        async with self._carrying:
            place = self._carriers.get(scenario.digest)
            if place is None:
                try:
                    place = await self._lease(NewWorld(scenario.name))
                except PoolError as exc:
                    raise WorldError(f"no world for a fork: {exc}") from exc
                self._carriers[scenario.digest] = place
        return place

    async def _call(
        self, place: _Place, env: OffloadedEnv, name: str, arguments: Any, *, send_state: bool
    ) -> Response | None:
        """The response to a call; None: the server does not know the world. Raises WorldError."""
        asked = Asked(
            f"{self._nonce}-{env.number}-{env.version}",
            env.number,
            env.version,
            packed(env.snapshot()) if send_state else None,
        )
        body, headers = request_of(name, arguments, asked)
        try:
            reply = await self._http.ask("POST", f"/worlds/{place.id}/mcp", body, headers)
        except NoReply as exc:
            raise WorldError(f"{self.url} does not answer: {exc}") from exc
        if reply.status == 404 and _is_complaint(reply):
            return None
        try:
            return read_response(reply.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise WorldError(f"{self.url}: {_sentence(reply)}") from exc

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """A reply that is no complaint. Raises PoolError."""
        try:
            reply = await self._http.ask(method, path, body)
        except NoReply as exc:
            raise PoolError(f"{self.url} does not answer: {exc}") from exc
        if reply.status >= 400:
            raise PoolError(f"{self.url}: {_sentence(reply)}")
        return reply


class _Leasing:
    """The block in which a world is live."""

    __slots__ = ("_env", "_pool", "_scenario", "_task")

    def __init__(self, pool: RemotePool, scenario: Scenario, task: Task | None) -> None:
        self._pool = pool
        self._scenario = scenario
        self._task = task
        self._env: OffloadedEnv

    async def __aenter__(self) -> Env:
        self._env = await self._pool._enter(self._scenario, self._task)
        return self._env

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pool._leave(self._env)


def _decoded(reply: Reply, kind: Any, url: str) -> Any:
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise PoolError(f"{url} answers as no server of ours: {exc}") from exc


def _is_complaint(reply: Reply) -> bool:
    try:
        msgspec.json.decode(reply.body, type=Complaint)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _sentence(reply: Reply) -> str:
    try:
        return msgspec.json.decode(reply.body, type=Complaint).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"it answers {reply.status} with {reply.body[:200]!r}"
