"""Drafts: the tasks that a module proposes, with calls, instruction and answer.

Calls, columns and texts are in canonical words; `{placeholders}` in a text are filled with
`values`, which stay unchanged. A draft has no verifier: the verifier is derived from the rows that
the calls change (see scenarios.generate.tasks.derived_verifiers).
"""

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

import msgspec

from rehearsal_room.scenarios.core.dialogue import LineKind
from rehearsal_room.scenarios.format import Call

Text = str | tuple[str, ...]  # alternatives: one of them is drawn
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)


class SpokenValue(msgspec.Struct, frozen=True):
    """A value as texts show it, with other wordings that an answer may use for it.

    Example: SpokenValue("$42.50", ("4250",))
    """

    text: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


class ResultField(msgspec.Struct, frozen=True):
    """An argument that is known only when the calls run: a field of an earlier call's result.

    Example: ResultField(0, "order_id") is 1042 when the first call returned {"order_id": 1042}.
    """

    call: int  # which call of the draft, from 0
    field: str


class Voices(msgspec.Struct, frozen=True, kw_only=True):
    """One request as four people put it; each has all that the task needs."""

    email: Text  # a customer's message that a colleague pastes, with a line of their own
    colleague: Text  # a colleague, terse
    chat: Text  # a chat line, as people type
    note: Text  # a manager's note, with a detail that does not matter


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """How a colleague begins to talk, without what the agent must ask for."""

    colleague: Text


class TalkLine(msgspec.Struct, frozen=True):
    """What the colleague says when the agent asks for it (see scenarios.core.dialogue.UserLine)."""

    id: str
    text: Text  # a template, in canonical words
    asked: tuple[str, ...] = ()
    values: tuple[str, ...] = ()  # names of the draft's values that only this line has
    kind: LineKind = "fact"
    after: tuple[str, ...] = ()


class Talk(msgspec.Struct, frozen=True):
    """The user of a dialogue, and what the oracle says to it."""

    lines: tuple[TalkLine, ...]
    says: tuple[tuple[int, Text], ...]  # after how many calls, and the template
    closing: Text = "Thank you."  # with which the user ends the talk


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed task."""

    kind: Literal["change", "question", "decline"]
    ask: Voices | Spoken
    calls: tuple[Call, ...]
    answer: Text  # the author's answer; an answer must contain its values that `ask` does not name
    values: dict[str, Any] = {}
    reasons: tuple[str, ...] = ()  # decline: phrases; the answer must contain one of them
    free: dict[
        str, tuple[Any, ...]
    ] = {}  # "table.column" -> what its new text must mention; (): any
    because: Literal["policy", "permission"] = "policy"  # decline: what forbids the request
    spare: tuple[tuple[str, int], ...] = ()  # (table, id) of rows that look right and are not
    trap: Text = ""  # what could mislead the agent
    tempts: tuple[str, ...] = ()  # tools that a world with this task must have besides the oracle's
    talk: Talk | None = None  # set: the task is a dialogue


def call(name: str, /, **arguments: Any) -> Call:
    """A tool call in canonical words."""
    return Call(name, arguments)


def money(cents: int, currency: str = "$") -> SpokenValue:
    """An amount as prose writes it.

    Example: money(104250) -> SpokenValue("$1,042.50", ("104250",))
    """
    return SpokenValue(f"{currency}{cents / 100:,.2f}", (str(cents),))


def day_of(moment: str) -> SpokenValue:
    """The day of a moment or a date.

    Example: day_of("2026-03-04T10:00:00Z") -> SpokenValue("2026-03-04", ("4 March 2026", …))
    """
    day = date.fromisoformat(moment[:10])
    month = _MONTHS[day.month - 1]
    others = []
    for name in (month, month[:3]):
        for number in (f"{day.day}", _ordinal(day.day)):
            others += [f"{number} {name}", f"{name} {number}", f"{number} of {name}"]
    return SpokenValue(day.isoformat(), tuple(others))


def _ordinal(number: int) -> str:
    last = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def placeholders(text: str) -> list[str]:
    """The names in braces, in order, without duplicates.

    Example: placeholders("Cancel {order} of {who}, {who.he} is ill.") -> ["order", "who"]
    """
    names = [piece.partition("}")[0].partition(".")[0] for piece in text.split("{")[1:]]
    return list(dict.fromkeys(names))


def wordings(value: Any) -> tuple[str, ...]:
    """The texts that name a value.

    Example: wordings(7) -> ("7",)
    """
    return (value.text, *value.others) if isinstance(value, SpokenValue) else (str(value),)


def value_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values as a text shows them."""
    return {name: str(value) for name, value in values.items()}
