"""An episode as one list of messages, and for each reply the part of the list that was shown.

Windows repeat each other: a list of all windows grows with the square of the turns. Here each
message is stored once, and a window is a few ranges of the list, so the size is linear.

    messages   0 system   1 task   2 assistant   3 tool   4 assistant   5 tool   6 assistant
    turn 0     [0, 2)
    turn 2     [0, 6)             with history `full`
    turn 2     [0, 2) [4, 6)      with history `last:1`

The windows are those that were logged (`first_turn`, `recalled`), so no tokenizer is needed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.events import HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Briefing, Message
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect, without_thoughts
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.summary import GO_ON, with_summary_request
from rehearsal_room.harness.history.windows import summary_of, with_fields
from rehearsal_room.harness.log.schema import ScenarioSnapshot

Range = tuple[int, int]  # from, to (exclusive)
CALL_TAG = "<tool_call>"  # of the dialects in which calls are text


class ShownReply(NamedTuple):
    """One reply, and what its agent saw."""

    number: int  # of the step, from 0; of a summary the step that comes next
    event: StepTaken | HistorySummarized
    window: tuple[Range, ...]  # of Conversation.messages
    tools: tuple[ToolSpec, ...]  # of the request; empty where the messages describe them
    turn: Range  # messages that it adds: the assistant's, then results or what is said to it
    is_context: bool  # whether it was kept from another episode: context, not learned again

    @property
    def calls(self) -> tuple[AgentCall, ...]:
        """The calls that the agent makes with it."""
        event = self.event
        if isinstance(event, StepTaken) and isinstance(event.decision, Act):
            return event.decision.calls
        return ()


def spoken(text: str) -> str:
    """The text of a reply without thoughts and without calls that are written as text.

    Example: "I look.\n<tool_call>\n{...}\n</tool_call>" -> "I look."
    """
    return without_thoughts(text).partition(CALL_TAG)[0].strip()


class EpisodeConversation:
    """All messages of an episode in its own dialect, and its replies."""

    def __init__(self, trajectory: Trajectory, world: ScenarioSnapshot) -> None:
        started = trajectory.started
        self.briefing: Briefing = logged_briefing(
            started, rules=world.rules, tools=world.tools, user=world.user, now=world.now
        )
        self._dialect: Dialect = dialect_of(started.dialect)
        self.messages: list[Message] = list(self._dialect.opening_messages(self.briefing))
        self.head = (0, len(self.messages))
        self._tools = self._dialect.request_tools(self.briefing)
        self._turns: list[Range] = []
        self._summary: Range | None = None  # the latest one
        self.replies: list[ShownReply] = []
        for index, event in enumerate(trajectory.replies()):
            self._add(event, is_context=index < trajectory.num_context)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools of the requests, those that came in the middle included; empty where the
        messages describe them."""
        return self._tools

    def history(self) -> list[Message]:
        """The messages of head and turns, in order: what an agent without a limit sees."""
        return [self.messages[index] for index in self.history_indexes()]

    def history_indexes(self) -> Iterator[int]:
        """The indexes of `history` in `messages`."""
        for first, last in (self.head, *self._turns):
            yield from range(first, last)

    def _add(self, event: StepTaken | HistorySummarized, *, is_context: bool) -> None:
        number, tools = len(self._turns), self._tools
        window = tuple(_joined(self._window(event)))
        if isinstance(event, HistorySummarized):
            turn = self._store(
                [Message("assistant", summary_of(self._dialect, event)), Message("user", GO_ON)]
            )
            self._summary = turn
        else:
            shown = with_fields(self._dialect.turn_messages(event), event.reply)
            turn = self._store(list(shown))
            self._turns.append(turn)
            if event.user is not None and event.user.tools:
                added = Briefing("", "", event.user.tools, "", "")
                self._tools += self._dialect.request_tools(added)
        self.replies.append(ShownReply(number, event, window, tools, turn, is_context))

    def _window(self, event: StepTaken | HistorySummarized) -> Iterator[Range]:
        """The ranges that were shown before a reply, in order; neighbours are not joined yet."""
        yield self.head
        turns = self._turns
        first = event.first_turn
        if isinstance(event, StepTaken):
            yield from (turns[turn] for turn in self._pinned(first, event.recalled))
            yield from self._summary_shown(first)
            yield from turns[first:]
            return
        yield from self._before_summary(first)

    def _before_summary(self, first: int) -> Iterator[Range]:
        """What is shown with the request for a summary: everything but the newest turn."""
        pinned = [self._turns[turn] for turn in self._pinned(first, ())]
        shown = [*pinned, *self._summary_shown(first), *self._turns[first:-1]]
        if not shown:
            return
        *whole, (start, end) = shown
        yield from whole
        yield start, end - 1
        yield self._store(with_summary_request([self.messages[end - 1]]))

    def _pinned(self, first: int, recalled: tuple[int, ...]) -> list[int]:
        """The turns before the first of the window that are shown, too."""
        is_pinned = first > 0 and self._pins_first
        return sorted({*recalled, *([0] if is_pinned else [])})

    @property
    def _pins_first(self) -> bool:
        if not self.replies:
            return False
        event = self.replies[0].event
        return isinstance(event, StepTaken) and self._dialect.pins(event)

    def _summary_shown(self, first: int) -> list[Range]:
        return [self._summary] if first > 0 and self._summary is not None else []

    def _store(self, messages: tuple[Message, ...] | list[Message]) -> Range:
        start = len(self.messages)
        self.messages.extend(messages)
        return start, len(self.messages)


def _joined(ranges: Iterator[Range]) -> Iterator[Range]:
    """Neighbours as one range.

    Example: (0, 2) (2, 4) (6, 8) -> (0, 4) (6, 8)
    """
    start, end = next(ranges)
    for first, last in ranges:
        if first == end:
            end = last
            continue
        if start < end:
            yield start, end
        start, end = first, last
    if start < end:
        yield start, end
