"""MCP on the wire: JSON-RPC 2.0 messages, their errors, and the two families of protocol revisions.

A revision up to 2025-11-25 begins with an `initialize` handshake; 2026-07-28 has none: every
request bears its revision and its client's capabilities in `params._meta`. What differs between the
two is told apart here by one word, the *era*: "handshake" or "modern".

Source: modelcontextprotocol.io/specification, revisions 2024-11-05 to 2026-07-28.
"""

import base64
import json
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # oldest first
MODERN = ("2026-07-28",)
DEFAULT = "2025-03-26"  # what a request over HTTP means that names no revision
BATCHED = ("2024-11-05", "2025-03-26")  # revisions in which several messages may come as one array

Era = Literal["handshake", "modern"]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# Of our own, in the band that the specification leaves to implementations.
STALE = -32010  # the world is in another state than the call was meant for: send it along
BROKEN = -32011  # the world can no longer be used
BUSY = -32012  # this client has too many calls in flight
# Of the 2026-07-28 specification.
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

# The HTTP status of an error in the modern era (all others: 200, as in the handshake era).
STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    BUSY: 429,
}

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
CALL_KEY = "rehearsal/call"  # ours, in a request: Asked
OUTCOME_KEY = "rehearsal/outcome"  # ours, in a result: wire.Answer as MessagePack in base64


class Fault(Exception):
    """A JSON-RPC error: the answer to a message that cannot be served."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data  # None: none


class Message(msgspec.Struct):
    """A request (method and id), a notification (method only) or a response (neither)."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call of our own client adds to `tools/call`.

    Any client may give `id` alone: a call of an id that was answered lately is answered again from
    memory. With `world` and `version` (see envpool.workers.wire.Call) the result bears an outcome.
    """

    id: str
    world: int | None = None  # None: no outcome is asked for
    version: int = 0
    state: bytes | None = None  # wire.Snapshot as MessagePack; None: the server has this version
    arguments: Raw | UnsetType = UNSET  # where they are not an object, which MCP's own must be


class CallMeta(msgspec.Struct, frozen=True):
    """`_meta` of a call."""

    call: Asked | None = field(name=CALL_KEY, default=None)


class CallParams(msgspec.Struct, frozen=True):
    """`params` of tools/call."""

    name: str
    arguments: Raw = Raw(b"{}")
    meta: CallMeta | None = field(name="_meta", default=None)


class ListParams(msgspec.Struct, frozen=True):
    """`params` of tools/list."""

    cursor: str | None = None


class InitializeParams(msgspec.Struct, frozen=True):
    """`params` of initialize."""

    protocol_version: str = field(name="protocolVersion")
    capabilities: dict[str, Any]
    client_info: dict[str, Any] = field(name="clientInfo")


class Envelope(msgspec.Struct, frozen=True):
    """`params` of any modern request, as far as all of them are alike."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


encode = msgspec.json.Encoder().encode
read_message = msgspec.json.Decoder(Message).decode
read_batch = msgspec.json.Decoder(list[Raw]).decode
read_envelope = msgspec.json.Decoder(Envelope).decode
read_call = msgspec.json.Decoder(CallParams).decode
read_list = msgspec.json.Decoder(ListParams).decode
read_initialize = msgspec.json.Decoder(InitializeParams).decode


def message_of(body: bytes | Raw) -> Message:
    """The message that a body holds. Raises Fault."""
    try:
        message = read_message(body)
    except msgspec.ValidationError as exc:
        raise Fault(INVALID_REQUEST, f"Not a JSON-RPC 2.0 message: {exc}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Fault(PARSE_ERROR, f"Parse error: {exc}") from exc
    except RecursionError as exc:
        raise Fault(PARSE_ERROR, "Parse error: nested too deeply") from exc
    if message.method is UNSET and (message.result is UNSET) == (message.error is UNSET):
        raise Fault(INVALID_REQUEST, "Not a JSON-RPC 2.0 message: it has no method")
    return message


def value_of(raw: Raw | bytes) -> Any:
    """A JSON value, integers of any size included (msgspec stops at 64 bits)."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:
        return json.loads(bytes(raw))


def reply(message_id: int | str, result: bytes) -> bytes:
    """The response with a result that is JSON already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(message_id), result)


def refusal(message_id: int | str | None, fault: Fault) -> bytes:
    """The response with an error. `message_id` is None where none could be read."""
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return encode({"jsonrpc": "2.0", "id": message_id, "error": error})


def header_of(value: str) -> str:
    """A value as a header may bear it: in base64 where it is not plain ASCII."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
