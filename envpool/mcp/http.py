"""Streamable HTTP, as tolerant as the specification asks, and with a reason for what fails.

A message about a refused request has its status and what to do about it; the client waits where a
server says so (429, 503). A reply that is nearly JSON is mended as on standard streams, and a
connection that breaks ends the wait for its reply.
"""

import re
import time
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Unpack, cast

import anyio
import httpx2
import mcp_types
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared._httpx_utils import McpHttpClientFactory
from mcp.shared.message import SessionMessage

from rehearsal_room.envpool.mcp.questions import Questions, Warnings
from rehearsal_room.envpool.mcp.tolerant import TolerantSession, read_messages
from rehearsal_room.scenarios.core.short_text import shortened

_MAX_WAIT_S = 60.0  # of a server that says when to come again
_MAX_QUOTE = 120  # characters of a message that cannot be read
_TRIES = 5
_BROKEN = 502  # the status that stands for a connection that broke before the reply
_OAUTH = re.compile(r'resource_metadata="?([^",\s]+)')  # RFC 9728: where its login is described
_JSON, _EVENTS = "application/json", "text/event-stream"


class TolerantHttp(StreamableHttpTransport):
    """The transport of one URL; it knows how the last request was refused."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        token: str,
        *,
        token_variable: str,
        questions: Questions,
        warnings: Warnings,
    ) -> None:
        """`token_variable` is the variable of the environment in which a token is given."""
        super().__init__(
            url,
            headers=headers,
            auth=token or None,
            httpx_client_factory=cast("McpHttpClientFactory", self._http_client),
        )
        self._session = partial(TolerantSession, questions=questions, warnings=warnings)
        self._secrets = (token, *headers.values())
        self._token = f"the token in ${token_variable}" if token else "no token"
        self._ways = (
            f"${token_variable}, or a header with --mcp-header NAME=VARIABLE"  # to give one
        )
        self._refused = ""  # how the last refused request was refused
        self.is_broken = False  # the connection broke in the last request

    @asynccontextmanager
    async def connect_session(
        self,
        *,
        transport_options: TransportOptions | None = None,
        **session_kwargs: Unpack[SessionKwargs],
    ) -> AsyncIterator[ClientSession]:
        options = TransportOptions(session_class=cast("type[ClientSession]", self._session))
        async with super().connect_session(transport_options=options, **session_kwargs) as session:
            yield session

    def refusal(self) -> str:
        """Why the last request has no answer, as the end of a sentence; empty: it has one."""
        return self._refused

    def _http_client(self, **arguments: object) -> httpx2.AsyncClient:
        arguments.setdefault("timeout", httpx2.Timeout(30.0, read=300.0))
        return _PatientClient(self._remember, self._could_not_read, arguments)

    def _could_not_read(self, body: bytes) -> None:
        start = shortened(body.decode(errors="replace"), _MAX_QUOTE)
        self._refused = f"it sent a message that cannot be read: {start}"

    def _remember(self, response: httpx2.Response | httpx2.TransportError) -> None:
        self.is_broken = isinstance(response, httpx2.TransportError)
        if isinstance(response, httpx2.TransportError):
            self._refused = f"the connection broke: {response or type(response).__name__}"
            return
        self._refused = ""
        status, kind = response.status_code, _kind_of(response)
        if status >= 400:
            self._refused = f"it answered with status {status}"
            if remedy := self._remedy(response):
                self._refused += f": {remedy}"
            if said := _said(response, self._secrets):
                self._refused += f"; it said: {said}"
        elif status == 204:
            self._refused = "it answered with status 204, which has no reply"
        elif status == 200 and kind not in (_JSON, _EVENTS):
            self._refused = (
                f"it answered with {kind or 'no content'}, which is not MCP: is the path right? "
                "Most servers are at /mcp"
            )

    def _remedy(self, response: httpx2.Response) -> str:
        login = _OAUTH.search(response.headers.get("www-authenticate", ""))
        if response.status_code == 401 and login:
            return (
                f"it asks for a login with OAuth (see {shortened(login[1], 200)}), which Rehearsal "
                f"does not do; get an access token from its provider, and give it in {self._ways}"
            )
        return {
            401: f"it got {self._token}; give one in {self._ways}",
            403: f"it got {self._token}, which may not use it",
            404: "is the path right? Most servers are at /mcp",
            429: "too many requests, also after waiting as it asked",
            502: "what is in front of it does not reach it",
        }.get(response.status_code, "")


class _PatientClient(httpx2.AsyncClient):
    """A client that waits where a server says when to come again, and mends what it reads. It keeps
    the environment's proxies, which a transport for this would turn off."""

    def __init__(
        self,
        remember: Callable[[httpx2.Response | httpx2.TransportError], None],
        could_not_read: Callable[[bytes], None],
        arguments: dict[str, object],
    ) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]  # of the SDK's factory
        self._remember = remember
        self._could_not_read = could_not_read

    async def send(self, request: httpx2.Request, **options: object) -> httpx2.Response:
        for attempt in range(_TRIES):
            try:
                response = await super().send(request, **options)  # type: ignore[arg-type]  # as above
                wait_s = None if attempt == _TRIES - 1 else _wait_of(response)
                if wait_s is None and request.method == "POST" and response.status_code >= 400:
                    await response.aread()
            except httpx2.TransportError as exc:
                if request.method != "POST":
                    raise
                self._remember(exc)  # the SDK would log it, and wait on for the reply
                return httpx2.Response(_BROKEN, request=request)
            if wait_s is None:
                break
            await response.aclose()
            await anyio.sleep(wait_s)
        if request.method == "POST":
            self._remember(response)
        return _mended(response, self._could_not_read)


def _wait_of(response: httpx2.Response) -> float | None:
    """The seconds after which a refused request may be sent again; None: it is not to be."""
    given = response.headers.get("retry-after", "" if response.status_code == 503 else "1")
    if response.status_code not in (429, 503) or not given:
        return None
    try:
        seconds = float(given)
    except ValueError:  # a date (RFC 9110, section 10.2.3)
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except ValueError:
            return 1.0
    return min(seconds, _MAX_WAIT_S) if seconds > 0 else 0.0


def _kind_of(response: httpx2.Response) -> str:
    """What a response says that it is. One that says nothing and has a body is taken for JSON."""
    headers = response.headers
    given = str(headers.get("content-type", "")).partition(";")[0].strip().lower()
    return given or ("" if headers.get("content-length") == "0" else _JSON)


def _said(response: httpx2.Response, secrets: Sequence[str]) -> str:
    """The beginning of what a refusal says in words, without the secrets that it may repeat; pages
    are left out."""
    if response.headers.get("content-type", "").partition(";")[0] not in (_JSON, "text/plain"):
        return ""
    text = " ".join(response.text.split())
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    return shortened(text, _MAX_QUOTE)


def _mended(response: httpx2.Response, could_not_read: Callable[[bytes], None]) -> httpx2.Response:
    """A response whose messages the SDK can read."""
    kind = _kind_of(response)
    if response.status_code != 200 or kind not in (_JSON, _EVENTS) or response.is_stream_consumed:
        return response
    kept = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [(name, value) for name, value in response.headers.items() if name not in kept]
    if "content-type" not in response.headers:
        headers.append(("content-type", kind))
    stream = _Mended(response, could_not_read, has_events=kind == _EVENTS)
    return httpx2.Response(
        response.status_code,
        headers=headers,
        stream=stream,
        request=response.request,
        extensions=response.extensions,
    )


def _is_reply(message: SessionMessage | Exception) -> bool:
    kinds = (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError)
    return isinstance(message, SessionMessage) and isinstance(message.message, kinds)


class _Mended(httpx2.AsyncByteStream):
    """The body of a response: one message, or events with a message each."""

    def __init__(
        self,
        response: httpx2.Response,
        could_not_read: Callable[[bytes], None],
        *,
        has_events: bool,
    ) -> None:
        self._response = response
        self._could_not_read = could_not_read
        self._has_events = has_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pending, is_first = bytearray(), True
        async for chunk in self._response.aiter_bytes():
            pending += chunk
            if is_first and len(pending) >= len(BOM_UTF8):
                pending, is_first = pending.removeprefix(BOM_UTF8), False
            if self._has_events and b"\n" in chunk:
                *lines, rest = pending.split(b"\n")
                pending = bytearray(rest)
                yield b"".join(self._event_line(bytes(line)) + b"\n" for line in lines)
        if pending:
            yield (
                self._event_line(bytes(pending)) + b"\n\n"  # the last event may lack its end
                if self._has_events
                else self._message(bytes(pending))
            )

    async def aclose(self) -> None:
        await self._response.aclose()

    def _event_line(self, line: bytes) -> bytes:
        name, colon, data = line.partition(b":")
        if name != b"data" or not data.strip():
            return line
        return name + colon + self._message(data)

    def _message(self, body: bytes) -> bytes:
        messages = read_messages(body)
        replies = [one for one in messages if _is_reply(one)] or messages
        message = replies[0] if replies else None
        if isinstance(message, Exception):
            self._could_not_read(body.strip())
        if message is None or isinstance(message, Exception):
            return body
        return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
