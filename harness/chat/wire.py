"""The chat-completions format on the wire: windows to request bodies, and the arguments of calls.
Response bodies are read in harness.chat.completions."""

from collections.abc import Mapping
from typing import Any

import msgspec

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
