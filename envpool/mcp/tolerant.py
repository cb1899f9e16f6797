"""A client of MCP that is as tolerant as the specification asks.

- A result that does not meet the tool's output schema reaches the agent, with one warning for the
  user: clients *should* check structured results, and the call was carried out.
- A content block of a kind that MCP does not define, or without its parts, becomes a text with its
  JSON, and so does a result that is a text or a list.
- A tool whose schema is not that of an object gets one, with one warning; one without a name is
  left out. What else is wrong in its description is dropped, and what a server says of itself at
  the start is completed.
- The id of a reply may be a whole float, and a line a batch.
- Bytes that are not UTF-8, and half of a surrogate pair, which JSON can write and Unicode text
  cannot hold, become U+FFFD. Control characters in strings are kept.
"""

import json
import re
from contextlib import suppress
from typing import Any, Self

import mcp_types
import msgspec
from mcp import ClientSession
from mcp.client.session import ClientRequestContext
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from rehearsal_room.envpool.mcp.questions import Questions, Warnings
from rehearsal_room.scenarios.core.short_text import shortened

_MEDIUM = (("data", str), ("mimeType", str))
_KNOWN_BLOCKS: dict[Any, tuple[tuple[str, type], ...]] = {  # their parts
    "text": (("text", str),),
    "image": _MEDIUM,
    "audio": _MEDIUM,
    "resource": (("resource", dict),),
    "resource_link": (("uri", str), ("name", str)),
}
_TALK = ("notifications/message", "notifications/progress")
_MAX_WAIT_S = 60.0  # of a server that says when to come again
_TRIES = 5
_OAUTH = re.compile(r'resource_metadata="?([^",\s]+)')  # RFC 9728: where its login is described
_HALF = re.compile("[\ud800-\udfff]")
_OBJECT = re.compile(rb"\{\s*(?:\"|$)")  # what a line that is meant as JSON begins with
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
        stream = None if read_stream is None else _ReadableStream(read_stream, warnings)
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
            why = shortened(str(exc).partition("\n")[0], 200)
            self._warnings.warn("mcp_output_schema_not_met", name, tool=name, why=why)


async def _never_called(*_: Any) -> Any:
    """Stands for a capability; `dispatch_input_request` answers."""
    raise AssertionError("dispatch_input_request answers")


class _ReadableStream:
    """A stream of messages whose results the SDK can read."""

    def __init__(self, stream: Any, warnings: Warnings) -> None:
        self._stream = stream
        self._warnings = warnings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        while _is_talk(message := await self._stream.receive()):
            pass
        return self._readable(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while _is_talk(message := await self._stream.__anext__()):
            pass
        return self._readable(message)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        found: bool | None = await self._stream.__aexit__(*exc)
        return found

    def _readable(self, message: Any) -> Any:
        inner = getattr(message, "message", None)
        if isinstance(inner, mcp_types.JSONRPCResponse) and isinstance(inner.result, dict):
            _mend_result(inner.result)
            if isinstance(tools := inner.result.get("tools"), list):
                inner.result["tools"] = [tool for tool in tools if self._is_usable(tool)]
        return message

    def _is_usable(self, tool: Any) -> bool:
        """Whether a tool can be called, once its schemas and its description are mended."""
        name = str(tool.get("name", "")) if isinstance(tool, dict) else ""
        if not name:
            shown = shortened(_encode(tool).decode(), 200)
            self._warnings.warn("mcp_tool_left_out", shown, tool=shown, why="it has no name")
            return False
        if fault := _mend_tool(tool):
            self._warnings.warn("mcp_schema_mended", name, tool=name, why=fault)
        try:
            mcp_types.Tool.model_validate(tool, by_name=False)
        except ValidationError as exc:  # in what nobody needs: icons, hints, a title
            for error in exc.errors():
                tool.pop(str(error["loc"][0]), None)
        return True


def _is_talk(message: Any) -> bool:
    """Whether a message is a line of a server's log, or its progress: nobody reads them here, and
    the SDK prints a traceback for one in another form."""
    inner = getattr(message, "message", None)
    return isinstance(inner, mcp_types.JSONRPCNotification) and inner.method in _TALK


def _mend_result(result: dict[str, Any]) -> None:
    """Give the result of a call the form that MCP defines."""
    blocks = result.get("content")
    if blocks is None and not result.keys().isdisjoint(("content", "structuredContent")):
        result["content"] = []
    elif isinstance(blocks, str):
        result["content"] = [_as_text(blocks)]
    elif isinstance(blocks, list) and not all(map(_is_known, blocks)):
        result["content"] = [one if _is_known(one) else _as_text(one) for one in blocks]
    if not isinstance(structured := result.get("structuredContent", {}), dict | None):
        result["structuredContent"] = {"result": structured}
    if "protocolVersion" in result:
        _mend_greeting(result)


def _mend_greeting(result: dict[str, Any]) -> None:
    """Give what a server says of itself at the start the form that MCP defines."""
    own, can = result.get("serverInfo"), result.get("capabilities")
    fields = own if isinstance(own, dict) else {}
    texts = {name: str(fields.get(name) or "") for name in ("name", "version")}
    result["serverInfo"] = {**fields, **texts}
    listed = can if isinstance(can, dict) else {"tools": {}}
    result["capabilities"] = {name: {} if one is True else one for name, one in listed.items()}


def _mend_tool(tool: dict[str, Any]) -> str:
    """Give a tool the schemas of objects. Returns what was wrong; empty: nothing."""
    faults = []
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        faults.append(f"its inputSchema is not that of an object: {_encode(schema).decode()}")
        tool["inputSchema"] = {**(schema if isinstance(schema, dict) else {}), "type": "object"}
    schema = tool.get("outputSchema", {"type": "object"})
    if not isinstance(schema, dict) or schema.get("type") != "object":
        faults.append(f"its outputSchema is not that of an object: {_encode(schema).decode()}")
        del tool["outputSchema"]
    return shortened("; ".join(faults), 200)


def _is_known(block: Any) -> bool:
    """Whether a content block is one of MCP's and has the parts that it must have."""
    needed = _KNOWN_BLOCKS.get(block.get("type")) if isinstance(block, dict) else None
    return needed is not None and all(isinstance(block.get(name), kind) for name, kind in needed)


def _as_text(block: Any) -> dict[str, str]:
    return {"type": "text", "text": block if isinstance(block, str) else _encode(block).decode()}


def read_messages(line: bytes) -> list[SessionMessage | Exception]:
    """The messages of a line of output, of which a batch (2025-03-26) has several; none: the line
    is not meant as a message."""
    if line.lstrip().startswith(b"["):
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if found and all(isinstance(one, dict) and "jsonrpc" in one for one in found):
                messages = [read_message(json.dumps(one).encode()) for one in found]
                return [one for one in messages if one is not None]
    message = read_message(line)
    return [] if message is None else [message]


def read_message(line: bytes) -> SessionMessage | Exception | None:
    """The message of a line of output, or its fault; None: the line is not meant as a message, such
    as a greeting or a line of a log."""
    validate = mcp_types.jsonrpc_message_adapter
    line = line[max(line.find(b'{"jsonrpc"'), 0) :].lstrip()  # after what a print left on the line
    if not line.startswith(b"{"):
        return None
    try:
        return SessionMessage(validate.validate_json(line, by_name=False))
    except ValueError as exc:
        fault = exc
    with suppress(ValueError, RecursionError):
        found = json.loads(line.decode(errors="replace"), strict=False)
        if "jsonrpc" not in found and not ("id" in found and found.keys() & {"result", "error"}):
            return None
        text = json.dumps(found, ensure_ascii=False)
        value = json.loads(_HALF.sub("\ufffd", text))  # whole pairs are one character by now
        _mend_reply(value)
        return SessionMessage(validate.validate_python(value, by_name=False))
    return fault if _OBJECT.match(line) else None


def _mend_reply(reply: dict[str, Any]) -> None:
    """Give a reply the form that JSON-RPC defines."""
    reply.setdefault("jsonrpc", "2.0")
    if isinstance(number := reply.get("id"), float) and number.is_integer():
        reply["id"] = int(number)
    if "error" not in reply and not isinstance(result := reply.get("result", {}), dict):
        reply["result"] = {} if result is None else {"content": [_as_text(result)]}
    if (error := reply.get("error")) is not None:
        fields = error if isinstance(error, dict) else {"message": error}
        code = fields.get("code")
        words = fields.get("message")
        reply["error"] = {
            "code": code if type(code) is int else mcp_types.INTERNAL_ERROR,
            "message": words if isinstance(words, str) else _encode(error).decode(),
        }
        reply.pop("result", None)
