"""History windows: what of an episode so far the policy may see.

A window is the pinned head (system prompt, task, and the tool list where the agent had to ask for
it) and then what the history policy lets through. It is a pure function of the episode's events:
live runs, replays and training compute the same windows from the same log.

    full          every turn
    last:w        the last w turns
    last:w+s      grows to w + s turns and is then cut to w
    tokens:n      as many last turns as fit n tokens together with the head, at least one
    retrieve:k    the last 3 turns and the k best of those before, by BM25
    summary:n     what fits n tokens; what does not is summed up by the agent itself

Another policy is another class with a spec, a fingerprint and a keeper (see history_base).
"""

import re
from collections.abc import Iterable, Iterator

from envpool.core.types import ToolSpec
from harness.core.errors import SettingsError
from harness.core.events import EpisodeEnded, Event, HistorySummarized, Record, StepTaken
from harness.core.messages import Answer, Briefing, Decision, Message, Window
from harness.dialects.base import Dialect
from harness.history.base import HistoryPolicy, Keeper
from harness.history.last_turns import Full, LastTurns
from harness.history.retrieval import Retrieve
from harness.history.summary import Summary
from harness.history.token_budget import TokenBudget, TokenCounter

_NUMBER = r"[1-9]\d{0,11}"
_SPEC = re.compile(
    rf"last:(?P<last>{_NUMBER})(\+(?P<slack>{_NUMBER}))?"
    rf"|(?P<word>tokens|retrieve|summary):(?P<number>{_NUMBER})",
    re.ASCII,
)


def parse_history(text: str, counter: TokenCounter | None = None) -> HistoryPolicy:
    """The policy of a setting: `full`, `last:3`, `last:3+5`, `tokens:8000`, `retrieve:2`,
    `summary:8000`. Raises SettingsError."""
    if text == "full":
        return Full()
    found = _SPEC.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"history: {text!r} is none of full, last:W, last:W+S, tokens:N, retrieve:K and"
            " summary:N (turns W, S and K, tokens N, all from 1)"
        )
    if found["last"]:
        return LastTurns(int(found["last"]), int(found["slack"] or 0))
    number = int(found["number"])
    if found["word"] == "retrieve":
        return Retrieve(number)
    return (TokenBudget if found["word"] == "tokens" else Summary)(number, counter)


class Windows:
    """One conversation's windows under a history policy, turn by turn.

    `head` begins every window; `tools` go into the request's `tools` field.
    """

    __slots__ = ("_head", "_keeper", "_num_pinned", "_policy", "_tools")

    def __init__(
        self, policy: HistoryPolicy, head: tuple[Message, ...], tools: tuple[ToolSpec, ...]
    ) -> None:
        self._policy = policy
        self._head = head
        self._tools = tools
        self._num_pinned = 0
        self._keeper: Keeper | None = None  # None until the first turn has said what is pinned

    def keep(self, turn: tuple[Message, ...], *, pins: bool = False) -> None:
        """Take the next turn; the first one may join the head."""
        if self._keeper is None:
            if pins:
                self._head += turn
                self._num_pinned = 1
            self._keeper = self._policy.keeper(self._head, self._tools)
            if pins:
                return
        self._keeper.keep(turn)

    def summarised(self, text: str) -> None:
        """Take the agent's summary of what falls out."""
        if self._keeper is not None:
            self._keeper.summarised(text)

    def window(self) -> Window:
        """What may be seen now; its flag says whether a step or a summary is asked for."""
        if self._keeper is None:
            return Window(self._head, self._tools)
        kept, pinned = self._keeper.kept(), self._num_pinned
        # A pinned turn is shown always: as long as nothing else fell out, all is shown.
        first_turn = kept.first + pinned if kept.first else 0
        recalled = tuple([turn + pinned for turn in kept.recalled]) if kept.recalled else ()
        messages = (*self._head, *kept.messages)
        return Window(messages, self._tools, first_turn, recalled, kept.asks_for_summary)


class HistoryFold:
    """One episode's history: apply its events in order, and ask for the window at any time."""

    __slots__ = ("_dialect", "_is_new", "_windows")

    def __init__(self, policy: HistoryPolicy, dialect: Dialect, briefing: Briefing) -> None:
        self._dialect = dialect
        self._windows = Windows(
            policy, dialect.opening_messages(briefing), dialect.request_tools(briefing)
        )
        self._is_new = True

    def apply(self, event: Event) -> None:
        """Take the next event. Only steps add to a history, and summaries to some."""
        if isinstance(event, StepTaken):
            pins = self._is_new and self._dialect.pins(event)
            self._is_new = False
            self._windows.keep(self._dialect.turn_messages(event), pins=pins)
        elif isinstance(event, HistorySummarized):
            self._windows.summarised(summary_of(self._dialect, event))

    def window(self) -> Window:
        """What may be seen now; its flag says whether a step or a summary is asked for."""
        return self._windows.window()


def summary_of(dialect: Dialect, event: HistorySummarized) -> str:
    """The summary that a reply gives: what the dialect reads as an answer; empty where it reads
    calls, or nothing."""
    decision: Decision = dialect.read(event.reply, turn=event.turn)
    return decision.text if isinstance(decision, Answer) else ""


def windows_of(
    fold: HistoryFold, replies: Iterable[StepTaken | HistorySummarized]
) -> Iterator[Window]:
    """The window that was shown for each reply (`Trajectory.replies`), from the log alone."""
    for event in replies:
        yield fold.window()
        fold.apply(event)


class HistoryManager:
    """The folds of all live episodes: a subscriber of the bus that is attached inline.

    A fold is opened before its episode starts and forgotten when the episode ends.
    """

    def __init__(self) -> None:
        self._folds: dict[str, HistoryFold] = {}

    def __repr__(self) -> str:
        return f"<HistoryManager [{len(self._folds)} live]>"

    def open(self, episode: str, fold: HistoryFold) -> None:
        """Begin an episode's history (anew, where an attempt came before)."""
        self._folds[episode] = fold

    def handle(self, record: Record) -> None:
        """Take a fact; facts of episodes that are not open are others' business."""
        event = record.event
        if isinstance(event, StepTaken | HistorySummarized):
            if fold := self._folds.get(record.episode):
                fold.apply(event)
        elif isinstance(event, EpisodeEnded):
            self._folds.pop(record.episode, None)

    def window(self, episode: str) -> Window:
        """What the episode's policy may see now. Raises KeyError when it is not open."""
        return self._folds[episode].window()

    def close(self, episode: str) -> None:
        """Forget an episode; nothing happens when it is forgotten already."""
        self._folds.pop(episode, None)

    def statistics(self) -> dict[str, int]:
        """Counts of what is held."""
        return {"live": len(self._folds)}
