"""Counting the tokens of windows, and the history window that only counts them.

tokens:n    as many of the last turns as fit n tokens together with the head, at least one
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message, Reply
from rehearsal_room.harness.history.base import (
    HistoryState,
    VisibleHistory,
    fingerprint_of,
    messages_of,
)

_MAX_REMEMBERED = 4096  # texts and tool lists whose counts are remembered


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """A name that differs between counters that count differently: part of the fingerprint of
        a policy that counts tokens."""

    def __call__(self, text: str) -> int:
        """The number of tokens in a text."""


class ByteCounter:
    """Counts a quarter of the UTF-8 bytes, rounded up: close enough for English and JSON."""

    name = "bytes/4"

    def __call__(self, text: str) -> int:
        return -(-len(text.encode("utf-8", "replace")) // 4)


def estimate_tokens(reply: Reply) -> int:
    """About how many tokens a reply has, for servers that do not say it.

    Example: Reply("thinking aloud") -> 4
    """
    texts = [reply.text]
    for call in reply.calls:
        arguments = call.arguments
        texts += (call.name, arguments if isinstance(arguments, str) else _json(arguments))
    return sum(map(ByteCounter(), texts))


class TokenMeasure:
    """Counts the tokens of messages and of a request's tools.

    Texts and calls are counted; the text that a chat template adds around them is not.
    """

    def __init__(self, counter: TokenCounter | None = None) -> None:
        self.counter: TokenCounter = counter or ByteCounter()
        self._texts: dict[str, int] = {}  # texts of heads, which many episodes share
        self._tools: dict[int, tuple[Any, int]] = {}

    def messages(self, messages: Iterable[Message]) -> int:
        """The number of tokens in some messages."""
        total = 0
        for message in messages:
            total += self.counter(message.content)
            for call in message.calls:
                total += self.counter(call.name) + self.counter(_json(call.arguments))
            if message.fields:  # which go back to the server that sent them
                total += self.counter(_json(message.fields))
        return total

    def tools(self, tools: tuple[ToolSpec, ...]) -> int:
        """The number of tokens in the request's tools."""
        if not tools:
            return 0
        known = self._tools.get(id(tools))
        if known is None:
            if len(self._tools) >= _MAX_REMEMBERED:
                self._tools.clear()
            known = self._tools[id(tools)] = (tools, self.counter(_json(tools)))
        return known[1]

    def pinned(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> int:
        """The number of tokens that every window of an episode contains."""
        return sum(self._head(message) for message in head) + self.tools(tools)

    def _head(self, message: Message) -> int:
        if message.calls:
            return self.messages((message,))
        known = self._texts.get(message.content)
        if known is None:
            if len(self._texts) >= _MAX_REMEMBERED:
                self._texts.clear()
            known = self._texts[message.content] = self.messages((message,))
        return known


class TokenBudget:
    """Shows as many of the last turns as fit `num_tokens` together with head and tools; at least
    one."""

    def __init__(self, num_tokens: int, counter: TokenCounter | None = None) -> None:
        self.num_tokens = num_tokens
        self.measure = TokenMeasure(counter)
        self.spec = f"tokens:{num_tokens}"
        self.fingerprint = fingerprint_of(self.spec, self.measure.counter.name)

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """An empty history that shows the turns that fit."""
        return _BudgetedHistory(self, self.measure.pinned(head, tools))


class _BudgetedHistory:
    __slots__ = ("_num_turns", "_policy", "_total", "_turns")

    def __init__(self, policy: TokenBudget, pinned: int) -> None:
        self._policy = policy
        self._turns: deque[tuple[int, Sequence[Message]]] = deque()
        self._total = pinned
        self._num_turns = 0

    def add(self, turn: Sequence[Message]) -> None:
        count = self._policy.measure.messages(turn)
        self._turns.append((count, turn))
        self._total += count
        self._num_turns += 1
        # A turn that no longer fits never fits again: the later turns only grow.
        while self._total > self._policy.num_tokens and len(self._turns) > 1:
            self._total -= self._turns.popleft()[0]

    def add_summary(self, text: str) -> None:
        """Ignored: this policy asks for no summary."""

    def visible(self) -> VisibleHistory:
        messages = messages_of([turn for _, turn in self._turns])
        return VisibleHistory(self._num_turns - len(self._turns), messages)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
