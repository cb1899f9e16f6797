"""The checks of verifiers: findings on rows and on answers."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rehearsal_room.scenarios.api import Row, RowChange, SqlValue, User
from rehearsal_room.scenarios.checks import (
    ANY,
    Check,
    Finding,
    failed,
    has_whole,
    mentions,
    one_of,
    says,
)

_TEXTS = st.text(alphabet="a1_.,- éß٣²", max_size=12)


class Rows:
    """A state that has changes and nothing else."""

    now = "2026-03-14T09:30:00Z"
    user = User("u", "U", "tester")

    def __init__(self, *changes: RowChange) -> None:
        self.changes: Sequence[RowChange] = changes

    def all(self, sql: str, /, *params: SqlValue) -> list[Row]:
        raise AssertionError("the checks read nothing but changes")

    def one(self, sql: str, /, *params: SqlValue) -> Row | None:
        raise AssertionError("the checks read nothing but changes")

    def value(self, sql: str, /, *params: SqlValue) -> Any:
        raise AssertionError("the checks read nothing but changes")


def updated(table: str, key: int, before: Row, after: Row) -> RowChange:
    return RowChange(table, (key,), {"id": key, **before}, {"id": key, **after})


def created(table: str, key: int, **row: Any) -> RowChange:
    return RowChange(table, (key,), None, {"id": key, **row})


def deleted(table: str, key: int, **row: Any) -> RowChange:
    return RowChange(table, (key,), {"id": key, **row}, None)


def check_of(*changes: RowChange, answer: str = "") -> Check:
    return Check(Rows(), Rows(*changes), answer)


ORDER = updated("orders", 7, {"status": "open", "note": "a"}, {"status": "void", "note": "a"})


def test_a_finding_shows_what_was_expected_and_found() -> None:
    """A failed update names the expected and the found values."""
    check = check_of(ORDER)
    assert not check.updated("orders", 7, status="held")
    assert check.findings == [
        Finding("orders 7 updated", False, "status='held'", "status='void'", "goal")
    ]
    assert failed(check.findings) == check.findings


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        ({"status": "void"}, True),
        ({"status": ANY}, True),
        ({"status": one_of("held", "void")}, True),
        ({"status": mentions("VOID")}, True),
        ({"status": "void", "note": "a"}, True),
        ({"status": "void", "note": "b"}, False),
        ({"status": one_of("held", "open")}, False),
        ({"status": "void", "no_such_column": None}, False),
        ({"note": "a"}, False),  # it had that from the start
        ({"note": ANY}, False),
    ],
)
def test_update_compares_named_columns(values: dict[str, Any], passes: bool) -> None:
    """A named column must have its value, one of them must be new, and it must exist."""
    assert check_of(ORDER).updated("orders", 7, **values) is passes


def test_true_matches_what_sqlite_stores_for_it() -> None:
    """SQLite has no booleans: True means 1 and False means 0."""
    check = check_of(updated("users", 1, {"active": 0}, {"active": 1}))
    assert check.updated("users", 1, active=True)
    assert not check.updated("users", 1, active=False)


@pytest.mark.parametrize(
    "change", [created("orders", 7, status="void"), deleted("orders", 7, status="void")]
)
def test_a_new_or_deleted_row_is_not_an_update(change: RowChange) -> None:
    """`updated` requires a row that exists before and after."""
    check = check_of(change)
    assert not check.updated("orders", 7, status="void")
    assert not check.nothing_else()


def test_composite_keys() -> None:
    """A tuple names the row of a composite key."""
    change = RowChange("lines", (7, 2), {"qty": 1}, {"qty": 3})
    assert check_of(change).updated("lines", (7, 2), qty=3)
    assert not check_of(change).updated("lines", (2, 7), qty=3)


def test_created_counts_exactly() -> None:
    """One row too many, or too few, does not pass."""
    one, two = created("refunds", 1, order_id=7), created("refunds", 2, order_id=7)
    assert check_of(one).created("refunds", order_id=7)
    assert not check_of(one, two).created("refunds", order_id=7)
    assert check_of(one, two).created("refunds", count=2, order_id=7)
    assert not check_of().created("refunds", order_id=7)
    assert not check_of(one).created("refunds", no_such_column=None)


def test_a_surplus_row_is_something_else() -> None:
    """A row that was created once too often fails `nothing_else`, too."""
    check = check_of(created("refunds", 1, order_id=7), created("refunds", 2, order_id=7))
    check.created("refunds", order_id=7)
    assert not check.nothing_else()
    assert check.findings[-1].found == "refunds 2 was created"


def test_deleted() -> None:
    """A deleted row passes; an existing or merely changed row does not."""
    assert check_of(deleted("orders", 7)).deleted("orders", 7)
    assert not check_of(ORDER).deleted("orders", 7)
    assert not check_of().deleted("orders", 7)


def test_nothing_else_names_unrequested_changes() -> None:
    """A changed column that was not named is reported, even when its row was named."""
    check = check_of(updated("orders", 7, {"s": 1, "due": "x"}, {"s": 2, "due": "y"}))
    check.updated("orders", 7, s=2)
    assert not check.nothing_else()
    assert check.findings[-1].found == "orders 7 changed: due 'x' to 'y'"
    assert check.findings[-1].kind == "guard"


def test_nothing_else_shortens_long_lists() -> None:
    """Five changes are shown, the rest is counted."""
    check = check_of(*(deleted("orders", key) for key in range(8)))
    check.nothing_else()
    assert check.findings[-1].found.endswith("orders 4 was deleted; and 3 more")


def test_allow_permits_columns_and_a_number_of_rows() -> None:
    """Allowed changes are neither required nor reported; one more row is reported."""
    changes = (
        updated("orders", 7, {"at": 1}, {"at": 2}),
        created("audit", 1, what="void"),
        created("audit", 2, what="void"),
        created("audit", 3, what="other"),
    )
    for number, passes in ((2, False), (3, True)):
        check = check_of(*changes)
        check.allow("orders", "at")
        check.allow("audit", new=number)
        assert check.nothing_else() is passes
    check = check_of(*changes[1:3])
    check.allow("audit", new=2, what="other")
    assert not check.nothing_else()


def test_untouched_guards_the_lookalike() -> None:
    """A guard fails as soon as the row changed at all."""
    assert check_of(ORDER).untouched("orders", 8)
    assert not check_of(ORDER).untouched("orders", 7)


@pytest.mark.parametrize(
    ("answer", "phrase", "contained"),
    [
        ("We refund $1,042.50 today.", "1042.5", True),
        ("We refund $1,042.50 today.", "$1042.50", True),
        ("We refund 1042.50.", "1,042.50", True),
        ("Order 10425 is late", "1042", False),
        ("Order A1042 is late", "1042", False),
        ("It is 42.50 in all", "42", False),
        ("It is 42.50 in all", "50", False),
        ("Orders 1042,1043 and 7.", "1042", True),
        ("Orders 1042,1043 and 7.", "1043", True),
        ("Orders 1042,1043 and 7.", "10421043", False),
        ("1,042,500 in all", "1042500", True),
        ("1,042,500 in all", "500", False),
        ("due on 2026-04-04", "2026-04-04", True),
        ("due on 2026-04-045", "2026-04-04", False),
        ("it weighs 3kg", "3", True),
        ("Loan #302 is late", "302", True),
        ("a balance of -5", "-5", True),
        ("a balance of -5", "5", False),
        ("Anna  Soll\nis late", "anna soll", True),
        ("Hannah Soll", "anna soll", False),
        ("it’s blocked", "it's blocked", True),
        ("", "1", False),
    ],
)
def test_phrases_in_answers(answer: str, phrase: str, contained: bool) -> None:
    """Numbers are compared as numbers, words as whole words, in upper or lower case."""
    assert says(answer, phrase) is contained


@given(st.text(), st.text(min_size=1))
def test_any_text_can_be_searched(answer: str, phrase: str) -> None:
    """No text of an agent raises an error."""
    assert isinstance(says(answer, phrase), bool)


@given(st.integers(0, 10**12))
def test_a_number_is_found_with_and_without_grouping(number: int) -> None:
    """1042 and 1,042 are the same number; another number is not found."""
    assert says(f"There are {number:,} of them.", str(number))
    assert says(f"There are {number} of them.", f"{number:,}")
    assert not says(f"There are {number:,} of them.", str(number + 1))


@pytest.mark.parametrize(
    "answer",
    [
        "I cannot do that",
        "I can't do that",
        "I can not do that",
        "We were unable to lend it",
        "This isn't possible",
        "She is not eligible for it",
        "She will not be able to",
        "I declined the request",
        "The request must be rejected",
        "I did not issue the refund",
        "No changes were made",
        "I won’t do it",
        "Nothing has been lent",
        "No loan was made",
        "No further loan was made",
    ],
)
def test_declined_knows_a_refusal(answer: str) -> None:
    """A refusal in usual words passes when it gives the reason."""
    assert check_of(answer=f"{answer}: she is blocked.").declined("blocked", "on hold")
    assert not check_of(answer=f"{answer}.").declined("blocked", "on hold")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Done: I have carried out everything.",
        "The card is lent, not blocked.",
        "Her being blocked makes no problem and it is approved.",
        "She is not blocked any more, so it is approved.",
        "I have approved it once more, no matter that she was blocked.",
        "It has already been approved: nobody is blocked.",
    ],
)
def test_other_answers_are_not_refusals(answer: str) -> None:
    """Success, silence and a mere `not` do not count as a refusal."""
    assert not check_of(answer=answer).declined("blocked")


def test_answers() -> None:
    """`answer_has` is a goal, `answer_lacks` a guard."""
    check = check_of(answer="Order 7 is void")
    assert check.answer_has("8", "7")
    assert not check.answer_has("8")
    assert check.answer_lacks("8")
    assert not check.answer_lacks("7", "8")
    assert [finding.kind for finding in check.findings] == ["goal", "goal", "guard", "guard"]


@pytest.mark.parametrize(
    ("write", "kind"), [(Check.goal, "goal"), (Check.guard, "guard")], ids=["goal", "guard"]
)
def test_custom_findings(write: Callable[..., bool], kind: str) -> None:
    """A custom finding stores a boolean for any truth value."""
    check = check_of()
    assert write(check, "x", 1, "a", "b") is True
    assert [(finding.passed, finding.kind) for finding in check.findings] == [(True, kind)]


def test_a_custom_finding_takes_values_of_any_type() -> None:
    """A model writes counts as integers and missing rows as None; they are stored as text."""
    check = check_of()
    check.goal("orders of the note", 1, 1, 0)
    check.guard("row", None, {"id": 7}, None)
    assert check.findings == [
        Finding("orders of the note", True, "1", "0", "goal"),
        Finding("row", False, "{'id': 7}", "None", "guard"),
    ]


@given(_TEXTS, st.one_of(_TEXTS, st.text(max_size=3)), st.sampled_from(["", ".", ".,"]))
@example("aaa a", "a", "")
@example("1.1, 1", "1", ".")
@example("", "", ".")
def test_a_part_is_found_where_the_regular_expression_finds_it(
    text: str, part: str, not_after: str
) -> None:
    """`has_whole` finds what `(?<![\\w…])part(?!\\w)` finds, in any text and with any part."""
    pattern = rf"(?<![\w{re.escape(not_after)}]){re.escape(part)}(?!\w)"
    assert has_whole(text, part, not_after=not_after) is (re.search(pattern, text) is not None)
