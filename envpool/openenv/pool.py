"""A pool whose worlds are the sessions of any OpenEnv environment, over its WebSocket.

    async with OpenEnvPool("http://localhost:8000") as pool:
        await pool.host(scenario)  # begins one episode: lists the tools, or reports the fault
        async with pool.lease(scenario, task) as env:
            await env.call("add", {"n": 2}, "c0-0")

A lease is a session that was reset with the task's options. Its state is unknown, as that of an MCP
server is (see envpool.mcp.unknown_states): what the environment pays becomes findings before the
lease ends. Where the server has room for fewer sessions than there are leases, the others wait.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import aiohttp
import anyio
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.event_loop import require_asyncio
from rehearsal_room.envpool.core.types import Env, ToolSpec
from rehearsal_room.envpool.mcp.unknown_pool import UnknownPool
from rehearsal_room.envpool.openenv.client import EnvRefused, EnvResult, EnvSession
from rehearsal_room.envpool.openenv.content import has_tools, listed_tools, step_tool
from rehearsal_room.envpool.openenv.env import OpenEnvWorld
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.format import Scenario, Task

_WAIT_S = 300.0  # for room on the server
_PAUSE_S = 0.2
_ANSWER_S = 600.0  # for one answer; a run has its own limits (--call-timeout)
_LIST_TOOLS = {"type": "list_tools"}


class OpenEnvPool(UnknownPool, AsyncContextManagerMixin):
    """Leases sessions of one environment, on asyncio. Use it in `async with`. It implements
    envpool.store.pool_protocol.Pool."""

    why_not_verified = "its environment gives the rewards while an episode is live"

    def __init__(self, url: str, *, token: str = "") -> None:
        super().__init__()
        self.url = url.rstrip("/")
        self._token = token
        self._http: aiohttp.ClientSession
        self._room = anyio.CapacityLimiter(4_096)
        self._schema: dict[str, Any] | None = None  # of its action; None: not read yet
        self._tools: dict[str, tuple[ToolSpec, ...]] = {}  # scenario digest -> its tools

    def __repr__(self) -> str:
        return f"<OpenEnvPool {self.url!r} [{self.num_live} live of {self._num_leases} leased]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        require_asyncio()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        async with aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=60.0, sock_connect=10.0),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self._http:
            yield self

    async def host(self, scenario: Scenario) -> States:
        """Begin an episode of the first task, to check the environment and to list its tools.
        Raises PoolError."""
        if scenario.digest not in self._tools:
            async with self._session(scenario, scenario.tasks[0]) as (_, _, tools):
                self._tools[scenario.digest] = tools
        return self.hosted(scenario)

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """A session for this lease alone, reset for the task (None: the first). Raises
        PoolError."""
        return self._lease(scenario, task or scenario.tasks[0])

    def _tools_of(self, scenario: Scenario) -> Iterable[ToolSpec]:
        assert scenario.digest in self._tools, "a scenario is hosted first"
        return self._tools[scenario.digest]

    @asynccontextmanager
    async def _lease(self, scenario: Scenario, task: Task) -> AsyncIterator[Env]:
        async with self._session(scenario, task) as (session, start, tools):
            with self._counted():
                yield OpenEnvWorld(self, self.url, scenario, task, session, start, tools)

    @asynccontextmanager
    async def _session(
        self, scenario: Scenario, task: Task
    ) -> AsyncIterator[tuple[EnvSession, EnvResult, tuple[ToolSpec, ...]]]:
        """A session that was reset for a task, what that returned, and its tools. Raises
        PoolError."""
        assert scenario.foreign is not None and scenario.foreign.resets is not None
        options = scenario.foreign.resets[task.id]
        async with self._room:
            session, start = await self._begun(options)
            try:
                tools = await self._listed(session)
                yield session, start, tools
            finally:
                with anyio.CancelScope(shield=True):
                    await session.close()

    async def _begun(self, options: dict[str, Any]) -> tuple[EnvSession, EnvResult]:
        """A session and the result of its reset, once the server has room. Raises PoolError."""
        deadline = anyio.current_time() + _WAIT_S
        while True:
            session = EnvSession(self._http, self.url, timeout_s=_ANSWER_S)
            try:
                await session.open()
                return session, self._checked(await session.reset(options))
            except EnvRefused as exc:
                await session.close()
                if exc.code != "CAPACITY_REACHED":
                    raise PoolError(f"{self.url}: reset failed: {exc}") from exc
                if anyio.current_time() > deadline:
                    raise PoolError(
                        f"{self.url}: no room for another session in {_WAIT_S:g} s: {exc}"
                    ) from exc
                if exc.room:
                    self._room.total_tokens = min(self._room.total_tokens, exc.room)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await session.close()
                raise
            await anyio.sleep(_PAUSE_S)

    def _checked(self, start: EnvResult) -> EnvResult:
        """The result of a reset. Raises PoolError where it reports that it failed (AWM's)."""
        if start.observation.get("reward_type") == "reset_error":
            raise PoolError(f"{self.url}: reset failed: {start.observation.get('error')}")
        return start

    async def _listed(self, session: EnvSession) -> tuple[ToolSpec, ...]:
        schema = await self._action_schema()
        if not has_tools(schema):
            return (step_tool(schema, str(schema.get("description", ""))),)
        try:
            listed = listed_tools((await session.step(_LIST_TOOLS)).observation)
        except EnvRefused as exc:
            raise PoolError(f"{self.url}: its tools cannot be listed: {exc}") from exc
        if not listed:
            raise PoolError(f"{self.url}: the environment lists no tools")
        return listed

    async def _action_schema(self) -> dict[str, Any]:
        """The schema of the environment's action. Raises PoolError."""
        if self._schema is None:
            try:
                async with self._http.get(f"{self.url}/schema") as response:
                    body = await response.json(content_type=None)
            except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as exc:
                raise PoolError(f"{self.url}/schema: cannot be read: {exc}") from exc
            found = body.get("action") if isinstance(body, dict) else None
            if not isinstance(found, dict):
                raise PoolError(
                    f"{self.url}/schema: has no action; is it the URL of an OpenEnv environment?"
                )
            self._schema = found
        return self._schema
