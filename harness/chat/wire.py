"""The chat-completions format on the wire: windows to request bodies, and the arguments of calls.
Response bodies are read in harness.chat.completions."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import AgentCall, Message, Window

MAX_CACHED_HEADS = 1024

_encode = msgspec.json.Encoder().encode
_decode_any = msgspec.json.Decoder().decode


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


class HistoryForm(msgspec.Struct, frozen=True):
    """How earlier replies are shown to a server."""

    returned: frozenset[str] = frozenset()  # fields that it sent, so that it gets them back
    # Whether it gets all fields that replies have and their thoughts, and the name of the field
    # for thoughts; empty: the name that they had.
    wants_thoughts: bool = False
    thought_name: str = ""
    without: frozenset[str] = frozenset()  # fields that it refuses
    short_ids: bool = False  # ids of calls are nine letters and digits
    no_content: str | None = None  # the content of a message that has only calls
    has_system: bool = True  # False: the user's first message begins with the system's text
    single_calls: bool = False  # whether each call has a message of its own, before its result
    result_names: bool = False  # whether results have the name of their tool


PLAIN = HistoryForm()


class RequestWriter:
    """Writes request bodies. Everything except the messages is encoded once for each set of tools.

    `fields` are the body's other fields (`model`, `temperature`, ...), in their order; `without`
    are fields that the writer does not add to them.
    """

    def __init__(self, fields: Mapping[str, Any], *, without: Collection[str] = ()) -> None:
        self._fields = dict(fields)
        self._without = without
        self.changes_names = False  # whether a tool had another name on the wire so far
        # By whether the window asks for a summary, and the ids of the tools. The tools are stored
        # too, so that no other object can get their id.
        self._heads: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes, ToolNames]] = {}

    def body(self, window: Window, *, seed: int | None = None, form: HistoryForm = PLAIN) -> bytes:
        """The request's body; `seed` None: the server chooses the seed.

        Example: a window of one user message "Hi" ->
            {"model":"m","messages":[{"role":"user","content":"Hi"}]}
        """
        tail = b"}" if seed is None else b',"seed":%d}' % seed
        _, head, names = self._head(window.tools, window.asks_for_summary)
        if window.fields and (others := self._others(window.fields)):
            head = others[:-1] + b"," + head[1:]
        shown: Sequence[Message] = window.messages
        if not form.has_system:
            shown = without_system(shown)
        if form.single_calls:
            shown = with_single_calls(shown)
        written = wire_messages(shown, form, names)
        messages = _encode(_with_result_names(written) if form.result_names else written)
        return b"".join((head, messages, tail))

    def _others(self, fields: Mapping[str, Any]) -> bytes:
        """The fields of a window that the writer's own do not have, as a JSON object; empty: there
        are none."""
        others = {name: value for name, value in fields.items() if name not in self._fields}
        return _encode(others) if others else b""

    def tool_names(self, window: Window) -> "ToolNames":
        """The names that the window's tools have on the wire."""
        return self._head(window.tools, window.asks_for_summary)[2]

    def _head(
        self, tools: tuple[ToolSpec, ...], asks_for_summary: bool
    ) -> tuple[tuple[ToolSpec, ...], bytes, "ToolNames"]:
        key = (asks_for_summary, *map(id, tools))
        known = self._heads.get(key)
        if known is not None:
            return known
        fields = dict(self._fields)
        names = ToolNames([tool.name for tool in tools])
        self.changes_names = self.changes_names or names.are_changed
        if tools:
            fields["tools"] = [sent_tool(tool, names.sent(tool.name)) for tool in tools]
            # The tools stay, so that the prompt begins as the previous one.
            if asks_for_summary and "tool_choice" not in self._without:
                fields["tool_choice"] = "none"
        head = _encode(fields)[:-1] + (b',"messages":' if fields else b'"messages":')
        if len(self._heads) >= MAX_CACHED_HEADS:  # worlds that make new tools for each episode
            self._heads.clear()
        self._heads[key] = found = (tools, head, names)
        return found


class ToolNames:
    """The names of tools on the wire: chat APIs take letters, digits, `_` and `-`, at most 64, and
    Gemini's no digit or `-` in front.

    A name that does not fit is changed, and changed back in replies. So is the name that a model
    made up, in the history that shows its call; no such name becomes that of a tool.

    Example: ["notes.count", "notes_count"] -> "notes_count_2", "notes_count"
    """

    __slots__ = ("_changed", "_original", "_taken", "unchanged")

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self.unchanged = frozenset([name for name in names if _fits(name)])
        self._taken = set(self.unchanged)
        self._changed: dict[str, str] = {}
        for name in names:
            if not _fits(name) and name not in self._changed:
                self._changed[name] = changed = self._free(name)
                self._taken.add(changed)
        self._original = {changed: name for name, changed in self._changed.items()}

    @property
    def are_changed(self) -> bool:
        """Whether a tool has another name on the wire."""
        return bool(self._changed)

    def sent(self, name: str) -> str:
        """A name as it is sent, that of a tool or one that a model made up."""
        if _fits(name):
            return name
        return self._changed.get(name) or self._free(name)

    def read(self, name: str) -> str:
        """The tool's own name, for a name that a server sent."""
        return self._original.get(name, name)

    def _free(self, name: str) -> str:
        """A name that fits, and that no tool has."""
        base = _NO_NAME_CHARACTER.sub("_", name) or "unnamed"
        base = (base if _fits(base[0]) else f"_{base}")[:_MAX_NAME]
        found, number = base, 1
        while found in self._taken:
            number += 1
            found = f"{base[: _MAX_NAME - 4]}_{number}"
        return found


_MAX_NAME = 64
_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")
_fits = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_-]{{0,{_MAX_NAME - 1}}}").fullmatch
_is_short_id = re.compile(r"[a-zA-Z0-9]{9}").fullmatch
_THOUGHT_BEGINS, _THOUGHT_ENDS = "<think>", "</think>"


def wire_messages(
    messages: Sequence[Message], form: HistoryForm, names: ToolNames
) -> list[_Wire | dict[str, Any]]:
    """Messages in the form of the chat API, as this server takes them. Ids of calls are unique in
    them, whatever the servers' were that made the calls."""
    written: list[_Wire | dict[str, Any]] = []
    used: set[str] = set()
    ids: dict[str, str] = {}  # of the latest calls, where they are sent under another id
    unchanged, short_ids = names.unchanged, form.short_ids
    for message in messages:
        if message.wire is not None:
            written.append(message.wire)
            continue
        id = message.call_id
        if id is not None:
            id = ids.get(id, id) if ids else id
            written.append(_Result(message.role, message.content, id))
            continue
        calls: list[Any] = []
        if message.calls:
            if ids:
                ids = {}
            for call in message.calls:
                id = call.id
                if id in used or short_ids:
                    ids[id] = id = _free_id(id, used, form)
                used.add(id)
                name = call.name if call.name in unchanged else names.sent(call.name)
                calls.append(_wire_call(call, id, name, form))
        if message.role == "assistant" and (
            message.thought or message.fields or form.wants_thoughts
        ):
            written.append(_with_fields(message, calls, form))
        elif message.calls:
            written.append(_TextWithCalls(message.role, message.content or form.no_content, calls))
        else:
            written.append(_Text(message.role, message.content))
    return written


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages, with the system's as the beginning of the user's next one.

    Example: system "Rules.", user "Hi" -> user "Rules.\n\nHi"
    """
    found: list[Message] = []
    texts: list[str] = []
    for message in messages:
        if message.role == "system" and message.wire is None:
            texts.append(message.content)
        elif texts:
            text = "\n\n".join(texts)
            texts = []
            if message.role == "user" and message.wire is None:
                found.append(replace(message, content=f"{text}\n\n{message.content}"))
            else:
                found += (Message("user", text), message)
        else:
            found.append(message)
    return [*found, *(Message("user", text) for text in texts)]


def with_single_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages, with a message for each call, its result behind it.

    Example: calls a, b; results A, B -> call a; result A; call b; result B
    """
    found: list[Message] = []
    taken = 0  # messages up to here are in it
    for index, message in enumerate(messages):
        if index < taken:
            continue
        if len(message.calls) < 2:
            found.append(message)
            continue
        end = index + 1
        while end < len(messages) and messages[end].call_id is not None:
            end += 1
        results = list(messages[index + 1 : end])
        for number, call in enumerate(message.calls):
            one = replace(message, calls=(call,))
            found.append(replace(one, content="", thought="", fields=None) if number else one)
            found += [result for result in results if result.call_id == call.id]
            results = [result for result in results if result.call_id != call.id]
        found += results
        taken = end
    return found


def _with_result_names(
    written: Sequence[_Wire | dict[str, Any]],
) -> list[_Wire | dict[str, Any]]:
    """The messages, with the name of the tool beside each result."""
    names: dict[str, str] = {}
    found: list[_Wire | dict[str, Any]] = []
    for message in written:
        sent = msgspec.to_builtins(message)
        for call in sent.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        named = isinstance(message, _Result) and message.tool_call_id in names
        found.append({**sent, "name": names[sent["tool_call_id"]]} if named else message)
    return found


def _free_id(id: str, used: set[str], form: HistoryForm) -> str:
    """An id like this one that no earlier call has. It follows from the ids before it alone, so
    that the next window has the same."""
    number, found = 1, id
    while found in used or (form.short_ids and not _is_short_id(found)):
        if form.short_ids:
            found = blake2b(f"{number} {id}".encode(), digest_size=5).hexdigest()[:9]
        else:
            found = f"{id}_{number + 1}"
        number += 1
    return found


def _with_fields(message: Message, calls: list[Any], form: HistoryForm) -> dict[str, Any]:
    """The message of a reply, with those of its fields that the server gets back."""
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if calls:
        written["content"] = message.content or form.no_content
        written["tool_calls"] = calls
    written |= _returned(message.fields or {}, form)
    if form.wants_thoughts:
        name = form.thought_name or message.thought
        begins, _, rest = message.content.partition(_THOUGHT_ENDS)
        if message.thought and begins.startswith(_THOUGHT_BEGINS):
            written["content"] = rest or (form.no_content if calls else "")
            written[name] = begins[len(_THOUGHT_BEGINS) :]
        elif calls and form.thought_name and name not in written:
            written[name] = ""  # servers that demand a thought with each call take an empty one
    return written


def _returned(fields: Mapping[str, Any], form: HistoryForm) -> dict[str, Any]:
    """Those of a reply's fields that the server gets back."""
    return {
        name: value
        for name, value in fields.items()
        if (form.wants_thoughts or name in form.returned) and name not in form.without
    }


def wire_message(message: Message) -> _Wire:
    """A message in the form of the chat API."""
    if message.call_id is not None:
        return _Result(message.role, message.content, message.call_id)
    if message.calls:
        calls: list[Any] = [_wire_call(call, call.id, call.name, PLAIN) for call in message.calls]
        return _TextWithCalls(message.role, message.content or None, calls)
    return _Text(message.role, message.content)


def _wire_call(
    call: AgentCall, id: str, name: str, form: HistoryForm
) -> _ToolCall | dict[str, Any]:
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else _encode(arguments).decode()
    if not call.fields:
        return _ToolCall(id, _Function(name, text))
    function: dict[str, Any] = {"name": name, "arguments": text}
    fields = dict(call.fields)
    function |= _returned(fields.pop("function", {}), form)
    return {"id": id, "type": "function", "function": function, **_returned(fields, form)}


def sent_tool(tool: ToolSpec, name: str) -> dict[str, Any]:
    """A tool as requests have it. Chat APIs take an object with `properties`, and no choice
    between schemas at the top: its alternatives become one object with all their properties, of
    which those are required that all of them require. The world checks the call itself."""
    schema = tool.schema
    if not schema.keys().isdisjoint(_CHOICES):
        schema = _folded(schema)
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        properties = schema.get("properties")
        schema = {**schema, "type": "object", "properties": properties or {}}
    if "required" in schema and not isinstance(schema["required"], list):
        schema = {key: value for key, value in schema.items() if key != "required"}
    return wire_tool(tool if schema is tool.schema else replace(tool, schema=schema), name)


_CHOICES = ("anyOf", "oneOf", "allOf")


def _folded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without a choice at its top.

    Example: {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}}} ->
        {"properties": {"a": {}}}
    """
    folded = {key: value for key, value in schema.items() if key not in _CHOICES}
    properties, required = dict(_typed(schema, "properties", {})), _typed(schema, "required", [])
    required = list(required)
    for choice in _CHOICES:
        branches = [one for one in _typed(schema, choice, []) if isinstance(one, dict)]
        branches = [one for one in branches if one.get("type") != "null"]
        for branch in branches:
            for key, value in _typed(branch, "properties", {}).items():
                properties.setdefault(key, value)
        needed = [{*map(str, _typed(branch, "required", []))} for branch in branches]
        if needed:
            common = set.union(*needed) if choice == "allOf" else set.intersection(*needed)
            required += sorted(common - {*map(str, required)})
    folded["properties"] = properties
    if required:
        folded["required"] = required
    return folded


def _typed(schema: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """A part of a schema; `otherwise` where it is missing, or of another type."""
    found = schema.get(name)
    return found if isinstance(found, type(otherwise)) else otherwise


def wire_tool(tool: ToolSpec, name: str = "") -> dict[str, Any]:
    """A tool in the form of the chat API; `name` is its name on the wire, empty: its own."""
    function = {
        "name": name or tool.name,
        "description": tool.description,
        "parameters": tool.schema,
    } | (tool.fields or {})
    return {"type": "function", "function": function}


def read_arguments(sent: Any) -> Any:
    """A call's arguments, decoded; the text itself where it is not JSON, or the log cannot
    hold its value.

    A blank text means no arguments: several servers write it so for tools without parameters.

    Example: '{"id": 7}' -> {"id": 7}; '{"id": 7' -> '{"id": 7'; '' -> {}
    """
    if sent is None or sent == "":
        return {}
    if isinstance(sent, str) and not sent.strip():
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
