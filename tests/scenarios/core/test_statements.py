"""Typed values in texts."""

import re

import pytest

from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.checks import says
from rehearsal_room.scenarios.core import statements
from rehearsal_room.scenarios.core.statements import Value, plain, readings


def values(text: str) -> list[tuple[str, Value]]:
    """The kinds and least meanings of the values that are surely meant as such."""
    return [(one.kind, min(one.options, key=str)) for one in readings(text) if not one.is_loose]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We refund $1,042.50 today", [("number", 1042.5)]),
        ("7.350,00", [("number", 7350.0)]),
        ("4.400,00 EUR", [("number", 4400.0)]),
        ("42,50 €", [("number", 42.5)]),
        ("1 042,50 €", [("number", 1042.5)]),
        ("Orders 1042,1043", [("number", 1042.0), ("number", 1043.0)]),
        (
            "CS-03, LL-AB12-9Z and TRAIL15",
            [("code", "cs-03"), ("code", "ll-ab12-9z"), ("code", "trail15")],
        ),
        ("2026-03-14", [("date", (2026, 3, 14))]),
        ("2026-03-14T10:00:00Z", [("date", (2026, 3, 14))]),
        ("March 3rd, 2026 or the 14th of March", [("date", (2026, 3, 3)), ("date", (0, 3, 14))]),
        ("14.03.2026", [("date", (2026, 3, 14))]),
        ("2 to 4 March", [("date", (0, 3, 2)), ("date", (0, 3, 4))]),
        ("Oct 18-21", [("date", (0, 10, 18)), ("date", (0, 10, 21))]),
        ("half past two or a quarter to three", [("time", (2, 30)), ("time", (2, 45))]),
        ("17,50 and 149,50", [("number", 17.5), ("number", 149.5)]),
        ("at 18:05 or 6 pm", [("time", (18, 5)), ("time", (18, 0))]),
        ("the thirty-first of May", [("date", (0, 5, 31))]),
        ("due on 1.4, at 4.11., it costs", [("date", (0, 4, 1)), ("number", 4.11)]),
        ("on 1.5 hours, from 4.2 to 4.6.", [("number", 1.5), ("number", 4.2), ("number", 4.6)]),
        (
            "one till two in the afternoon, 9 o'clock",
            [("time", (13, 0)), ("time", (14, 0)), ("time", (9, 0))],
        ),
        ("three orders, twenty-one lines", [("number", 3.0), ("number", 21.0)]),
        ("an hour and ten minutes", [("number", 70)]),
        ("+1 218 555 0100", [("phone", "12185550100")]),
        ("no order and one more", []),
    ],
)
def test_a_value_is_read_once_by_its_longest_form(
    text: str, expected: list[tuple[str, Value]]
) -> None:
    """A date, a code or a time is not a heap of numbers."""
    assert values(text) == expected


@pytest.mark.parametrize(
    ("answer", "phrase", "contained"),
    [
        ("I could not do it (2026-01-01).", "1", False),  # fixtures/bugs/worlds r23
        ("It is CS-03", "3", False),
        ("It leaves at 18:05", "5", False),
        ("It leaves at five past six, 18:05", "18:05", True),
        ("It leaves at 6:05 pm", "18:05", True),
        ("That comes to 7.350,00 euros", "7350.00", True),
        ("due on the 4th of April", "2026-04-04", True),
        ("due on 4/4/2026", "2026-04-04", True),
        ("due on the fourth of April", "2026-04-04", True),
        ("due on 4.4.; the other is back", "2026-04-04", True),
        ("due on the fifth of April", "2026-04-04", False),
        ("at five in the afternoon", "17:00", True),
        ("at four in the afternoon", "17:00", False),
        ("due on 4 April 2025", "2026-04-04", False),
        ("call (218) 555-0100", "+1 218 555 0100", True),
        ("at five past six in the evening", "18:05", True),
        ("her request was turned down", "rejected", True),
        ("her request is being looked at", "rejected", False),
        ("three pairs", "3", True),
        ("thirty pairs", "3", False),
        ("an hour and ten minutes", "70", True),
        ("**blocked**", "blocked", True),
    ],
)
def test_a_value_is_found_in_each_of_its_forms(answer: str, phrase: str, contained: bool) -> None:
    """And never as a part of another value."""
    assert says(answer, phrase) is contained


def test_a_long_text_is_read_in_bounded_time() -> None:
    """Beyond 20,000 characters nothing is read: no answer is as long."""
    assert readings("7 " * 10_000_000)[-1].end <= 20_000


@pytest.mark.parametrize("world", ["shop_support", "flight_desk", "claims_desk"])
def test_no_value_is_passed_over(world: str) -> None:
    """The places where a value can begin are only a short cut: all forms, tried at every character
    of a world's texts, find the same."""
    scenario = find(world)
    texts = [scenario.rules, scenario.data_sql]
    texts += [f"{task.instruction} {task.answer}" for task in scenario.tasks]
    forms = "|".join(f"(?P<{name}>{form})" for name, form in statements._FORMS.items())
    everywhere = re.compile(forms)
    for text in map(plain, texts):
        expected = [found.span() for found in everywhere.finditer(text)]
        assert [found.span() for found in statements._PATTERN.finditer(text)] == expected
