"""History windows: what of an episode so far the policy may see.

A window is the pinned head (system prompt, task, and the tool list where the agent had to ask for
it) and then the latest turns that the history policy lets through. It is a pure function of the
episode's events: live runs, replays and training compute the same windows from the same log.

    full        every turn
    last:w      the last w turns (AWM, arXiv:2602.10090, trains with w = 3)
    tokens:n    as many last turns as fit n tokens together with the head, at least one

Another policy is another class with a spec, a fingerprint and a keeper.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from envpool.types import ToolSpec
from harness.dialects.base import Dialect
from harness.errors import SettingsError
from harness.events import EpisodeEnded, Event, Record, StepTaken
from harness.messages import Briefing, Message, Window

_VERSION = 1  # of the rules below; a change to what windows hold raises it


class TokenCounter(Protocol):
    """Counts the tokens of a text; the name tells apart counters that count differently."""

    @property
    def name(self) -> str:
        """Part of the fingerprint of a policy that counts."""

    def __call__(self, text: str) -> int:
        """The number of tokens."""


class ByteCounter:
    """A quarter of the UTF-8 bytes, rounded up: near enough for English and JSON."""

    name = "bytes/4"

    def __call__(self, text: str) -> int:
        return -(-len(text.encode("utf-8", "replace")) // 4)


class Keeper(Protocol):
    """What one episode's history holds on to, turn by turn."""

    def keep(self, turn: Sequence[Message]) -> None:
        """The episode's next turn."""

    def kept(self) -> tuple[int, list[Message]]:
        """The index of the oldest turn that is still shown, and the messages from there on."""


class HistoryPolicy(Protocol):
    """A rule for what may be seen."""

    @property
    def spec(self) -> str:
        """The canonical setting, as in `last:3`."""

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits; equal when the policies show the same windows."""

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """A keeper for one episode, whose windows begin with this head."""


def _fingerprint(spec: str, counter: str = "") -> str:
    text = f"history {_VERSION} {spec} {counter}".rstrip()
    return blake2b(text.encode(), digest_size=8).hexdigest()


class Full:
    """Every turn."""

    spec = "full"
    fingerprint = _fingerprint("full")

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps everything."""
        return _FullKeeper()


class _FullKeeper:
    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def keep(self, turn: Sequence[Message]) -> None:
        self._messages.extend(turn)

    def kept(self) -> tuple[int, list[Message]]:
        return 0, self._messages


class LastTurns:
    """The last `num_turns` turns."""

    def __init__(self, num_turns: int) -> None:
        self.num_turns = num_turns
        self.spec = f"last:{num_turns}"
        self.fingerprint = _fingerprint(self.spec)

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps that many."""
        return _LastKeeper(self.num_turns)


class _LastKeeper:
    __slots__ = ("_num_turns", "_turns")

    def __init__(self, num_turns: int) -> None:
        self._turns: deque[Sequence[Message]] = deque(maxlen=num_turns)
        self._num_turns = 0

    def keep(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        self._num_turns += 1

    def kept(self) -> tuple[int, list[Message]]:
        messages: list[Message] = []
        for turn in self._turns:
            messages.extend(turn)
        return self._num_turns - len(self._turns), messages


class TokenBudget:
    """As many last turns as fit `num_tokens` together with head and tools; at least one.

    Counts the texts and calls of messages and the tools of the request; what a chat template adds
    around them is not counted.
    """

    def __init__(self, num_tokens: int, counter: TokenCounter | None = None) -> None:
        self.num_tokens = num_tokens
        self.counter: TokenCounter = counter or ByteCounter()
        self.spec = f"tokens:{num_tokens}"
        self.fingerprint = _fingerprint(self.spec, self.counter.name)
        self._texts: dict[str, int] = {}  # of heads, which many episodes share
        self._tools: dict[int, tuple[Any, int]] = {}

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps what fits."""
        pinned = sum(self._head_count(message) for message in head) + self.count_tools(tools)
        return _TokenKeeper(self, pinned)

    def count(self, messages: Iterable[Message]) -> int:
        """Tokens of some messages."""
        total = 0
        for message in messages:
            total += self.counter(message.content)
            for call in message.calls:
                total += self.counter(call.name) + self.counter(_json(call.arguments))
        return total

    def count_tools(self, tools: tuple[ToolSpec, ...]) -> int:
        """Tokens of the request's tools."""
        if not tools:
            return 0
        known = self._tools.get(id(tools))
        if known is None:
            if len(self._tools) >= 4096:
                self._tools.clear()
            known = self._tools[id(tools)] = (tools, self.counter(_json(tools)))
        return known[1]

    def _head_count(self, message: Message) -> int:
        if message.calls:
            return self.count((message,))
        known = self._texts.get(message.content)
        if known is None:
            if len(self._texts) >= 4096:
                self._texts.clear()
            known = self._texts[message.content] = self.count((message,))
        return known


class _TokenKeeper:
    __slots__ = ("_num_turns", "_policy", "_total", "_turns")

    def __init__(self, policy: TokenBudget, pinned: int) -> None:
        self._policy = policy
        self._turns: deque[tuple[int, Sequence[Message]]] = deque()
        self._total = pinned
        self._num_turns = 0

    def keep(self, turn: Sequence[Message]) -> None:
        count = self._policy.count(turn)
        self._turns.append((count, turn))
        self._total += count
        self._num_turns += 1
        # A turn that fell out fits never again: the later ones only grow.
        while self._total > self._policy.num_tokens and len(self._turns) > 1:
            self._total -= self._turns.popleft()[0]

    def kept(self) -> tuple[int, list[Message]]:
        messages: list[Message] = []
        for _, turn in self._turns:
            messages.extend(turn)
        return self._num_turns - len(self._turns), messages


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_SPEC = re.compile(r"(last|tokens):([1-9]\d{0,11})", re.ASCII)


def parse_history(text: str, counter: TokenCounter | None = None) -> HistoryPolicy:
    """The policy of a setting: `full`, `last:3`, `tokens:8000`. Raises SettingsError."""
    if text == "full":
        return Full()
    found = _SPEC.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"history: {text!r} is none of full, last:W and tokens:N (W turns or N tokens, from 1)"
        )
    number = int(found[2])
    return LastTurns(number) if found[1] == "last" else TokenBudget(number, counter)


class HistoryFold:
    """One episode's history: apply its events in order, and ask for the window at any time."""

    __slots__ = ("_dialect", "_head", "_keeper", "_num_pinned", "_policy", "_tools")

    def __init__(self, policy: HistoryPolicy, dialect: Dialect, briefing: Briefing) -> None:
        self._policy = policy
        self._dialect = dialect
        self._head = dialect.opening(briefing)
        self._tools = dialect.request_tools(briefing)
        self._num_pinned = 0
        self._keeper: Keeper | None = None  # None until the first turn has said what is pinned

    def apply(self, event: Event) -> None:
        """Take the next event. Only steps add to a history."""
        if not isinstance(event, StepTaken):
            return
        turn = self._dialect.turn(event)
        if self._keeper is None:
            if self._dialect.pins(event):
                self._head += turn
                self._num_pinned = 1
            self._keeper = self._policy.keeper(self._head, self._tools)
            if self._num_pinned:
                return
        self._keeper.keep(turn)

    def window(self) -> Window:
        """What may be seen now."""
        if self._keeper is None:
            return Window(self._head, self._tools)
        first, messages = self._keeper.kept()
        # A pinned turn is shown always: as long as nothing else fell out, all is shown.
        first_turn = first + self._num_pinned if first else 0
        return Window((*self._head, *messages), self._tools, first_turn)


def windows_of(fold: HistoryFold, steps: Iterable[StepTaken]) -> Iterator[Window]:
    """The window that was shown at each step, from the log alone."""
    for step in steps:
        yield fold.window()
        fold.apply(step)


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
        if isinstance(event, StepTaken):
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
