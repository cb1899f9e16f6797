"""The lease API and the MCP endpoint of every world, as one plain ASGI application."""

from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import (
    Health,
    NewWorld,
    ServedScenario,
    WorldCount,
    WorldLease,
)
from rehearsal_room.envpool.server.auth import AccessCheck
from rehearsal_room.envpool.server.jsonrpc import INVALID_JSON
from rehearsal_room.envpool.server.lease import Lease
from rehearsal_room.envpool.server.leases import LeaseRefused, Leases
from rehearsal_room.envpool.server.mcp_endpoint import post
from rehearsal_room.envpool.server.messages import (
    JSON_HEADER,
    Headers,
    HttpError,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    body_of,
    headers_of,
    json,
)
from rehearsal_room.scenarios.errors import UnknownScenario

T = TypeVar("T")
_JSON = b"application/json"


class Wires(Protocol):
    """The protocols beside MCP. All of them are served on the paths that they claim."""

    @property
    def num_sessions(self) -> int:
        """Sessions that are open."""

    def claims(self, path: str, headers: Headers) -> bool:
        """Whether a request is theirs."""

    async def respond(self, request: Request) -> Response:
        """The response to a request."""

    def refusal(self, status: int, why: str) -> Response:
        """The response where access was refused, or the request could not be read."""

    async def converse(
        self, scope: Scope, receive: Receive, send: Send, *, owner: int | None
    ) -> None:
        """Serve one WebSocket, from its request to its end."""


class App:
    """The ASGI application of a server's leases. `wires` None: MCP is the only protocol."""

    def __init__(self, leases: Leases, wires: Wires | None = None) -> None:
        self._leases = leases
        self._wires = wires
        self._settings = leases.settings
        self._access = AccessCheck(leases.settings)
        self._in_flight: Counter[str] = Counter()  # calls by client

    def __repr__(self) -> str:
        return f"<App {self._leases!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or one WebSocket."""
        if scope["type"] == "websocket" and self._wires is not None:
            await self._converse(self._wires, scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        response = await self._answer(scope, receive)
        headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        headers = headers_of(scope)
        wires = self._wires
        if wires is not None and not wires.claims(scope["path"], headers):
            wires = None
        try:
            return await self._response(scope, headers, receive, wires)
        except HttpError as error:
            if wires is None:
                return error.response
            own = wires.refusal(error.response.status, str(error))
            more = [pair for pair in error.response.headers if pair not in JSON_HEADER]
            return Response(own.status, own.body, (*own.headers, *more))

    async def _converse(self, wires: Wires, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket. Where it is refused, the answer is that of an HTTP request."""
        headers = headers_of(scope)
        refusal = self._access.refusal(headers, open_to_all=False)
        if refusal is None and wires.claims(scope["path"], headers):
            owner = self._access.owner(headers)
            await wires.converse(scope, receive, send, owner=owner)
            return
        status, why = refusal or (404, f"there is nothing at {scope['path']}")
        response = wires.refusal(status, why)
        await receive()  # the request
        start = {"type": "websocket.http.response.start", "status": response.status}
        size = (b"content-length", b"%d" % len(response.body))
        await send({**start, "headers": [*response.headers, size]})
        await send({"type": "websocket.http.response.body", "body": response.body})

    async def _response(
        self, scope: Scope, headers: Headers, receive: Receive, wires: Wires | None
    ) -> Response:
        path, method = scope["path"], scope["method"]
        is_open = path == "/health" and wires is None
        if refusal := self._access.refusal(headers, open_to_all=is_open):
            status, why = refusal
            more = ((b"www-authenticate", b"Bearer"),) if status == 401 else ()
            raise HttpError(status, why, *more)
        owner = self._access.owner(headers)
        body = (
            await body_of(headers, receive, limit=self._settings.max_body)
            if method == "POST"
            else b""
        )
        client = scope["client"][0] if scope.get("client") else ""
        if wires is not None:
            with self._in_flight_of(client):
                return await wires.respond(Request(method, path, headers, body, client, owner))
        match path.split("/")[1:]:
            case ["worlds", lease_id, "mcp"]:
                return await self._mcp(self._world(lease_id, owner), method, headers, body, client)
            case ["worlds"]:
                if method == "POST":
                    return await self._lease(headers, body, client, owner)
                self._only(method, "GET", "POST")
                return self._listed(owner)
            case ["worlds", lease_id]:
                lease = self._world(lease_id, owner)
                self._only(method, "GET", "DELETE")
                if method == "GET":
                    return json(200, lease.status())
                await self._leases.release(lease)
                return Response(204, headers=())
            case ["worlds", lease_id, "reset"]:
                lease = self._world(lease_id, owner)
                self._only(method, "POST")
                await lease.reset()
                return json(200, lease.status())
            case ["worlds", lease_id, "fork"]:
                lease = self._world(lease_id, owner)
                self._only(method, "POST")
                return self._leased(
                    await _with_http_errors(self._leases.fork(lease, client)), headers
                )
            case ["scenarios", *which]:
                self._only(method, "GET")
                return await self._scenarios(which)
            case ["health"]:
                self._only(method, "GET")
                return self._health()
        raise HttpError(404, f"there is nothing at {path}")

    async def _mcp(
        self, lease: Lease, method: str, headers: Headers, body: bytes, client: str
    ) -> Response:
        self._only(method, "POST")
        _check_json(headers)
        accepted = headers.get(b"accept", b"*/*").lower()
        if not any(kind in accepted for kind in (_JSON, b"*/*", b"application/*")):
            raise HttpError(406, "answers are application/json, which the Accept header excludes")
        with self._in_flight_of(client):
            status, answer = await post(lease.mcp, lease.call, headers, body)
        return Response(status, answer, JSON_HEADER if answer else ())

    @contextmanager
    def _in_flight_of(self, client: str) -> Iterator[None]:
        """Count a call of a client for the duration of the block. Raises HttpError."""
        if self._in_flight[client] >= self._settings.calls_per_client:
            limit = self._settings.calls_per_client
            raise HttpError(429, f"this client has {limit} calls in flight, which is the limit")
        self._in_flight[client] += 1
        try:
            yield
        finally:
            self._in_flight[client] -= 1
            if not self._in_flight[client]:
                del self._in_flight[client]

    async def _lease(
        self, headers: Headers, body: bytes, client: str, owner: int | None
    ) -> Response:
        try:
            new = msgspec.json.decode(body, type=NewWorld)
        except INVALID_JSON as exc:
            raise HttpError(400, f"the body is not a request for a world: {exc}") from exc
        lease = await _with_http_errors(self._leases.lease(new, client, owner=owner))
        return self._leased(lease, headers)

    def _listed(self, owner: int | None) -> Response:
        """The worlds of the caller's token. Without tokens only their number: an id is what gives
        access to a world."""
        if not self._access.has_tokens:
            return json(200, WorldCount(self._leases.num_live))
        return json(200, [one.status() for one in self._leases.all() if one.owner == owner])

    def _leased(self, lease: Lease, headers: Headers) -> Response:
        path = f"/worlds/{lease.id}"
        url = f"http://{headers[b'host'].decode('latin-1')}{path}/mcp"
        body = m.encode(WorldLease(lease.id, url))
        return Response(201, body, (*JSON_HEADER, (b"location", path.encode())))

    async def _scenarios(self, path: list[str]) -> Response:
        match path:
            case []:
                known = self._leases.scenarios.values()
                return json(200, [ServedScenario(s.name, s.title, s.digest) for s in known])
            case [name]:
                hosted, _ = await _with_http_errors(self._leases.hosted(name))
                return json(200, hosted)
            case [name, "image"]:
                _, image = await _with_http_errors(self._leases.hosted(name))
                return Response(200, image, ((b"content-type", b"application/octet-stream"),))
        raise HttpError(404, f"there is nothing at /scenarios/{'/'.join(path)}")

    def _health(self) -> Response:
        leases = self._leases
        status = "draining" if leases.draining else "ok"
        sessions = None if self._wires is None else self._wires.num_sessions
        health = Health(status, leases.num_live, leases.num_leases, leases.calls, sessions)
        return json(503 if leases.draining else 200, health)

    def _world(self, lease_id: str, owner: int | None) -> Lease:
        lease = self._leases.get(lease_id)
        if lease is None or lease.owner != owner:
            raise HttpError(404, "there is no such world: it was released, or it was idle too long")
        return lease

    def _only(self, method: str, *allowed: str) -> None:
        if method not in allowed:
            allow = ", ".join(allowed)
            raise HttpError(405, f"{method} is not served here", (b"allow", allow.encode()))


def _check_json(headers: Headers) -> None:
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != _JSON:
        raise HttpError(415, "the Content-Type of a body must be application/json")


async def _with_http_errors(work: Awaitable[T]) -> T:
    """Await the work; its expected errors become HTTP errors."""
    try:
        return await work
    except LeaseRefused as exc:
        raise HttpError(exc.status, str(exc)) from exc
    except UnknownScenario as exc:
        raise HttpError(404, str(exc)) from exc
    except PoolError as exc:
        raise HttpError(422, str(exc)) from exc
