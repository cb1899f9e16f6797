"""The requests of one episode to its model as a tree: which of them goes on after which.

An agent sends its whole conversation with each request. A conversation that begins as an earlier
one did, with the reply to it, goes on there; one that the agent rewrote (compaction), or that of a
second agent, shares less, or nothing. So every reply has exactly one place, in the context in which
it was given.
"""

from typing import NamedTuple

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message, Reply

_START = 0  # the key of the beginning
_encode = msgspec.json.Encoder().encode
_THOUGHT_ENDS = "</think>"


class Place(NamedTuple):
    """Where a request begins: after the first `shared` messages of request `parent` and its
    reply."""

    request: int
    parent: int | None  # None: nothing is shared
    shared: int
    has_same_tools: bool  # as the parent


class Branches:
    """The requests of one episode, in the order in which their replies came."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # key of a beginning -> the request that had it first
        self._tools: list[tuple[ToolSpec, ...]] = []  # of each request
        self._latest: tuple[tuple[Message, ...], int] = (), _START  # messages, and their key

    def __len__(self) -> int:
        return len(self._tools)

    def add(
        self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...], reply: Reply | None
    ) -> Place:
        """Add a request with its reply (None: there is none); return where it begins."""
        number = len(self._tools)
        parent, shared, key = None, 0, _START
        latest, latest_key = self._latest
        if 0 < len(latest) <= len(messages) and all(map(_is_same, latest, messages)):
            parent, shared, key = self._known[latest_key], len(latest), latest_key
        is_shared = True
        for index, message in enumerate(messages[shared:], shared):
            key = _next(key, message)
            known = self._known.get(key)
            is_shared = is_shared and known is not None
            if is_shared:
                parent, shared = known, index + 1
            else:
                self._known.setdefault(key, number)
        self._latest = messages, key
        if reply is not None:
            shown = Message("assistant", reply.text, reply.calls, None, reply.thought)
            self._known.setdefault(_next(key, shown), number)
        has_same_tools = parent is not None and self._tools[parent] == tools
        self._tools.append(tools)
        return Place(number, parent, shared, has_same_tools)


def _is_same(one: Message, other: Message) -> bool:
    """Whether two messages have the same key; not seen where both have calls, whose arguments 1 and
    1.0 are equal in Python."""
    return one is other or (not one.calls and one == other)


def _next(key: int, message: Message) -> int:
    """The key of a conversation after this message. Thoughts and the space around a text do not
    count: frameworks leave them out. (Python's hash, which is seeded in each process.)"""
    text = message.content
    if message.role == "assistant" and message.thought:
        text = text.rpartition(_THOUGHT_ENDS)[2]
    calls = tuple([(call.id, call.name, _encode(call.arguments)) for call in message.calls])
    return hash((key, message.role, text.strip(), calls, message.call_id))
