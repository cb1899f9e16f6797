"""NeMo Gym's resources-server contract at /gym/<world>, for the rows of `rehearse export --to gym`.

    POST /seed_session   a row -> {}, and a cookie: the episode of the row's task begins
    POST /<tool>         the arguments -> what the tool returns
    POST /verify         a row with its `response` -> the same, and `reward`: the episode is over

The cookie is set by every response, since a client may keep only the last one's. /verify closes the
session; one that is left closes when it was idle for too long.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import ToolError, ToolResult
from rehearsal_room.envpool.server.jsonrpc import RpcError, parse_value
from rehearsal_room.envpool.server.leases import LeaseRefused
from rehearsal_room.envpool.server.messages import Request, Response, json
from rehearsal_room.envpool.wires.episodes import WorldVerdict
from rehearsal_room.envpool.wires.http import WireError, read_object
from rehearsal_room.envpool.wires.sessions import NotBegun, Session, SessionError, Sessions
from rehearsal_room.envpool.wires.task_lists import BadTask, task_of
from rehearsal_room.scenarios.format import Scenario

COOKIE = "rehearsal_session"
_STATUS: dict[ToolError, int] = {
    "unknown_tool": 404,
    "arguments": 422,
    "refused": 400,
    "timeout": 504,
    "internal": 500,
}


class GymWire:
    """NeMo Gym for all worlds of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def respond(self, request: Request, path: list[str]) -> Response:
        """The response to a request; `path` is what follows /gym. Raises WireError."""
        served = self._sessions.leases.scenarios
        match path:
            case [name, what] if (world := served.get(name)) is not None:
                if request.method != "POST":
                    raise WireError(
                        405, f"{request.method} is not served here", (b"allow", b"POST")
                    )
                return await self._answer(request, world, what)
            case [name, *_] if name not in served:
                known = ", ".join(served)
                raise WireError(404, f"there is no world {name!r} here; there are {known}")
        raise WireError(404, f"there is nothing at {request.path}")

    async def _answer(self, request: Request, world: Scenario, what: str) -> Response:
        try:
            if what == "seed_session":
                return await self._seed(request, world)
            session = self._session(request, world)
            if what == "verify":
                return await self._verify(request, session)
            return await self._call(request, session, what)
        except LeaseRefused as exc:
            raise WireError(exc.status, str(exc)) from exc
        except NotBegun as exc:
            raise WireError(410, str(exc)) from exc
        except (SessionError, BadTask) as exc:
            raise WireError(422, str(exc)) from exc
        except PoolError as exc:
            raise WireError(500, str(exc)) from exc

    async def _seed(self, request: Request, world: Scenario) -> Response:
        row = read_object(request.body)
        if (named := row.get("scenario", world.name)) != world.name:
            raise WireError(422, f"the row is of world {named!r}, and this is {world.name!r}")
        task = task_of(world, row)
        known = self._sessions.get(_key(request) or "", request.owner)
        session = known if known is not None and known.view is world else None
        if session is None:
            session = self._sessions.open(request.client, request.owner)
            session.view = world
        try:
            await session.begin(world, task)
        except BaseException:
            await self._sessions.close(session)
            raise
        return _with_cookie(json(200, {}), session)

    async def _call(self, request: Request, session: Session, tool: str) -> Response:
        try:
            arguments = parse_value(request.body) if request.body.strip() else {}
        except RpcError as exc:
            raise WireError(422, f"the body is not JSON: {exc.message}") from exc
        result = await session.call(tool, arguments)
        return _with_cookie(_result(result), session)

    async def _verify(self, request: Request, session: Session) -> Response:
        row = read_object(request.body)
        response = row.get("response")
        if not isinstance(response, dict):
            raise WireError(422, "response: expected an object, the response of the model")
        try:
            num_calls = session.num_calls
            verdict = await session.judge("gym", answer_in(response))
        finally:
            await self._sessions.close(session)
        if verdict.reward is None:
            raise WireError(500, f"the episode could not be judged: {verdict.unjudged}")
        return json(200, {**row, **_facts(verdict, num_calls)})

    def _session(self, request: Request, world: Scenario) -> Session:
        """The session of a request. Raises WireError."""
        key = _key(request)
        session = None if key is None else self._sessions.get(key, request.owner)
        if session is None or session.view is not world:
            raise WireError(
                410 if key else 422,
                "there is no session: it was verified, or it was idle for too long"
                if key
                else f"there is no cookie {COOKIE}: call seed_session first",
            )
        return session


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
        "failed": [one.name for one in verdict.findings if not one.passed],
    }


def _result(result: ToolResult) -> Response:
    """The text of a result, with a status that says whether the call failed."""
    status = 200 if result.error is None else _STATUS[result.error]
    return Response(status, result.text.encode(), ((b"content-type", _kind_of(result.text)),))


def _kind_of(text: str) -> bytes:
    is_json = text[:1] in ("{", "[")
    return b"application/json" if is_json else b"text/plain; charset=utf-8"


def _with_cookie(response: Response, session: Session) -> Response:
    cookie = f"{COOKIE}={session.key}; Path=/; HttpOnly; SameSite=Lax".encode()
    return Response(response.status, response.body, (*response.headers, (b"set-cookie", cookie)))


def _key(request: Request) -> str | None:
    """The session's key in the cookies; None: there is none."""
    try:
        cookies = SimpleCookie(request.headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return None
    return cookies[COOKIE].value if COOKIE in cookies else None
