"""One world's MCP endpoint over HTTP: a body and its headers in, a status and a body out.

The streamable HTTP transport, without its streams: a server that sends nothing of its own accord
may answer every request with plain JSON. The era of a message follows from its header
`MCP-Protocol-Version` and from the envelope in its `_meta`; sessions are neither given nor asked
for. Parameters that a tool's schema wants mirrored in headers (`x-mcp-header`) are not compared:
no tool of ours asks for that.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from envpool.server import jsonrpc as m
from envpool.server.jsonrpc import Era, Fault, Message
from envpool.server.mcp import Calls, Face

Headers = Mapping[bytes, bytes]  # lower-case names; one that came twice is joined by a line feed
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_MAX_BATCH = 64  # messages
_WRAPPED = (b"=?base64?", b"?=")  # around a header's value that is no plain text


async def post(face: Face, call: Calls, headers: Headers, body: bytes) -> tuple[int, bytes]:
    """Status and body (JSON, or empty) of the answer to a POST."""
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    if body.lstrip()[:1] == b"[" and (version or m.DEFAULT) in m.BATCHED:
        return await batch(face, call, body)
    try:
        message = m.message_of(body)
    except Fault as fault:
        return m.STATUS[fault.code], m.refusal(_id_in(body), fault)
    if message.id is UNSET or message.method is UNSET:
        return _noted(message, version)
    era: Era = "handshake"
    try:
        meta = meta_of(message)
        if is_modern(message, version, meta):
            era = "modern"
            _check_envelope(message, meta, headers)
        return 200, m.reply(message.id, await face.answer(message, era, call))
    except Fault as fault:
        refused = era == "modern" or fault.code == m.BUSY
        status = m.STATUS.get(fault.code, 200) if refused else 200
        return status, m.refusal(message.id, fault)


async def batch(face: Face, call: Calls, body: bytes) -> tuple[int, bytes]:
    """A JSON-RPC batch, answered in its order (revisions 2024-11-05 and 2025-03-26)."""
    try:
        raws = m.read_batch(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return 400, m.refusal(None, Fault(m.PARSE_ERROR, f"Parse error: {exc}"))
    if not 0 < len(raws) <= _MAX_BATCH:
        fault = Fault(m.INVALID_REQUEST, f"A batch has 1 to {_MAX_BATCH} messages")
        return 400, m.refusal(None, fault)
    replies = [answered for raw in raws if (answered := await handshake(face, call, bytes(raw)))]
    return (200, b"[" + b",".join(replies) + b"]") if replies else (202, b"")


async def handshake(face: Face, call: Calls, body: bytes) -> bytes:
    """The response to one message of the handshake era; empty where it wants none."""
    message_id: int | str | None = None
    try:
        message = m.message_of(body)
        if message.id is UNSET or message.method is UNSET:
            return b""
        message_id = message.id
        return m.reply(message_id, await face.answer(message, "handshake", call))
    except Fault as fault:
        return m.refusal(message_id, fault)


def _id_in(body: bytes) -> int | str | None:
    """The id in a body that is no message otherwise, so that its sender knows what was refused."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    message_id = value.get("id") if isinstance(value, dict) else None
    return message_id if type(message_id) in (int, str) else None


def _noted(message: Message, version: str) -> tuple[int, bytes]:
    """The answer to a notification or a response: they are taken and dropped."""
    if version and version not in m.HANDSHAKE and version not in m.MODERN:
        return 400, m.refusal(None, unsupported(version))
    return 202, b""


def meta_of(message: Message) -> dict[str, Any] | None:
    """`params._meta` of a request; None: there is none."""
    try:
        meta = m.read_envelope(message.params).meta
    except msgspec.ValidationError:
        return None  # what is wrong is told by whoever reads the parameters
    return None if meta is UNSET else meta


def is_modern(message: Message, version: str, meta: dict[str, Any] | None) -> bool:
    """Whether a request is of the modern era, by its header and its envelope."""
    if version and version not in m.HANDSHAKE:
        return True
    return meta is not None and m.VERSION_KEY in meta and message.method != "initialize"


def check_meta(meta: dict[str, Any] | None) -> str:
    """The revision that a modern request names. Raises Fault."""
    if meta is None:
        raise Fault(m.INVALID_PARAMS, "Invalid params: _meta: missing, or not an object")
    for key in (m.VERSION_KEY, m.CAPABILITIES_KEY):
        if key not in meta:
            raise Fault(m.INVALID_PARAMS, f"Invalid params: _meta: {key} is missing")
    version = meta[m.VERSION_KEY]
    if not isinstance(version, str):
        raise Fault(m.INVALID_PARAMS, f"Invalid params: _meta: {m.VERSION_KEY}: not a string")
    return version


def unsupported(version: str) -> Fault:
    """The error that names the revisions which are served."""
    return Fault(
        m.UNSUPPORTED_VERSION,
        f"Unsupported protocol version: {version}",
        {"supported": list(m.MODERN), "requested": version},
    )


def _check_envelope(message: Message, meta: dict[str, Any] | None, headers: Headers) -> None:
    """That a modern request is whole, its headers say what its body says, and it is of a revision
    that is served. Raises Fault."""
    for name in _ROUTING:
        if b"\n" in headers.get(name, b""):
            raise Fault(m.HEADER_MISMATCH, f"The header {name.decode()} is there twice")
    version = check_meta(meta)
    _check_header(headers, b"mcp-protocol-version", version)
    _check_header(headers, b"mcp-method", str(message.method))
    if message.method == "tools/call":
        try:
            tool = m.read_call(message.params).name
        except msgspec.ValidationError as exc:
            raise Fault(m.INVALID_PARAMS, f"Invalid params: {exc}") from exc
        _check_header(headers, b"mcp-name", tool)
    if version not in m.MODERN:
        raise unsupported(version)


def _check_header(headers: Headers, name: bytes, wanted: str) -> None:
    given = headers.get(name)
    if given is None:
        raise Fault(m.HEADER_MISMATCH, f"The header {name.decode()} is missing")
    if _plain(given) != wanted:
        raise Fault(m.HEADER_MISMATCH, f"The header {name.decode()} is not what the body says")


def _plain(value: bytes) -> str | None:
    """A header's value, unwrapped where it is in base64; None: it is wrapped wrongly."""
    value = value.strip(b" \t")  # RFC 9110 §5.5
    start, end = _WRAPPED
    if not (value.startswith(start) and value.endswith(end) and len(value) > len(start)):
        return value.decode("latin-1")
    inner = value[len(start) : -len(end)]
    try:
        plain = base64.b64decode(inner, validate=True)
        return plain.decode() if base64.b64encode(plain) == inner else None
    except (binascii.Error, UnicodeDecodeError):
        return None
