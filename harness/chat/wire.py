"""The chat-completions format on the wire: windows to request bodies, response bodies to replies.

Only the needed fields are decoded, and leniently where servers differ: `content` may be null or a
list of parts, arguments may be an object, ids, usage and finish reason may be missing.

Every reply can be encoded for the log, whatever the server sends: halves of surrogate pairs are
replaced, and arguments that the log cannot hold stay the text that they were.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply, Usage, Window
from rehearsal_room.scenarios.core.short_text import one_line

MAX_CACHED_HEADS = 1024
_MAX_TOKENS = 2**53  # of one request
MAX_MESSAGE = 500  # characters of a server's message that are shown

_encode = msgspec.json.Encoder().encode
_CONTEXT = re.compile(
    r"context[ _](length|window|size)|maximum model length|max_model_len"
    r"|(prompt|input) is too long|too many (input )?tokens|reduce the length of the messages"
    r"|exceeds the maximum number of tokens|max_new_tokens",
    re.IGNORECASE,
)
_CONTEXT_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
)


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str


class _ToolCall(msgspec.Struct, gc=False):
    id: str
    function: _Function
    type: str = "function"


class _Text(msgspec.Struct, gc=False):
    role: str
    content: str


class _TextWithCalls(msgspec.Struct, gc=False):
    role: str
    content: str | None
    tool_calls: list[_ToolCall]


class _Result(msgspec.Struct, gc=False):
    role: str
    content: str
    tool_call_id: str


_Wire = _Text | _TextWithCalls | _Result


class RequestWriter:
    """Writes request bodies. Everything except the messages is encoded once for each set of tools.

    `fields` are the body's other fields (`model`, `temperature`, ...), in their order.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)
        # By whether the window asks for a summary, and the ids of the tools. The tools are stored
        # too, so that no other object can get their id.
        self._heads: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}

    def body(self, window: Window, *, seed: int | None = None) -> bytes:
        """The request's body; `seed` None: the server chooses the seed.

        Example: a window of one user message "Hi" ->
            {"model":"m","messages":[{"role":"user","content":"Hi"}]}
        """
        tail = b"}" if seed is None else b',"seed":%d}' % seed
        messages = _encode([wire_message(message) for message in window.messages])
        return b"".join((self._head(window.tools, window.asks_for_summary), messages, tail))

    def _head(self, tools: tuple[ToolSpec, ...], asks_for_summary: bool) -> bytes:
        key = (asks_for_summary, *map(id, tools))
        known = self._heads.get(key)
        if known is not None:
            return known[1]
        fields = dict(self._fields)
        if tools:
            fields["tools"] = [wire_tool(tool) for tool in tools]
            if asks_for_summary:  # the tools stay, so that the prompt begins as the previous one
                fields["tool_choice"] = "none"
        head = _encode(fields)[:-1] + (b',"messages":' if fields else b'"messages":')
        if len(self._heads) >= MAX_CACHED_HEADS:  # worlds that make new tools for each episode
            self._heads.clear()
        self._heads[key] = (tools, head)
        return head


def wire_message(message: Message) -> _Wire:
    """A message in the form of the chat API."""
    if message.call_id is not None:
        return _Result(message.role, message.content, message.call_id)
    if message.calls:
        return _TextWithCalls(
            message.role, message.content or None, [_wire_call(c) for c in message.calls]
        )
    return _Text(message.role, message.content)


def _wire_call(call: AgentCall) -> _ToolCall:
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else _encode(arguments).decode()
    return _ToolCall(call.id, _Function(call.name, text))


def wire_tool(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the form of the chat API."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _ReplyFunction(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class _ReplyCall(msgspec.Struct, gc=False):
    function: _ReplyFunction | None = None
    id: str | None = None


class _ReplyMessage(msgspec.Struct, gc=False):
    content: str | list[_Part] | None = None
    tool_calls: list[_ReplyCall] | None = None
    reasoning_content: Any = None  # DeepSeek's name and vLLM's older one; used if it is a text
    reasoning: Any = None  # vLLM's newer name, and OpenRouter's
    refusal: str | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _ReplyMessage | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    # Of any type: `_num_tokens` uses only valid counts.
    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: Any = None


class _Completion(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None  # some gateways report an error under status 200


_decode = msgspec.json.Decoder(_Completion).decode
_decode_any = msgspec.json.Decoder().decode


def read_completion(body: bytes, *, attempts: int = 1) -> Reply | AttemptFailure:
    """The reply in a response of status 200, or the reason why there is none."""
    try:
        completion = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        repaired = _replace_half_characters(body)
        if repaired != body:
            return read_completion(repaired, attempts=attempts)
        return AttemptFailure("malformed", f"the answer is not a chat completion: {exc}")
    choices = completion.choices
    if not choices or choices[0].message is None:
        if completion.error is not None:
            return _failure_of_error(completion.error)
        return AttemptFailure("malformed", "the answer contains no choice")
    choice = choices[0]
    message = choice.message
    assert message is not None
    sent = message.tool_calls
    calls = tuple([_agent_call(call) for call in sent]) if sent else ()
    finish = choice.finish_reason or ("tool_calls" if calls else "stop")
    usage = _usage_of(completion.usage) if completion.usage else Usage()
    return Reply(_text(message), calls, finish, usage, attempts=attempts)


def _usage_of(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        _num_tokens(usage.prompt_tokens), _num_tokens(usage.completion_tokens), _num_tokens(cached)
    )


def _num_tokens(value: Any) -> int:
    """A reported count of tokens; 0 for a value that cannot be one: a negative count would
    return money to a budget, and the log cannot hold a huge one."""
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else 0


_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..(?:\\u[dD][c-fC-F]..)?|u[dD][c-fC-F]..|.)", re.DOTALL)


def _replace_half_characters(body: bytes) -> bytes:
    """JSON with U+FFFD for every half of a surrogate pair and every byte that is not UTF-8.

    Example: b'"\\ud83d\\ude00 \\ud83d"' -> b'"\\ud83d\\ude00 \\ufffd"'
    """
    text = body.decode(errors="replace").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if _is_half(found[0]) else found[0], text)


def _is_half(escape: bytes) -> bool:
    return len(escape) == 6  # a pair has 12 bytes, any other escape has 2 here


def _text(message: _ReplyMessage) -> str:
    content = message.content
    if isinstance(content, list):
        content = "".join(part.text or "" for part in content)
    text = content or message.refusal or ""
    thought = message.reasoning_content or message.reasoning
    return f"<think>{thought}</think>{text}" if thought and isinstance(thought, str) else text


def _agent_call(call: _ReplyCall) -> AgentCall:
    function = call.function or _ReplyFunction()
    return AgentCall(function.name or "", read_arguments(function.arguments), call.id or "")


def read_arguments(sent: Any) -> Any:
    """A call's arguments, decoded; the text itself where it is not JSON, or the log cannot
    hold its value.

    An empty text means no arguments: several servers write it so for tools without parameters.

    Example: '{"id": 7}' -> {"id": 7}; '{"id": 7' -> '{"id": 7'; '' -> {}
    """
    if sent is None or sent == "":
        return {}
    if not isinstance(sent, str):
        return sent if argument_fault(sent) is None else _encode_as_text(sent)
    try:
        value = _decode_any(sent)
    except (msgspec.DecodeError, RecursionError):
        return sent
    return value if argument_fault(value) is None else sent


def _encode_as_text(value: Any) -> str:
    try:
        return _encode(value).decode()
    except RecursionError:
        return repr(type(value))


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailure:
    """The failure that a response of a status other than 200 reports.

    Example: 404 {"error": {"message": "no such model", "code": "model_not_found"}} ->
        Failure("status", "no such model", 404, "model_not_found")
    """
    try:
        error = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        error = body.decode(errors="replace")
    if isinstance(error, dict) and error.get("error"):
        error = error["error"]
    message, code = _message_and_code(error)
    return AttemptFailure("status", message, status, code, headers)


def _failure_of_error(error: Any) -> AttemptFailure:
    message, code = _message_and_code(error)
    if code.isdecimal() and 400 <= int(code) <= 599:
        return AttemptFailure("status", message, int(code))
    return AttemptFailure(
        "malformed", f"the answer contains an error and no choice: {message}", 0, code
    )


def _message_and_code(error: Any) -> tuple[str, str]:
    if not isinstance(error, dict):
        return one_line(error if isinstance(error, str) else repr(error), MAX_MESSAGE), ""
    message = error.get("message") or error.get("detail") or error
    code = error.get("code") or error.get("type") or ""
    return one_line(message if isinstance(message, str) else repr(message), MAX_MESSAGE), str(code)


def is_context_overflow(failure: AttemptFailure) -> bool:
    """Whether the server refused a request because it is too long for the model's context."""
    if failure.status not in (400, 413, 422):
        return False
    return failure.code in _CONTEXT_CODES or _CONTEXT.search(failure.message) is not None
