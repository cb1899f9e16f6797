"""History windows: the messages of an episode so far that the policy may see.

A window is the pinned head (system prompt, task, and the tool list where the agent had to ask for
it) followed by the turns that the history window shows. It is a pure function of the episode's
events: live runs, replays and training compute the same windows from the same log.

    full          every turn
    last:w        the last w turns
    last:w+s      the window grows to w + s turns and is then cut to w
    tokens:n      as many of the last turns as fit n tokens together with the head, at least one
    retrieve:k    the last 3 turns and the k best matches of the older ones, by BM25
    summary:n     the turns that fit n tokens; the agent itself summarises the older ones
    summary:n-m   the same; a number from n to m is drawn for each group
    fold          every turn since the agent last called the tool `fold`

Another policy is another class with a spec, a fingerprint and a state (see harness.history.base).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Event, HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import (
    Answer,
    Briefing,
    Decision,
    Message,
    Reply,
    Window,
)
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.history.base import HistoryState, HistoryWindow
from rehearsal_room.harness.history.fold import FoldWindow
from rehearsal_room.harness.history.last_turns import FullWindow, LastTurns
from rehearsal_room.harness.history.retrieval import Retrieve
from rehearsal_room.harness.history.summary import SummaryRange, SummaryWindow
from rehearsal_room.harness.history.token_budget import TokenBudget, TokenCounter

_NUMBER = r"[1-9]\d{0,11}"
_SPEC = re.compile(
    rf"last:(?P<last>{_NUMBER})(\+(?P<slack>{_NUMBER}))?"
    rf"|(?P<word>tokens|retrieve|summary):(?P<number>{_NUMBER})"
    rf"|summary:(?P<low>{_NUMBER})-(?P<high>{_NUMBER})",
    re.ASCII,
)


def parse_history(
    text: str, counter: TokenCounter | None = None, *, seed: int = 0
) -> HistoryWindow:
    """The policy of a setting: `full`, `last:3`, `last:3+5`, `tokens:8000`, `retrieve:2`,
    `summary:8000`, `summary:4000-8000` or `fold`. `seed` is that of the run, for what is drawn.
    Raises SettingsError."""
    if text == "full":
        return FullWindow()
    if text == FoldWindow.spec:
        return FoldWindow()
    found = _SPEC.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"history: {text!r} is not a history window (expected full, last:W, last:W+S, tokens:N,"
            " retrieve:K, summary:N, summary:N-M or fold, with turns W, S and K and tokens N and M,"
            " all from 1)"
        )
    if found["low"]:
        low, high = int(found["low"]), int(found["high"])
        if low >= high:
            raise SettingsError(f"history: {text!r}: the second number must be the greater one")
        return SummaryRange(low, high, counter, seed=seed)
    if found["last"]:
        return LastTurns(int(found["last"]), int(found["slack"] or 0))
    number = int(found["number"])
    if found["word"] == "retrieve":
        return Retrieve(number)
    return (TokenBudget if found["word"] == "tokens" else SummaryWindow)(number, counter)


def window_of_group(policy: HistoryWindow, group: str) -> HistoryWindow:
    """The window of a group's episodes: the run's own, or what is drawn from its range."""
    return policy.drawn(group) if isinstance(policy, SummaryRange) else policy


def window_of_episode(policy: HistoryWindow, spec: str, fingerprint: str) -> HistoryWindow | None:
    """The window of an episode that was logged with this setting and fingerprint, if it may be one
    of a run under `policy`: that one, or one of its range. None: it is another."""
    if fingerprint == policy.fingerprint:
        return policy
    found = _SPEC.fullmatch(spec)
    if not isinstance(policy, SummaryRange) or found is None or found["word"] != "summary":
        return None
    number = int(found["number"])
    own = policy.window(number) if policy.low <= number <= policy.high else None
    return own if own is not None and own.fingerprint == fingerprint else None


class Windows:
    """The windows of one conversation under a history window, turn by turn.

    `head` begins every window; `tools` go into the request's `tools` field. `start` turns came
    before this conversation and are not shown.
    """

    __slots__ = ("_head", "_num_pinned", "_policy", "_start", "_state", "_tools")

    def __init__(
        self,
        policy: HistoryWindow,
        head: tuple[Message, ...],
        tools: tuple[ToolSpec, ...],
        *,
        start: int = 0,
    ) -> None:
        self._start = start
        self._policy = policy
        self._head = head
        self._tools = tools
        self._num_pinned = 0
        self._state: HistoryState | None = None  # None until the first turn decides what is pinned

    def add(self, turn: tuple[Message, ...], *, pin: bool = False) -> None:
        """Add the next turn; the first one may be pinned, and is then a part of the head."""
        if self._state is None:
            if pin:
                self._head += turn
                self._num_pinned = 1
            self._state = self._policy.new_state(self._head, self._tools)
            if pin:
                return
        self._state.add(turn)

    def add_summary(self, text: str) -> None:
        """Add the agent's summary of the older turns."""
        if self._state is not None:
            self._state.add_summary(text)

    def add_tools(self, tools: tuple[ToolSpec, ...]) -> None:
        """Add tools that the agent gets in the middle; a budget of tokens does not count them."""
        self._tools += tools

    def window(self) -> Window:
        """The present window, which asks for a step or for a summary."""
        if self._state is None:
            return Window(self._head, self._tools, self._start)
        visible, pinned = self._state.visible(), self._num_pinned
        # A pinned turn is always shown: while no other turn is missing, all are shown.
        pinned += self._start
        first_turn = visible.first + pinned if visible.first else self._start
        recalled = tuple([turn + pinned for turn in visible.recalled]) if visible.recalled else ()
        messages = (*self._head, *visible.messages)
        return Window(messages, self._tools, first_turn, recalled, visible.asks_for_summary)


def turns_of(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """The turns of a conversation after its head: each assistant message with the messages that
    follow it. The first of the messages, if there is one, is the assistant's."""
    starts = [index for index, one in enumerate(messages) if one.role == "assistant"]
    return [tuple(messages[start:end]) for start, end in pairwise([*starts, len(messages)])]


class HistoryFold:
    """The history of one episode: apply its events in order, and get the window at any time."""

    __slots__ = ("_dialect", "_folds", "_is_new", "_num_turns", "_opened", "_windows")

    def __init__(self, policy: HistoryWindow, dialect: Dialect, briefing: Briefing) -> None:
        self._dialect = dialect
        head, tools = dialect.opening_messages(briefing), dialect.request_tools(briefing)
        self._opened = partial(Windows, policy, head, tools)
        self._folds = isinstance(policy, FoldWindow)
        self._windows = self._opened()
        self._is_new = True
        self._num_turns = 0

    def apply(self, event: Event) -> None:
        """Apply the next event. Steps add to every history, summaries to some; other events do
        not change it."""
        if isinstance(event, StepTaken):
            self._num_turns += 1
            if event.again:
                self._windows, self._is_new = self._opened(start=self._num_turns), True
                return
            pins = self._is_new and self._dialect.pins(event)
            self._is_new = False
            turn = with_fields(self._dialect.turn_messages(event), event.reply)
            self._windows.add(turn, pin=pins)
            if self._folds and event.folds:
                self._windows.add_summary("")
            if event.user is not None and (tools := event.user.tools):
                self._windows.add_tools(
                    self._dialect.request_tools(Briefing("", "", tools, "", ""))
                )
        elif isinstance(event, HistorySummarized) and not self._folds:
            self._windows.add_summary(summary_of(self._dialect, event))

    def window(self) -> Window:
        """The present window, which asks for a step or for a summary."""
        return self._windows.window()


def with_fields(turn: tuple[Message, ...], reply: Reply) -> tuple[Message, ...]:
    """A turn whose first message shows a reply, with what the server sent beside the reply."""
    if not (reply.thought or reply.fields) or not turn or turn[0].role != "assistant":
        return turn
    shown = msgspec.structs.replace(turn[0], thought=reply.thought, fields=reply.fields)
    return (shown, *turn[1:])


def summary_of(dialect: Dialect, event: HistorySummarized) -> str:
    """The summary in a reply: the text that the dialect reads as an answer; empty where it
    reads calls or finds a format error."""
    decision: Decision = dialect.read(event.reply, turn=event.turn)
    return decision.text if isinstance(decision, Answer) else ""


def windows_of(
    fold: HistoryFold, replies: Iterable[StepTaken | HistorySummarized]
) -> Iterator[Window]:
    """Yield the window that was shown for each reply (`Trajectory.replies`), from the log alone."""
    for event in replies:
        yield fold.window()
        fold.apply(event)
