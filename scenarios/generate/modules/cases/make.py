"""Seed rows of the cases, and helpers that insert cases, notes and steps.

Pools: case_subjects (what a case is about, a short title), case_steps (what is to be done, an
imperative without a full stop), case_notes (what a note says, one sentence).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code

_SUBJECTS = (
    "Objection to the last letter",
    "Change of personal details",
    "Disputed amount",
    "Missing proof of identity",
    "Request for a second opinion",
    "Late reply to a deadline",
    "Liability not agreed",
    "Transfer from a former provider",
)
_STEPS = (
    "Ask for the missing papers",
    "Write to the other side",
    "Get an expert's report",
    "Call a meeting with both sides",
    "Have the papers translated",
    "Check the figures again",
    "Inspect the place",
    "Send the final letter",
)
_NOTES = (
    "Spoke on the phone, both sides still far apart.",
    "Papers came in by post and are complete.",
    "Asked for more time, which seems fair.",
)


def rows(maker: Maker) -> None:
    """A few cases of other days, with a note or a step that is done."""
    customers = maker.rows("customers", status="active")
    for index in range(maker.many(4, least=1)):
        case = new_case(
            maker,
            maker.rng.choice(customers),
            status="closed" if index % 3 == 2 else "open",
            age=maker.rng.randrange(20, 90),
        )
        if maker.chance(0.5):
            new_case_note(maker, case, maker.rng.choice(maker.pool("case_notes", *_NOTES)))
        if maker.chance(0.5):
            new_step(maker, case, status="done", due=-maker.rng.randrange(3, 15))


def case_subjects(maker: Maker, count: int) -> list[str]:
    """Return this many different subjects of cases, in the trade's words."""
    return _some(maker, maker.pool("case_subjects", *_SUBJECTS), _SUBJECTS, count)


def case_steps(maker: Maker, count: int) -> list[str]:
    """Return this many different things to be done in a case, as imperatives."""
    return _some(maker, maker.pool("case_steps", *_STEPS), _STEPS, count)


def _some(maker: Maker, pool: tuple[str, ...], usual: tuple[str, ...], count: int) -> list[str]:
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *usual)))
    return maker.rng.sample(texts, k=count)


def new_case(
    maker: Maker,
    customer: Row,
    *,
    subject: str | None = None,
    handler: Row | None = None,
    age: int = 30,
    **columns: Any,
) -> Row:
    """Insert a case that was opened `age` days ago, and return it."""
    given = {"priority": "normal", "status": "open", "opened_on": maker.day(-age)} | columns
    return maker.insert(
        "cases",
        reference=new_code(maker, "cases", "reference", "CA"),
        customer_id=customer["id"],
        subject=subject or case_subjects(maker, 1)[0],
        handler_id=(handler or maker.rng.choice(maker.rows("employees", active=1)))["id"],
        **given,
    )


def new_case_note(
    maker: Maker, case: Row, body: str, *, author: Row | None = None, days: int = 3
) -> Row:
    """Insert a note on a case, by its handler unless an author is given."""
    return maker.insert(
        "case_notes",
        case_id=case["id"],
        author_id=case["handler_id"] if author is None else author["id"],
        body=body,
        written_at=maker.ago(days),
    )


def new_step(
    maker: Maker,
    case: Row,
    what: str | None = None,
    *,
    due: int = 5,
    cents: int | None = None,
    status: str = "planned",
) -> Row:
    """Insert a step of a case, due in `due` days, planned by the case's handler."""
    return maker.insert(
        "steps",
        case_id=case["id"],
        what=what or case_steps(maker, 1)[0],
        due_on=maker.day(due),
        cost_cents=maker.cents(1_000, 4_000) if cents is None else cents,
        status=status,
        planned_by=case["handler_id"],
    )
