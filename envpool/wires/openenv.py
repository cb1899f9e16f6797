"""OpenEnv 0.10 at /openenv/<world>: HTTP routes and WebSockets of a world.

WS   /ws[?session_id=]   reset, step, state, close, mcp: one session for each connection
POST /mcp  WS /mcp       JSON-RPC: tools and sessions
POST /reset /step        in a fresh world each: no state is kept between them
GET  /health /metadata /schema /state /openapi.json
GET  /list_environments /<world>/splits   POST /<world>/tasks num_tasks task task_range
WS   /harness            refused: this server has worlds, and no agent
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server.jsonrpc import encode
from rehearsal_room.envpool.server.leases import LeaseRefused
from rehearsal_room.envpool.server.messages import Request, Response, json
from rehearsal_room.envpool.wires import openenv_schemas as schemas
from rehearsal_room.envpool.wires.awm_surface import AwmEpisodes
from rehearsal_room.envpool.wires.http import Socket, WireError, read_object
from rehearsal_room.envpool.wires.openenv_messages import Refused, answer, error_frame, step
from rehearsal_room.envpool.wires.openenv_rpc import RpcSessions
from rehearsal_room.envpool.wires.sessions import Sessions
from rehearsal_room.envpool.wires.task_routes import task_answer
from rehearsal_room.scenarios.format import Scenario


class OpenEnvWire:
    """OpenEnv for all worlds of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def respond(self, request: Request, path: list[str]) -> Response:
        """The response to a request; `path` is what follows /openenv. Raises WireError."""
        if path in ([], ["list_environments"]):
            return json(200, list(self._sessions.leases.scenarios))
        world = self._world(path[0])
        match request.method, path[1:]:
            case "GET", ["list_environments"]:
                return json(200, [world.name])
            case "GET", ["health"]:
                return json(200, {"status": "healthy"})
            case "GET", ["metadata"]:
                return json(200, schemas.metadata(world))
            case "GET", ["schema"]:
                return json(200, schemas.SCHEMAS)
            case "GET", ["openapi.json"]:
                return json(200, schemas.openapi(world))
            case "GET", ["state"]:
                return json(200, {"episode_id": None, "step_count": 0})
            case "POST", ["mcp"]:
                rpc = self._rpc(world, request.client, request.owner)
                return json(200, await rpc.answer_text(request.body))
            case "POST", ["reset"]:
                options = read_object(request.body)
                async with self._fresh(world, request) as episodes:
                    return json(200, await episodes.reset(options))
            case "POST", ["step"]:
                async with self._fresh(world, request) as episodes:
                    return json(200, await _step(request.body, episodes))
            case method, [name, what]:
                if name.lower() != world.name.lower():
                    raise WireError(404, f"unknown environment {name!r}")
                return json(200, task_answer(world, method, what, request.body))
        raise WireError(404, f"there is nothing at {request.path}")

    async def converse(self, socket: Socket, path: list[str], owner: int | None) -> None:
        """Serve a WebSocket; `path` is what follows /openenv."""
        await socket.accept()
        try:
            match path:
                case [name, "ws"]:
                    await self._play(socket, self._world(name), owner)
                case [name, "mcp"]:
                    await self._call(socket, self._world(name), owner)
                case [_, "harness"]:
                    why = "this server has worlds and no agent; play a world on /ws"
                    await socket.send(error_frame("FACTORY_ERROR", why))
                case _:
                    why = f"there is nothing at {socket.path}"
                    await socket.send(error_frame("SESSION_ERROR", why))
        except WireError as exc:
            await socket.send(error_frame("SESSION_ERROR", str(exc)))
        except LeaseRefused as exc:
            await socket.send(error_frame("CAPACITY_REACHED", str(exc)))
        finally:
            await socket.close()

    async def _play(self, socket: Socket, world: Scenario, owner: int | None) -> None:
        """The messages of `/ws`."""
        key = socket.query("session_id")
        episodes = self._attachable(world, key, owner) if key else None
        is_own = episodes is None
        episodes = episodes or self._open(world, socket.client, owner)
        session = episodes.session
        session.is_attached = True
        rpc = self._rpc(world, socket.client, owner)

        async def answer_rpc(request: Any) -> dict[str, Any]:
            return await rpc.answer(request, episodes)

        try:
            while (text := await socket.next()) is not None:
                made = await answer(text, episodes, answer_rpc)
                if made is None:
                    return
                await socket.send(made)
        finally:
            session.is_attached = False
            if is_own or session.is_closing:
                await self._sessions.close(session)

    async def _call(self, socket: Socket, world: Scenario, owner: int | None) -> None:
        """The messages of the WebSocket `/mcp`."""
        episodes = self._open(world, socket.client, owner)
        episodes.session.is_attached = True
        rpc = self._rpc(world, socket.client, owner)
        try:
            while (text := await socket.next()) is not None:
                await socket.send(encode(await rpc.answer_text(text, episodes)))
        finally:
            await self._sessions.close(episodes.session)

    # Sessions ------------------------------------------------------------------------------------

    def _open(self, world: Scenario, client: str, owner: int | None) -> AwmEpisodes:
        """A new session. Raises LeaseRefused."""
        session = self._sessions.open(client, owner)
        episodes = AwmEpisodes(self._sessions, session, world)
        session.view = episodes
        return episodes

    def _find(self, world: Scenario, key: str, owner: int | None) -> AwmEpisodes | None:
        session = self._sessions.get(key, owner)
        view = None if session is None else session.view
        is_here = isinstance(view, AwmEpisodes) and view.mounted is world
        return view if isinstance(view, AwmEpisodes) and is_here else None

    def _attachable(self, world: Scenario, key: str, owner: int | None) -> AwmEpisodes:
        """The session of a WebSocket that names one. Raises WireError."""
        episodes = self._find(world, key, owner)
        if episodes is None:
            raise WireError(
                404, f"Unknown session_id: {key}; it was closed, or it was idle for too long"
            )
        if episodes.session.is_attached:
            raise WireError(409, f"Session {key} already has an attached WebSocket")
        return episodes

    def _rpc(self, world: Scenario, client: str, owner: int | None) -> RpcSessions:
        async def close(episodes: AwmEpisodes) -> bool:
            if episodes.session.is_attached:
                episodes.session.is_closing = True
                return False
            await self._sessions.close(episodes.session)
            return True

        return RpcSessions(
            find=lambda key: self._find(world, key, owner),
            create=lambda: self._open(world, client, owner),
            close=close,
            list_tools=lambda: self._sessions.tools(world),
        )

    @asynccontextmanager
    async def _fresh(self, world: Scenario, request: Request) -> AsyncIterator[AwmEpisodes]:
        """A session for one request. Errors become HTTP errors."""
        try:
            episodes = self._open(world, request.client, request.owner)
            try:
                yield episodes
            finally:
                await self._sessions.close(episodes.session)
        except LeaseRefused as exc:
            raise WireError(exc.status, str(exc)) from exc
        except PoolError as exc:
            raise WireError(500, str(exc)) from exc

    def _world(self, name: str) -> Scenario:
        """A served world. Raises WireError."""
        served = self._sessions.leases.scenarios
        if (world := served.get(name)) is None:
            raise WireError(404, f"there is no world {name!r} here; there are {', '.join(served)}")
        return world


async def _step(body: bytes, episodes: AwmEpisodes) -> dict[str, Any]:
    """The result of POST /step. Raises WireError, LeaseRefused and PoolError."""
    action = read_object(body).get("action")
    if not isinstance(action, dict):
        raise WireError(422, "action: expected an object with a type, list_tools or call_tool")
    try:
        return await step(action, episodes)
    except Refused as exc:
        raise WireError(422, str(exc)) from exc
