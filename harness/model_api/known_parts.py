"""What the requests of one client have in common, read once.

An agent sends its whole conversation with each request, and all its tools. What a request begins
with as an earlier one did is compared, byte by byte, and not read again: in a conversation of 60
turns of 2,000 tokens (0.5 MB) reading takes 0.2 ms instead of 0.5.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message

INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what a decoder raises
_MAX_KNOWN = 4  # conversations that are remembered: those of sub-agents alternate
_MAX_BYTES = 4 << 20  # of a conversation that is remembered

Tools = tuple[ToolSpec, ...]


class Read(NamedTuple):
    """The messages in a JSON list, and the number of its items."""

    messages: tuple[Message, ...]
    num_items: int


# Reads a JSON list; the second argument is the number of items before it.
ReadList = Callable[[bytes, int], Read]


def _unshared(tools: Tools) -> Tools:
    return tools


class _Known(NamedTuple):
    text: bytes  # a JSON list without its last bracket
    read: Read


class KnownParts:
    """What earlier requests of one client had. `share` gives tools that other clients have, too,
    as the object that they have."""

    def __init__(self, share: Callable[[Tools], Tools] = _unshared) -> None:
        self.share = share
        self._lists: list[_Known] = []  # the oldest first
        self._tools: tuple[bytes, Tools] = b"", ()

    def messages(self, text: bytes, read: ReadList) -> tuple[Message, ...]:
        """The messages in a JSON list, of which `read` reads what is new. Raises what it raises."""
        for known in reversed(self._lists):
            size = len(known.text)
            if text.startswith(known.text) and text[size : size + 1] == b",":
                new = read(b"[" + text[size + 1 :], known.read.num_items)
                found = Read(
                    known.read.messages + new.messages, known.read.num_items + new.num_items
                )
                self._lists.remove(known)
                break
        else:
            found = read(text, 0)
        # What follows a reply may belong to the same message (see `responses`).
        ends = bool(found.messages) and found.messages[-1].role != "assistant"
        if ends and text[:1] == b"[" and len(text) <= _MAX_BYTES:
            self._lists = [*self._lists[1 - _MAX_KNOWN :], _Known(text[:-1], found)]
        return found.messages

    def tools(self, text: bytes, read: Callable[[bytes], Tools]) -> Tools:
        """The tools in a JSON text; the same object as long as the text is the same."""
        if text != self._tools[0]:
            self._tools = text, self.share(read(text))
        return self._tools[1]


def fault_in(body: bytes, kind: type, exc: Exception) -> str:
    """What is wrong with a body, and where, when it is read as a whole; what `exc` says where
    nothing is."""
    try:
        msgspec.json.decode(body, type=kind)
    except INVALID as whole:
        return str(whole)
    return str(exc)
