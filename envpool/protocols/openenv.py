"""OpenEnv 0.10 at /openenv/<world>: HTTP routes and WebSockets of a world.

WS   /ws[?session_id=]   reset, step, state, close, mcp: one session for each connection
POST /mcp  WS /mcp       JSON-RPC: tools and sessions
POST /reset /step        in a fresh world each: no state is kept between them
GET  /health /metadata /schema /state /openapi.json
GET  /list_environments /<world>/splits   POST /<world>/tasks num_tasks task task_range
WS   /harness            refused: this server has worlds, and no agent
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from rehearsal_room.envpool.protocols import openenv_schemas as schemas
from rehearsal_room.envpool.protocols.awm_surface import AwmEpisodes
from rehearsal_room.envpool.protocols.http import (
    close,
    next_text,
    object_of,
    send_text,
    wire_app,
)
from rehearsal_room.envpool.protocols.openenv_messages import (
    MessageRefused,
    answer,
    error_frame,
    step,
)
from rehearsal_room.envpool.protocols.openenv_rpc import RpcSessions
from rehearsal_room.envpool.protocols.sessions import Sessions
from rehearsal_room.envpool.protocols.task_routes import task_routes
from rehearsal_room.envpool.server.answers import json
from rehearsal_room.envpool.server.guard import client_of, owner_of
from rehearsal_room.envpool.server.jsonrpc import encode
from rehearsal_room.envpool.server.leases import LeaseRefused
from rehearsal_room.scenarios.format import Scenario

_Converse = Callable[[WebSocket], Awaitable[None]]


class OpenEnvProtocol:
    """OpenEnv for all worlds of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def app(self) -> ASGIApp:
        """The routes below /openenv."""
        routes = [
            Route("/list_environments", self.worlds),
            Route("/{world}/list_environments", self._own_name),
            Route("/{world}/health", self._health),
            Route("/{world}/metadata", self._metadata),
            Route("/{world}/schema", self._schema),
            Route("/{world}/openapi.json", self._openapi),
            Route("/{world}/state", self._state),
            Route("/{world}/mcp", self._mcp, methods=["POST"]),
            Route("/{world}/reset", self._reset, methods=["POST"]),
            Route("/{world}/step", self._step, methods=["POST"]),
            *task_routes("/{world}/{name}", self._named_twice),
            WebSocketRoute("/{world}/ws", conversing(self._play)),
            WebSocketRoute("/{world}/mcp", conversing(self._call)),
            WebSocketRoute("/{world}/harness", conversing(_no_agent)),
            WebSocketRoute("/{path:path}", self.no_socket),
        ]
        return wire_app(routes, unfit=400)

    # Requests ------------------------------------------------------------------------------------

    async def worlds(self, request: Request) -> Response:
        """The names of all worlds."""
        return json(list(self._sessions.leases.scenarios))

    async def _own_name(self, request: Request) -> Response:
        return json([self._world(request).name])

    async def _health(self, request: Request) -> Response:
        self._world(request)
        return json({"status": "healthy"})

    async def _metadata(self, request: Request) -> Response:
        return json(schemas.metadata(self._world(request)))

    async def _schema(self, request: Request) -> Response:
        self._world(request)
        return json(schemas.SCHEMAS)

    async def _openapi(self, request: Request) -> Response:
        return json(schemas.openapi(self._world(request)))

    async def _state(self, request: Request) -> Response:
        self._world(request)
        return json({"episode_id": None, "step_count": 0})

    async def _mcp(self, request: Request) -> Response:
        rpc = self._rpc(self._world(request), request)
        return json(await rpc.answer_text(await request.body()))

    async def _reset(self, request: Request) -> Response:
        options = await object_of(request)
        async with self._fresh(request) as episodes:
            return json(await episodes.reset(options))

    async def _step(self, request: Request) -> Response:
        async with self._fresh(request) as episodes:
            action = (await object_of(request)).get("action")
            if not isinstance(action, dict):
                raise HTTPException(
                    422, "action: expected an object with a type, list_tools or call_tool"
                )
            try:
                return json(await step(action, episodes))
            except MessageRefused as exc:
                raise HTTPException(422, str(exc)) from exc

    # WebSockets ----------------------------------------------------------------------------------

    async def no_socket(self, socket: WebSocket) -> None:
        """A WebSocket at a path that has none: an error, and the end."""
        await conversing(_nothing)(socket)

    async def _play(self, socket: WebSocket) -> None:
        """The messages of `/ws`."""
        world, key = self._world(socket), socket.query_params.get("session_id")
        episodes = self._attachable(world, key, owner_of(socket)) if key else None
        is_own = episodes is None
        episodes = episodes or self._open(world, socket)
        session = episodes.session
        session.is_attached = True
        rpc = self._rpc(world, socket)

        async def answer_rpc(request: Any) -> dict[str, Any]:
            return await rpc.answer(request, episodes)

        try:
            while (text := await next_text(socket)) is not None:
                made = await answer(text, episodes, answer_rpc)
                if made is None:
                    return
                await send_text(socket, made)
        finally:
            session.is_attached = False
            if is_own or session.is_closing:
                await self._sessions.close(session)

    async def _call(self, socket: WebSocket) -> None:
        """The messages of the WebSocket `/mcp`."""
        world = self._world(socket)
        episodes = self._open(world, socket)
        episodes.session.is_attached = True
        rpc = self._rpc(world, socket)
        try:
            while (text := await next_text(socket)) is not None:
                await send_text(socket, encode(await rpc.answer_text(text, episodes)))
        finally:
            await self._sessions.close(episodes.session)

    # Sessions ------------------------------------------------------------------------------------

    def _open(self, world: Scenario, connection: HTTPConnection) -> AwmEpisodes:
        """A new session. Raises LeaseRefused."""
        session = self._sessions.open(client_of(connection.scope), owner_of(connection))
        episodes = AwmEpisodes(self._sessions, session, world)
        session.view = episodes
        return episodes

    def _find(self, world: Scenario, key: str, owner: int | None) -> AwmEpisodes | None:
        session = self._sessions.get(key, owner)
        view = None if session is None else session.view
        is_here = isinstance(view, AwmEpisodes) and view.mounted is world
        return view if isinstance(view, AwmEpisodes) and is_here else None

    def _attachable(self, world: Scenario, key: str, owner: int | None) -> AwmEpisodes:
        """The session of a WebSocket that names one. Raises HTTPException."""
        episodes = self._find(world, key, owner)
        if episodes is None:
            raise HTTPException(
                404, f"Unknown session_id: {key}; it was closed, or it was idle for too long"
            )
        if episodes.session.is_attached:
            raise HTTPException(409, f"Session {key} already has an attached WebSocket")
        return episodes

    def _rpc(self, world: Scenario, connection: HTTPConnection) -> RpcSessions:
        async def close(episodes: AwmEpisodes) -> bool:
            if episodes.session.is_attached:
                episodes.session.is_closing = True
                return False
            await self._sessions.close(episodes.session)
            return True

        return RpcSessions(
            find=lambda key: self._find(world, key, owner_of(connection)),
            create=lambda: self._open(world, connection),
            close=close,
            list_tools=lambda: self._sessions.tools(world),
        )

    @asynccontextmanager
    async def _fresh(self, request: Request) -> AsyncIterator[AwmEpisodes]:
        """A session for one request. Raises HTTPException and LeaseRefused."""
        episodes = self._open(self._world(request), request)
        try:
            yield episodes
        finally:
            await self._sessions.close(episodes.session)

    def _world(self, connection: HTTPConnection) -> Scenario:
        """The world of a path. Raises HTTPException."""
        name, served = connection.path_params["world"], self._sessions.leases.scenarios
        if (world := served.get(name)) is None:
            known = ", ".join(served)
            raise HTTPException(404, f"there is no world {name!r} here; there are {known}")
        return world

    def _named_twice(self, request: Request) -> Scenario:
        """The world of a path that names it again, as clients do. Raises HTTPException."""
        world, name = self._world(request), request.path_params["name"]
        if name.lower() != world.name.lower():
            raise HTTPException(404, f"unknown environment {name!r}")
        return world


def conversing(converse: _Converse) -> _Converse:
    """Accepts a WebSocket, converses until one side ends it, and closes it. A refusal is a message
    to the client."""

    async def endpoint(socket: WebSocket) -> None:
        await socket.accept()
        try:
            await converse(socket)
        except HTTPException as exc:
            await send_text(socket, error_frame("SESSION_ERROR", exc.detail))
        except LeaseRefused as exc:
            await send_text(socket, error_frame("CAPACITY_REACHED", str(exc)))
        finally:
            await close(socket)

    return endpoint


async def _no_agent(socket: WebSocket) -> None:
    why = "this server has worlds and no agent; play a world on /ws"
    await send_text(socket, error_frame("FACTORY_ERROR", why))


async def _nothing(socket: WebSocket) -> None:
    raise HTTPException(404, f"there is nothing at {socket.scope['path']}")
