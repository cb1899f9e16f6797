"""NeMo Gym's resources-server contract at /gym/<world>, for the rows of `rehearse export --to gym`.

    POST /seed_session   a row -> {}, and a cookie: the episode of the row's task begins
    POST /<tool>         the arguments -> what the tool returns
    POST /verify         a row with its `response` -> the same, and `reward`: the episode is over

The cookie is set by every response, errors included: a client may keep only the last one's, and an
agent whose call lost it would have no verdict. /verify closes the session; one that is left closes
when it was idle for too long.

A tool is called by the path of its name, so an agent can call `seed_session` and `verify`, too, and
with `../` whatever else the server has. So what comes with the cookie of an open episode is served
below the path of its world only; such a session is not seeded again, and /verify wants the seeded
row as it was, which no agent knows. A world with such tools is not served here.
"""

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Scope, Send

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolResult
from rehearsal_room.envpool.protocols.episodes import WorldVerdict, failed_findings, shown_reason
from rehearsal_room.envpool.protocols.http import object_of, value_of, wire_app
from rehearsal_room.envpool.protocols.sessions import Session, Sessions
from rehearsal_room.envpool.protocols.task_lists import task_of
from rehearsal_room.envpool.server.answers import json
from rehearsal_room.envpool.server.guard import client_of, owner_of
from rehearsal_room.scenarios.format import Scenario

_ROUTES = ("seed_session", "verify")  # no tool of a world is called by these names
COOKIE = "rehearsal_session"
_STATUS: dict[ToolErrorKind, int] = {
    "unknown_tool": 404,
    "arguments": 422,
    "refused": 400,
    "timeout": 504,
    "internal": 500,
}


class GymSeed(msgspec.Struct, frozen=True):
    """With what a session was seeded."""

    world: Scenario | None
    row: dict[str, Any]


class GymProtocol:
    """NeMo Gym for all worlds of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def app(self) -> ASGIApp:
        """The routes below /gym."""
        routes = [
            Route("/{world}/seed_session", self._seed, methods=["POST"]),
            Route("/{world}/verify", self._verify, methods=["POST"]),
            Route("/{world}/{tool}", self._call, methods=["POST"]),
        ]
        return wire_app(routes, unfit=422)

    def is_astray(self, scope: Scope) -> bool:
        """Whether a call with the cookie of an open episode leaves the path of its world, as a tool
        named `../../worlds` does."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return False
        session = self._named_by(scope)
        world = None if session is None else _seed_of(session).world
        return world is not None and not scope["path"].startswith(f"/gym/{world.name}/")

    def sender(self, scope: Scope, send: Send) -> Send:
        """What sends the response to a request: with the cookie, if the request has that of an open
        session."""
        session = self._named_by(scope) if scope["type"] == "http" else None
        if session is None:
            return send
        cookie = _with_cookie(Response(), session).headers["set-cookie"].encode()

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                message = {**message, "headers": [*headers, (b"set-cookie", cookie)]}
            await send(message)

        return with_cookie

    def _named_by(self, scope: Scope) -> Session | None:
        """The open session whose cookie a request has, whatever token came with it."""
        if all(name != b"cookie" for name, _ in scope["headers"]):
            return None
        return self._sessions.of_anyone(_key(Request(scope)))

    async def _seed(self, request: Request) -> Response:
        world, row = self._world(request), await object_of(request)
        if (named := row.get("scenario", world.name)) != world.name:
            raise HTTPException(422, f"the row is of world {named!r}, and this is {world.name!r}")
        task = task_of(world, row)
        client, owner = client_of(request.scope), owner_of(request)
        if (known := self._sessions.get(_key(request), owner)) is not None:
            if known.lease is not None:
                raise HTTPException(
                    409,
                    "this session has an open episode, which /verify ends; seed another session",
                )
            await self._sessions.close(known)
        session = self._sessions.open(client, owner)
        session.view = GymSeed(world, row)
        try:
            await session.begin(world, task, reserved=_ROUTES)
        except BaseException:
            await self._sessions.close(session)
            raise
        return _with_cookie(json({}), session)

    async def _call(self, request: Request) -> Response:
        session = self._session(request)
        result = await session.call(request.path_params["tool"], await value_of(request))
        return _result(result)

    async def _verify(self, request: Request) -> Response:
        session, row = self._session(request), await object_of(request)
        if (differing := _difference(_seed_of(session).row, row)) is not None:
            raise HTTPException(
                422, f"{differing}: the row is not the one with which this session was seeded"
            )
        response = row.get("response")
        if not isinstance(response, dict):
            raise HTTPException(422, "response: expected an object, the response of the model")
        try:
            num_calls = session.num_calls
            verdict = await session.judge("gym", answer_in(response))
        finally:
            await self._sessions.close(session)
        if verdict.reward is None:
            raise HTTPException(500, f"the episode could not be judged: {shown_reason(verdict)}")
        return json({**row, **_facts(verdict, num_calls)})

    def _world(self, request: Request) -> Scenario:
        """The world of a request's path. Raises HTTPException."""
        name, served = request.path_params["world"], self._sessions.leases.scenarios
        if (world := served.get(name)) is None:
            known = ", ".join(served)
            raise HTTPException(404, f"there is no world {name!r} here; there are {known}")
        return world

    def _session(self, request: Request) -> Session:
        """The session of a request. Raises HTTPException."""
        world, key = self._world(request), _key(request)
        session = self._sessions.get(key, owner_of(request))
        if session is None or _seed_of(session).world is not world:
            raise HTTPException(
                410 if key else 422,
                "there is no session: it was verified, or it was idle for too long"
                if key
                else f"there is no cookie {COOKIE}: call seed_session first",
            )
        return session


def _seed_of(session: Session) -> GymSeed:
    """With what a session was seeded; nothing for one of another wire."""
    return session.view if isinstance(session.view, GymSeed) else GymSeed(None, {})


def _difference(seeded: dict[str, Any], row: dict[str, Any]) -> str | None:
    """The first field in which the seeded row and the row to verify differ, besides the response;
    None: they are equal. An agent does not know all of them, so it can neither seed nor verify in
    the trainer's place."""
    for name in [*seeded, *row]:
        is_in_both = name in seeded and name in row
        if name != "response" and not (is_in_both and row[name] == seeded[name]):
            return name
    return None


def answer_in(response: dict[str, Any]) -> str:
    """The final answer in an object of OpenAI's Responses API: its last message, where no call
    follows; else empty."""
    output = response.get("output")
    last = output[-1] if isinstance(output, list) and output else None
    if not isinstance(last, dict) or last.get("type") != "message":
        return ""
    content = last.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _facts(verdict: WorldVerdict, num_calls: int) -> dict[str, Any]:
    """What /verify adds to the row. Numbers and truth values become metrics of the client."""
    return {
        "reward": verdict.reward,
        "completed": verdict.label == "completed",
        "num_calls": num_calls,
        "label": verdict.label,
        "judge": verdict.judge,
        "failed": failed_findings(verdict),
    }


def _result(result: ToolResult) -> Response:
    """The text of a result, with a status that says whether the call failed."""
    status = 200 if result.error is None else _STATUS[result.error]
    is_json = result.text[:1] in ("{", "[")
    return Response(result.text, status, media_type="application/json" if is_json else "text/plain")


def _with_cookie(response: Response, session: Session) -> Response:
    response.set_cookie(COOKIE, session.key, httponly=True)
    return response


def _key(request: Request) -> str:
    """The session's key in the cookies; empty: there is none."""
    return request.cookies.get(COOKIE, "")
