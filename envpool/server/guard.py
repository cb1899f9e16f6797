"""What stands before every application that we serve: who may send a request, and with whose token;
how long its body may be, and how many requests one client may have in flight.

    403  a Host or an Origin that is not ours
    401  no token, or a wrong one (a browser's preflight has none and needs none)
    413  a body above the limit, before the whole of it has arrived
    429  too many requests in flight

In DNS rebinding, an attacker's name points at this machine. The browser then sends that name as
Host, and the name of the attacker's page as Origin: neither is on the list.
"""

import hmac
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server.answers import RefusalOf, retry
from rehearsal_room.envpool.server.settings import WorldServerSettings

Headers = dict[bytes, bytes]
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ANY = ("", "0.0.0.0", "::", "[::]")  # nosec B104 # compared with, not bound


# What a browser may send after its preflight, and what its page may read.
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, Last-Event-ID, "
    "Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name",
    "Access-Control-Max-Age": "600",
}
_EXPOSED = b"Mcp-Session-Id, Location, Retry-After, WWW-Authenticate"


class AccessCheck:
    """Decides whether a request is allowed. Making one raises PoolError for a bad token file."""

    def __init__(self, settings: WorldServerSettings) -> None:
        host = settings.host
        own = () if host in _ANY else (f"[{host}]" if ":" in host and host[0] != "[" else host,)
        self._hosts = {_name_in(name) for name in (*_LOOPBACK, *own, *settings.allow_hosts)}
        # The Authorization header of each token -> the owner of what is leased with it.
        self._owners = {
            b"Bearer " + token.encode(): number for number, token in enumerate(tokens_of(settings))
        }

    @property
    def has_tokens(self) -> bool:
        """Whether clients need a token."""
        return bool(self._owners)

    def owner(self, headers: Mapping[bytes, bytes]) -> int | None:
        """The number of the token of a request; None: it has none, or a wrong one.

        Every token is compared in constant time, so that the time says nothing about them.
        """
        if not self._owners:
            return None
        sent = headers.get(b"authorization", b"")
        matches = [n for known, n in self._owners.items() if hmac.compare_digest(sent, known)]
        return matches[0] if matches else None

    def refusal(
        self, headers: Mapping[bytes, bytes], *, open_to_all: bool
    ) -> tuple[int, str] | None:
        """HTTP status and reason of a refusal; None: the request is allowed. With `open_to_all` no
        token is needed."""
        host = headers.get(b"host", b"").decode("latin-1")
        if _name_in(host) not in self._hosts:
            return 403, f"the Host {host!r} is not a name of this server"
        origin = headers.get(b"origin")
        if origin is not None and not self._is_known(origin.decode("latin-1")):
            return 403, f"the Origin {origin.decode('latin-1')!r} may not use this server"
        if self._owners and not open_to_all and self.owner(headers) is None:
            return 401, "a bearer token is required, and this request has no token or a wrong one"
        return None

    def knows_page(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request comes from the page of an allowed origin."""
        origin = headers.get(b"origin")
        return origin is not None and self._is_known(origin.decode("latin-1"))

    def _is_known(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _name_in(parts.netloc) in self._hosts


def tokens_of(settings: WorldServerSettings) -> tuple[str, ...]:
    """The tokens of a server: the one of the settings, then those of the file. Empty lines and
    lines that begin with # are skipped. Raises PoolError."""
    tokens = [settings.token] if settings.token else []
    if settings.token_file:
        try:
            lines = Path(settings.token_file).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            raise PoolError(f"{settings.token_file}: cannot read the tokens: {why}") from exc
        listed = [line.strip() for line in lines]
        found = [token for token in listed if token and not token.startswith("#")]
        for number, token in enumerate(found, start=1):
            if not (token.isascii() and token.isprintable()):
                raise PoolError(f"{settings.token_file}: token {number} is not printable ASCII")
        if not found:
            raise PoolError(f"{settings.token_file}: there is no token in this file")
        tokens += found
    return tuple(dict.fromkeys(tokens))


def _name_in(host: str) -> str:
    """The name in `name:port`. Example: "[::1]:8765" -> "[::1]" """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


class InFlight:
    """The requests in flight of each client, which have a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: Counter[str] = Counter()  # by client

    @contextmanager
    def of(self, client: str) -> Iterator[None]:
        """Count a request of a client for the duration of the block. Raises HTTPException."""
        if self._counts[client] >= self._limit:
            why = f"this client has {self._limit} calls in flight, which is the limit"
            raise HTTPException(429, why, retry(429))
        self._counts[client] += 1
        try:
            yield
        finally:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


class Guard:
    """Passes requests on that may be served. `refusal` is the form of the errors; `open_paths` need
    no token; `in_flight` None: no limit."""

    def __init__(
        self,
        app: ASGIApp,
        access: AccessCheck,
        *,
        max_body: int,
        refusal: RefusalOf,
        open_paths: Collection[str] = (),
        in_flight: InFlight | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._max_body = max_body
        self._refusal = refusal
        self._open_paths = open_paths
        self._in_flight = in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or one WebSocket."""
        headers = headers_of(scope)
        is_preflight = scope["type"] == "http" and _is_preflight(scope["method"], headers)
        is_open = is_preflight or scope["path"] in self._open_paths
        if scope["type"] == "http" and self._access.knows_page(headers):
            send = _for_browsers(send, headers[b"origin"])
        if fault := self._access.refusal(headers, open_to_all=is_open):
            await self._refuse(scope, receive, send, *fault)
            return
        if is_preflight:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send)
            return
        scope["owner"] = self._access.owner(headers)
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and (len(length) > 18 or int(length) > self._max_body):
            await self._refuse(scope, receive, send, 413, self._too_long)
            return
        try:
            if self._in_flight is None:
                await self._app(scope, self._bounded(receive), send)
                return
            with self._in_flight.of(client_of(scope)):
                await self._app(scope, self._bounded(receive), send)
        except HTTPException as exc:
            await self._refusal(exc.status_code, exc.detail, exc.headers)(scope, receive, send)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, why: str
    ) -> None:
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        response = self._refusal(status, why, headers)
        if scope["type"] == "websocket":
            await deny(WebSocket(scope, receive, send), response)
        else:
            await response(scope, receive, send)

    @property
    def _too_long(self) -> str:
        return f"the body has more than {self._max_body} bytes"

    def _bounded(self, receive: Receive) -> Receive:
        """`receive`, which raises HTTPException once the body is too long."""
        size = 0

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body:
                raise HTTPException(413, self._too_long)
            return message

        return bounded


def _is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks if a page may send a request (it sends no token with that)."""
    return method == "OPTIONS" and {b"origin", b"access-control-request-method"} <= set(headers)


def _for_browsers(send: Send, origin: bytes) -> Send:
    """`send`, whose answers the page of an allowed origin may read."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
            added.append((b"access-control-expose-headers", _EXPOSED))
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sent


async def deny(socket: WebSocket, response: Response) -> None:
    """Answer the request for a WebSocket with a response."""
    await socket.receive()  # the request
    await socket.send_denial_response(response)


def headers_of(scope: Scope) -> Headers:
    """The headers of a request; the values of a repeated header are joined by a line feed."""
    headers: Headers = {}
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b"\n" + value if name in headers else value
    return headers


def client_of(scope: Scope) -> str:
    """The address of a request's client; empty: unknown."""
    return scope["client"][0] if scope.get("client") else ""


def owner_of(request: HTTPConnection) -> int | None:
    """The number of a request's token; None: there are no tokens."""
    owner: int | None = request.scope["owner"]
    return owner
