"""Verifiers that are derived from the rows that an oracle changed."""

from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.generate.tasks.derived_verifiers import (
    TableColumns,
    VerifierDemands,
    verify_py,
)

TABLES = {
    "orders": TableColumns(True, {"customer_id": "customers"}, ignored=("old_serial",)),
    "lines": TableColumns(True, {"order_id": "orders"}),
    "notes": TableColumns(True, {}),
    "levels": TableColumns(False, {}),
}


def body_of(task: VerifierDemands) -> list[str]:
    """The lines of the one function, without head and docstring."""
    return verify_py([task], TABLES).split('"""Pay."""\n')[1].split("\n    ")


def test_exactly_the_changed_columns_are_demanded() -> None:
    """A changed row must have its changed columns, a deleted row must be gone, and everything else
    must stay unchanged."""
    task = VerifierDemands(
        name="pay_1",
        about="Pay.",
        changes=(
            RowChange("levels", (1, "A"), {"place": 1, "n": 3}, {"place": 1, "n": 2}),
            RowChange("notes", (4,), {"id": 4}, None),
            RowChange("orders", (7,), {"id": 7, "state": "open"}, {"id": 7, "state": "paid"}),
        ),
        spare=(("orders", 8), ("orders", 7)),
    )
    assert (
        verify_py([task], TABLES)
        == '''\
"""What each task must have changed, said, or left alone."""

from scenarios.api import State
from scenarios.checks import Check, Finding


def pay_1(before: State, after: State, answer: str) -> list[Finding]:
    """Pay."""
    check = Check(before, after, answer)
    check.updated("levels", (1, 'A'), n=2)
    check.deleted("notes", 4)
    check.updated("orders", 7, state="paid")
    check.untouched("orders", 8)
    check.nothing_else()
    return check.findings
'''
    )


def test_new_rows_are_known_by_their_values() -> None:
    """Ids of new rows are not compared, and a row that refers to a new row must have the id of that
    row; noise columns are left out, equal rows are counted."""
    order = {"id": 9, "customer_id": 3, "state": "open", "old_serial": None}
    line = {"order_id": 9, "sku": "A"}
    task = VerifierDemands(
        name="pay_1",
        about="Pay.",
        changes=(
            RowChange("lines", (5,), None, {"id": 5, **line}),
            RowChange("lines", (6,), None, {"id": 6, **line}),
            RowChange("orders", (9,), None, order),
        ),
    )
    assert body_of(task) == [
        "    check = Check(before, after, answer)",
        'new_1 = _new_id(after, "orders", customer_id=3, state="open")',
        'check.created("lines", count=2, order_id=new_1, sku="A")',
        'check.created("orders", customer_id=3, state="open")',
        "check.nothing_else()",
        "return check.findings\n",
    ]


def test_texts_that_the_agent_words_must_have_their_phrases() -> None:
    """A text that the agent words must mention a phrase of its part, or may be any text."""
    task = VerifierDemands(
        name="pay_1",
        about="Pay.",
        changes=(
            RowChange("notes", (1,), None, {"id": 1, "body": "Call on 2026-03-02.", "by": "x"}),
            RowChange("notes", (2,), None, {"id": 2, "body": "Call on 2026-03-04.", "by": "y"}),
        ),
        free={"notes.body": (("2026-03-04",), ("2026-03-02", "2 March")), "notes.by": ((),)},
    )
    assert body_of(task)[1:3] == [
        'check.created("notes", body=mentions("2026-03-02", "2 March"), by=ANY)',
        'check.created("notes", body=mentions("2026-03-04"), by=ANY)',
    ]


def test_answers_must_have_facts_and_reasons() -> None:
    """Facts may have any of their wordings, refusals need one of their reasons."""
    task = VerifierDemands(
        name="pay_1", about="Pay.", changes=(), facts=(("$4.20", "420"),), reasons=(("late",),)
    )
    assert body_of(task)[1:] == [
        'check.answer_has("$4.20", "420")',
        'check.declined("late")',
        "check.nothing_else()",
        "return check.findings\n",
    ]
