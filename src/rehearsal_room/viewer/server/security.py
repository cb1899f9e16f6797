"""Who may ask the viewer: pages that it served itself, on this machine.

    Host             127.0.0.1:PORT or localhost:PORT, so that no page of another name reaches the
                     server (DNS rebinding)
    Authorization    Bearer TOKEN for every path below /api; an event stream may have it as ?token=
    Sec-Fetch-Site   a page of another site gets nothing; it may lead to the page itself, which has
                     no data, as the file does with which the browser is opened
    headers          no script and no style but the viewer's own, no framing, no caching of data

What agents, tools and judges wrote leaves the server as JSON and never as HTML.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import msgspec

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
MAX_BODY = 2**20  # bytes


class HostGuard:
    """Lets requests pass that have the right host and token, and adds the headers."""

    def __init__(self, app: AsgiApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        fault = self._fault(scope)
        if fault is None:
            await self._app(scope, receive, with_headers)
            return
        status, sentence = fault
        body = msgspec.json.encode({"error": sentence})
        headers = [(b"content-type", b"application/json")]
        await with_headers({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _fault(self, scope: Scope) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        if headers.get(b"host", b"") not in self._hosts:
            return 403, "the viewer answers only under the address that it printed"
        is_page = scope["path"] == "/" and headers.get(b"sec-fetch-mode") == b"navigate"
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin") and not is_page:
            return 403, "the viewer does not answer pages of other sites"
        if not scope["path"].startswith("/api"):
            return None
        if not self._has_token(scope, headers):
            return 401, "the token is missing or wrong; open the address that the viewer printed"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MAX_BODY or b"transfer-encoding" in headers:
            return 413, f"the request is too large: at most {MAX_BODY:,} bytes"
        return None

    def _has_token(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"")
        if not given and scope["method"] == "GET" and scope["path"].endswith("/events"):
            tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
            given = b"Bearer " + tokens[0].encode("utf-8", "replace")
        return hmac.compare_digest(given, b"Bearer " + self._token)
