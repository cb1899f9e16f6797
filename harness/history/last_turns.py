"""History windows that count turns.

full        every turn
last:w      the last w turns (AWM, arXiv:2602.10090, trains with w = 3)
last:w+s    the window grows to w + s turns and is then cut to w
"""

from collections.abc import Sequence

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.history.base import (
    HistoryState,
    VisibleHistory,
    fingerprint_of,
    messages_of,
)


class FullWindow:
    """Shows every turn."""

    spec = "full"
    fingerprint = fingerprint_of("full")

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """An empty history that shows every turn."""
        return _FullHistory()


class _FullHistory:
    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def add(self, turn: Sequence[Message]) -> None:
        self._messages.extend(turn)

    def add_summary(self, text: str) -> None:
        """Ignored: this policy asks for no summary."""

    def visible(self) -> VisibleHistory:
        return VisibleHistory(0, self._messages)


class LastTurns:
    """Shows the last `num_turns` turns, and up to `slack` more before them.

    With slack the window grows by appending only, and is cut once in slack + 1 turns: between cuts
    each prompt begins with the previous one, which a server then has in its prefix cache.

    Example: after turns 0, 1, 2, ... `last:2+2` shows
        0 | 0 1 | 0 1 2 | 0 1 2 3 | 3 4 | 3 4 5 | 3 4 5 6 | 6 7
    """

    def __init__(self, num_turns: int, slack: int = 0) -> None:
        self.num_turns = num_turns
        self.slack = slack
        self.spec = f"last:{num_turns}+{slack}" if slack else f"last:{num_turns}"
        self.fingerprint = fingerprint_of(self.spec)

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """An empty history that shows that many turns."""
        return _LastTurnsHistory(self.num_turns, self.num_turns + self.slack)


class _LastTurnsHistory:
    __slots__ = ("_max_shown", "_min_shown", "_num_turns", "_turns")

    def __init__(self, min_shown: int, max_shown: int) -> None:
        self._min_shown = min_shown
        self._max_shown = max_shown
        self._turns: list[Sequence[Message]] = []
        self._num_turns = 0

    def add(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        self._num_turns += 1
        if len(self._turns) > self._max_shown:
            del self._turns[: -self._min_shown]

    def add_summary(self, text: str) -> None:
        """Ignored: this policy asks for no summary."""

    def visible(self) -> VisibleHistory:
        return VisibleHistory(self._num_turns - len(self._turns), messages_of(self._turns))
