"""Seed rows of the tickets, and helpers that insert tickets and comments.

Pools: ticket_subjects (what customers write about, as a short title without a full stop),
ticket_answers (a public answer, one sentence), ticket_remarks (an internal remark, one sentence).
"""

from datetime import datetime, timedelta
from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code

_HOURS = {"urgent": (1, 8), "high": (4, 24), "normal": (8, 72), "low": (24, 240)}
_BACKGROUND = (
    ("open", "normal", 1),
    ("solved", "high", 30),
    ("waiting", "low", 4),
    ("open", "high", 0),
    ("solved", "normal", 45),
)
_SUBJECTS = (
    "Charged twice this month",
    "Nobody calls back",
    "Name misspelt on the paperwork",
    "Confirmation never arrived",
    "Cannot sign in to the online account",
    "Two different prices quoted",
    "Promised date has passed",
    "Letter went to the old address",
    "Question about the small print",
    "Rude answer on the phone",
    "Wrong item on the statement",
    "Code from the text message does not work",
)
_ANSWERS = (
    "Thank you for telling us, we are checking it and come back to you.",
    "We have passed this on and will write again as soon as we know more.",
    "Sorry for the trouble; we have put it right on our side.",
)
_REMARKS = (
    "Called twice, no answer.",
    "Second complaint of this kind this quarter.",
    "Waiting for accounts to look at it.",
)


def rows(maker: Maker) -> None:
    """The targets, and a few tickets of other days."""
    factor = maker.one_of(1, 2)
    for priority, (answer, solve) in _HOURS.items():
        maker.insert(
            "sla_targets",
            priority=priority,
            answer_hours=answer * factor,
            solve_hours=solve * factor,
        )
    customers = maker.rows("customers", status="active")
    for index in range(maker.many(4, least=1)):
        status, priority, age = _BACKGROUND[index % len(_BACKGROUND)]
        ticket = new_ticket(
            maker,
            maker.rng.choice(customers),
            priority=priority,
            status=status,
            assignee=maker.pick("employees", active=1) if status == "solved" else None,
            age=age,
        )
        if status != "open":
            new_comment(maker, ticket, maker.rng.choice(maker.pool("ticket_answers", *_ANSWERS)))
        if maker.chance(0.3):
            remark = maker.rng.choice(maker.pool("ticket_remarks", *_REMARKS))
            new_comment(maker, ticket, remark, is_public=0)


def ticket_subjects(maker: Maker, count: int) -> list[str]:
    """Return this many different subjects of tickets, in the trade's words."""
    pool = list(dict.fromkeys((*maker.pool("ticket_subjects", *_SUBJECTS), *_SUBJECTS)))
    first = maker.pool("ticket_subjects", *_SUBJECTS)
    return maker.rng.sample(list(first) if len(first) >= count else pool, k=count)


def new_ticket(
    maker: Maker,
    customer: Row,
    *,
    subject: str | None = None,
    priority: str = "normal",
    status: str = "open",
    assignee: Row | None = None,
    product: Row | None = None,
    age: int = 1,
    solved: int | None = None,
    **columns: Any,
) -> Row:
    """Insert a ticket that a customer opened `age` days ago, and return it.

    `solved`: how many days ago it was solved, for the status "solved". Its due time follows from
    its priority.
    """
    opened = columns.pop("opened_at", None) or maker.ago(age)
    days = max(age - 3, 0) if solved is None else solved
    return maker.insert(
        "tickets",
        reference=new_code(maker, "tickets", "reference", "TK"),
        customer_id=customer["id"],
        product_id=None if product is None else product["id"],
        subject=subject or ticket_subjects(maker, 1)[0],
        priority=priority,
        status=status,
        assignee_id=None if assignee is None else assignee["id"],
        opened_at=opened,
        due_at=ticket_due(maker, opened, priority),
        solved_at=maker.ago(days) if status == "solved" else None,
        **columns,
    )


def new_comment(
    maker: Maker,
    ticket: Row,
    body: str,
    *,
    is_public: int = 1,
    author: Row | None = None,
    days: int | None = None,
) -> Row:
    """Insert a comment on a ticket, by its assignee unless an author is given, soon after it was
    opened or `days` ago."""
    author_id = ticket["assignee_id"] if author is None else author["id"]
    if author_id is None:
        author_id = maker.rng.choice(maker.rows("employees", active=1))["id"]
    soon = datetime.fromisoformat(ticket["opened_at"]) + timedelta(minutes=25)
    written = min(soon.strftime("%Y-%m-%dT%H:%M:%SZ"), maker.ago(0, 0))
    return maker.insert(
        "ticket_comments",
        ticket_id=ticket["id"],
        author_id=author_id,
        body=body,
        is_public=is_public,
        written_at=written if days is None else maker.ago(days),
    )


def ticket_due(maker: Maker, opened_at: str, priority: str) -> str:
    """Return when a ticket is due that was opened then."""
    target = maker.rows("sla_targets", priority=priority)[0]
    due = datetime.fromisoformat(opened_at) + timedelta(hours=target["solve_hours"])
    return due.strftime("%Y-%m-%dT%H:%M:%SZ")


def unsolved_tickets(maker: Maker, employee: Row) -> list[Row]:
    """Return the tickets that an employee deals with and that are not solved. Call it late: other
    situations assign tickets too."""
    return maker.rows("tickets", lambda row: row["status"] != "solved", assignee_id=employee["id"])


def with_ticket_room(maker: Maker, room: int, *without: Row) -> Row | None:
    """Return an active colleague, none of these, who may take so many more tickets. Call it
    late."""
    most = maker.parameters["MOST_TICKETS_ASSIGNED"]
    barred = {maker.me["id"], *(row["id"] for row in without)}
    return maker.pick(
        "employees",
        lambda row: row["id"] not in barred and len(unsolved_tickets(maker, row)) + room <= most,
        active=1,
    )
