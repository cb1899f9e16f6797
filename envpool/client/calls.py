"""Tool calls of the remote pool and their responses: MCP 2026-07-28, with our own `_meta` fields
for states and outcomes (see envpool.server.jsonrpc.CallExtension)."""

from typing import Any

import msgspec
from msgspec import Raw, field

from rehearsal_room.envpool.core.remote_states import CallOutcome
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.jsonrpc import CallExtension

_META = {m.VERSION_KEY: m.MODERN[-1], m.CAPABILITIES_KEY: {}}
_HEADERS = {"MCP-Protocol-Version": m.MODERN[-1], "Mcp-Method": "tools/call"}


class ResultText(msgspec.Struct, frozen=True):
    """A part of a result."""

    text: str = ""


class ResultMeta(msgspec.Struct, frozen=True):
    """`_meta` of a result."""

    outcome: bytes = field(name=m.OUTCOME_KEY)


class RpcResult(msgspec.Struct, frozen=True):
    """The result of a call."""

    content: tuple[ResultText, ...]
    meta: ResultMeta = field(name="_meta")


class Error(msgspec.Struct, frozen=True):
    """The error of a call."""

    code: int
    message: str


class CallResponse(msgspec.Struct, frozen=True):
    """The answer to a call: a result or an error."""

    result: RpcResult | None = None
    error: Error | None = None


pack = msgspec.msgpack.Encoder().encode
read_response = msgspec.json.Decoder(CallResponse).decode
_read_outcome = msgspec.msgpack.Decoder(CallOutcome).decode


def request_of(name: str, arguments: Any, extension: CallExtension) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a call. MCP requires an object as arguments; other values are sent in
    `_meta`."""
    encoded = Raw(m.encode(arguments))
    params: dict[str, Any] = {"name": name}
    if isinstance(arguments, dict):
        params["arguments"] = encoded
    else:
        extension = msgspec.structs.replace(extension, arguments=encoded)
    params["_meta"] = {**_META, m.CALL_KEY: extension}
    body = m.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return body, {**_HEADERS, "Mcp-Name": m.header_of(name)}


def outcome_of(response: CallResponse) -> CallOutcome:
    """The outcome of the call. Raises msgspec.DecodeError for a response without one."""
    if response.result is None:
        raise msgspec.DecodeError("neither a result nor an error")
    outcome = _read_outcome(response.result.meta.outcome)
    text = "\n".join(part.text for part in response.result.content)
    return msgspec.structs.replace(outcome, text=text)
