"""What a module writes to propose a task: calls, what is asked, what must be said.

Calls, columns and texts are in canonical words; `{placeholders}` of a text are filled with
`values`, which are left as they are. The verifier is not written: it is derived from what the calls
change (see scenarios.generate.tasks.derived_verifiers).
"""

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

import msgspec

from scenarios.format import Call

Text = str | tuple[str, ...]  # alternatives: one of them is drawn
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)


class Say(msgspec.Struct, frozen=True):
    """A value as texts show it, with the other wordings in which an answer may tell it.

    Example: Say("$42.50", ("4250",))
    """

    text: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


class Given(msgspec.Struct, frozen=True):
    """An argument that is known only when the task is played: a field of an earlier call's result.

    Example: Given(0, "order_id") of a first call that gave {"order_id": 1042} is 1042.
    """

    call: int  # which call of the draft, from 0
    field: str


class Named(msgspec.Struct, frozen=True):
    """How an instruction names a record, and the calls that find it by that."""

    text: str  # a template, in canonical words
    values: dict[str, Any]
    calls: tuple[Call, ...]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed task, or a part of one."""

    kind: Literal["change", "question", "decline"]
    ask: Text  # begins with an imperative or a question word, ends with a full stop or mark
    calls: tuple[Call, ...]
    answer: Text  # as the author would answer; its values that `ask` does not tell must be said
    values: dict[str, Any] = {}
    reasons: tuple[str, ...] = ()  # decline: phrases, one of which the answer must say
    free: dict[
        str, tuple[Any, ...]
    ] = {}  # "table.column" -> what its new text must mention; (): any
    because: Literal["policy", "permission"] = "policy"  # decline: what forbids it
    spare: tuple[tuple[str, int], ...] = ()  # (table, id) of rows that look right and are not
    trap: Text = ""  # what could mislead
    later: Text = ""  # of a memory task: the second half of what is asked
    hold: int = 0  # of a memory task: calls before other work comes between


def call(name: str, /, **arguments: Any) -> Call:
    """A tool call in canonical words."""
    return Call(name, arguments)


def money(cents: int, currency: str = "$") -> Say:
    """An amount as prose tells it.

    Example: money(104250) -> Say("$1,042.50", ("104250",))
    """
    return Say(f"{currency}{cents / 100:,.2f}", (str(cents),))


def day_of(moment: str) -> Say:
    """The day of a moment or a date.

    Example: day_of("2026-03-04T10:00:00Z") -> Say("2026-03-04", ("4 March 2026", …))
    """
    day = date.fromisoformat(moment[:10])
    month = _MONTHS[day.month - 1]
    others = []
    for name in (month, month[:3]):
        for number in (f"{day.day}", _ordinal(day.day)):
            others += [f"{number} {name}", f"{name} {number}", f"{number} of {name}"]
    return Say(day.isoformat(), tuple(others))


def _ordinal(number: int) -> str:
    last = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def placeholders(text: str) -> list[str]:
    """The names in braces, in order, none twice.

    Example: placeholders("Cancel {order} of {who}.") -> ["order", "who"]
    """
    names = [piece.partition("}")[0] for piece in text.split("{")[1:]]
    return list(dict.fromkeys(names))


def wordings(value: Any) -> tuple[str, ...]:
    """The texts that tell a value.

    Example: wordings(7) -> ("7",)
    """
    return (value.text, *value.others) if isinstance(value, Say) else (str(value),)


def filled(values: Mapping[str, Any]) -> dict[str, str]:
    """The values as a text shows them."""
    return {name: str(value) for name, value in values.items()}
