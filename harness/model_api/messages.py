"""Anthropic's Messages API of a server: decoding requests, encoding replies.

Its blocks become the messages of a chat: a `tool_use` is a call, a `tool_result` a message of role
`tool`. Fields that shape the reply get the words of the chat API. A stream has the reply in one
piece. Source: https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import AgentCall, Message
from rehearsal_room.harness.model_api.known_parts import (
    INVALID,
    KnownParts,
    Read,
    Tools,
    fault_in,
)
from rehearsal_room.harness.model_api.request import ModelReply, ModelRequest, UnsupportedRequest

_encode = msgspec.json.Encoder().encode
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THOUGHT = "reasoning_content"  # the field of a chat message that a thought comes from, and goes to
_NO_ARGUMENTS: dict[str, Any] = {}


class _Tool(msgspec.Struct, frozen=True):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class _Choice(msgspec.Struct, frozen=True):
    type: str
    name: str = ""
    disable_parallel_tool_use: bool = False


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]]


class _Options(msgspec.Struct, frozen=True):
    """What is read of a request besides messages and tools, which are read on their own."""

    messages: msgspec.Raw
    tools: msgspec.Raw = msgspec.Raw(b"null")
    model: str = ""
    system: str | list[dict[str, Any]] | None = None
    tool_choice: _Choice | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None


class _Request(_Options, frozen=True, kw_only=True):
    """All that is read, in its types: for the sentence of a refusal."""

    messages: list[_Message]  # type: ignore[assignment]  # Raw in `_Options`
    tools: list[_Tool] | None = None  # type: ignore[assignment]


_decode = msgspec.json.Decoder(_Options).decode
_decode_messages = msgspec.json.Decoder(list[_Message]).decode
_decode_tools = msgspec.json.Decoder(list[_Tool] | None).decode


def read_request(body: bytes, known: KnownParts | None = None) -> ModelRequest:
    """The request in a body; `known` is what its client sent before. Raises UnsupportedRequest,
    whose message names the field."""
    known = known or KnownParts()
    try:
        request = _decode(body)
        messages = known.messages(bytes(request.messages), _conversation)
        tools = known.tools(bytes(request.tools), _tools)
    except INVALID as exc:
        why = fault_in(body, _Request, exc)
        raise UnsupportedRequest(f"the body is not a request for a message: {why}") from exc
    if request.system:
        messages = (Message("system", _text(request.system, "system")), *messages)
    return ModelRequest(
        model=request.model,
        messages=messages,
        tools=tools,
        fields=_fields(request),
        stream=bool(request.stream),
    )


def _conversation(text: bytes, num_before: int) -> Read:
    sent = _decode_messages(text)
    read: list[Message] = []
    for index, message in enumerate(sent, num_before):
        read += _messages(message, f"messages[{index}]")
    return Read(tuple(read), len(sent))


def _tools(text: bytes) -> Tools:
    return tuple([_tool(tool) for tool in _decode_tools(text) or ()])


def _fields(request: _Options) -> dict[str, Any]:
    """The fields that shape the reply, in the words of the chat API."""
    fields: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "stop": request.stop_sequences or None,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    if (choice := request.tool_choice) is not None:
        if choice.type == "tool":
            fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        else:
            fields["tool_choice"] = _CHOICES.get(choice.type, choice.type)
        if choice.disable_parallel_tool_use:
            fields["parallel_tool_calls"] = False
    return {name: value for name, value in fields.items() if value is not None}


def _tool(tool: _Tool) -> ToolSpec:
    if tool.input_schema is None:
        raise UnsupportedRequest(
            f"tools: {tool.name!r} is a tool of Anthropic's servers ({tool.type}), and this model "
            "has none of these; leave it out"
        )
    return ToolSpec(tool.name, tool.description or "", tool.input_schema)


def _messages(message: _Message, where: str) -> Iterator[Message]:
    """The chat messages of one message: results of tools come before the text beside them."""
    blocks = message.content
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    if message.role == "assistant":
        yield _assistant(blocks, where)
        return
    if message.role not in ("user", "system"):
        raise UnsupportedRequest(f"{where}: there is no role {message.role!r}")
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        call_id = block.get("tool_use_id")
        if not isinstance(call_id, str):
            raise UnsupportedRequest(f"{where}: a tool_result needs tool_use_id")
        yield Message("tool", _text(block.get("content") or "", where), (), call_id)
    said = [block for block in blocks if block.get("type") != "tool_result"]
    if said or not results:
        yield Message(message.role, _text(said, where))  # type: ignore[arg-type]  # checked above


def _assistant(blocks: Sequence[dict[str, Any]], where: str) -> Message:
    texts, thoughts, calls = [], [], []
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            texts.append(_string(block, "text", where))
        elif kind == "thinking":
            thoughts.append(_string(block, "thinking", where))
        elif kind == "tool_use":
            name, call_id = _string(block, "name", where), _string(block, "id", where)
            calls.append(AgentCall(name, block.get("input", _NO_ARGUMENTS), call_id))
        elif kind != "redacted_thinking":
            raise UnsupportedRequest(f"{where}: {kind} is not supported (expected text)")
    text, thought = "".join(texts), "".join(thoughts)
    if thought:
        return Message("assistant", f"<think>{thought}</think>{text}", tuple(calls), None, _THOUGHT)
    return Message("assistant", text, tuple(calls))


def _text(content: Any, where: str) -> str:
    """The text of a content. Raises UnsupportedRequest where it has something else."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise UnsupportedRequest(f"{where}: expected a text or a list of blocks")
    for block in content:
        if block.get("type") != "text":
            raise UnsupportedRequest(
                f"{where}: {block.get('type')} is not supported (expected text)"
            )
    return "\n\n".join([_string(block, "text", where) for block in content])


def _string(block: dict[str, Any], name: str, where: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise UnsupportedRequest(f"{where}: {name}: expected a text")
    return value


def message(answer: ModelReply, *, model: str, id: str) -> bytes:
    """The reply as one body."""
    return _encode(_frame(answer, model, id, _blocks(answer), _STOP[answer.finish]))


def events(answer: ModelReply, *, model: str, id: str) -> bytes:
    """The reply as server-sent events, each block in one piece."""
    begins = _frame(answer, model, id, [], None)
    begins["usage"] = {**begins["usage"], "output_tokens": 0}
    sent: list[dict[str, Any]] = [{"type": "message_start", "message": begins}]
    for index, block in enumerate(_blocks(answer)):
        start, deltas = _pieces(block)
        sent.append({"type": "content_block_start", "index": index, "content_block": start})
        sent += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        sent.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": _STOP[answer.finish], "stop_sequence": None}
    sent.append({"type": "message_delta", "delta": delta, "usage": _usage(answer)})
    sent.append({"type": "message_stop"})
    return b"".join([_event(one["type"], one) for one in sent])


def error(why: str, status: int, code: str | None = None) -> bytes:
    """A refusal in the form of Anthropic's errors, which have no code besides the status."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return _encode({"type": "error", "error": {"type": kind, "message": why}})


def token_count(number: int) -> bytes:
    """The answer to a request that only counts the tokens of its messages."""
    return _encode({"input_tokens": number})


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(data))


def _frame(
    answer: ModelReply, model: str, id: str, blocks: list[dict[str, Any]], stop: str | None
) -> dict[str, Any]:
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": _usage(answer),
    }


def _blocks(answer: ModelReply) -> list[dict[str, Any]]:
    reply = answer.reply
    blocks: list[dict[str, Any]] = []
    if reply.thought:
        blocks.append({"type": "thinking", "thinking": reply.thought, "signature": ""})
    if reply.text or not (reply.calls or reply.thought):
        blocks.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        arguments = call.arguments
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}  # a block has an object
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a stream begins a block, and what it adds."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        delta = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [delta]
    text = _encode(block["input"]).decode()
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]


def _usage(answer: ModelReply) -> dict[str, int]:
    usage = answer.usage
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.completion_tokens,
    }
