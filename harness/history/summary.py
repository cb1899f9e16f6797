"""The history policy in which the agent itself sums up what falls out.

    summary:n    all turns as long as they fit n tokens together with the head; then the agent is
                 asked for a summary, which takes the place of all turns but the newest

The agent is asked with everything but the newest turn: a window that was shown before, so that
a server's prefix cache holds it, and that fits n tokens. An earlier summary is summed up with the
rest. The answer is a fact (`HistorySummarized`), so windows still follow from the log alone.
"""

from collections.abc import Sequence

import msgspec

from envpool.core.types import ToolSpec
from harness.core.messages import Message
from harness.history.base import Keeper, Kept, fingerprint_of, joined
from harness.history.token_budget import Measure, TokenCounter

PROMPT = """Your history has grown too long. Everything above, up to the task, is about to be \
replaced by what you write now; only your newest step, which is not shown here, is kept. Sum up \
what you need to go on: what you found (names, ids, amounts, dates, rules that apply), what you \
changed, and what is left to do. Write plain text for yourself and call no tool."""
GO_ON = "This was your summary of what you did before. Go on with the task from there."


class Summary:
    """What fits `num_tokens`; what does not is summed up by the agent.

    A window is larger than that only where head, summary and newest turn alone are. Then every
    turn has its summary.
    """

    def __init__(self, num_tokens: int, counter: TokenCounter | None = None) -> None:
        self.num_tokens = num_tokens
        self.measure = Measure(counter)
        self.spec = f"summary:{num_tokens}"
        self.fingerprint = fingerprint_of(self.spec, self.measure.counter.name, PROMPT, GO_ON)

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps what has not been summed up."""
        return _SummaryKeeper(self, self.measure.pinned(head, tools))


class _SummaryKeeper:
    __slots__ = ("_note", "_num_turns", "_pinned", "_policy", "_total", "_turns")

    def __init__(self, policy: Summary, pinned: int) -> None:
        self._policy = policy
        self._pinned = pinned
        self._total = pinned
        self._note: tuple[Message, ...] = ()  # the latest summary; empty: there is none yet
        self._turns: list[Sequence[Message]] = []
        self._num_turns = 0

    @property
    def _due(self) -> bool:
        return self._total > self._policy.num_tokens and len(self._turns) > 1

    def keep(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        self._num_turns += 1
        self._total += self._policy.measure.messages(turn)

    def summarised(self, text: str) -> None:
        if not self._due:  # the log of another policy's run
            return
        # By turns the assistant and the user speak, as many chat templates demand.
        self._note = (Message("assistant", text), Message("user", GO_ON))
        del self._turns[:-1]
        count = self._policy.measure.messages
        self._total = self._pinned + count(self._note) + count(self._turns[0])

    def kept(self) -> Kept:
        first = self._num_turns - len(self._turns)
        if not self._due:
            return Kept(first, [*self._note, *joined(self._turns)])
        messages = asking([*self._note, *joined(self._turns[:-1])])
        return Kept(first, messages, asks_for_summary=True)


def asking(messages: list[Message]) -> list[Message]:
    """These messages and the request for a summary; in the last one where that is the user's, so
    that assistant and user go on to take turns."""
    last = messages[-1]
    if last.role != "user":
        return [*messages, Message("user", PROMPT)]
    content = f"{last.content}\n\n{PROMPT}"
    return [*messages[:-1], msgspec.structs.replace(last, content=content)]
