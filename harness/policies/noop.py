"""Policies that do no work: what they complete does not need an agent.

noop      says nothing
recites   says its instruction and its rules
pastes    calls every tool that reads and needs no argument, and says all that they returned
lists     says the answers of all tasks of the run, and the values in their reference calls
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from rehearsal_room.harness.core.messages import Briefing, Message, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import (
    FIXED_SUMMARY,
    FixedRepliesAgent,
    num_moves_in,
    replies_of,
)
from rehearsal_room.scenarios.format import Call, Scenario, Task

LAZY = ("recites", "pastes", "lists")
_LONGEST = 200_000  # characters of an answer
_MOST_CALLS = 12  # of an episode
_READS = re.compile(r"(get|list|read|show|view|search|find|fetch|check|display|ls|pwd|cat)(_|$)")


class NoopPolicy:
    """Ends each episode at once, with an empty answer."""

    name = "noop"

    def __init__(self, dialect: Dialect) -> None:
        self._replies = (dialect.write((), "", turn=0),)

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that ends at once."""
        return FixedRepliesAgent(self._replies)


class RecitingPolicy:
    """Repeats its instruction."""

    name = "recites"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that says its instruction, the talk before it and its rules."""
        return FixedRepliesAgent((_said(self._dialect, _told(assignment.briefing)),))


class ListingPolicy:
    """Says the answers of all tasks of the run: it knows them, and not which is whose."""

    name = "lists"

    def __init__(self, dialect: Dialect, tasks: Iterable[tuple[Scenario, Task]]) -> None:
        texts: dict[str, None] = {}
        for _, task in tasks:
            texts[task.answer] = None
            texts |= dict.fromkeys(text for call in task.oracle for text in _values(call.arguments))
        self._reply = _said(dialect, "\n".join(filter(None, texts)))

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that says all of them."""
        return FixedRepliesAgent((self._reply,))


class PastingPolicy:
    """Reads whatever can be read without a thought, and says it."""

    name = "pastes"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that calls the tools that read, one a turn."""
        return _PastingAgent(self._dialect, assignment)


class _PastingAgent:
    def __init__(self, dialect: Dialect, assignment: Assignment) -> None:
        self._dialect = dialect
        calls = [] if assignment.task.single_turn else _reading_calls(assignment.briefing)
        replies = replies_of(dialect, calls, "")
        self._calls = replies[:-1]
        self._next = min(num_moves_in(assignment), len(self._calls))

    async def reply(self, window: Window) -> Reply:
        """The next call; then what the window has of results."""
        if window.asks_for_summary:
            return FIXED_SUMMARY
        if self._next < len(self._calls):
            self._next += 1
            return self._calls[self._next - 1]
        return _said(self._dialect, "\n".join(_results(window.messages)))


def _said(dialect: Dialect, text: str) -> Reply:
    """The reply that says a text, as far as the dialect can say it."""
    shown = re.sub(r"</?think>", "", text[:_LONGEST])
    return dialect.write((), shown, turn=0)


def _told(briefing: Briefing) -> str:
    earlier = [message.content for message in briefing.earlier]
    return "\n\n".join(filter(None, (*earlier, briefing.instruction, briefing.rules)))


def _reading_calls(briefing: Briefing) -> list[Call]:
    names = [
        tool.name
        for tool in briefing.tools
        if not tool.schema.get("required") and _READS.match(tool.name.rpartition("__")[2])
    ]
    return [Call(name, {}) for name in names[:_MOST_CALLS]]


def _results(messages: Sequence[Message]) -> list[str]:
    """The texts of results; in a dialect of texts they are those of the user after the task."""
    results = [message.content for message in messages if message.role == "tool"]
    return results or [one.content for one in messages if one.role == "user"][1:]


def _values(value: object) -> list[str]:
    """The values inside of an argument, as texts.

    Example: {"city": "Oslo", "days": [1, 2]} -> ["Oslo", "1", "2"]
    """
    if isinstance(value, dict):
        return [text for one in value.values() for text in _values(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _values(one)]
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode()]
