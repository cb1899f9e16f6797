"""The chat API of a policy server: decoding requests, encoding replies.

Covers the fields that determine the reply: messages, tools, temperature, top_p, max_tokens, seed,
stream (the reply is then sent in one piece). Unsupported fields are refused, never ignored: several
choices, stop words, log-probabilities, formats of the reply, and a required tool call.
"""

import time
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.wire import read_arguments
from rehearsal_room.harness.core.messages import AgentCall, Message, Usage
from rehearsal_room.harness.serving.conversations import ClientReply, UnsupportedRequest

_encode = msgspec.json.Encoder().encode
_ROLES = {"developer": "system"}  # OpenAI's newer name


class FormatOverrides(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client's own history window and dialect (`extra_body={"rehearsal": {...}}`). Empty: those
    of the checkpoint."""

    history: str = ""
    dialect: str = ""


class ChatRequest(msgspec.Struct, frozen=True):
    """A request. None: the server chooses the value."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    calling: bool = True  # whether the reply has tool calls; else they are part of its text
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stream: bool = False
    stream_usage: bool = False
    overrides: FormatOverrides = FormatOverrides()


class ChatReply(msgspec.Struct, frozen=True):
    """A reply for a client."""

    reply: ClientReply
    finish: str
    usage: Usage
    notes: dict[str, Any]  # the field `rehearsal`: the format in which the model saw the messages
    warnings: tuple[str, ...] = ()


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: Any = None
    description: str = ""
    parameters: dict[str, Any] = {}


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _Function


class _Tool(msgspec.Struct, frozen=True):
    function: _Function
    type: str = "function"


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _Request(msgspec.Struct, frozen=True):
    messages: list[_Message]
    model: str = ""
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    rehearsal: FormatOverrides | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    response_format: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Request).decode


def read_request(body: bytes) -> ChatRequest:
    """The request in a body. Raises UnsupportedRequest, whose message names the field."""
    try:
        request = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UnsupportedRequest(f"the body is not a chat request: {exc}") from exc
    _check_supported(request)
    max_tokens = request.max_completion_tokens
    if max_tokens is None:
        max_tokens = request.max_tokens
    if max_tokens is not None and max_tokens < 1:
        raise UnsupportedRequest(f"max_tokens: must be at least 1, not {max_tokens}")
    options = request.stream_options or _StreamOptions()
    return ChatRequest(
        model=request.model,
        messages=tuple([_message(one, index) for index, one in enumerate(request.messages)]),
        tools=tuple([_tool(tool) for tool in request.tools or ()]),
        calling=request.tool_choice != "none",
        temperature=request.temperature,
        top_p=request.top_p,
        max_tokens=max_tokens,
        seed=request.seed,
        stream=bool(request.stream),
        stream_usage=bool(options.include_usage),
        overrides=request.rehearsal or FormatOverrides(),
    )


def _check_supported(request: _Request) -> None:
    if request.n not in (None, 1):
        raise UnsupportedRequest(f"n: the server returns one choice, not {request.n}")
    if request.stop:
        raise UnsupportedRequest("stop: a reply ends with the model's end token, not with words")
    if request.logprobs:
        raise UnsupportedRequest("logprobs: the server does not return log-probabilities")
    if (request.response_format or {}).get("type", "text") != "text":
        raise UnsupportedRequest("response_format: the server returns text only")
    if request.tool_choice not in (None, "auto", "none"):
        raise UnsupportedRequest("tool_choice: the model decides whether it calls a tool")
    if request.temperature is not None and request.temperature < 0:
        raise UnsupportedRequest(f"temperature: must be at least 0, not {request.temperature}")
    if request.top_p is not None and not 0 < request.top_p <= 1:
        raise UnsupportedRequest(f"top_p: must be above 0 and at most 1, not {request.top_p}")


def _message(message: _Message, index: int) -> Message:
    content = message.content or ""
    if isinstance(content, list):
        if other := [part.type for part in content if part.type != "text"]:
            raise UnsupportedRequest(
                f"messages[{index}]: {other[0]} is not supported (expected text)"
            )
        content = "".join(part.text for part in content)
    role = _ROLES.get(message.role, message.role)
    calls = tuple([_call(call) for call in message.tool_calls or ()])
    if role not in ("system", "user", "assistant", "tool"):
        raise UnsupportedRequest(f"messages[{index}]: there is no role {message.role!r}")
    if role == "tool" and message.tool_call_id is None:
        raise UnsupportedRequest(f"messages[{index}]: a tool message needs tool_call_id")
    return Message(role, content, calls, message.tool_call_id if role == "tool" else None)  # type: ignore[arg-type]  # checked above


def _call(call: _Call) -> AgentCall:
    return AgentCall(call.function.name, read_arguments(call.function.arguments), call.id)


def _tool(tool: _Tool) -> ToolSpec:
    function = tool.function
    return ToolSpec(function.name, function.description, function.parameters)


def completion(answer: ChatReply, *, model: str, id: str) -> bytes:
    """The reply as one body."""
    message = _wire_message(answer.reply)
    choice = {"index": 0, "message": message, "finish_reason": answer.finish}
    body = {
        **_frame("chat.completion", model, id),
        "choices": [choice],
        "usage": _usage(answer.usage),
        "rehearsal": answer.notes,
    }
    return _encode(body)


def events(answer: ChatReply, *, model: str, id: str, usage: bool) -> bytes:
    """The reply as server-sent events; one of them has the whole message."""
    message = _wire_message(answer.reply)
    for index, call in enumerate(message.get("tool_calls", ())):
        call["index"] = index
    frame = _frame("chat.completion.chunk", model, id)
    first = {"index": 0, "delta": message, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": answer.finish}
    chunks = [
        {**frame, "choices": [first], "rehearsal": answer.notes},
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


def _wire_message(reply: ClientReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _encode(call.arguments).decode()},
            }
            for call in reply.calls
        ]
    else:
        message["content"] = reply.text
    return message


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
