"""A client of MCP that is as tolerant as the specification asks.

- A result that does not meet the tool's output schema reaches the agent, with one warning for the
  user: clients *should* check structured results, and the call was carried out.
- A content block of a kind that MCP does not define becomes a text with its JSON.
- Half of a surrogate pair, which JSON can write and Unicode text cannot hold, becomes U+FFFD.
- A message about a refused HTTP request has its status, and the client waits as 429 asks.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Self, Unpack, cast

import anyio
import httpx2
import mcp_types
import msgspec
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.client.session import ClientRequestContext
from mcp.shared._httpx_utils import McpHttpClientFactory
from mcp.shared.message import SessionMessage

from rehearsal_room.envpool.mcp.questions import Questions, Warnings
from rehearsal_room.scenarios.core.short_text import shortened

_KNOWN_BLOCKS = frozenset(("text", "image", "audio", "resource", "resource_link"))
_MAX_WAIT_S = 60.0  # of a server that says when to come again
_TRIES = 5
_OAUTH = re.compile(r'resource_metadata="?([^",\s]+)')  # RFC 9728: where its login is described
_HALF = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode


class TolerantSession(ClientSession):
    """A session that hands on what a server sent where the SDK would end the call.

    `questions` answers what the server asks. The SDK declares what a client can be asked by which
    callbacks it has, so it has them where somebody answers.
    """

    def __init__(
        self,
        read_stream: Any = None,
        write_stream: Any = None,
        *,
        questions: Questions,
        warnings: Warnings,
        **rest: Any,
    ) -> None:
        stream = None if read_stream is None else _ReadableStream(read_stream)
        if questions.asks != "refuse":
            rest["elicitation_callback"] = _never_called
        if questions.asks == "model":
            rest["sampling_callback"] = _never_called
        super().__init__(stream, write_stream, **rest)
        self._questions = questions
        self._warnings = warnings

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: mcp_types.InputRequest
    ) -> mcp_types.InputResponse | mcp_types.ErrorData:
        """Answer a request of the server, whichever way its protocol version sends it."""
        if isinstance(request, mcp_types.ListRootsRequest):
            return await super().dispatch_input_request(ctx, request)
        return await self._questions.answer(request)

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Warn once for a tool whose result does not meet its output schema."""
        try:
            await super().validate_tool_result(name, result)
        except RuntimeError as exc:
            why = shortened(str(exc), 200)
            self._warnings.warn("mcp_output_schema_not_met", name, tool=name, why=why)


async def _never_called(*_: Any) -> Any:
    """Stands for a capability; `dispatch_input_request` answers."""
    raise AssertionError("dispatch_input_request answers")


class _ReadableStream:
    """A stream of messages whose results the SDK can read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        return _with_known_blocks(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return _with_known_blocks(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        found: bool | None = await self._stream.__aexit__(*exc)
        return found


def _with_known_blocks(message: Any) -> Any:
    inner = getattr(message, "message", None)
    result = inner.result if isinstance(inner, mcp_types.JSONRPCResponse) else None
    blocks = result.get("content") if isinstance(result, dict) else None
    if result and isinstance(blocks, list) and not all(map(_is_known, blocks)):
        result["content"] = [one if _is_known(one) else _as_text(one) for one in blocks]
    return message


def _is_known(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _KNOWN_BLOCKS


def _as_text(block: Any) -> dict[str, str]:
    return {"type": "text", "text": block if isinstance(block, str) else _encode(block).decode()}


def read_message(line: bytes) -> SessionMessage | Exception:
    """The message of a line, or the fault."""
    validate = mcp_types.jsonrpc_message_adapter
    try:
        return SessionMessage(validate.validate_json(line, by_name=False))
    except ValueError as exc:
        fault = exc
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(line), ensure_ascii=False)
        value = json.loads(_HALF.sub("\ufffd", text))  # whole pairs are one character by now
        return SessionMessage(validate.validate_python(value, by_name=False))
    return fault


class TolerantHttp(StreamableHttpTransport):
    """Streamable HTTP that remembers how the server refused, and waits where it says 429."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        token: str,
        *,
        questions: Questions,
        warnings: Warnings,
    ) -> None:
        super().__init__(
            url,
            headers=headers,
            auth=token or None,
            httpx_client_factory=cast("McpHttpClientFactory", self._http_client),
        )
        self._session = partial(TolerantSession, questions=questions, warnings=warnings)
        self._has_token = bool(token)
        self._refused = ""  # how the last refused request was refused

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
        """How the last refused request was refused, as the end of a sentence; empty: none was."""
        return self._refused

    def _http_client(self, **arguments: Any) -> httpx2.AsyncClient:
        arguments.setdefault("timeout", httpx2.Timeout(30.0, read=300.0))
        return _PatientClient(event_hooks={"response": [self._remember]}, **arguments)

    async def _remember(self, response: httpx2.Response) -> None:
        if response.request.method != "POST":
            return
        self._refused = ""
        if response.status_code >= 400:
            self._refused = f"it answered with status {response.status_code}"
            metadata = _OAUTH.search(response.headers.get("www-authenticate", ""))
            if metadata and response.status_code == 401:
                self._refused += (
                    f": it asks for a login with OAuth (see {shortened(metadata[1], 200)}), which "
                    "Rehearsal does not do; get an access token from its provider and give it in "
                    "$REHEARSE_TOKEN, or a header with --mcp-header NAME=VARIABLE"
                )
            elif remedy := self._remedies().get(response.status_code):
                self._refused += f": {remedy}"

    def _remedies(self) -> dict[int, str]:
        token = "the token in $REHEARSE_TOKEN" if self._has_token else "no token"
        return {
            401: f"it got {token}; give one in $REHEARSE_TOKEN, or a header with --mcp-header "
            "NAME=VARIABLE",
            403: f"it got {token}, which may not use it",
            404: "is the path right? Most servers are at /mcp",
            429: "too many requests, also after waiting as it asked",
            502: "what is in front of it does not reach it",
        }


class _PatientClient(httpx2.AsyncClient):
    """A client that waits where a server says when to come again. It keeps the environment's
    proxies, which a transport for this would turn off."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        for _ in range(_TRIES - 1):
            response = await super().send(request, **options)
            wait_s = _wait_of(response)
            if wait_s is None:
                return response
            await response.aclose()
            await anyio.sleep(wait_s)
        return await super().send(request, **options)


def _wait_of(response: httpx2.Response) -> float | None:
    """The seconds after which a refused request may be sent again; None: it is not to be."""
    if response.status_code != 429:
        return None
    try:
        return min(float(response.headers.get("retry-after", "1")), _MAX_WAIT_S)
    except ValueError:
        return 1.0
