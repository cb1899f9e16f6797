"""What a world answers over MCP, whatever carries the messages.

A `Face` is what all worlds of a scenario show: who they are and which tools they have, encoded
once. Nothing is remembered between messages but the world itself, so a client may handshake or
not, lose its connection, or share the world with another client.

Offered are tools only: no resources, prompts, completions, logging, progress or subscriptions.
The list of tools of a world never changes.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Raw

from envpool.core.types import ToolSpec
from envpool.server import jsonrpc as m
from envpool.server.jsonrpc import Asked, Era, Fault, Message
from scenarios.format import Scenario

_BRACE = ord("{")
_NONE, _NULL = Raw(b"{}"), Raw(b"null")
_KEPT_MS = 3_600_000  # how long a client may keep the list of tools


class Called(msgspec.Struct, frozen=True, gc=False):
    """What a call gave."""

    text: str
    is_error: bool
    outcome: bytes | None = None  # wire.Answer as MessagePack, where it was asked for


Calls = Callable[[str, Raw, Asked | None], Awaitable[Called]]  # tool, arguments as JSON


class Face:
    """What every world of a scenario shows over MCP."""

    def __init__(self, scenario: Scenario, tools: Sequence[ToolSpec]) -> None:
        self._info = {
            "name": scenario.name,
            "title": scenario.title,
            "version": scenario.version,
        }
        self._about: dict[str, object] = {"capabilities": {"tools": {}}}
        if scenario.rules:
            self._about["instructions"] = scenario.rules
        listed = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
            for tool in tools
        ]
        kept = {"ttlMs": _KEPT_MS, "cacheScope": "private"}
        stamp = {"resultType": "complete", "_meta": {m.SERVER_KEY: self._info}}
        self._lists: dict[Era, bytes] = {
            "handshake": m.encode({"tools": listed}),
            "modern": m.encode({"tools": listed, **kept, **stamp}),
        }
        self._discovered = m.encode(
            {"supportedVersions": list(m.MODERN), **self._about, **kept, **stamp}
        )
        self._stamp = m.encode(self._info)

    async def answer(self, message: Message, era: Era, call: Calls) -> bytes:
        """The result of a request, as JSON. Raises Fault."""
        try:
            match message.method:
                case "tools/call":
                    params = m.read_call(message.params)
                    asked = params.meta.call if params.meta is not None else None
                    arguments = params.arguments
                    if asked is not None and asked.arguments is not msgspec.UNSET:
                        arguments = asked.arguments
                    elif memoryview(arguments)[0] != _BRACE:
                        if arguments != _NULL:
                            raise Fault(m.INVALID_PARAMS, "Invalid params: arguments: no object")
                        arguments = _NONE
                    return self._called(await call(params.name, arguments, asked), era)
                case "tools/list":
                    if m.read_list(message.params).cursor is not None:
                        raise Fault(m.INVALID_PARAMS, "Invalid params: there is one page of tools")
                    return self._lists[era]
                case "server/discover" if era == "modern":
                    return self._discovered
                case "initialize" if era == "handshake":
                    return self._initialized(m.read_initialize(message.params))
                case "ping" if era == "handshake":
                    return b"{}"
        except msgspec.ValidationError as exc:
            raise Fault(m.INVALID_PARAMS, f"Invalid params: {exc}") from exc
        raise Fault(m.METHOD_NOT_FOUND, f"Method not found: {message.method}")

    def _initialized(self, params: m.InitializeParams) -> bytes:
        asked = params.protocol_version
        version = asked if asked in m.HANDSHAKE else m.HANDSHAKE[-1]
        return m.encode({"protocolVersion": version, "serverInfo": self._info, **self._about})

    def _called(self, called: Called, era: Era) -> bytes:
        result = b'{"content":[{"type":"text","text":%b}],"isError":%b' % (
            m.encode(called.text),
            b"true" if called.is_error else b"false",
        )
        meta = []
        if called.outcome is not None:
            meta.append(b'"%b":%b' % (m.OUTCOME_KEY.encode(), m.encode(called.outcome)))
        if era == "modern":
            result += b',"resultType":"complete"'
            meta.append(b'"%b":%b' % (m.SERVER_KEY.encode(), self._stamp))
        return result + (b',"_meta":{%b}}' % b",".join(meta) if meta else b"}")
