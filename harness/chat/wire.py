"""The chat-completions format on the wire: windows to request bodies, response bodies to replies.

Only the fields that we need are decoded, and leniently where servers differ: `content` may be null
or a list of parts, arguments may be an object, ids, usage and finish reason may be missing.

Whatever a server sends, a reply can be encoded for the log: halves of surrogate pairs are replaced,
and arguments that no log can hold stay the text that they were.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from envpool.core.types import ToolSpec
from harness.chat.retry import Failure
from harness.core.messages import AgentCall, Message, Reply, Usage, Window
from harness.dialects.base import argument_fault

MAX_CACHED_HEADS = 1024
_MOST_TOKENS = 2**53  # in one request
MAX_MESSAGE = 500  # characters of a server's message that we pass on

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


class _Asking(msgspec.Struct, gc=False):
    role: str
    content: str | None
    tool_calls: list[_ToolCall]


class _Result(msgspec.Struct, gc=False):
    role: str
    content: str
    tool_call_id: str


_Wire = _Text | _Asking | _Result


class RequestWriter:
    """Writes request bodies. All but the messages is encoded once for each set of tools.

    `fields` are the body's own fields (`model`, `temperature`, ...), in their order.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)
        # By whether a summary is asked for and the identities of the tools; the tools are kept, so
        # that no identity is used anew.
        self._heads: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}

    def body(self, window: Window, *, seed: int | None = None) -> bytes:
        """The request's body; `seed` None: the server samples as it likes.

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
            fields["tools"] = [_wire_tool(tool) for tool in tools]
            if asks_for_summary:  # the tools stay, so that the prompt begins as the one before did
                fields["tool_choice"] = "none"
        head = _encode(fields)[:-1] + (b',"messages":' if fields else b'"messages":')
        if len(self._heads) >= MAX_CACHED_HEADS:  # worlds whose tools are new in every episode
            self._heads.clear()
        self._heads[key] = (tools, head)
        return head


def wire_message(message: Message) -> _Wire:
    """One message as the chat API has it."""
    if message.call_id is not None:
        return _Result(message.role, message.content, message.call_id)
    if message.calls:
        return _Asking(
            message.role, message.content or None, [_wire_call(c) for c in message.calls]
        )
    return _Text(message.role, message.content)


def _wire_call(call: AgentCall) -> _ToolCall:
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else _encode(arguments).decode()
    return _ToolCall(call.id, _Function(call.name, text))


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _AnsweredFunction(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class _AnsweredCall(msgspec.Struct, gc=False):
    function: _AnsweredFunction | None = None
    id: str | None = None


class _Answered(msgspec.Struct, gc=False):
    content: str | list[_Part] | None = None
    tool_calls: list[_AnsweredCall] | None = None
    reasoning_content: Any = None  # DeepSeek's name and vLLM's older one; only texts are kept
    reasoning: Any = None  # vLLM's newer one, and OpenRouter's
    refusal: str | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Answered | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    # Whatever they are; only numbers of tokens are taken.
    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: Any = None


class _Completion(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None  # some gateways report an error under status 200


_decode = msgspec.json.Decoder(_Completion).decode
_decode_any = msgspec.json.Decoder().decode


def read_completion(body: bytes, *, attempts: int = 1) -> Reply | Failure:
    """The reply in a response of status 200, or why there is none in it."""
    try:
        completion = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        whole = _with_whole_characters(body)
        if whole != body:
            return read_completion(whole, attempts=attempts)
        return Failure("malformed", f"the answer is no chat completion: {exc}")
    choices = completion.choices
    if not choices or choices[0].message is None:
        if completion.error is not None:
            return _reported(completion.error)
        return Failure("malformed", "the answer holds no choice")
    choice = choices[0]
    message = choice.message
    assert message is not None
    given = message.tool_calls
    calls = tuple([_agent_call(call) for call in given]) if given else ()
    finish = choice.finish_reason or ("tool_calls" if calls else "stop")
    usage = _told(completion.usage) if completion.usage else Usage()
    return Reply(_text(message), calls, finish, usage, attempts=attempts)


def _told(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        _num_tokens(usage.prompt_tokens), _num_tokens(usage.completion_tokens), _num_tokens(cached)
    )


def _num_tokens(told: Any) -> int:
    """A count as a log can hold it. What cannot be one counts as not reported: less than nothing
    would give money back to a budget."""
    return told if type(told) is int and 0 <= told <= _MOST_TOKENS else 0


_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..(?:\\u[dD][c-fC-F]..)?|u[dD][c-fC-F]..|.)", re.DOTALL)


def _with_whole_characters(body: bytes) -> bytes:
    """JSON with U+FFFD for every half of a surrogate pair and every byte that is no UTF-8.

    Example: b'"\\ud83d\\ude00 \\ud83d"' -> b'"\\ud83d\\ude00 \\ufffd"'
    """
    text = body.decode(errors="replace").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if _is_half(found[0]) else found[0], text)


def _is_half(escape: bytes) -> bool:
    return len(escape) == 6  # a pair has 12 bytes, any other escape has 2 here


def _text(message: _Answered) -> str:
    content = message.content
    if isinstance(content, list):
        content = "".join(part.text or "" for part in content)
    text = content or message.refusal or ""
    thought = message.reasoning_content or message.reasoning
    return f"<think>{thought}</think>{text}" if thought and isinstance(thought, str) else text


def _agent_call(call: _AnsweredCall) -> AgentCall:
    function = call.function or _AnsweredFunction()
    return AgentCall(function.name or "", read_arguments(function.arguments), call.id or "")


def read_arguments(sent: Any) -> Any:
    """A call's arguments, decoded; the text itself where it is no JSON, or no log can hold it.

    Nothing at all means no arguments: several servers write it so for tools without parameters.

    Example: '{"id": 7}' -> {"id": 7}; '{"id": 7' -> '{"id": 7'; '' -> {}
    """
    if sent is None or sent == "":
        return {}
    if not isinstance(sent, str):
        return sent if argument_fault(sent) is None else _written(sent)
    try:
        value = _decode_any(sent)
    except (msgspec.DecodeError, RecursionError):
        return sent
    return value if argument_fault(value) is None else sent


def _written(value: Any) -> str:
    try:
        return _encode(value).decode()
    except RecursionError:
        return repr(type(value))


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Why a response of another status than 200 was refused.

    Example: 404 {"error": {"message": "no such model", "code": "model_not_found"}} ->
        Failure("status", "no such model", 404, "model_not_found")
    """
    try:
        told = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = body.decode(errors="replace")
    if isinstance(told, dict) and told.get("error"):
        told = told["error"]
    message, code = _message_and_code(told)
    return Failure("status", message, status, code, headers)


def _reported(error: Any) -> Failure:
    message, code = _message_and_code(error)
    if code.isdecimal() and 400 <= int(code) <= 599:
        return Failure("status", message, int(code))
    return Failure("malformed", f"the answer holds an error and no choice: {message}", 0, code)


def _message_and_code(told: Any) -> tuple[str, str]:
    if not isinstance(told, dict):
        return _short(told if isinstance(told, str) else repr(told)), ""
    message = told.get("message") or told.get("detail") or told
    code = told.get("code") or told.get("type") or ""
    return _short(message if isinstance(message, str) else repr(message)), str(code)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"


def is_context_overflow(failure: Failure) -> bool:
    """Whether a request was refused because the conversation is too long for the model."""
    if failure.status not in (400, 413, 422):
        return False
    return failure.code in _CONTEXT_CODES or _CONTEXT.search(failure.message) is not None
