"""The chat API as a policy server speaks it: requests decoded, replies encoded.

Covers what decides the reply: messages, tools, temperature, top_p, max_tokens, seed, stream (the
reply then comes in one piece). What cannot be done is refused, never ignored: several choices, stop
words, log-probabilities, formats of the reply, and the demand that a tool be called.
"""

import time
from typing import Any

import msgspec

from envpool.core.types import ToolSpec
from harness.chat.wire import read_arguments
from harness.core.messages import AgentCall, Message, Usage
from harness.serving.conversations import NotServed, Told

_encode = msgspec.json.Encoder().encode
_ROLES = {"developer": "system"}  # OpenAI's newer name


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks for besides (`extra_body={"rehearsal": {...}}`). Empty: the checkpoint's
    own."""

    history: str = ""
    dialect: str = ""


class Asked(msgspec.Struct, frozen=True):
    """A request. None: the client leaves it to the server."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    calling: bool = True  # whether calls are told as such
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stream: bool = False
    stream_usage: bool = False
    wanted: Wanted = Wanted()


class Answered(msgspec.Struct, frozen=True):
    """A reply for a client."""

    told: Told
    finish: str
    usage: Usage
    notes: dict[str, Any]  # the field `rehearsal`: under what it was shown
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
    rehearsal: Wanted | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    response_format: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Request).decode


def read_request(body: bytes) -> Asked:
    """A request's body. Raises NotServed, with a sentence that names the field."""
    try:
        request = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise NotServed(f"the body is no chat request: {exc}") from exc
    _refuse_what_cannot_be(request)
    most = request.max_completion_tokens
    if most is None:
        most = request.max_tokens
    if most is not None and most < 1:
        raise NotServed(f"max_tokens: must be at least 1, not {most}")
    options = request.stream_options or _StreamOptions()
    return Asked(
        model=request.model,
        messages=tuple([_message(one, place) for place, one in enumerate(request.messages)]),
        tools=tuple([_tool(tool) for tool in request.tools or ()]),
        calling=request.tool_choice != "none",
        temperature=request.temperature,
        top_p=request.top_p,
        max_tokens=most,
        seed=request.seed,
        stream=bool(request.stream),
        stream_usage=bool(options.include_usage),
        wanted=request.rehearsal or Wanted(),
    )


def _refuse_what_cannot_be(request: _Request) -> None:
    if request.n not in (None, 1):
        raise NotServed(f"n: one choice is given, not {request.n}")
    if request.stop:
        raise NotServed("stop: a reply ends with the model's own end token, not with words")
    if request.logprobs:
        raise NotServed("logprobs: they are not told here")
    if (request.response_format or {}).get("type", "text") != "text":
        raise NotServed("response_format: a reply is text; no other format can be had")
    if request.tool_choice not in (None, "auto", "none"):
        raise NotServed("tool_choice: the model decides whether it calls a tool")
    if request.temperature is not None and request.temperature < 0:
        raise NotServed(f"temperature: must not be negative, as {request.temperature} is")
    if request.top_p is not None and not 0 < request.top_p <= 1:
        raise NotServed(f"top_p: must be above 0 and at most 1, not {request.top_p}")


def _message(message: _Message, place: int) -> Message:
    content = message.content or ""
    if isinstance(content, list):
        if other := [part.type for part in content if part.type != "text"]:
            raise NotServed(f"messages[{place}]: {other[0]} cannot be shown to the model, text can")
        content = "".join(part.text for part in content)
    role = _ROLES.get(message.role, message.role)
    calls = tuple([_call(call) for call in message.tool_calls or ()])
    if role not in ("system", "user", "assistant", "tool"):
        raise NotServed(f"messages[{place}]: there is no role {message.role!r}")
    if role == "tool" and message.tool_call_id is None:
        raise NotServed(f"messages[{place}]: a tool message needs tool_call_id")
    return Message(role, content, calls, message.tool_call_id if role == "tool" else None)  # type: ignore[arg-type]  # checked above


def _call(call: _Call) -> AgentCall:
    return AgentCall(call.function.name, read_arguments(call.function.arguments), call.id)


def _tool(tool: _Tool) -> ToolSpec:
    function = tool.function
    return ToolSpec(function.name, function.description, function.parameters)


def completion(answered: Answered, *, model: str, id: str) -> bytes:
    """The reply as one body."""
    choice = {"index": 0, "message": _told(answered.told), "finish_reason": answered.finish}
    body = {
        **_frame("chat.completion", model, id),
        "choices": [choice],
        "usage": _usage(answered.usage),
        "rehearsal": answered.notes,
    }
    return _encode(body)


def events(answered: Answered, *, model: str, id: str, usage: bool) -> bytes:
    """The reply as server-sent events, the message in one of them."""
    message = _told(answered.told)
    for index, call in enumerate(message.get("tool_calls", ())):
        call["index"] = index
    frame = _frame("chat.completion.chunk", model, id)
    first = {"index": 0, "delta": message, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": answered.finish}
    chunks = [
        {**frame, "choices": [first], "rehearsal": answered.notes},
        {**frame, "choices": [last]},
    ]
    if usage:
        chunks.append({**frame, "choices": [], "usage": _usage(answered.usage)})
    lines = [b"data: " + _encode(chunk) + b"\n\n" for chunk in chunks]
    return b"".join([*lines, b"data: [DONE]\n\n"])


def refusal(message: str, *, kind: str = "invalid_request_error", code: str | None = None) -> bytes:
    """A refusal in OpenAI's form."""
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _frame(kind: str, model: str, id: str) -> dict[str, Any]:
    return {"id": id, "object": kind, "created": int(time.time()), "model": model}


def _told(told: Told) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": told.text or None}
    if told.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _encode(call.arguments).decode()},
            }
            for call in told.calls
        ]
    else:
        message["content"] = told.text
    return message


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
