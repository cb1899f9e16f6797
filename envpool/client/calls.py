"""A tool call as the remote pool sends it, and what comes back: MCP 2026-07-28, with `_meta` of
ours that carries states and outcomes (see envpool.server.jsonrpc.Asked)."""

from typing import Any

import msgspec
from msgspec import Raw, field

from envpool.core.host_answers import Answer
from envpool.server import jsonrpc as m
from envpool.server.jsonrpc import Asked

_META = {m.VERSION_KEY: m.MODERN[-1], m.CAPABILITIES_KEY: {}}
_HEADERS = {"MCP-Protocol-Version": m.MODERN[-1], "Mcp-Method": "tools/call"}


class Text(msgspec.Struct, frozen=True):
    """A piece of a result."""

    text: str = ""


class ResultMeta(msgspec.Struct, frozen=True):
    """`_meta` of a result."""

    outcome: bytes = field(name=m.OUTCOME_KEY)


class Result(msgspec.Struct, frozen=True):
    """What a call gave."""

    content: tuple[Text, ...]
    meta: ResultMeta = field(name="_meta")


class Error(msgspec.Struct, frozen=True):
    """Why there is no result."""

    code: int
    message: str


class Response(msgspec.Struct, frozen=True):
    """The answer to a call: a result or an error."""

    result: Result | None = None
    error: Error | None = None


packed = msgspec.msgpack.Encoder().encode
read_response = msgspec.json.Decoder(Response).decode
_read_answer = msgspec.msgpack.Decoder(Answer).decode


def request_of(name: str, arguments: Any, asked: Asked) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a call. MCP's arguments are an object; others go along in `_meta`."""
    said = Raw(m.encode(arguments))
    params: dict[str, Any] = {"name": name}
    if isinstance(arguments, dict):
        params["arguments"] = said
    else:
        asked = msgspec.structs.replace(asked, arguments=said)
    params["_meta"] = {**_META, m.CALL_KEY: asked}
    body = m.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return body, {**_HEADERS, "Mcp-Name": m.header_of(name)}


def answer_in(response: Response) -> Answer:
    """What the call did. Raises msgspec.DecodeError for what no server of ours answers."""
    if response.result is None:
        raise msgspec.DecodeError("neither a result nor an error")
    answer = _read_answer(response.result.meta.outcome)
    text = "\n".join(part.text for part in response.result.content)
    return msgspec.structs.replace(answer, text=text)
