"""The MCP endpoint of one world over HTTP: a body and its headers in, a status and a body out.

Written by hand, like the messages (envpool.server.jsonrpc): 13 times as fast as fastmcp.

It is the streamable HTTP transport without its streams: a server that only answers requests may use
plain JSON. The era of a message follows from its header `MCP-Protocol-Version` and from the
envelope in its `_meta`; sessions are neither issued nor required. Parameters that a tool's schema
mirrors in headers (`x-mcp-header`) are not compared: none of our tools uses that.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.jsonrpc import Era, RpcError, RpcMessage
from rehearsal_room.envpool.server.mcp_methods import ExecuteCall, McpMethods

HeaderMapping = Mapping[
    bytes, bytes
]  # lower-case names; the values of a repeated header are joined by a line feed
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_MAX_BATCH = 64  # messages
_WRAPPED = (b"=?base64?", b"?=")  # around the value of a header that is not plain text


async def post(
    mcp: McpMethods, execute: ExecuteCall, headers: HeaderMapping, body: bytes
) -> tuple[int, bytes]:
    """Status and body (JSON, or empty) of the answer to a POST."""
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    if body.lstrip()[:1] == b"[" and (version or m.DEFAULT) in m.BATCHED:
        return await batch(mcp, execute, body)
    try:
        message = m.parse_message(body)
    except RpcError as error:
        return m.STATUS[error.code], m.error_response(_id_in(body), error)
    if message.id is UNSET or message.method is UNSET:
        return _answer_notification(message, version)
    era: Era = "handshake"
    try:
        meta = meta_of(message)
        if is_modern(message, version, meta):
            era = "modern"
            _check_envelope(message, meta, headers)
        return 200, m.result_response(message.id, await mcp.answer(message, era, execute))
    except RpcError as error:
        has_status = era == "modern" or error.code in (m.BUSY, m.PARSE_ERROR)
        status = m.STATUS.get(error.code, 200) if has_status else 200
        return status, m.error_response(message.id, error)


async def batch(mcp: McpMethods, execute: ExecuteCall, body: bytes) -> tuple[int, bytes]:
    """The answers to a JSON-RPC batch, in its order (revisions 2024-11-05 and 2025-03-26)."""
    try:
        raws = m.read_batch(body)
    except m.INVALID_JSON as exc:
        return 400, m.error_response(None, RpcError(m.PARSE_ERROR, f"Parse error: {exc}"))
    if not 0 < len(raws) <= _MAX_BATCH:
        error = RpcError(m.INVALID_REQUEST, f"A batch has 1 to {_MAX_BATCH} messages")
        return 400, m.error_response(None, error)
    answers = [await answer_handshake_era(mcp, execute, bytes(raw)) for raw in raws]
    answers = list(filter(None, answers))
    return (200, b"[" + b",".join(answers) + b"]") if answers else (202, b"")


async def answer_handshake_era(mcp: McpMethods, execute: ExecuteCall, body: bytes) -> bytes:
    """The response to one message of the handshake era; empty for a notification."""
    message_id: int | str | None = None
    try:
        message = m.parse_message(body)
        if message.id is UNSET or message.method is UNSET:
            return b""
        message_id = message.id
        return m.result_response(message_id, await mcp.answer(message, "handshake", execute))
    except RpcError as error:
        return m.error_response(message_id, error)


def _id_in(body: bytes) -> int | str | None:
    """The id in a body that is not a valid message, so that its sender knows what was refused."""
    try:
        value = msgspec.json.decode(body)
    except m.INVALID_JSON:
        return None
    message_id = value.get("id") if isinstance(value, dict) else None
    return message_id if type(message_id) in (int, str) else None


def _answer_notification(message: RpcMessage, version: str) -> tuple[int, bytes]:
    """The answer to a notification or a response: accepted and ignored."""
    if version and version not in m.HANDSHAKE and version not in m.MODERN:
        return 400, m.error_response(None, unsupported(version))
    return 202, b""


def meta_of(message: RpcMessage) -> dict[str, Any] | None:
    """`params._meta` of a request; None: it has none."""
    try:
        meta = m.read_envelope(message.params).meta
    except RpcError:
        return None  # the method that reads the parameters reports the error
    return None if meta is UNSET else meta


def is_modern(message: RpcMessage, version: str, meta: dict[str, Any] | None) -> bool:
    """Whether a request is of the modern era, by its header and its envelope."""
    if version and version not in m.HANDSHAKE:
        return True
    return meta is not None and m.VERSION_KEY in meta and message.method != "initialize"


def check_meta(meta: dict[str, Any] | None) -> str:
    """The revision that a modern request names. Raises RpcError."""
    if meta is None:
        raise RpcError(m.INVALID_PARAMS, "Invalid params: _meta: missing, or not an object")
    for key in (m.VERSION_KEY, m.CAPABILITIES_KEY):
        if key not in meta:
            raise RpcError(m.INVALID_PARAMS, f"Invalid params: _meta: {key} is missing")
    version = meta[m.VERSION_KEY]
    if not isinstance(version, str):
        raise RpcError(m.INVALID_PARAMS, f"Invalid params: _meta: {m.VERSION_KEY}: not a string")
    return version


def unsupported(version: str) -> RpcError:
    """The error that names the supported revisions."""
    return RpcError(
        m.UNSUPPORTED_VERSION,
        f"Unsupported protocol version: {version}",
        {"supported": list(m.MODERN), "requested": version},
    )


def _check_envelope(
    message: RpcMessage, meta: dict[str, Any] | None, headers: HeaderMapping
) -> None:
    """Check that a modern request is complete, that its headers match its body, and that its
    revision is supported. Raises RpcError."""
    for name in _ROUTING:
        if b"\n" in headers.get(name, b""):
            raise RpcError(m.HEADER_MISMATCH, f"The header {name.decode()} is repeated")
    version = check_meta(meta)
    _check_header(headers, b"mcp-protocol-version", version)
    _check_header(headers, b"mcp-method", str(message.method))
    if message.method == "tools/call":
        _check_header(headers, b"mcp-name", m.read_call(message.params).name)
    if version not in m.MODERN:
        raise unsupported(version)


def _check_header(headers: HeaderMapping, name: bytes, expected: str) -> None:
    value = headers.get(name)
    if value is None:
        raise RpcError(m.HEADER_MISMATCH, f"The header {name.decode()} is missing")
    if _unwrap(value) != expected:
        raise RpcError(m.HEADER_MISMATCH, f"The header {name.decode()} does not match the body")


def _unwrap(value: bytes) -> str | None:
    """The value of a header, decoded where it is in base64; None: its base64 is invalid."""
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
