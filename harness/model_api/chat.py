"""The chat API of a server: decoding requests, encoding replies.

Messages and tools are read; every other field that shapes the reply is passed on as it came
(ModelRequest.fields). A stream has the reply in one piece.
"""

import time
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.completions import UnreadableError, calls_of, read_message
from rehearsal_room.harness.core.messages import AgentCall, Message, Usage
from rehearsal_room.harness.model_api.known_parts import (
    INVALID,
    KnownParts,
    Read,
    Tools,
    fault_in,
)
from rehearsal_room.harness.model_api.request import (
    ClientReply,
    ModelReply,
    ModelRequest,
    UnsupportedRequest,
)

_encode = msgspec.json.Encoder().encode
_ROLES = {"developer": "system"}  # OpenAI's newer name


class _Function(msgspec.Struct, frozen=True):
    name: str
    description: str | None = ""
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct, frozen=True):
    function: _Function
    type: str = "function"


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _Options(msgspec.Struct, frozen=True):
    """What is read of a request besides messages and tools."""

    model: str = ""
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    rehearsal: Any = None


class _Request(_Options, frozen=True, kw_only=True):
    """All that is read, in its types: for the sentence of a refusal."""

    messages: list[dict[str, Any]]
    tools: list[_Tool] | None = None


_READ = frozenset(_Request.__struct_fields__)
_ABOUT_CLIENT = frozenset({"user", "metadata", "store", "safety_identifier", "prompt_cache_key"})
_NO_TOOLS = msgspec.Raw(b"null")
_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_messages = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_tools = msgspec.json.Decoder(list[_Tool] | None).decode


def read_request(body: bytes, known: KnownParts | None = None) -> ModelRequest:
    """The request in a body; `known` is what its client sent before. Raises UnsupportedRequest,
    whose message names the field."""
    known = known or KnownParts()
    try:
        parts = _decode_parts(body)
        messages = known.messages(bytes(parts.pop("messages")), _messages)
        tools = known.tools(bytes(parts.pop("tools", _NO_TOOLS)), _tools)
        others = {
            name: _decode_any(raw) for name, raw in parts.items() if name not in _ABOUT_CLIENT
        }
        request = msgspec.convert(others, _Options)
    except (*INVALID, KeyError) as exc:
        raise UnsupportedRequest(
            f"the body is not a chat request: {fault_in(body, _Request, exc)}"
        ) from exc
    options = request.stream_options or _StreamOptions()
    return ModelRequest(
        model=request.model,
        messages=messages,
        tools=tools,
        fields={
            name: value for name, value in others.items() if name not in _READ and value is not None
        },
        stream=bool(request.stream),
        stream_usage=bool(options.include_usage),
        own=request.rehearsal,
    )


def _messages(text: bytes, num_before: int) -> Read:
    sent = _decode_messages(text)
    read = [_message(one, num_before + index) for index, one in enumerate(sent)]
    return Read(tuple(read), len(sent))


def _tools(text: bytes) -> Tools:
    return tuple([_tool(tool) for tool in _decode_tools(text) or ()])


def _message(message: dict[str, Any], index: int) -> Message:
    role = message.get("role")
    if not isinstance(role, str):
        raise UnsupportedRequest(f"messages[{index}]: role: expected a text")
    role = _ROLES.get(role, role)
    if role not in ("system", "user", "assistant", "tool"):
        raise UnsupportedRequest(f"messages[{index}]: there is no role {role!r}")
    try:
        text, thought, fields = read_message(message)
        calls = calls_of(message) if role == "assistant" else ()
    except UnreadableError as exc:
        raise UnsupportedRequest(f"messages[{index}]: {exc}") from exc
    if role == "assistant":
        return Message("assistant", text, calls, None, thought, fields or None)
    require_text(message.get("content"), f"messages[{index}]")
    call_id = message.get("tool_call_id")
    if role != "tool":
        return Message(role, text)  # type: ignore[arg-type]  # checked above
    if not isinstance(call_id, str):
        raise UnsupportedRequest(f"messages[{index}]: a tool message needs tool_call_id")
    return Message("tool", text, (), call_id)


def require_text(content: Any, where: str) -> None:
    """Refuse a content with other parts than text. Raises UnsupportedRequest."""
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind not in ("text", "input_text", "output_text"):
            raise UnsupportedRequest(f"{where}: {kind} is not supported (expected text)")


def _tool(tool: _Tool) -> ToolSpec:
    function = tool.function
    return ToolSpec(function.name, function.description or "", function.parameters or {})


def completion(answer: ModelReply, *, model: str, id: str) -> bytes:
    """The reply as one body."""
    message = _wire_message(answer.reply)
    choice = {"index": 0, "message": message, "finish_reason": answer.finish}
    body = {
        **_frame("chat.completion", model, id),
        "choices": [choice],
        "usage": _usage(answer.usage),
        **_notes(answer),
    }
    return _encode(body)


def events(answer: ModelReply, *, model: str, id: str, usage: bool) -> bytes:
    """The reply as server-sent events; one of them has the whole message."""
    message = _wire_message(answer.reply)
    for index, call in enumerate(message.get("tool_calls", ())):
        call["index"] = index
    frame = _frame("chat.completion.chunk", model, id)
    first = {"index": 0, "delta": message, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": answer.finish}
    chunks = [
        {**frame, "choices": [first], **_notes(answer)},
        {**frame, "choices": [last]},
    ]
    if usage:
        chunks.append({**frame, "choices": [], "usage": _usage(answer.usage)})
    lines = [b"data: " + _encode(chunk) + b"\n\n" for chunk in chunks]
    return b"".join([*lines, b"data: [DONE]\n\n"])


def refusal(message: str, *, kind: str = "invalid_request_error", code: str | None = None) -> bytes:
    """A refusal in the form of OpenAI's errors."""
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _frame(kind: str, model: str, id: str) -> dict[str, Any]:
    return {"id": id, "object": kind, "created": int(time.time()), "model": model}


def _notes(answer: ModelReply) -> dict[str, Any]:
    return {} if answer.notes is None else {"rehearsal": answer.notes}


def _wire_message(reply: ClientReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["content"] = reply.text or None
        message["tool_calls"] = [_wire_call(call) for call in reply.calls]
    if reply.thought:
        message[reply.thought_field or "reasoning_content"] = reply.thought
    return message | (reply.fields or {})


def _wire_call(call: AgentCall) -> dict[str, Any]:
    fields = dict(call.fields or {})
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else _encode(arguments).decode()
    function = {"name": call.name, "arguments": text, **fields.pop("function", {})}
    return {"id": call.id, "type": "function", "function": function, **fields}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
