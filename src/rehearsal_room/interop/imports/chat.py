"""Conversations in the chat format of OpenAI and Hugging Face: JSON lines with `messages`, and
`tools` as a list or as JSON in a text.

    {"messages": [{"role": "user", "content": "Cancel my order."},
                  {"role": "assistant", "tool_calls": [{"id": "a", "function": {...}}]},
                  {"role": "tool", "tool_call_id": "a", "content": "{...}"}, ...],
     "tools": [...], "scenario": "shop_support", "task": "cancel-pending"}

`scenario`, `task` and `episode` may be left out. Calls are also read from Anthropic's content
blocks (`tool_use`, `tool_result`) and from the older `function_call`. A thought
(`reasoning_content`, `reasoning`, a block `thinking`) stands in `<think>` in front of its text.
Calls that are written as text are not read: they stay texts of the assistant. What a user says
after the first message makes the conversation a dialogue. Assistant messages of weight 0 at the
beginning are context, not learned again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolResult, ToolSpec
from rehearsal_room.harness.chat.wire import read_arguments
from rehearsal_room.harness.core.errors import ConversationError
from rehearsal_room.harness.core.events import ForkedFrom
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply, UserTurn
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.interop.imports.atif import ending_of, tool_specs
from rehearsal_room.interop.imports.conversations import ImportedConversation, ImportedTurn, decode


class _Function(msgspec.Struct):
    name: str
    arguments: Any = None


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


class _Call(_Opaque, kw_only=True):
    function: _Function
    id: str | None = None


class _Message(_Opaque, kw_only=True):
    role: str
    content: Any = None  # a text, or a list of parts
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    weight: float | None = None
    function_call: _Function | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text, after the thought if it has one."""
        name = self.thought
        start = f"<think>{getattr(self, name)}</think>" if name else ""
        return start + _text_of(self.content)

    @property
    def thought(self) -> str:
        """The name of the field with the thought; empty: there is none."""
        names = ("reasoning_content", "reasoning")
        found = [name for name in names if (one := getattr(self, name)) and isinstance(one, str)]
        return found[0] if found else ""


def _text_of(content: Any) -> str:
    """The text of a message or of its parts; of another part its kind, as in `[image_url]`."""
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
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") in kinds]


def _in_chat_form(messages: list[_Message]) -> Iterator[_Message]:
    """Messages whose calls and results are not content blocks or of the older form."""
    for message in messages:
        if message.role == "function":
            yield replace(message, role="tool")
        elif message.role == "assistant":
            yield _with_calls(message)
        elif results := _blocks(message.content, "tool_result"):
            for block in results:
                text, name = _text_of(block.get("content")), str(block.get("tool_use_id") or "")
                failed = block.get("is_error") is True
                yield _Message(role="tool", content=text, tool_call_id=name, is_error=failed)
            rest = [part for part in message.content if part not in results]
            if rest:
                yield replace(message, content=rest)
        else:
            yield message


def _with_calls(message: _Message) -> _Message:
    used = _blocks(message.content, "tool_use")
    thoughts = _blocks(message.content, "thinking", "redacted_thinking")
    if message.function_call is not None and not message.tool_calls:
        message = replace(message, tool_calls=[_Call(function=message.function_call)])
    if thoughts and not message.reasoning_content:
        texts = [str(one.get("thinking") or "[redacted]") for one in thoughts]
        message = replace(message, reasoning_content="\n".join(texts), thinking_blocks=thoughts)
    if used:
        calls = [
            _Call(
                function=_Function(str(one.get("name") or ""), one.get("input")),
                id=str(one.get("id") or ""),
            )
            for one in used
        ]
        message = replace(message, tool_calls=[*(message.tool_calls or ()), *calls])
    if used or thoughts:
        rest = [part for part in message.content if part not in used and part not in thoughts]
        message = replace(message, content=rest)
    return message


class _Line(msgspec.Struct):
    messages: list[_Message]
    tools: list[Any] | str | None = None
    scenario: str = ""
    task: str = ""
    episode: str = ""


def read_chats(path: Path) -> Iterator[ImportedConversation]:
    """The conversations of a file, one a line. Raises ConversationError."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise ConversationError(f"{path}: cannot be read: {exc.strerror}") from exc
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _conversation(f"{path}: line {number}", line)


def _conversation(source: str, data: bytes) -> ImportedConversation:
    line: _Line = decode(source, data, _Line)
    _check_roles(source, line.messages)
    messages = list(_in_chat_form(line.messages))
    head = next((n for n, one in enumerate(messages) if one.role == "assistant"), None)
    if head is None:
        raise ConversationError(f"{source}: messages: no message is the assistant's")
    before = messages[:head]
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
        if not message.tool_calls and not later and index + 1 < len(messages):
            earlier.append(message.text)
            continue
        calls = _calls(message)
        text = "\n\n".join(part for part in (*earlier, message.text) if part)
        reply = Reply(
            text,
            calls,
            "tool_calls" if calls else "stop",
            thought=message.thought if text.startswith("<think>") else "",
            fields=message.fields,
        )
        decision = dialect.read(reply, turn=turn)
        is_context = is_context and message.weight == 0
        spoken = [one.text for one in later if one.role == "user"]
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


def _calls(message: _Message) -> tuple[AgentCall, ...]:
    return tuple(
        AgentCall(
            call.function.name,
            read_arguments(call.function.arguments),
            call.id or "",
            call.fields,
        )
        for call in message.tool_calls or ()
    )


def _results(message: _Message, later: list[_Message]) -> Iterator[ToolResult | None]:
    """The result of each call: that which names the call; where none does, the next."""
    answers = [one for one in later if one.role == "tool"]
    named = {one.tool_call_id: one for one in answers if one.tool_call_id}
    unnamed = iter([one for one in answers if not one.tool_call_id])
    for call in message.tool_calls or ():
        found = named.get(call.id or "") or next(unnamed, None)
        error: ToolErrorKind | None = "refused" if found is not None and found.is_error else None
        yield None if found is None else ToolResult(found.text, error)
