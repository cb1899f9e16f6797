"""The Protocol of a history window: a rule for which turns of an episode the agent may see.

A policy is shared by many episodes and makes one HistoryState for each. It has a spec (the setting
from which it can be made again) and a fingerprint: logs and checkpoints compare fingerprints to
find out whether two policies show the same windows.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message

_VERSION = 1  # of the rules of all policies; a change to what windows contain raises it


class VisibleHistory(msgspec.Struct, frozen=True):
    """The part of one episode's history that is shown now. Turns are counted from 0, without the
    pinned ones."""

    first: int  # every turn from this one on is shown
    messages: list[Message]  # all messages that follow the head
    recalled: tuple[int, ...] = ()  # turns before `first - 1` that are shown too, in order
    asks_for_summary: bool = False  # whether the last message asks for a summary


class HistoryState(Protocol):
    """The history of one episode under a policy, which grows turn by turn."""

    def add(self, turn: Sequence[Message]) -> None:
        """Add the episode's next turn."""

    def add_summary(self, text: str) -> None:
        """Add the agent's summary; policies that ask for none ignore it."""

    def visible(self) -> VisibleHistory:
        """What is shown now."""


class HistoryWindow(Protocol):
    """A rule for which turns are shown."""

    @property
    def spec(self) -> str:
        """The setting in its canonical form, as in `last:3`."""

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits; equal for policies that show the same windows."""

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """The empty history of one episode, whose windows begin with this head."""


def fingerprint_of(spec: str, *dependencies: str) -> str:
    """The fingerprint of a policy; `dependencies` names everything besides the setting that
    its windows depend on."""
    text = " ".join((f"history {_VERSION} {spec}", *dependencies))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def messages_of(turns: Sequence[Sequence[Message]]) -> list[Message]:
    """The messages of some turns, in order."""
    messages: list[Message] = []
    for turn in turns:
        messages.extend(turn)
    return messages
