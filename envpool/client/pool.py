"""Worlds on the server of another machine, leased and called over HTTP, their states held here.

A `RemotePool` leases a world on the server for each of its own, and calls its tools over MCP. Each
answer contains the effect of the call on the state (the pages it wrote, the rows, the digest), so
`state`, `fork` and `reset` need no network. A server that has lost a world, or has it in another
state, receives the state with the call. So a call is never executed twice on one state: repeated
after a lost reply, the server answers it from memory or executes it on the state it was meant for.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import msgspec
import structlog
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.client.calls import (
    CallResponse,
    outcome_of,
    pack,
    read_response,
    request_of,
)
from rehearsal_room.envpool.client.http import HttpConnection, HttpReply, NoReply
from rehearsal_room.envpool.client.url import url_fault
from rehearsal_room.envpool.core.errors import PoolError, SeedError, WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Verified
from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.inprocess.verifiers import PackageVerifiers
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv, RemoteExecutionScenario
from rehearsal_room.envpool.remote_execution.pool import RemoteExecutionPool
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import ErrorBody, HostedInfo, NewWorld, WorldLease
from rehearsal_room.envpool.server.jsonrpc import CallExtension
from rehearsal_room.envpool.store.pool_protocol import VerifierKind
from rehearsal_room.scenarios.catalogue import is_trusted
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Scenario, Task

log = structlog.get_logger()
_RELEASE_S = 5.0  # a server that does not answer releases the idle world by itself
_MAX_TRIES = 40  # of a call whose world the server has forgotten


class _ServerWorld:
    """A world on the server, which executes calls of worlds held here."""

    __slots__ = ("holds", "id", "new")

    def __init__(self, lease_id: str, new: NewWorld) -> None:
        self.id = lease_id
        self.new = new
        # The number and version of the env whose state it holds; None: unknown.
        self.holds: tuple[int, int] | None = None


class RemotePool(RemoteExecutionPool, AsyncContextManagerMixin):
    """A pool of worlds on another machine. It implements envpool.store.pool_protocol.Pool.

    `url` is the server's (`rehearse serve --http`), `token` its bearer token. A reply may take
    `timeout_s` seconds. Use it in `async with`, which releases the worlds that are still leased.
    Raises PoolError for a URL that is none or contains a secret.
    """

    def __init__(
        self, url: str, *, token: str = "", connections: int = 64, timeout_s: float = 120.0
    ) -> None:
        if fault := url_fault(url):
            raise PoolError(f"remote pool: {fault}")
        self.url = url.rstrip("/")
        super().__init__(f"on {self.url}")
        self._http = HttpConnection(
            self.url, token=token, connections=connections, timeout_s=timeout_s
        )
        self._verifiers = PackageVerifiers()
        self._server_worlds: dict[int, _ServerWorld] = {}  # by the number of the leased env
        self._fork_worlds: dict[str, _ServerWorld] = {}  # scenario digest -> executes its forks
        self._fork_lock = anyio.Lock()
        self._nonce = secrets.token_hex(4)  # makes the call ids of this pool unique

    def __repr__(self) -> str:
        counts = self.statistics()
        return f"<RemotePool {self.url} [{counts['live']} live of {counts['leases']} leased]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._http:
            try:
                yield self
            finally:
                for world in (*self._server_worlds.values(), *self._fork_worlds.values()):
                    await self._release(world)
                self._server_worlds.clear()
                self._fork_worlds.clear()
                self._close_worlds()

    @asynccontextmanager
    async def lease(self, scenario: Scenario, task: Task | None = None) -> AsyncIterator[Env]:
        world = await self.host(scenario)
        leased = await self._lease(NewWorld(scenario.name, None if task is None else task.id))
        env = world.lease(self)
        self._server_worlds[env.number] = leased
        self._count_lease()
        try:
            yield env
        finally:
            self.num_live -= 1
            if self._server_worlds.pop(env.number, None) is not None:
                await self._release(leased)

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the verifiers of the scenario need workers; its tools run on the server."""
        return not is_trusted(scenario)

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """The result of a trusted scenario's verifier, run in this process. Raises PoolError for
        other scenarios: their verifiers need workers."""
        if self.isolates(scenario):
            raise PoolError(
                f"the verifiers of scenario {scenario.name!r} are untrusted code and run in "
                "workers only; a remote pool has none"
            )
        return self._verifiers.verify(await self.host(scenario), task, state, answer)

    async def execute(self, env: RemoteExecutionEnv, name: str, arguments: Any) -> CallOutcome:
        """Execute one call on the server (see envpool.remote_execution.env.Executor)."""
        world = self._server_worlds.get(env.number) or await self._fork_world(env)
        needed = (env.number, env.version)
        send_state = world.holds != needed
        world.holds = None
        for _ in range(_MAX_TRIES):
            response = await self._call(world, env, name, arguments, send_state=send_state)
            if response is None:  # the server has forgotten the world
                await self._lease_again(world)
                send_state = True
            elif response.error is None:
                try:
                    outcome = outcome_of(response)
                except UNREADABLE as exc:
                    raise WorldError(f"{self.url} sent an invalid result of a call: {exc}") from exc
                world.holds = (env.number, needed[1] + 1)
                return outcome
            elif response.error.code == m.STALE and not send_state:
                send_state = True
            else:
                raise WorldError(response.error.message)
        raise WorldError(f"{self.url} lost the world {_MAX_TRIES} times during one call")

    def report_violation(self, env: RemoteExecutionEnv, why: str) -> None:
        """Log that the server sent an impossible outcome; only this world is affected."""
        log.warning("remote_world_broken", server=self.url, why=why)

    async def _build(self, scenario: Scenario) -> RemoteExecutionScenario:
        """The scenario as the server hosts it; both sides must have the same package."""
        path = f"/scenarios/{scenario.name}"
        hosted = _decode(await self._request("GET", path), HostedInfo, self.url)
        if hosted.digest != scenario.digest:
            raise PoolError(
                f"scenario {scenario.name!r} differs on {self.url}: its package has digest "
                f"{hosted.digest} there and {scenario.digest} here"
            )
        image = (await self._request("GET", f"{path}/image")).body
        try:
            world = RemoteExecutionScenario(
                scenario, image, hosted.tools, module_state=hosted.module_state
            )
        except SeedError as exc:
            raise PoolError(f"{self.url}: {exc}") from exc
        if world.template.digest != hosted.template:
            world.close()
            raise PoolError(f"{self.url} sent a damaged database of scenario {scenario.name!r}")
        return world

    async def _lease(self, new: NewWorld) -> _ServerWorld:
        reply = await self._request("POST", "/worlds", m.encode(new))
        return _ServerWorld(_decode(reply, WorldLease, self.url).id, new)

    async def _release(self, world: _ServerWorld) -> None:
        with anyio.move_on_after(_RELEASE_S, shield=True):
            try:
                await self._http.request("DELETE", f"/worlds/{world.id}")
            except NoReply as exc:
                log.warning("world_not_released", server=self.url, why=str(exc))

    async def _lease_again(self, world: _ServerWorld) -> None:
        try:
            world.id = (await self._lease(world.new)).id
        except PoolError as exc:
            raise WorldError(f"the world is gone from {self.url}: {exc}") from exc

    async def _fork_world(self, env: RemoteExecutionEnv) -> _ServerWorld:
        """The server world that executes the forks of a scenario, one after the other."""
        scenario = env.world.scenario
        async with self._fork_lock:
            world = self._fork_worlds.get(scenario.digest)
            if world is None:
                try:
                    world = await self._lease(NewWorld(scenario.name))
                except PoolError as exc:
                    raise WorldError(f"no world for a fork: {exc}") from exc
                self._fork_worlds[scenario.digest] = world
        return world

    async def _call(
        self,
        world: _ServerWorld,
        env: RemoteExecutionEnv,
        name: str,
        arguments: Any,
        *,
        send_state: bool,
    ) -> CallResponse | None:
        """The response to a call; None: the server does not know the world. Raises WorldError."""
        extension = CallExtension(
            f"{self._nonce}-{env.number}-{env.version}",
            env.number,
            env.version,
            pack(env.snapshot()) if send_state else None,
        )
        body, headers = request_of(name, arguments, extension)
        try:
            reply = await self._http.request("POST", f"/worlds/{world.id}/mcp", body, headers)
        except NoReply as exc:
            raise WorldError(f"{self.url} does not answer: {exc}") from exc
        if reply.status == 404 and _error_in(reply) is not None:
            return None
        try:
            return read_response(reply.body)
        except UNREADABLE as exc:
            raise WorldError(f"{self.url}: {_describe(reply)}") from exc

    async def _request(self, method: str, path: str, body: bytes | None = None) -> HttpReply:
        """A reply that is not an error. Raises PoolError."""
        try:
            reply = await self._http.request(method, path, body)
        except NoReply as exc:
            raise PoolError(f"{self.url} does not answer: {exc}") from exc
        if reply.status >= 400:
            raise PoolError(f"{self.url}: {_describe(reply)}")
        return reply


def _decode(reply: HttpReply, kind: Any, url: str) -> Any:
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except UNREADABLE as exc:
        raise PoolError(f"{url} is not a rehearsal server: its answer is invalid: {exc}") from exc


def _error_in(reply: HttpReply) -> str | None:
    """The message of an error that a rehearsal server sent; None: the reply is not one."""
    try:
        return msgspec.json.decode(reply.body, type=ErrorBody).error
    except UNREADABLE:
        return None


def _describe(reply: HttpReply) -> str:
    error = _error_in(reply)
    return f"it answered {reply.status} with {reply.body[:200]!r}" if error is None else error
