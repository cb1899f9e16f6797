"""Chat completions from bytes: a reply, or the reason why there is none.

Servers differ, so what they send is read leniently. Text and calls may be split over several
choices; `content` may be null, a text or a list of parts; arguments may be an object; ids may be
numbers; ids, usage and finish reason may be missing; a call may have the older form
(`function_call`).

Every reply can be encoded for the log, whatever the server sends: halves of surrogate pairs are
replaced, and arguments and fields that the log cannot hold stay the text that they were, or are
left out.

A generation that failed gives no reply (see harness.model_servers.finish_reasons).
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.chat.wire import read_arguments
from rehearsal_room.harness.core.messages import AgentCall, ContentKind, Reply, Usage
from rehearsal_room.harness.model_servers.event_stream import EventStream
from rehearsal_room.harness.model_servers.finish_reasons import FinishKind, finish_kind
from rehearsal_room.scenarios.core.short_text import one_line

MAX_MESSAGE = 500  # characters of a server's message that are shown
_MAX_TOKENS = 2**53  # of one request

# Fields with the thought as plain text, the usual ones first: DeepSeek's (and vLLM's older) name,
# vLLM's newer one (and OpenRouter's), and those of other servers.
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thought")
_MESSAGE = frozenset({"role", "content", "tool_calls", "function_call", "refusal"})
# Other fields of a message that a server may want back.
_WANTED = re.compile(
    r"reason|think|thought|signature|opaque|encrypted|extra_content|specific_field"
)
_CALL = frozenset({"id", "type", "index", "function"})
_FUNCTION = frozenset({"name", "arguments"})
_USUAL_COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})


class _Completion(msgspec.Struct, gc=False):
    choices: Any = None
    usage: Any = None
    error: Any = None  # some gateways report an error under status 200


_EVENTS = (b"data:", b"event:", b": ")  # begin a stream of events
_BOM = b"\xef\xbb\xbf"
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
        if body.startswith(_BOM):
            return read_completion(body[len(_BOM) :], attempts=attempts)
        if body.lstrip().startswith(_EVENTS) and (whole := _streamed_whole(body)) is not None:
            return read_completion(whole, attempts=attempts)
        if is_page(body):
            return AttemptFailure("malformed", "the answer is a web page (HTML)")
        return AttemptFailure("malformed", f"the answer is not a chat completion: {exc}")
    if completion.error:
        return failure_of_error(completion.error)
    choices = completion.choices
    if not isinstance(choices, list):
        choices = ()
    parts, read = [], []
    try:
        for choice in choices:
            part = _read_choice(choice)
            if isinstance(part, AttemptFailure):
                return part
            if part is not None:
                parts.append(part)
                read.append(choice)
    except UnreadableError as exc:
        return AttemptFailure("malformed", f"the answer is not a chat completion: {exc}")
    if not parts:
        if (error := error_in(body)) is not None:
            return failure_of_error(error)
        return AttemptFailure("malformed", "the answer contains no choice")
    part = parts[0] if len(parts) == 1 else _joined(parts)
    if (failure := _fault_of(part)) is not None:
        return failure
    text, calls, kind, _, thought, fields = part
    finish = "length" if kind == "cut" else "tool_calls" if calls else "stop"
    usage = completion.usage
    return Reply(
        text,
        calls,
        finish,
        _usage_of(usage) if isinstance(usage, dict) else Usage(),
        attempts=attempts,
        thought=thought,
        fields=fields or None,
        content=_unusual_content(read[0], calls) if len(parts) == 1 else "",
    )


def _unusual_content(choice: Any, calls: tuple[AgentCall, ...]) -> ContentKind:
    """See Reply.content."""
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return ""
    content = message.get("content")
    if content is None and (not calls or message.get("refusal")):
        return "null"
    if not calls and message.get("tool_calls") == []:
        return "no_calls"
    return "empty" if content == "" and calls else ""


def _streamed_whole(body: bytes) -> bytes | None:
    """The completion in a stream that was not asked for; None: the stream has no end."""
    events = EventStream()
    events.feed(body)
    whole = events.completion()
    return whole if not events.fault and (events.has_ended or events.has_failed) else None


def error_in(body: bytes) -> Any:
    """The error that a body without choices reports in another place than `error`; None: it
    reports none.

    Example: b'{"object": "error", "message": "busy", "code": 503}' -> the same, decoded
    """
    try:
        found = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(found, dict) or "choices" in found:
        return None
    errors = found.get("errors")
    if errors:
        return errors[0] if isinstance(errors, list) else errors
    says = found.get("message") or found.get("detail")
    is_error = found.get("object") == "error" or found.get("success") is False
    return found if says and (is_error or "detail" in found) else None


def is_page(body: bytes) -> bool:
    """Whether a body is a web page, and not JSON."""
    return body.removeprefix(_BOM).lstrip()[:1] == b"<"


class UnreadableError(Exception):
    """A field has a value of a type that says nothing; the message names the field."""


def _require(value: Any, kinds: tuple[type, ...], name: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise UnreadableError(f"{name} is a {type(value).__name__}")


# Text, calls, meaning and word of the finish reason, field of the thought, other fields.
_Part = tuple[str, tuple[AgentCall, ...], FinishKind | None, Any, str, dict[str, Any]]


def _read_choice(choice: Any) -> _Part | AttemptFailure | None:
    """What one choice says; None: it cannot be read."""
    if not isinstance(choice, dict):
        return None
    if error := choice.get("error"):
        return failure_of_error(error)
    message = choice.get("message")
    if not isinstance(message, dict):
        message = choice.get("delta")  # as in a stream
        if not isinstance(message, dict):
            text = choice.get("text")  # as of completions that are not of a chat
            if not isinstance(text, str):
                return None
            message = {"content": text}
    if error := message.get("error"):
        return failure_of_error(error)
    word = choice.get("finish_reason")
    text, thought, fields = read_message(message)
    return text, calls_of(message), finish_kind(word), word, thought, fields


def _joined(parts: list[_Part]) -> _Part:
    """Several choices as one. We never ask for alternatives, so their texts and calls belong
    together."""
    texts: list[str] = []
    calls: list[AgentCall] = []
    fields: dict[str, Any] = {}
    for part in parts:
        if part[0] and part[0] not in texts:
            texts.append(part[0])
        calls += part[1]
        fields |= part[5]
    ranks: tuple[FinishKind | None, ...] = ("failed", "refused", "cut", "calls", "stop", None)
    worst = min(parts, key=lambda part: ranks.index(part[2]))
    # The thought begins the text only where it is in the first choice that has a text.
    thought = next((part[4] for part in parts if part[0]), "")
    return "\n".join(texts), tuple(calls), worst[2], worst[3], thought, fields


def _fault_of(part: _Part) -> AttemptFailure | None:
    """Why a choice gives no reply, whatever text or calls it has; None: it gives one."""
    text, calls, kind, word, _, _ = part
    if kind in ("failed", "refused"):
        return generation_fault(word)
    if calls or kind in ("cut", "stop"):
        return None
    if kind == "calls":
        return AttemptFailure("malformed", f"the finish reason is {_shown(word)} without a call")
    return None if text else AttemptFailure("malformed", "the choice is empty")


def generation_fault(word: Any) -> AttemptFailure | None:
    """Why a finish reason makes no reply of what came with it; None: it does not."""
    kind = finish_kind(word)
    if kind == "failed":
        return AttemptFailure("malformed", f"the generation failed (finish reason {_shown(word)})")
    if kind == "refused":
        fault = f"the provider withheld the reply (finish reason {_shown(word)})"
        return AttemptFailure("refused", fault)
    return None


def _shown(word: Any) -> str:
    return repr(one_line(str(word), 40))


def read_message(message: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """A message's text, with the thought in front, the field of the thought, and the fields to
    send back. Raises UnreadableError."""
    content = message.get("content")
    thought, field = "", ""
    if content is None or isinstance(content, str):
        text = content or ""
    else:
        _require(content, (list, dict), "content")
        text, thought = _text_of_parts(content)
        field = "content" if thought else ""
    if not text and isinstance(refusal := message.get("refusal"), str):
        text = refusal
    fields: dict[str, Any] = {}
    if not message.keys() <= _MESSAGE:
        if not field:
            field, thought = _thought_of(message)
        fields = {
            name: value
            for name, value in message.items()
            if name not in _MESSAGE
            and value
            and value != thought
            and _WANTED.search(name)
            and argument_fault(value) is None
        }
    if field == "content":  # it is the message's content that a server may want back
        if argument_fault(content) is None:
            fields["content"] = content
        field = ""
    return (f"<think>{thought}</think>{text}" if thought else text), field, fields


def _thought_of(message: dict[str, Any]) -> tuple[str, str]:
    """The field with the thought, and the thought; both empty where there is none."""
    for name in THOUGHTS:
        thought = message.get(name)
        if thought and isinstance(thought, str):
            return name, thought
    return "", ""


def _text_of_parts(content: Any) -> tuple[str, str]:
    """The text of a content in parts, and the thought in it (Mistral's form).

    Example: [{"type": "text", "text": "a"}, {"text": "b"}] -> ("ab", "")
    """
    texts, thoughts = [], []
    for part in content if isinstance(content, list) else (content,):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            thought = part.get("thinking") or part.get("reasoning")
            if thought is not None:
                thoughts.append(thought if isinstance(thought, str) else _text_of_parts(thought)[0])
                continue
            text = part.get("text") or part.get("refusal")
            if isinstance(text, dict):  # {"value": "a", "annotations": []}
                text = text.get("value")
            if isinstance(text, str):
                texts.append(text)
    return "".join(texts), "".join(thoughts)


def calls_of(message: dict[str, Any]) -> tuple[AgentCall, ...]:
    """The calls of an assistant's message. Raises UnreadableError."""
    sent = message.get("tool_calls")
    if not sent and type(message.get("content")) is list:  # Anthropic's form
        sent = [part for part in message["content"] if _is_call(part)]
    if sent:
        if isinstance(sent, dict):
            sent = [sent]
        if type(sent) is not list:
            _require(sent, (list,), "tool_calls")
        calls = tuple([_read_call(call) for call in sent])
        if len(calls) > 1 or (calls and calls[0].id == ""):
            return _identified(calls)
        return calls
    older = message.get("function_call")
    return (_read_call({"function": older}),) if older else ()


def _is_call(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("tool_use", "tool_call")


def _identified(calls: tuple[AgentCall, ...]) -> tuple[AgentCall, ...]:
    """The calls, with new ids where their fields must go back and their ids cannot: those
    that are missing, or are not unique. Without such fields the dialect chooses ids."""
    ids = {call.id for call in calls}
    if (len(ids) == len(calls) and "" not in ids) or not any(call.fields for call in calls):
        return calls
    return tuple(
        [msgspec.structs.replace(call, id=f"call_{number}") for number, call in enumerate(calls)]
    )


def _read_call(call: Any) -> AgentCall:
    if not isinstance(call, dict):
        raise UnreadableError(f"a tool call is a {type(call).__name__}")
    function = call.get("function")
    if type(function) is not dict:
        _require(function, (dict,), "function")
        arguments = call.get("arguments", call.get("input"))
        function = {"name": call.get("name"), "arguments": arguments}  # beside the id
        call = {name: call.get(name) for name in _CALL}
    name, sent_id = function.get("name"), call.get("id")
    if type(name) is not str:
        _require(name, (str,), "the name of a tool call")
    fields: dict[str, Any] | None = None
    if not call.keys() <= _CALL:
        fields = _others(call, _CALL) or None
    if not function.keys() <= _FUNCTION and (inner := _others(function, _FUNCTION)):
        fields = {**(fields or {}), "function": inner}
    return AgentCall(
        (name or "").strip(),
        read_arguments(function.get("arguments")),
        sent_id if isinstance(sent_id, str) else "" if sent_id is None else str(sent_id),
        fields,
    )


def _others(sent: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {
        name: value
        for name, value in sent.items()
        if name not in known and value is not None and argument_fault(value) is None
    }


def _usage_of(usage: dict[str, Any]) -> Usage:
    """The counts under their usual names, or those of other servers: `cached_tokens` beside them
    (Moonshot), `prompt_cache_hit_tokens` (DeepSeek), and Anthropic's."""
    if usage.keys() <= _USUAL_COUNTS and (sampled := _num_tokens(usage.get("completion_tokens"))):
        return Usage(_num_tokens(usage.get("prompt_tokens")), sampled)
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    details = usage.get("completion_tokens_details")
    reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
    for name in ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"):
        cached = usage.get(name) if cached is None else cached
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    prompt = _num_tokens(usage.get("input_tokens") if prompt is None else prompt)
    completion = _num_tokens(usage.get("output_tokens") if completion is None else completion)
    if not completion:
        completion = max(0, _num_tokens(usage.get("total_tokens")) - prompt) if prompt else 0
    reasoning = usage.get("reasoning_tokens") if reasoning is None else reasoning
    return Usage(prompt, completion, _num_tokens(cached), _num_tokens(reasoning))


def _num_tokens(value: Any) -> int:
    """A reported count of tokens; 0 for a value that cannot be one: a negative count would
    return money to a budget, and the log cannot hold a huge one."""
    if type(value) is float and value.is_integer():
        value = int(value)
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


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailure:
    """The failure that a response of a status other than 200 reports.

    Example: 404 {"error": {"message": "no such model", "code": "model_not_found"}} ->
        Failure("status", "no such model", 404, "model_not_found")
    """
    try:
        error = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        error = body.decode(errors="replace")
    if isinstance(error, list) and len(error) == 1:  # Google's form
        error = error[0]
    message, code, _ = _describe(_error_in(error))
    if 300 <= status < 400 and (target := headers.get("location")):
        message = f"the server redirects to {one_line(target, 200)}"
    return AttemptFailure("status", message, status, code, headers)


def _error_in(error: Any) -> Any:
    """The error of an error's body, which may be under `error`, or a text there beside a code."""
    if not isinstance(error, dict) or not (inner := error.get("error")):
        return error
    if isinstance(inner, dict) or not (error.get("message") or error.get("code")):
        return inner
    return {"message": error.get("message") or inner, "code": error.get("code")}


def failure_of_error(error: Any) -> AttemptFailure:
    """The failure that an error reports in a response of status 200."""
    message, code, status = _describe(error)
    if 400 <= status <= 599:
        return AttemptFailure("status", message, status, code)
    return AttemptFailure("malformed", f"the answer contains an error: {message}", 0, code)


def _describe(error: Any) -> tuple[str, str, int]:
    """An error's message, its code and the status in it (0: none). Beside a number as its code the
    type is the code.

    Example: {"message": "m", "type": "t", "code": 503} -> ("m", "t", 503)
    """
    if not isinstance(error, dict):
        return one_line(error if isinstance(error, str) else repr(error), MAX_MESSAGE), "", 0
    message = error.get("message") or error.get("detail") or error
    text = message if isinstance(message, str) else repr(message)
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        text = f"{text}: {raw}"  # what OpenRouter got from the model's provider
    code, kind = str(error.get("code") or ""), str(error.get("type") or "")
    status = int(code) if code.isdecimal() and len(code) == 3 else 0
    return one_line(text, MAX_MESSAGE), (kind or code) if status else (code or kind), status
