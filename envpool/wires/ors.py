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

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.server.leases import LeaseRefused
from rehearsal_room.envpool.server.messages import Request, Response, json
from rehearsal_room.envpool.wires.http import WireError, read_object, text_field
from rehearsal_room.envpool.wires.ors_calls import TERMINAL, OrsEpisode, events
from rehearsal_room.envpool.wires.sessions import NotBegun, SessionError, Sessions
from rehearsal_room.envpool.wires.task_lists import BadTask, spec_at, task_of
from rehearsal_room.envpool.wires.task_routes import NAMES, task_answer
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.distribution import version
from rehearsal_room.scenarios.format import Scenario, Task

_MAX_KEY = 200  # characters of a session's id


class OrsWire:
    """ORS for all worlds of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @property
    def _worlds(self) -> dict[str, Scenario]:
        return self._sessions.leases.scenarios

    async def respond(self, request: Request, path: list[str]) -> Response:
        """The response to a request; `path` is what follows /ors. Raises WireError."""
        try:
            return await self._respond(request, path)
        except LeaseRefused as exc:
            raise WireError(exc.status, str(exc)) from exc
        except NotBegun as exc:
            raise WireError(410, str(exc)) from exc
        except (SessionError, BadTask) as exc:
            raise WireError(400, str(exc)) from exc
        except PoolError as exc:
            raise WireError(500, str(exc)) from exc

    async def _respond(self, request: Request, path: list[str]) -> Response:
        match request.method, path:
            case "GET", ["health"]:
                return json(200, {"status": "ok"})
            case "GET", ["version"]:
                return json(200, {"version": version(), "build_sha": None})
            case "GET", ["list_environments"]:
                return json(200, list(self._worlds))
            case "POST", ["create_session"]:
                return events(("task_id", str(uuid4())), ("end", ""))
            case "POST", ["create"]:
                return json(200, await self._create(request))
            case "POST", ["ping"]:
                self._episode(request)
                return json(200, {"status": "ok"})
            case "POST", ["delete" | "delete_session"]:
                return json(200, await self._delete(request))
        world = self._named(request, path[0]) if len(path) == 2 else None
        if len(path) not in (1, 2):
            raise WireError(404, f"there is nothing at {request.path}")
        return await self._of_world(request, world, path[-1])

    async def _of_world(self, request: Request, world: Scenario | None, what: str) -> Response:
        """The response of the paths before which a world's name may stand. `world` None: it does
        not."""
        match request.method, what:
            case "GET", "prompt":
                blocks = [
                    block for message in self._opening(request) for block in message["blocks"]
                ]
                return json(200, blocks)
            case "GET", "messages":
                return json(200, self._opening(request))
            case "GET", "task_tools":
                episode = self._episode(request)
                return json(200, await self._tools(episode.scenario, episode.task))
            case "POST", "call":
                episode = self._episode(request)
                return await episode.call(read_object(request.body))
            case "POST", "score_group":
                raise WireError(404, "worlds do not implement score_group")
            case "GET", "tools":
                return json(200, await self._tools(world or self._deployed(request)))
        if what in NAMES:
            found = world or self._deployed(request)
            return json(200, task_answer(found, request.method, what, request.body))
        raise WireError(404, f"there is nothing at {request.path}")

    # Sessions ------------------------------------------------------------------------------------

    async def _create(self, request: Request) -> dict[str, Any]:
        asked = read_object(request.body)
        if asked.get("toolset_name") is not None:
            raise WireError(400, f"unknown toolset {asked['toolset_name']!r}; worlds have none")
        world = self._deployed(request)
        if asked.get("env_name") is not None:
            world = self._named(request, text_field(asked, "env_name"))
        spec, split, index = (asked.get(name) for name in ("task_spec", "split", "index"))
        if (spec is None) == (split is None or index is None):
            raise WireError(
                422, "name either a task_spec or both split and index, and not both or neither"
            )
        if spec is None:
            if not isinstance(split, str) or not isinstance(index, int):
                raise WireError(422, "split: expected a text, and index: a whole number")
            spec = spec_at(world, split, index)
        task = task_of(world, spec)
        session = self._sessions.open(request.client, request.owner, key=_key(request))
        try:
            await session.begin(world, task)
        except BaseException:
            await self._sessions.close(session)
            raise
        session.view = OrsEpisode(session, world, task)
        return {"sid": _sid(request)}

    async def _delete(self, request: Request) -> dict[str, Any]:
        session = self._sessions.get(_key(request), request.owner)
        if session is not None:
            await self._sessions.close(session)
        return {"sid": _sid(request)}

    def _episode(self, request: Request) -> OrsEpisode:
        """The episode of a request's session. Raises WireError."""
        session = self._sessions.get(_key(request), request.owner)
        view = None if session is None else session.view
        if not isinstance(view, OrsEpisode):
            raise WireError(
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

    def _deployed(self, request: Request) -> Scenario:
        """The world of the header X-Deployment; else the first one, as ORS has it."""
        name = request.headers.get(b"x-deployment", b"").decode("latin-1").rpartition("/")[2]
        return self._worlds.get(name) or next(iter(self._worlds.values()))

    def _named(self, request: Request, name: str) -> Scenario:
        """The world of this name, in whatever case. Raises WireError."""
        for known, world in self._worlds.items():
            if known.lower() == name.lower():
                return world
        raise WireError(404, f"unknown environment {name!r}; there are {', '.join(self._worlds)}")


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _block(text: str) -> dict[str, Any]:
    return {"text": text, "detail": None, "type": "text"}


def _sid(request: Request) -> str:
    """The session's id in the headers. Raises WireError."""
    sid = request.headers.get(b"x-session-id", b"").decode("latin-1").strip()
    if not sid or len(sid) > _MAX_KEY:
        raise WireError(400, "X-Session-ID header is required")
    return sid


def _key(request: Request) -> str:
    return f"ors:{_sid(request)}"
