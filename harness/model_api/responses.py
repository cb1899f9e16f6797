"""OpenAI's Responses API of a server: decoding requests, encoding replies.

Its items become the messages of a chat: calls that follow each other, and the text and the thought
before them, are one message of the assistant. A stream has each item in one piece. A request that
goes on after an earlier response (`previous_response_id`) names it; the caller knows its messages.
Functions of a namespace get one name, as in `mcp__world__get_order`.
Source: https://platform.openai.com/docs/api-reference/responses
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.wire import read_arguments
from rehearsal_room.harness.core.messages import AgentCall, Message
from rehearsal_room.harness.model_api.known_parts import INVALID, KnownParts, Read, fault_in
from rehearsal_room.harness.model_api.request import ModelReply, ModelRequest, UnsupportedRequest

_encode = msgspec.json.Encoder().encode
_ROLES = {"developer": "system"}
_THOUGHT = "reasoning_content"  # the field of a chat message that a thought comes from, and goes to
_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal")


class _Tool(msgspec.Struct, frozen=True):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    tools: list["_Tool"] = []  # of a namespace


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"
    name: str = ""
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class _Text(msgspec.Struct, frozen=True):
    format: _Format | None = None


class _Reasoning(msgspec.Struct, frozen=True):
    effort: str | None = None


class _Options(msgspec.Struct, frozen=True):
    """What is read of a request besides its input, which is read on its own."""

    input: msgspec.Raw = msgspec.Raw(b'""')
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: _Reasoning | None = None
    text: _Text | None = None
    stream: bool | None = None


class _Request(_Options, frozen=True):
    """All that is read, in its types: for the sentence of a refusal."""

    input: str | list[dict[str, Any]] = ""  # type: ignore[assignment]  # Raw in `_Options`


_decode = msgspec.json.Decoder(_Options).decode
_decode_input = msgspec.json.Decoder(str | list[dict[str, Any]]).decode


# The one name of a function of a namespace -> the namespace and the function's own name.
Namespaces = Mapping[str, tuple[str, str]]
_NO_SPACES: Namespaces = {}


class ResponsesRequest(msgspec.Struct, frozen=True):
    """A request; its messages are those after the earlier response that it names (empty: none)."""

    request: ModelRequest
    instructions: str
    previous: str
    namespaces: Namespaces = _NO_SPACES


def read_request(body: bytes, known: KnownParts | None = None) -> ResponsesRequest:
    """The request in a body; `known` is what its client sent before. Raises UnsupportedRequest,
    whose message names the field."""
    known = known or KnownParts()
    try:
        request = _decode(body)
        messages = known.messages(bytes(request.input), _input)
    except INVALID as exc:
        why = fault_in(body, _Request, exc)
        raise UnsupportedRequest(f"the body is not a request for a response: {why}") from exc
    asked = ModelRequest(
        model=request.model,
        messages=messages,
        tools=known.share(tuple([spec for tool in request.tools or () for spec in _specs(tool)])),
        fields=_fields(request),
        stream=bool(request.stream),
    )
    spaces = [tool for tool in request.tools or () if tool.type == "namespace"]
    names = [(space.name, tool.name) for space in spaces for tool in space.tools]
    return ResponsesRequest(
        asked,
        request.instructions or "",
        request.previous_response_id or "",
        {_joined(*name): name for name in names},
    )


def _input(text: bytes, num_before: int) -> Read:
    items = _decode_input(text)
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    return Read(_messages(items, num_before), len(items))


def with_instructions(read: ResponsesRequest, before: Sequence[Message]) -> ModelRequest:
    """The whole request after an earlier conversation; instructions hold for one request."""
    head = (Message("system", read.instructions),) if read.instructions else ()
    messages = (*head, *before, *read.request.messages)
    return msgspec.structs.replace(read.request, messages=messages)


def _fields(request: _Options) -> dict[str, Any]:
    """The fields that shape the reply, in the words of the chat API."""
    fields: dict[str, Any] = {
        "max_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "parallel_tool_calls": request.parallel_tool_calls if request.tools else None,
        "reasoning_effort": None if request.reasoning is None else request.reasoning.effort,
        "tool_choice": _choice(request.tool_choice) if request.tools else None,
        "response_format": None if request.text is None else _format(request.text.format),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _choice(choice: Any) -> Any:
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return choice


def _format(format: _Format | None) -> dict[str, Any] | None:
    if format is None or format.type == "text":
        return None
    if format.type != "json_schema":
        return {"type": format.type}
    schema = {"name": format.name, "schema": format.schema, "strict": format.strict}
    return {"type": "json_schema", "json_schema": schema}


def _specs(tool: _Tool) -> Iterator[ToolSpec]:
    """The functions that a tool is: one, or those of a namespace."""
    if tool.type != "namespace":
        yield _tool(tool)
        return
    for one in tool.tools:
        spec = _tool(one)
        yield ToolSpec(_joined(tool.name, one.name), spec.description, spec.schema)


def _joined(namespace: str, name: str) -> str:
    return f"{namespace}__{name}"


def _tool(tool: _Tool) -> ToolSpec:
    if tool.type != "function":
        raise UnsupportedRequest(
            f"tools: {tool.type} is a tool of OpenAI's servers, and this model has none of these; "
            "leave it out"
        )
    return ToolSpec(tool.name, tool.description or "", tool.parameters or {})


class _Draft:
    """A message of the assistant, of which more items may follow."""

    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.texts: list[str] = []
        self.calls: list[AgentCall] = []

    def message(self) -> list[Message]:
        """The message; none where no item came."""
        text, thought = "".join(self.texts), "".join(self.thoughts)
        if not (text or thought or self.calls):
            return []
        if thought:
            shown = f"<think>{thought}</think>{text}"
            return [Message("assistant", shown, tuple(self.calls), None, _THOUGHT)]
        return [Message("assistant", text, tuple(self.calls))]


def _messages(items: Sequence[dict[str, Any]], num_before: int) -> tuple[Message, ...]:
    messages: list[Message] = []
    draft = _Draft()
    for index, item in enumerate(items, num_before):
        where, kind = f"input[{index}]", item.get("type", "message")
        role = _ROLES.get(str(item.get("role")), str(item.get("role")))
        is_own = kind in ("reasoning", "function_call") or (
            kind == "message" and role == "assistant"
        )
        if not is_own or (draft.calls and kind != "function_call"):
            messages += draft.message()
            draft = _Draft()
        if kind == "reasoning":
            draft.thoughts += [
                _text(item.get(name) or [], where) for name in ("summary", "content")
            ]
        elif kind == "function_call":
            draft.calls.append(_call(item, where))
        elif kind == "function_call_output":
            text, call_id = _text(item.get("output"), where), item.get("call_id")
            if not isinstance(call_id, str):
                raise UnsupportedRequest(f"{where}: a function_call_output needs call_id")
            messages.append(Message("tool", text, (), call_id))
        elif kind != "message":
            raise UnsupportedRequest(f"{where}: {kind} is not supported (expected text)")
        elif role == "assistant":
            draft.texts.append(_text(item.get("content"), where))
        elif role in ("user", "system"):
            messages.append(Message(role, _text(item.get("content"), where)))  # type: ignore[arg-type]  # checked
        else:
            raise UnsupportedRequest(f"{where}: there is no role {role!r}")
    return (*messages, *draft.message())


def _call(item: dict[str, Any], where: str) -> AgentCall:
    name, call_id = item.get("name"), item.get("call_id")
    if not isinstance(name, str) or not isinstance(call_id, str):
        raise UnsupportedRequest(f"{where}: a function_call needs name and call_id")
    if namespace := item.get("namespace"):
        name = _joined(str(namespace), name)
    return AgentCall(name, read_arguments(item.get("arguments")), call_id)


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UnsupportedRequest(f"{where}: expected a text or a list of parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind not in _TEXTS:
            raise UnsupportedRequest(f"{where}: {kind} is not supported (expected text)")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise UnsupportedRequest(f"{where}: text: expected a text")
        texts.append(text)
    return "".join(texts)


def response(
    answer: ModelReply, *, model: str, id: str, namespaces: Namespaces = _NO_SPACES
) -> bytes:
    """The reply as one body."""
    return _encode(_frame(answer, model, id, _items(answer, id, namespaces), is_over=True))


def events(
    answer: ModelReply, *, model: str, id: str, namespaces: Namespaces = _NO_SPACES
) -> bytes:
    """The reply as server-sent events, each item in one piece."""
    begun = _frame(answer, model, id, [], is_over=False)
    sent: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    items = _items(answer, id, namespaces)
    for index, item in enumerate(items):
        sent += _item_events(item, index)
    whole = _frame(answer, model, id, items, is_over=True)
    sent.append({"type": f"response.{whole['status']}", "response": whole})
    return b"".join(
        [
            b"event: %b\ndata: %b\n\n"
            % (one["type"].encode(), _encode({**one, "sequence_number": number}))
            for number, one in enumerate(sent)
        ]
    )


def _item_events(item: dict[str, Any], index: int) -> list[dict[str, Any]]:
    where = {"output_index": index, "item_id": item["id"]}
    sent: list[dict[str, Any]] = []
    if item["type"] == "message":
        part = item["content"][0]
        at = {**where, "content_index": 0}
        begun: dict[str, Any] = {**item, "status": "in_progress", "content": []}
        sent = [
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {
                "type": "response.output_text.delta",
                **at,
                "delta": part["text"],
                "logprobs": [],
            },
            {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []},
            {"type": "response.content_part.done", **at, "part": part},
        ]
    elif item["type"] == "function_call":
        begun = {**item, "status": "in_progress", "arguments": ""}
        kind, text = "response.function_call_arguments", item["arguments"]
        sent = [
            {"type": f"{kind}.delta", **where, "delta": text},
            {"type": f"{kind}.done", **where, "name": item["name"], "arguments": text},
        ]
    else:
        begun = item
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *sent,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _items(answer: ModelReply, id: str, namespaces: Namespaces) -> list[dict[str, Any]]:
    reply = answer.reply
    items: list[dict[str, Any]] = []
    if reply.thought:
        summary = [{"type": "summary_text", "text": reply.thought}]
        items.append({"type": "reasoning", "id": f"rs_{id}", "summary": summary})
    if reply.text or not reply.calls:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{id}",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        )
    for number, call in enumerate(reply.calls):
        arguments = call.arguments
        space, name = namespaces.get(call.name, ("", call.name))
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{id}_{number}",
                "call_id": call.id,
                "name": name,
                **({"namespace": space} if space else {}),
                "arguments": arguments
                if isinstance(arguments, str)
                else _encode(arguments).decode(),
                "status": "completed",
            }
        )
    return items


def _frame(
    answer: ModelReply, model: str, id: str, items: list[dict[str, Any]], *, is_over: bool
) -> dict[str, Any]:
    usage, is_cut = answer.usage, answer.finish == "length"
    status = ("incomplete" if is_cut else "completed") if is_over else "in_progress"
    counted = {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_over and is_cut else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": items,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": counted if is_over else None,
    }
