"""Conversations in the chat format of OpenAI and Hugging Face: JSON lines with `messages`, and
`tools` as a list or as JSON in a text.

    {"messages": [{"role": "user", "content": "Cancel my order."},
                  {"role": "assistant", "tool_calls": [{"id": "a", "function": {...}}]},
                  {"role": "tool", "tool_call_id": "a", "content": "{...}"}, ...],
     "tools": [...], "scenario": "shop_support", "task": "cancel-pending"}

`scenario`, `task` and `episode` may be left out. Calls are also read from Anthropic's content
blocks (`tool_use`, `tool_result`; `mcp_tool_use` and `server_tool_use` with their results in the
same message) and from the older `function_call`. A result that names none of the calls in front of
it is an error. A thought
(`reasoning_content`, `reasoning`, a block `thinking`) stands in `<think>` in front of its text.
Calls that are written as text are not read: they stay texts of the assistant. What a user says
after the first message makes the conversation a dialogue. Assistant messages of weight 0 at the
beginning are context, not learned again.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolResult, ToolSpec
from rehearsal_room.harness.chat.completions import THOUGHTS, UnreadableError, calls_of
from rehearsal_room.harness.core.errors import ConversationError
from rehearsal_room.harness.core.events import ForkedFrom
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply, UserTurn
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.interop.imports.atif import ending_of, tool_specs
from rehearsal_room.interop.imports.conversations import (
    ImportedConversation,
    ImportedTurn,
    bytes_of,
    decode,
)

_OF_THE_API = ("mcp_tool_use", "server_tool_use")  # calls that it makes itself

# Fields beside text, thought and calls that servers want back; Anthropic's blocks have LiteLLM's
# name for them.
_OPAQUE = (
    *("reasoning_details", "thinking_blocks", "thought_signature", "extra_content"),
    *("provider_specific_fields", "reasoning_items", "encrypted_content"),
)


class _Opaque(msgspec.Struct):
    reasoning_details: Any = None
    thinking_blocks: Any = None
    thought_signature: Any = None
    extra_content: Any = None
    provider_specific_fields: Any = None
    reasoning_items: Any = None
    encrypted_content: Any = None

    @property
    def fields(self) -> dict[str, Any] | None:
        """Those that the file has, as they are; None: it has none."""
        found = {name: value for name in _OPAQUE if (value := getattr(self, name)) is not None}
        return found or None


class _Message(_Opaque, kw_only=True):
    role: str
    content: Any = None  # a text, or a list of parts
    tool_calls: Any = None
    tool_call_id: str | int | None = None
    weight: float | None = None
    function_call: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None
    reasoning_text: Any = None
    thought: Any = None
    refusal: Any = None
    is_error: bool = False

    @property
    def calls(self) -> tuple[AgentCall, ...]:
        """The calls, once they are read (see _with_calls)."""
        return self.tool_calls if isinstance(self.tool_calls, tuple) else ()

    @property
    def text(self) -> str:
        """The text, after the thought if it has one."""
        name = self.thought_name
        start = f"<think>{getattr(self, name)}</think>" if name else ""
        refusal = self.refusal if isinstance(self.refusal, str) else ""
        return start + (_text_of(self.content) or refusal)

    @property
    def thought_name(self) -> str:
        """The name of the field with the thought; empty: there is none."""
        found = [name for name in THOUGHTS if (one := getattr(self, name)) and isinstance(one, str)]
        return found[0] if found else ""


def _text_of(content: Any) -> str:
    """The text of a message or of its parts; of another part its kind, as in `[image_url]`."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = []
    for part in content:
        if not isinstance(part, dict):
            texts.append(str(part))
            continue
        text = part.get("text") or part.get("refusal")
        texts.append(text if isinstance(text, str) else f"[{part.get('type', 'part')}]")
    return "\n".join(texts)


def _blocks(content: Any, *kinds: str) -> list[dict[str, Any]]:
    """The parts of these kinds; Bedrock's have their kind as the name of their only field."""
    parts = [part for part in content if isinstance(part, dict)] if type(content) is list else []
    return [
        part
        for part in parts
        if part.get("type") in kinds or any(isinstance(part.get(kind), dict) for kind in kinds)
    ]


def _in_chat_form(messages: list[_Message]) -> Iterator[_Message]:
    """Messages whose calls and results are not content blocks or of the older form."""
    for message in messages:
        if message.role == "function":
            yield replace(message, role="tool")
        elif message.role == "assistant":
            yield from map(_with_calls, _apart(message))
        elif results := _blocks(message.content, "tool_result", "toolResult"):
            for result in results:
                block = result.get("toolResult") or result
                id = block.get("tool_use_id") or block.get("toolUseId")
                text, name = _text_of(block.get("content")), str(id or "")
                failed = block.get("is_error") is True or block.get("status") == "error"
                yield _Message(role="tool", content=text, tool_call_id=name, is_error=failed)
            rest = [part for part in message.content if part not in results]
            if rest:
                yield replace(message, content=rest)
        else:
            yield message


def _apart(message: _Message) -> Iterator[_Message]:
    """A message of the assistant whose calls were made by the API itself (mcp_tool_use, say) has
    their results, too: they follow their calls."""
    parts: list[Any] = []
    content = message.content if isinstance(message.content, list) else []
    results = [part for part in _blocks(content, *_kinds_of(content)) if "tool_use_id" in part]
    if not results:
        yield message
        return
    for part in content:
        if part not in results:
            own = isinstance(part, dict) and part.get("type") in _OF_THE_API
            parts.append({**part, "type": "tool_use"} if own else part)
            continue
        if parts:
            yield replace(message, content=parts)
        parts, text = [], _text_of(part.get("content"))
        name, failed = str(part["tool_use_id"]), part.get("is_error") is True
        yield _Message(role="tool", content=text, tool_call_id=name, is_error=failed)
    if parts:
        yield replace(message, content=parts)


def _kinds_of(content: list[Any]) -> Iterator[str]:
    """The kinds of those blocks that are results."""
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind.endswith("tool_result"):
            yield kind


def _with_calls(message: _Message) -> _Message:
    if message.role != "assistant":
        return message
    used = _blocks(message.content, "tool_use", "toolUse")
    thoughts = _blocks(message.content, "thinking", "redacted_thinking")
    sent = {"tool_calls": message.tool_calls, "function_call": message.function_call}
    calls = (*calls_of(sent), *calls_of({"content": used}))
    if message.tool_calls and message.function_call:
        (older,) = calls_of({"function_call": message.function_call})
        known = [(call.name, call.arguments) for call in calls]
        calls += () if (older.name, older.arguments) in known else (older,)
    message = replace(message, tool_calls=tuple([_with_known_fields(call) for call in calls]))
    if thoughts and not message.reasoning_content:
        texts = [_text_of(one.get("thinking")) or "[redacted]" for one in thoughts]
        message = replace(message, reasoning_content="\n".join(texts), thinking_blocks=thoughts)
    if used or thoughts:
        rest = [part for part in message.content if part not in used and part not in thoughts]
        message = replace(message, content=rest)
    return message


def _with_known_fields(call: AgentCall) -> AgentCall:
    """The call without fields of the file that no server wants back."""
    known = {name: value for name, value in (call.fields or {}).items() if name in _OPAQUE}
    return AgentCall(call.name, call.arguments, call.id, known or None)


class _Line(msgspec.Struct):
    messages: list[_Message]
    tools: list[Any] | str | None = None
    scenario: str = ""
    task: str = ""
    episode: str = ""


def read_chats(path: Path) -> Iterator[ImportedConversation]:
    """The conversations of a file, one a line. Raises ConversationError."""
    for number, line in enumerate(bytes_of(path).splitlines(), start=1):
        if line.strip():
            yield _conversation(f"{path}: line {number}", line)


def _conversation(source: str, data: bytes) -> ImportedConversation:
    line: _Line = decode(source, data, _Line)
    _check_roles(source, line.messages)
    try:
        messages = list(_in_chat_form(line.messages))
    except UnreadableError as exc:
        raise ConversationError(f"{source}: messages: {exc}") from exc
    head = next((n for n, one in enumerate(messages) if one.role == "assistant"), None)
    if head is None:
        raise ConversationError(f"{source}: messages: no message is the assistant's")
    before = messages[:head]
    _check_results(source, messages[head:])
    turns = tuple(_turns(messages[head:]))
    ending, error = ending_of(turns)
    copied = sum(turn.is_context for turn in turns)
    return ImportedConversation(
        source=source,
        instruction="\n\n".join(one.text for one in before if one.role == "user"),
        turns=turns,
        tools=_tools(source, line.tools),
        system="\n\n".join(one.text for one in before if one.role != "user"),
        episode=line.episode,
        scenario=line.scenario,
        task=line.task,
        ending=ending,
        error=error,
        forked_from=ForkedFrom("imported", line.episode, copied) if copied else None,
    )


def _check_roles(source: str, messages: list[_Message]) -> None:
    known = ("system", "developer", "user", "assistant", "tool", "function")
    for index, message in enumerate(messages):
        if message.role not in known:
            raise ConversationError(
                f"{source}: messages[{index}].role: expected one of {', '.join(known)}, found"
                f" {message.role!r}"
            )


def _check_results(source: str, messages: list[_Message]) -> None:
    """Every result belongs to a call of the message before it, which names it or lacks one."""
    for index, message in enumerate(messages):
        if not message.calls or any(call.fields for call in message.calls):  # these may be renamed
            continue
        open_calls = Counter(call.id for call in message.calls)
        for result in _until_assistant(messages[index + 1 :]):
            if result.role != "tool":
                continue
            name = "" if result.tool_call_id is None else str(result.tool_call_id)
            if name and not open_calls[name] and not open_calls[""]:
                raise ConversationError(
                    f"{source}: a result has tool_call_id {name!r}, which is none of the calls in "
                    f"front of it: {', '.join(call.id or call.name for call in message.calls)}"
                )
            keys = (key for key, count in open_calls.items() if count)
            key = name if open_calls[name] else next(keys, "")
            if not open_calls[key]:
                raise ConversationError(
                    f"{source}: there are more results than calls after the message with "
                    f"{', '.join(call.name for call in message.calls)}"
                )
            open_calls[key] -= 1


def _tools(source: str, tools: list[Any] | str | None) -> tuple[ToolSpec, ...]:
    if isinstance(tools, str):
        tools = decode(f"{source}: tools", tools.encode(), list[Any]) if tools else []
    return tuple(tool_specs(f"{source}: tools", tools or []))


def _turns(messages: list[_Message]) -> Iterator[ImportedTurn]:
    """A turn for each message of the assistant; one without a call that is followed by another one
    is a part of it."""
    dialect = Native()
    earlier: list[str] = []
    turn, is_context = 0, True
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        later = _until_assistant(messages[index + 1 :])
        if not message.calls and not later and index + 1 < len(messages):
            earlier.append(message.text)
            continue
        calls = message.calls
        text = "\n\n".join(part for part in (*earlier, message.text) if part)
        reply = Reply(
            text,
            calls,
            "tool_calls" if calls else "stop",
            thought=message.thought_name if text.startswith("<think>") else "",
            fields=message.fields,
        )
        decision = dialect.read(reply, turn=turn)
        is_context = is_context and message.weight == 0
        kinds = ("user",) if calls else ("user", "tool")  # a result without a call, too
        spoken = [one.text for one in later if one.role in kinds]
        yield ImportedTurn(
            reply=reply,
            decision=decision,
            results=tuple(_results(message, later)) if isinstance(decision, Act) else (),
            user=UserTurn("\n\n".join(spoken)) if spoken and not calls else None,
            is_context=is_context,
        )
        turn, earlier = turn + 1, []


def _until_assistant(messages: list[_Message]) -> list[_Message]:
    found = []
    for message in messages:
        if message.role == "assistant":
            break
        found.append(message)
    return found


def _results(message: _Message, later: list[_Message]) -> Iterator[ToolResult | None]:
    """The result of each call: that which names the call; where none does, the next. Calls of one
    id have theirs in order."""
    named: dict[str, list[_Message]] = {}
    for one in later:
        if one.role == "tool":
            named.setdefault("" if one.tool_call_id is None else str(one.tool_call_id), []).append(
                one
            )
    ids = {call.id for call in message.calls}
    others = [one for name, queue in named.items() if name and name not in ids for one in queue]
    for call in message.calls:
        queue = named.get(call.id) or named.get("") or others
        found = queue.pop(0) if queue else None
        error: ToolErrorKind | None = "refused" if found is not None and found.is_error else None
        yield None if found is None else ToolResult(found.text, error)
