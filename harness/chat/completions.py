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

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.chat.wire import read_arguments
from rehearsal_room.harness.core.messages import AgentCall, ContentKind, Reply, Usage
from rehearsal_room.harness.model_servers.error_bodies import (
    error_of,
    headers_in,
    reported,
    shown_page,
    status_of,
)
from rehearsal_room.harness.model_servers.event_stream import EventStream
from rehearsal_room.harness.model_servers.finish_reasons import (
    FinishKind,
    finish_kind,
    known_kind,
    worst,
)
from rehearsal_room.scenarios.core.short_text import one_line

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
            return AttemptFailure("malformed", f"the answer is {shown_page(body)}")
        if (whole := _lenient(body)) is not None:
            return read_completion(whole, attempts=attempts)
        fault = f"the answer is not a chat completion ({_begin(body)!r}): {exc}"
        return AttemptFailure("malformed", fault)
    if completion.error and (error := error_in(body)) is not None:
        return failure_of_error(error)
    choices = completion.choices
    if not isinstance(choices, list):
        choices = _listed_choices(choices)
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
        if (inner := _wrapped(body)) is not None:
            return read_completion(inner, attempts=attempts)
        return AttemptFailure("malformed", f"the answer contains no choice: {_begin(body)}")
    part = parts[0] if len(parts) == 1 else _joined(parts)
    if (failure := _fault_of(part)) is not None:
        return failure
    text, calls, kind, _, thought, fields = part
    finish = "length" if kind == "cut" else "tool_calls" if calls else "stop"
    usage = _usage_of(completion.usage) if isinstance(completion.usage, dict) else Usage()
    if kind == "cut" and not (text or calls or usage.completion_tokens) and usage.prompt_tokens:
        return AttemptFailure("malformed", _NO_ROOM, 0, "context_length_exceeded")
    return Reply(
        text,
        calls,
        finish,
        usage,
        attempts=attempts,
        thought=thought,
        fields=fields or None,
        content=_unusual_content(read[0], calls) if len(parts) == 1 else "",
    )


# LMDeploy and Ollama say so instead of refusing the prompt.
_NO_ROOM = "the reply was cut off before its first token: the prompt fills the model's context"


def _begin(body: bytes) -> str:
    """The first words of a body, for a message."""
    return one_line(body[:200].decode(errors="replace"), 100)


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
    """The error that a body reports (see error_of); None: it reports none."""
    try:
        return error_of(_decode_any(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_NO_CONSTANTS = json.JSONDecoder(strict=False, parse_constant=lambda constant: None)
_MOST_VALUES = 3  # one after the other
_ENDS = ("data: [DONE]", "data:[DONE]", "[DONE]", "null")  # what may follow an answer


def _lenient(body: bytes) -> bytes | None:
    """A body as JSON that is nearly JSON: with NaN, line breaks in strings, something after its
    end, in a list, or as a text; None: it is none of that, or the same. Of several objects an
    error counts."""
    text = body.decode(errors="replace").strip("\ufeff\0 \t\r\n")
    found: list[Any] = []
    try:
        while text and not text.startswith(_ENDS):
            if len(found) > _MOST_VALUES:
                return None
            value, end = _NO_CONSTANTS.raw_decode(text)
            found += value if isinstance(value, list) else [value]
            text = text[end:].strip("\0 \t\r\n")
        objects = [one for one in found if isinstance(one, dict)]
        errors = [one for one in objects if error_of(one) is not None]
        if len(found) == 1 and isinstance(found[0], str) and found[0].lstrip()[:1] == "{":
            whole = found[0].encode(errors="replace")
        elif errors or (objects and len(objects) == len(found) == 1):
            whole = json.dumps((errors or objects)[0]).encode()
        else:
            return None
    except (ValueError, RecursionError):
        return None
    return whole if whole != body else None


def _listed_choices(choices: Any) -> Any:
    """Choices that are not a list: one alone, or each under its number."""
    if not isinstance(choices, dict):
        return ()
    return [choices] if "message" in choices or "delta" in choices else list(choices.values())


def _wrapped(body: bytes) -> bytes | None:
    """The completion in an envelope (`data`, `result`); None: there is none."""
    try:
        found = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for name in ("data", "result", "response"):
        inner = found.get(name) if isinstance(found, dict) else None
        if isinstance(inner, dict) and inner.get("choices"):
            return msgspec.json.encode(inner)
    return None


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
        text = message
        message = choice.get("delta")  # as in a stream
        if not isinstance(message, dict):
            if not isinstance(text, str):
                text = choice.get("text")  # as of completions that are not of a chat
            if not isinstance(text, str):
                return None
            message = {"content": text}
    if error := message.get("error"):
        return failure_of_error(error)
    word = choice.get("finish_reason")
    kind = finish_kind(word)
    if kind is None or "native_finish_reason" in choice:
        word, kind = _told_elsewhere(choice, word, kind)
    text, thought, fields = read_message(message)
    calls = calls_of(message)
    if not calls and "tool_calls" in choice:
        calls = calls_of(choice)
    return text, calls, kind, word, thought, fields


_OTHER_REASONS = (
    *("native_finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason"),
    "finish_details",
)


def _told_elsewhere(
    choice: dict[str, Any], word: Any, kind: FinishKind | None
) -> tuple[Any, FinishKind | None]:
    """The finish reason and its meaning, also by other fields: that of the provider behind a
    gateway (OpenRouter) may tell of a failure where the gateway does not. Words there that are
    unknown say nothing."""
    for name in _OTHER_REASONS:
        told = choice.get(name)
        told_kind = known_kind(told) if told else None
        if told_kind is not None and worst((kind, told_kind)) != kind:
            word, kind = told, told_kind
    return word, kind


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
    kind = worst([part[2] for part in parts])
    word = next(part[3] for part in parts if part[2] == kind)
    # The thought begins the text only where it is in the first choice that has a text.
    thought = next((part[4] for part in parts if part[0]), "")
    return "\n".join(texts), tuple(calls), kind, word, thought, fields


def _fault_of(part: _Part) -> AttemptFailure | None:
    """Why a choice gives no reply, whatever text or calls it has; None: it gives one."""
    text, calls, kind, word, _, _ = part
    if kind in ("failed", "refused"):
        return generation_fault(word)
    if calls or kind == "cut" or (kind == "stop" and (text or known_kind(word) == "stop")):
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
    if sent and (type(sent) is not list or type(sent[0]) is not dict):
        sent = list(_listed_calls(sent))
    if sent:
        calls = tuple([_read_call(call) for call in sent])
        if len(calls) > 1 or (calls and calls[0].id == ""):
            return _identified(calls)
        return calls
    older = message.get("function_call")
    return (_read_call({"function": older}),) if older else ()


_CALL_PARTS = ("functionCall", "function_call", "toolUse", "tool_use")  # Gemini's and Bedrock's


def _is_call(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") in ("tool_use", "tool_call"):
        return True
    return any(isinstance(part.get(name), dict) for name in _CALL_PARTS)


def _listed_calls(sent: Any) -> Iterator[Any]:
    """Calls that are not a list of objects: one alone, each under its number, as JSON text, or in
    a list in the list. Raises UnreadableError."""
    if isinstance(sent, str):
        try:
            sent = _decode_any(sent)
        except (msgspec.DecodeError, RecursionError):
            raise UnreadableError("tool_calls is a str") from None
    if isinstance(sent, dict):
        sent = [sent] if "function" in sent or "name" in sent else list(sent.values())
    _require(sent, (list,), "tool_calls")
    for call in sent or ():
        if isinstance(call, list):
            yield from call
        elif call is not None:
            yield call


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
        function, call = _unusual_function(call, function)
    name, sent_id = function.get("name"), call.get("id")
    if type(name) is not str:
        _require(name, (str,), "the name of a tool call")
    fields: dict[str, Any] | None = None
    if not call.keys() <= _CALL:
        fields = _others(call, _CALL) or None
    arguments = function.get("arguments")
    if not function.keys() <= _FUNCTION:
        named = next((one for one in _ARGUMENTS if arguments is None and one in function), "")
        arguments = function[named] if named else arguments
        if inner := _others(function, _FUNCTION | {named}):
            fields = {**(fields or {}), "function": inner}
    return AgentCall(
        (name or "").strip(),
        read_arguments(arguments),
        sent_id if isinstance(sent_id, str) else "" if sent_id is None else str(sent_id),
        fields,
    )


_ARGUMENTS = ("parameters", "args", "input")  # other names


def _unusual_function(call: dict[str, Any], function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The function of a call, and the call without it: the function is JSON text, or its name and
    arguments are beside the id, or in a part of a content. Raises UnreadableError."""
    if isinstance(function, str) and function.lstrip()[:1] == "{":
        try:
            function = _decode_any(function)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            return function, call
    _require(function, (dict,), "function")
    inner = next((call[name] for name in _CALL_PARTS if isinstance(call.get(name), dict)), call)
    arguments = next((inner[n] for n in ("arguments", *_ARGUMENTS) if n in inner), None)
    id = inner.get("id") or inner.get("toolUseId") or call.get("id")
    return {"name": inner.get("name"), "arguments": arguments}, {"id": id}


def _others(sent: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {
        name: value
        for name, value in sent.items()
        if name not in known and value is not None and argument_fault(value) is None
    }


def _usage_of(usage: dict[str, Any]) -> Usage:
    """The counts under their usual names, or those of other servers. What a total has beside
    prompt and completion are thoughts (Gemini, xAI), which are generated tokens too, unless it is
    what the cache had."""
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int or not completion:
        return _unusual_usage(usage)
    prompt, completion = _num_tokens(prompt), _num_tokens(completion)
    is_usual = usage.keys() <= _USUAL_COUNTS
    cached, reasoning = (0, 0) if is_usual else _cached_and_reasoning(usage)
    total = usage.get("total_tokens")
    if type(total) is int and prompt and prompt + completion < total <= _MAX_TOKENS:
        more = total - prompt - completion
        completion += more if more != cached else 0
    return Usage(prompt, completion, cached, reasoning)


def _unusual_usage(usage: dict[str, Any]) -> Usage:
    """The same for other names and types. Anthropic's input is without what its cache has."""
    if isinstance(inner := usage.get("tokens"), dict):  # Cohere's
        usage = inner
    prompt, completion = _counted(usage, _PROMPT), _counted(usage, _COMPLETION)
    cached, reasoning = _cached_and_reasoning(usage)
    if "cache_read_input_tokens" in usage and usage.get("prompt_tokens") is None:
        prompt += cached + _num_tokens(usage.get("cache_creation_input_tokens"))
    if prompt:
        completion = max(completion, _counted(usage, _TOTAL) - prompt)
    return Usage(prompt, completion, cached, reasoning)


def _cached_and_reasoning(usage: dict[str, Any]) -> tuple[int, int]:
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    details = usage.get("completion_tokens_details", usage.get("output_tokens_details"))
    reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return (
        _counted(usage, _CACHED) if cached is None else _num_tokens(cached),
        _num_tokens(usage.get("reasoning_tokens") if reasoning is None else reasoning),
    )


# Names of counts: OpenAI's, Anthropic's (and OpenAI's newer ones), Bedrock's, Vercel's, Ollama's,
# Gemini's and watsonx's.
_PROMPT = (
    *("prompt_tokens", "input_tokens", "inputTokens", "promptTokens", "prompt_eval_count"),
    *("promptTokenCount", "input_token_count"),
)
_COMPLETION = (
    *("completion_tokens", "output_tokens", "outputTokens", "completionTokens", "eval_count"),
    *("candidatesTokenCount", "generated_token_count"),
)
_TOTAL = ("total_tokens", "totalTokens", "totalTokenCount")
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")


def _counted(usage: dict[str, Any], names: tuple[str, ...]) -> int:
    """The count under the first of these names that the usage has."""
    return next((_num_tokens(usage[name]) for name in names if usage.get(name) is not None), 0)


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
        found = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = shown_page(body) if is_page(body) else body.decode(errors="replace")
    if isinstance(found, list) and len(found) == 1:  # Google's form
        found = found[0]
    error = error_of(found) or found
    said = reported(error)
    message = said.message
    if 300 <= status < 400 and (target := headers.get("location")):
        message = f"the server redirects to {one_line(target, 200)}"
    if told := headers_in(error, found):
        headers = {**told, **{name.lower(): value for name, value in headers.items()}}
    return AttemptFailure("status", message, status, said.code, headers)


def failure_of_error(error: Any) -> AttemptFailure:
    """The failure that an error reports in a response of status 200."""
    said = reported(error)
    if status := status_of(said):
        return AttemptFailure("status", said.message, status, said.code, headers_in(error, None))
    fault = f"the answer contains an error: {said.message}"
    return AttemptFailure("malformed", fault, 0, said.code)
