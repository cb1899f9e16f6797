"""The Open Reward Standard at /ors: HTTP routes, two of which answer with server-sent events.

    POST /create_session (SSE task_id)   POST /create {task_spec | split, index}   POST /ping
    GET  /prompt /messages /task_tools   POST /call {name, input} (SSE end)
    POST /delete /delete_session         GET /health /version /list_environments
    GET  /<world>/splits /<world>/tools  POST /<world>/{tasks,num_tasks,task,task_range}

The world's name may stand before each path, as in /<world>/call. The official client drops the path
of its base URL, so its requests (they have the header X-Deployment or X-Session-ID) are served at
the root, too. An episode ends with the terminal tool, to which a client gives the agent's last
message: it is not listed among the tools, and its result has the reward.
"""

from typing import Any
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.protocols.http import WorldRoute, object_of, text_field, wire_app
from rehearsal_room.envpool.protocols.ors_calls import TERMINAL, OrsEpisode, events
from rehearsal_room.envpool.protocols.sessions import Sessions
from rehearsal_room.envpool.protocols.task_lists import spec_at, task_of
from rehearsal_room.envpool.protocols.task_routes import task_routes
from rehearsal_room.envpool.server.answers import json
from rehearsal_room.envpool.server.guard import client_of, owner_of
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.distribution import version
from rehearsal_room.scenarios.format import Scenario, Task

_MAX_KEY = 200  # characters of a session's id


class OrsProtocol:
    """ORS for all worlds of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @property
    def _worlds(self) -> dict[str, Scenario]:
        return self._sessions.leases.scenarios

    def app(self) -> ASGIApp:
        """The routes below /ors."""
        of_a_world = {
            "/prompt": ("GET", self._prompt),
            "/messages": ("GET", self._messages),
            "/task_tools": ("GET", self._task_tools),
            "/call": ("POST", self._call),
            "/score_group": ("POST", self._score_group),
            "/tools": ("GET", self._world_tools),
        }
        routes = [
            Route("/health", self._health),
            Route("/version", self._version),
            Route("/list_environments", self._environments),
            Route("/create_session", self._create_session, methods=["POST"]),
            Route("/create", self._create, methods=["POST"]),
            Route("/ping", self._ping, methods=["POST"]),
            Route("/delete", self._delete, methods=["POST"]),
            Route("/delete_session", self._delete, methods=["POST"]),
        ]
        for path, (method, endpoint) in of_a_world.items():
            routes.append(Route(path, endpoint, methods=[method]))
            routes.append(WorldRoute(path, endpoint, methods=[method], world_of=self._world))
        routes += task_routes("", self._world) + task_routes("/{world}", self._world)
        return wire_app(routes, unfit=400)

    # The server ----------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        return json({"status": "ok"})

    async def _version(self, request: Request) -> Response:
        return json({"version": version(), "build_sha": None})

    async def _environments(self, request: Request) -> Response:
        return json(list(self._worlds))

    # Episodes ------------------------------------------------------------------------------------

    async def _prompt(self, request: Request) -> Response:
        return json([block for message in self._opening(request) for block in message["blocks"]])

    async def _messages(self, request: Request) -> Response:
        return json(self._opening(request))

    async def _task_tools(self, request: Request) -> Response:
        episode = self._episode(request)
        return json(await self._tools(episode.scenario, episode.task))

    async def _call(self, request: Request) -> Response:
        return await self._episode(request).call(await object_of(request))

    async def _score_group(self, request: Request) -> Response:
        raise HTTPException(404, "worlds do not implement score_group")

    async def _world_tools(self, request: Request) -> Response:
        return json(await self._tools(self._world(request)))

    # Sessions ------------------------------------------------------------------------------------

    async def _create_session(self, request: Request) -> Response:
        return events(("task_id", str(uuid4())), ("end", ""))

    async def _create(self, request: Request) -> Response:
        asked = await object_of(request)
        if asked.get("toolset_name") is not None:
            raise HTTPException(400, f"unknown toolset {asked['toolset_name']!r}; worlds have none")
        world = self._deployed(request)
        if asked.get("env_name") is not None:
            world = self._named(text_field(asked, "env_name"))
        spec, split, index = (asked.get(name) for name in ("task_spec", "split", "index"))
        if (spec is None) == (split is None or index is None):
            raise HTTPException(
                422, "name either a task_spec or both split and index, and not both or neither"
            )
        if spec is None:
            if not isinstance(split, str) or not isinstance(index, int):
                raise HTTPException(422, "split: expected a text, and index: a whole number")
            spec = spec_at(world, split, index)
        task = task_of(world, spec)
        session = self._sessions.open(
            client_of(request.scope), owner_of(request), key=_key(request)
        )
        try:
            await session.begin(world, task, reserved=(TERMINAL["name"],))
        except BaseException:
            await self._sessions.close(session)
            raise
        session.view = OrsEpisode(session, world, task)
        return json({"sid": _sid(request)})

    async def _ping(self, request: Request) -> Response:
        self._episode(request)
        return json({"status": "ok"})

    async def _delete(self, request: Request) -> Response:
        session = self._sessions.get(_key(request), owner_of(request))
        if session is not None:
            await self._sessions.close(session)
        return json({"sid": _sid(request)})

    def _episode(self, request: Request) -> OrsEpisode:
        """The episode of a request's session. Raises HTTPException."""
        session = self._sessions.get(_key(request), owner_of(request))
        view = None if session is None else session.view
        if not isinstance(view, OrsEpisode):
            raise HTTPException(
                404,
                "Active environment not found: the session was deleted, was idle for"
                " too long, or never created",
            )
        return view

    # Worlds --------------------------------------------------------------------------------------

    def _opening(self, request: Request) -> list[dict[str, Any]]:
        episode = self._episode(request)
        opening = self._sessions.episodes.opening(episode.scenario, episode.task, ())
        return [{"role": one.role, "blocks": [_block(one.text)], "detail": None} for one in opening]

    async def _tools(self, world: Scenario, task: Task | None = None) -> dict[str, Any]:
        tools = await self._sessions.tools(world)
        if task is not None and isinstance(task.user, UserAutomaton):
            tools = (*tools, TALK)
        return {
            "tools": [_tool(tool) for tool in tools],
            "terminal_tool": TERMINAL,
            "supports_score_group": False,
            "message_block_types": ["text"],
        }

    def _world(self, request: Request) -> Scenario:
        """The world of a request's path, or of its headers. Raises HTTPException."""
        name = request.path_params.get("world")
        return self._deployed(request) if name is None else self._named(name)

    def _deployed(self, request: Request) -> Scenario:
        """The world of the header X-Deployment; else the first one, as ORS has it."""
        name = request.headers.get("x-deployment", "").rpartition("/")[2]
        return self._worlds.get(name) or next(iter(self._worlds.values()))

    def _named(self, name: str) -> Scenario:
        """The world of this name, in whatever case. Raises HTTPException."""
        for known, world in self._worlds.items():
            if known.lower() == name.lower():
                return world
        raise HTTPException(
            404, f"unknown environment {name!r}; there are {', '.join(self._worlds)}"
        )


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _block(text: str) -> dict[str, Any]:
    return {"text": text, "detail": None, "type": "text"}


def _sid(request: Request) -> str:
    """The session's id in the headers. Raises HTTPException."""
    sid = request.headers.get("x-session-id", "").strip()
    if not sid or len(sid) > _MAX_KEY:
        raise HTTPException(400, "X-Session-ID header is required")
    return sid


def _key(request: Request) -> str:
    return f"ors:{_sid(request)}"
