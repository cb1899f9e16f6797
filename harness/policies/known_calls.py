"""Playing calls that are known beforehand, through any dialect."""

from collections.abc import Sequence

from harness.core.messages import Reply, Window
from harness.dialects.base import Dialect
from scenarios.format import Call


def replies_of(dialect: Dialect, calls: Sequence[Call], answer: str) -> tuple[Reply, ...]:
    """The replies of an agent that makes these calls, one a turn, and then answers.

    What the dialect wants called first is called first. Raises ValueError for an answer that the
    dialect cannot say.
    """
    openers = dialect.opening_calls()
    if tuple(calls[: len(openers)]) != openers:
        calls = (*openers, *calls)
    turns = [dialect.write((call,), "", turn=turn) for turn, call in enumerate(calls)]
    return (*turns, dialect.write((), answer, turn=len(turns)))


# What an agent whose calls are known beforehand, or drawn, says of what it has done.
SUMMARY = Reply("I did what came first, and go on with what comes next.")


class Player:
    """An agent that gives its replies in order, and the last one again when asked for more."""

    __slots__ = ("_next", "_replies")

    def __init__(self, replies: tuple[Reply, ...]) -> None:
        self._replies = replies
        self._next = 0

    async def reply(self, window: Window) -> Reply:
        """The next reply, whatever the window shows; asked for a summary it says a word."""
        if window.asks_for_summary:
            return SUMMARY
        place = self._next
        if place + 1 < len(self._replies):
            self._next = place + 1
        return self._replies[place]
