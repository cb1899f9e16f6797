"""What a history policy is: a rule for what of an episode so far may be seen.

A policy is shared by many episodes and makes a keeper for each. It has a spec, the setting that
makes it again, and a fingerprint, by which logs and checkpoints tell whether two policies show the
same windows.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from envpool.core.types import ToolSpec
from harness.core.messages import Message

_VERSION = 1  # of the rules of all policies; a change to what their windows hold raises it


class Kept(msgspec.Struct, frozen=True):
    """What one episode's history shows now. Turns are counted from 0, pinned ones left out."""

    first: int  # the oldest turn from which on every turn is shown
    messages: list[Message]  # all that follows the head
    recalled: tuple[int, ...] = ()  # turns before `first - 1` that are shown too, in order
    asks_for_summary: bool = False  # whether the messages end by asking for a summary


class Keeper(Protocol):
    """What one episode's history holds on to, turn by turn."""

    def keep(self, turn: Sequence[Message]) -> None:
        """The episode's next turn."""

    def summarised(self, text: str) -> None:
        """The agent's summary, where one was asked for; policies that ask for none ignore it."""

    def kept(self) -> Kept:
        """What is shown now."""


class HistoryPolicy(Protocol):
    """A rule for what may be seen."""

    @property
    def spec(self) -> str:
        """The canonical setting, as in `last:3`."""

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits; equal when the policies show the same windows."""

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """A keeper for one episode, whose windows begin with this head."""


def fingerprint_of(spec: str, *more: str) -> str:
    """The fingerprint of a policy; `more` is what its windows depend on besides the setting."""
    text = " ".join((f"history {_VERSION} {spec}", *more))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def joined(turns: Sequence[Sequence[Message]]) -> list[Message]:
    """The messages of some turns, in order."""
    messages: list[Message] = []
    for turn in turns:
        messages.extend(turn)
    return messages
