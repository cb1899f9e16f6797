"""The history window in which the agent itself folds what came before.

    fold    every turn from the latest one in which the agent called the tool `fold` on

The tool and its result are in harness.core.folding. The summary is in the agent's own turn, as it
was sampled, so nothing is written about it anywhere else. A call that folds nothing (no summary)
leaves the window as it is.
"""

from collections.abc import Sequence

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.folding import FOLD, FOLDED, HISTORY
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.history.base import (
    HistoryState,
    VisibleHistory,
    fingerprint_of,
    messages_of,
)


class FoldWindow:
    """Shows every turn since the agent last folded, that turn included."""

    spec = HISTORY
    fingerprint = fingerprint_of(HISTORY, FOLD.description, FOLDED)

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """An empty history."""
        return _FoldedHistory()


class _FoldedHistory:
    __slots__ = ("_num_turns", "_turns")

    def __init__(self) -> None:
        self._turns: list[Sequence[Message]] = []
        self._num_turns = 0

    def add(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        self._num_turns += 1

    def add_summary(self, text: str) -> None:
        """The newest turn has the summary: the older ones are no longer shown."""
        del self._turns[:-1]

    def visible(self) -> VisibleHistory:
        return VisibleHistory(self._num_turns - len(self._turns), messages_of(self._turns))
