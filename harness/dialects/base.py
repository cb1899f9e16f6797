"""The Protocol of a dialect: how an agent's task and tools are rendered and its replies are read.

A dialect has no state of an episode. `read` returns a Decision for any text that a model can write.
tests/contracts/test_dialect.py states what every dialect promises.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.folding import fold_result
from rehearsal_room.harness.core.messages import (
    AgentCall,
    Answer,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.scenarios.format import Call


class Dialect(Protocol):
    """One way to render tools for a model and to read its calls."""

    @property
    def name(self) -> str:
        """The name in settings and logs: native, hermes, awm, awm-tool or tau2."""

    @property
    def reads_cut_replies(self) -> bool:
        """Whether a reply that was cut at its limit of tokens is read like another; otherwise it
        ends the episode."""

    @property
    def unanswered(self) -> str:
        """The answer of an agent that reached its limit of steps without one, which is judged like
        another; empty: the episode ends at the limit."""

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The pinned head of every window: the system prompt and the task."""

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """The tools for the request's `tools` field; empty where the prompt lists them, or
        the agent asks for them by a call."""

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """What the reply means. Never raises.

        The calls of an Act get the ids `c{turn}-{i}`: servers repeat their own ids, and the world
        executes an id only once in an episode.
        """

    def local_result(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """The result of a call that the harness answers itself; None: the world must."""

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """What a step adds to the history: the assistant's message, then the results of its
        calls or the reason why it was malformed."""

    def pins(self, step: StepTaken) -> bool:
        """Whether this step, if it is the first of an episode, stays in every window (AWM's tool
        list)."""

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """The reply by which an agent makes these calls, or gives this text as its answer:
        `read(write(calls, text))` returns the calls, or the answer where there are none.

        Raises ValueError for a text that this dialect would read as something else.
        """

    def opening_calls(self) -> tuple[Call, ...]:
        """The calls that an agent must make before all others."""


def object_calls(reply: Reply, *, turn: int) -> tuple[AgentCall, ...] | FormatError:
    """The calls of a reply, whatever their names; why it is malformed, where the arguments of one
    are not an object that a world can have."""
    calls = []
    for index, call in enumerate(reply.calls):
        if not isinstance(call.arguments, dict) or argument_fault(call.arguments) is not None:
            return FormatError(f"The arguments of {call.name!r} are not a JSON object.")
        calls.append(AgentCall(call.name, call.arguments, call_id(turn, index)))
    return tuple(calls)


def local_result(dialect: Dialect, call: AgentCall, briefing: Briefing) -> ToolResult | None:
    """The result of a call that no world makes: the dialect answers it, or it folds the history.
    None: the world must."""
    return dialect.local_result(call, briefing) or fold_result(call, briefing.tools)


def call_id(turn: int, index: int) -> str:
    """The id of a turn's call.

    Example: call_id(3, 0) -> "c3-0"
    """
    return f"c{turn}-{index}"


def user_messages(
    step: StepTaken, describe: Callable[[tuple[ToolSpec, ...]], str] | None = None
) -> tuple[Message, ...]:
    """What the user says to an answer, as messages: none outside of dialogues, and where the
    user ends the talk. `describe` renders the tools that the agent gets with it; None: the request
    contains them."""
    user = step.user
    if user is None or user.ended:
        return ()
    parts = [user.text] if user.text else []
    if user.tools and describe is not None:
        parts.append(describe(user.tools))
    return (Message("user", "\n\n".join(parts)),)


def result_text(result: ToolResult) -> str:
    """The text of a result as the agent reads it; a failure begins with `Error: `."""
    if result.error is None or result.text.startswith("Error: "):
        return result.text
    return f"Error: {result.text}"


_ALONE = (
    "Nobody answers questions while you work: find what you need with the tools, change only what "
    "the task asks for, and keep to the rules. When you are done, or when the task must be "
    "declined, say so in plain words without calling a tool; name the facts that matter."
)
_TALK = (
    "You talk with a person. What you write without calling a tool is said to that person, who "
    "answers; ask for what the tools cannot tell you. Change only what the person asks for, and "
    "keep to the rules. When you are done, or when a request must be declined, say so in plain "
    "words and name the facts that matter. The person ends the conversation."
)


def preamble(briefing: Briefing) -> str:
    """The part of the system prompt that all dialects share: the user, how to work, the
    time, and the rules."""
    who = f" for {briefing.user}" if briefing.user else ""
    text = (
        f"You act through tools{who}, who is logged in already. "
        if who
        else "You act through tools. "
    )
    text += _TALK if briefing.is_dialogue else _ALONE
    if briefing.now:
        text += f"\n\nThe time is {briefing.now}."
    if briefing.rules:
        text += f"\n\n# Rules\n\n{briefing.rules}"
    return text


class ScenarioText:
    """Renders one text for each scenario, so that its thousand live episodes share a string.

    The key is the identity of the briefing's tools, beside its rules, user and time. The newest
    2,048 texts are remembered.
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
            # A reference to the tools is stored too, so that no other object can get their id.
            known = self._known[key] = (briefing.tools, self._render(briefing))
        return known[1]


_OPEN, _CLOSE = "<think>", "</think>"
_FIRST_THOUGHT = re.compile(
    r"<(?:think|thinking|budget:thinking)>.*?</(?:think|thinking|budget:thinking)>", re.DOTALL
)


def without_thoughts(text: str) -> str:
    """The text without its `<think>…</think>` parts, stripped.

    A `</think>` alone ends a thought that the prompt began; a `<think>` alone begins a thought that
    was cut off.

    Example: "<think>hm</think> Done." -> "Done."
    """
    if "think>" not in text:
        return text.strip()
    close, opened = text.find(_CLOSE), text.find(_OPEN)
    if close >= 0 and (opened < 0 or close < opened):
        text = text[close + len(_CLOSE) :]
    parts = []
    while True:
        before, found, after = text.partition(_OPEN)
        parts.append(before)
        if not found:
            break
        _, found, text = after.partition(_CLOSE)
        if not found:
            break
    return "".join(parts).strip()


def after_thought(text: str) -> str:
    """The text after the thought with which it begins, as LiteLLM takes a reply apart: what follows
    keeps its blanks.

    Example: "<think>hm</think> Done. " -> " Done. "
    """
    thought = _FIRST_THOUGHT.match(text)
    return text if thought is None else text[thought.end() :]


def first_thought(text: str) -> str:
    """The text inside the first `<think>…</think>`, stripped; empty where there is none."""
    before, closed, _ = text.partition(_CLOSE)
    return before.rpartition(_OPEN)[2].strip() if closed else ""


def ends_in_thought(text: str) -> bool:
    """Whether the text stops inside a thought."""
    return text.rfind(_OPEN) > text.rfind(_CLOSE)


def answer_of(text: str) -> Answer:
    """The final answer that a text without calls gives."""
    return Answer(without_thoughts(text))
