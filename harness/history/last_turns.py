"""History policies that count turns.

full        every turn
last:w      the last w turns (AWM, arXiv:2602.10090, trains with w = 3)
last:w+s    grows to w + s turns and is then cut to w
"""

from collections.abc import Sequence

from envpool.core.types import ToolSpec
from harness.core.messages import Message
from harness.history.base import Keeper, Kept, fingerprint_of, joined


class Full:
    """Every turn."""

    spec = "full"
    fingerprint = fingerprint_of("full")

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps everything."""
        return _FullKeeper()


class _FullKeeper:
    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def keep(self, turn: Sequence[Message]) -> None:
        self._messages.extend(turn)

    def summarised(self, text: str) -> None:
        """Nothing changes."""

    def kept(self) -> Kept:
        return Kept(0, self._messages)


class LastTurns:
    """The last `num_turns` turns, and up to `slack` more before them.

    With slack the window grows by appending only, and is cut once in slack + 1 turns: between cuts
    each prompt begins with the one before, so that a server's prefix cache holds it.

    Example: after turns 0, 1, 2, ... `last:2+2` shows
        0 | 0 1 | 0 1 2 | 0 1 2 3 | 3 4 | 3 4 5 | 3 4 5 6 | 6 7
    """

    def __init__(self, num_turns: int, slack: int = 0) -> None:
        self.num_turns = num_turns
        self.slack = slack
        self.spec = f"last:{num_turns}+{slack}" if slack else f"last:{num_turns}"
        self.fingerprint = fingerprint_of(self.spec)

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps that many."""
        return _LastKeeper(self.num_turns, self.num_turns + self.slack)


class _LastKeeper:
    __slots__ = ("_fewest", "_most", "_num_turns", "_turns")

    def __init__(self, fewest: int, most: int) -> None:
        self._fewest = fewest
        self._most = most
        self._turns: list[Sequence[Message]] = []
        self._num_turns = 0

    def keep(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        self._num_turns += 1
        if len(self._turns) > self._most:
            del self._turns[: -self._fewest]

    def summarised(self, text: str) -> None:
        """Nothing changes."""

    def kept(self) -> Kept:
        return Kept(self._num_turns - len(self._turns), joined(self._turns))
