"""A conversation from a file of another program, in our terms: replies, results, and what users
said. `atif` and `chat` read files; `session` makes a log of what they read."""

import codecs
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import ConversationError
from rehearsal_room.harness.core.events import Ending, ForkedFrom, Judged
from rehearsal_room.harness.core.messages import Decision, Reply, UserTurn

_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ImportedTurn(msgspec.Struct, frozen=True):
    """One reply, and what followed."""

    reply: Reply
    decision: Decision | None  # None: the reply is a summary of the history
    results: tuple[ToolResult | None, ...] = ()  # of its calls, in order; None: the file has none
    user: UserTurn | None = None  # what a user said to it; None: nothing
    first_turn: int = 0
    recalled: tuple[int, ...] = ()
    reward: float | None = None
    is_context: bool = False  # copied from another conversation, which learned from it


class ImportedConversation(msgspec.Struct, frozen=True):
    """One conversation. What the file does not have is empty."""

    source: str  # file and line, for messages
    instruction: str
    turns: tuple[ImportedTurn, ...]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""
    agent: str = ""  # who replied
    episode: str = ""
    scenario: str = ""
    task: str = ""
    dialect: str = ""  # empty: the chat API's tool calling
    history: str = "full"
    group: str = ""
    member: int = 0
    group_size: int = 1
    seed: int = 0
    hidden: tuple[str, ...] = ()  # tools that the agent did not have at the start
    tags: tuple[str, ...] = ()
    ending: Ending = Ending.ANSWERED
    error: str | None = None
    forked_from: ForkedFrom | None = None
    verdict: Judged | None = None  # that the file has; None: it has none

    @property
    def has_user(self) -> bool:
        """Whether somebody answers the agent in it."""
        return any(turn.user is not None for turn in self.turns)

    @property
    def num_context(self) -> int:
        """How many of the first turns are copied from another conversation."""
        flags = [turn.is_context for turn in self.turns]
        return flags.index(False) if False in flags else len(flags)


def bytes_of(path: Path) -> bytes:
    """A file's content without a byte order mark. Raises ConversationError."""
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise ConversationError(f"{path}: cannot be read: {exc.strerror}") from exc
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConversationError(f"{path}: it is UTF-16; save it as UTF-8")
    return content.removeprefix(codecs.BOM_UTF8)


def decode(source: str, data: bytes, kind: Any) -> Any:
    """Decode JSON. Raises ConversationError, which begins with `source`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except _DECODE_ERRORS as exc:
        raise ConversationError(f"{source}: {exc}") from exc
