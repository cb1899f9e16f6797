"""The history window in which the agent itself summarises the older turns.

    summary:n      all turns as long as they fit n tokens together with the head; then the agent is
                   asked for a summary, which replaces all turns but the newest
    summary:n-m    the same with a number of tokens from n to m that is drawn for each group, so
                   that a model learns to summarise whatever its history is limited to

The request for a summary shows everything but the newest turn: a window that was shown before, so
that a server has it in its prefix cache, and that fits n tokens. An earlier summary is summarised
together with the rest. The summary is a fact (`HistorySummarized`), so windows still follow from
the log alone.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.history.base import (
    HistoryState,
    VisibleHistory,
    fingerprint_of,
    messages_of,
)
from rehearsal_room.harness.history.token_budget import TokenCounter, TokenMeasure

PROMPT = """Your history has grown too long. Everything above, up to the task, is about to be \
replaced by what you write now; only your newest step, which is not shown here, is kept. Sum up \
what you need to go on: what you found (names, ids, amounts, dates, rules that apply), what you \
changed, and what is left to do. Write plain text for yourself and call no tool."""
GO_ON = "This was your summary of what you did before. Go on with the task from there."


class SummaryWindow:
    """Shows turns up to `num_tokens`; the agent summarises the older ones.

    A window is larger than that only where head, summary and newest turn alone are larger. Then the
    agent summarises after every turn.
    """

    def __init__(self, num_tokens: int, counter: TokenCounter | None = None) -> None:
        self.num_tokens = num_tokens
        self.measure = TokenMeasure(counter)
        self.spec = f"summary:{num_tokens}"
        self.fingerprint = fingerprint_of(self.spec, self.measure.counter.name, PROMPT, GO_ON)

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """An empty history that asks for summaries."""
        return _SummarizedHistory(self, self.measure.pinned(head, tools))


class SummaryRange:
    """A `SummaryWindow` for each group of episodes, whose number of tokens is drawn. Episodes are
    logged with the drawn window, so nothing is drawn again when they are read."""

    def __init__(
        self, low: int, high: int, counter: TokenCounter | None = None, *, seed: int = 0
    ) -> None:
        """From `low` to `high` tokens, both included; `seed` is that of the run."""
        self.low, self.high = low, high
        self.measure = TokenMeasure(counter)
        self._seed = seed
        self.spec = f"summary:{low}-{high}"
        self.fingerprint = fingerprint_of(self.spec, self.measure.counter.name, PROMPT, GO_ON)

    def drawn(self, group: str) -> SummaryWindow:
        """The window of a group: always the same for all its members."""
        text = f"{self._seed} {group}".encode()
        number = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
        return self.window(self.low + number % (self.high - self.low + 1))

    def window(self, num_tokens: int) -> SummaryWindow:
        """The window of so many tokens."""
        made = SummaryWindow(num_tokens, self.measure.counter)
        made.measure = self.measure  # it remembers the heads that all groups share
        return made

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """The history of a conversation that is in no group: it has the highest number."""
        return self.window(self.high).new_state(head, tools)


class _SummarizedHistory:
    __slots__ = ("_num_turns", "_pinned", "_policy", "_summary", "_total", "_turns")

    def __init__(self, policy: SummaryWindow, pinned: int) -> None:
        self._policy = policy
        self._pinned = pinned
        self._total = pinned
        self._summary: tuple[Message, ...] = ()  # the latest one; empty: there is none yet
        self._turns: list[Sequence[Message]] = []
        self._num_turns = 0

    @property
    def _due(self) -> bool:
        return self._total > self._policy.num_tokens and len(self._turns) > 1

    def add(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        self._num_turns += 1
        self._total += self._policy.measure.messages(turn)

    def add_summary(self, text: str) -> None:
        if not self._due:  # the log of another policy's run
            return
        # Messages of assistant and user alternate, as many chat templates require.
        self._summary = (Message("assistant", text), Message("user", GO_ON))
        del self._turns[:-1]
        count = self._policy.measure.messages
        self._total = self._pinned + count(self._summary) + count(self._turns[0])

    def visible(self) -> VisibleHistory:
        first = self._num_turns - len(self._turns)
        if not self._due:
            return VisibleHistory(first, [*self._summary, *messages_of(self._turns)])
        messages = with_summary_request([*self._summary, *messages_of(self._turns[:-1])])
        return VisibleHistory(first, messages, asks_for_summary=True)


def with_summary_request(messages: list[Message]) -> list[Message]:
    """These messages with the request for a summary at the end: inside the last message
    where that is the user's, so that assistant and user still alternate."""
    last = messages[-1]
    if last.role != "user":
        return [*messages, Message("user", PROMPT)]
    content = f"{last.content}\n\n{PROMPT}"
    return [*messages[:-1], msgspec.structs.replace(last, content=content)]
