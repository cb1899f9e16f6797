"""Agents whose replies are fixed before the episode: known calls, written in any dialect."""

from collections.abc import Sequence

from harness.core.events import HistorySummarized, StepTaken
from harness.core.messages import Act, Reply, Window
from harness.dialects.base import Dialect
from scenarios.format import Call


def replies_of(dialect: Dialect, calls: Sequence[Call], answer: str) -> tuple[Reply, ...]:
    """The replies of an agent that makes these calls, one per turn, and then answers.

    Calls that the dialect requires first (`Dialect.openers`) are put in front. Raises ValueError
    for an answer that the dialect cannot express.
    """
    openers = dialect.opening_calls()
    if tuple(calls[: len(openers)]) != openers:
        calls = (*openers, *calls)
    turns = [dialect.write((call,), "", turn=turn) for turn, call in enumerate(calls)]
    return (*turns, dialect.write((), answer, turn=len(turns)))


# The summary of its history that an agent gives whose calls are fixed or drawn at random.
FIXED_SUMMARY = Reply("I did what came first, and go on with what comes next.")


def num_calls_in(kept: Sequence[StepTaken | HistorySummarized]) -> int:
    """How many calls were made in an episode so far."""
    decisions = [event.decision for event in kept if isinstance(event, StepTaken)]
    return sum(len(decision.calls) for decision in decisions if isinstance(decision, Act))


class FixedRepliesAgent:
    """An agent that gives its replies in order, and repeats the last one when asked for more.

    `first` is the reply with which it begins: one call is made in each but the last, so an agent
    that takes an episode over begins after as many replies as calls were made.
    """

    __slots__ = ("_next", "_replies")

    def __init__(self, replies: tuple[Reply, ...], first: int = 0) -> None:
        self._replies = replies
        self._next = min(first, len(replies) - 1)

    async def reply(self, window: Window) -> Reply:
        """The next reply, whatever the window shows; a fixed summary where one is asked for."""
        if window.asks_for_summary:
            return FIXED_SUMMARY
        index = self._next
        if index + 1 < len(self._replies):
            self._next = index + 1
        return self._replies[index]
