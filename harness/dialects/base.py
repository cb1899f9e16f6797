"""What a dialect is: how an agent is told of its task and tools, and how its replies are read.

A dialect holds no state of an episode. Whatever text a model may write, `read` gives a Decision.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from envpool.core.types import ToolResult, ToolSpec
from harness.core.events import StepTaken
from harness.core.messages import AgentCall, Answer, Briefing, Decision, Message, Reply
from scenarios.format import Call


class Dialect(Protocol):
    """One way to show tools to a model and to read its calls."""

    @property
    def name(self) -> str:
        """As it is logged: native, hermes, awm or awm-tool."""

    def opening(self, briefing: Briefing) -> tuple[Message, ...]:
        """The pinned head of every window: the system prompt and the task."""

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """What goes into the request's `tools` field; empty where the prompt tells the tools."""

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """What the reply means. Never raises.

        The calls of an Act are named `c{turn}-{i}`: servers repeat their own ids, and an id is
        executed once in an episode.
        """

    def local(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """The result of a call that the harness answers itself; None: ask the world."""

    def turn(self, step: StepTaken) -> tuple[Message, ...]:
        """What a step adds to the history: the assistant's message, then the results or what was
        wrong with it."""

    def pins(self, step: StepTaken) -> bool:
        """Whether this step, as an episode's first, stays in every window (AWM's tool list)."""

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """How an agent says it: `read(write(calls, text))` gives the calls, or the text as answer.

        Raises ValueError for a text that this dialect would read as something else.
        """

    def openers(self) -> tuple[Call, ...]:
        """What a well-behaved agent calls before anything else."""


def call_id(turn: int, index: int) -> str:
    """The id of a turn's call.

    Example: call_id(3, 0) -> "c3-0"
    """
    return f"c{turn}-{index}"


def shown(result: ToolResult) -> str:
    """What the agent reads of a result; a failure says that it is one."""
    return result.text if result.error is None else f"Error: {result.text}"


def preamble(briefing: Briefing) -> str:
    """The part of the system prompt that all dialects share: who, when, how, and the rules."""
    who = f" for {briefing.user}" if briefing.user else ""
    text = (
        f"You act through tools{who}, who is logged in already. "
        if who
        else "You act through tools. "
    )
    text += (
        "Nobody answers questions while you work: find what you need with the tools, change only "
        "what the task asks for, and keep to the rules. When you are done, or when the task must "
        "be declined, say so in plain words without calling a tool; name the facts that matter."
    )
    if briefing.now:
        text += f"\n\nThe time is {briefing.now}."
    if briefing.rules:
        text += f"\n\n# Rules\n\n{briefing.rules}"
    return text


class PerWorld:
    """One text for each world, so that its thousand live episodes share a string.

    Worlds are told apart by the identity of the briefing's tools; the newest are remembered.
    """

    __slots__ = ("_known", "_render")

    def __init__(self, render: Callable[[Briefing], str]) -> None:
        self._render = render
        self._known: dict[tuple[int, str, str, str], tuple[Any, str]] = {}

    def __call__(self, briefing: Briefing) -> str:
        key = (id(briefing.tools), briefing.rules, briefing.user, briefing.now)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= 2048:
                del self._known[next(iter(self._known))]
            # The tools are kept beside the text, so that their id cannot be given to others.
            known = self._known[key] = (briefing.tools, self._render(briefing))
        return known[1]


_OPEN, _CLOSE = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """The text without its `<think>…</think>` parts, stripped.

    A `</think>` alone ends a thought that the prompt began; a `<think>` alone is a thought that
    was cut off.

    Example: "<think>hm</think> Done." -> "Done."
    """
    if "think>" not in text:
        return text.strip()
    close, opened = text.find(_CLOSE), text.find(_OPEN)
    if close >= 0 and (opened < 0 or close < opened):
        text = text[close + len(_CLOSE) :]
    kept = []
    while True:
        before, found, after = text.partition(_OPEN)
        kept.append(before)
        if not found:
            break
        _, found, text = after.partition(_CLOSE)
        if not found:
            break
    return "".join(kept).strip()


def thoughts(text: str) -> str:
    """What stands inside the first `<think>…</think>` of a text, stripped; empty where none is."""
    before, closed, _ = text.partition(_CLOSE)
    return before.rpartition(_OPEN)[2].strip() if closed else ""


def ends_in_thought(text: str) -> bool:
    """Whether the text stops inside of a thought."""
    return text.rfind(_OPEN) > text.rfind(_CLOSE)


def answer(text: str) -> Answer:
    """The final answer that a text without calls gives."""
    return Answer(without_thoughts(text))


_DEPTH = 50
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)


def unfit(value: Any) -> str | None:
    """Why decoded JSON cannot be an argument; None when it can.

    The log, SQLite and most servers hold integers of 64 bits, and no one nests arguments deeply
    but to break something.
    """
    level = [value]
    for _ in range(_DEPTH):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            elif kind is int and not _SMALLEST <= item <= _LARGEST:
                return "an integer in them is larger than 64 bits"
        if not deeper:
            return None
        level = deeper
    return f"they are nested deeper than {_DEPTH} levels"
