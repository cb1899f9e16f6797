"""The tickets: what customers ask for, how urgent it is, who deals with it."""

from datetime import timedelta
from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _active_product
from rehearsal_room.scenarios.generate.modules.common import (
    Id,
    Limit,
    Text,
    _like,
    _moment,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me, _require

MOST_TICKETS_ASSIGNED = 5
TICKET_REOPEN_DAYS = 20
TicketPriority = Literal["low", "normal", "high", "urgent"]
TicketStatus = Literal["open", "waiting", "solved"]


def _ticket(db: Db, ticket_id: int) -> Row:
    ticket = db.one("SELECT * FROM tickets WHERE id = ?", ticket_id)
    if ticket is None:
        raise ToolError(f"There is no ticket {ticket_id}.")
    return ticket


def _unsolved_ticket(db: Db, ticket_id: int) -> Row:
    ticket = _ticket(db, ticket_id)
    if ticket["status"] == "solved":
        raise ToolError(f"Ticket {ticket_id} is solved.")
    return ticket


def _ticket_due(db: Db, opened_at: str, priority: str) -> str:
    hours = db.value("SELECT solve_hours FROM sla_targets WHERE priority = ?", priority)
    if hours is None:
        raise ToolError(f"There is no SLA target for the priority {priority}.")
    return (_moment(opened_at) + timedelta(hours=int(hours))).strftime("%Y-%m-%dT%H:%M:%SZ")


def list_sla_targets(db: Db) -> list[Row]:
    """List the targets: within how many hours a ticket of each priority must be answered and
    solved."""
    return db.all(
        "SELECT priority, answer_hours, solve_hours FROM sla_targets ORDER BY solve_hours, id"
    )


def find_tickets(
    db: Db,
    customer_id: Id | None = None,
    assignee_id: Id | None = None,
    query: Text | None = None,
    status: TicketStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find tickets by customer, by assignee, by a text in subject or reference, by status, or by
    any of these together. Without any of them all tickets are listed. The one due first comes
    first."""
    return db.all(
        "SELECT id, reference, customer_id, subject, priority, status, assignee_id, due_at FROM "
        "tickets WHERE (?1 IS NULL OR customer_id = ?1) AND (?2 IS NULL OR assignee_id = ?2) AND "
        "(?3 IS NULL OR subject LIKE ?3 ESCAPE '\\' OR reference LIKE ?3 ESCAPE '\\') AND (?4 IS "
        "NULL OR status = ?4) ORDER BY due_at, id LIMIT ?5",
        customer_id,
        assignee_id,
        None if query is None else _like(query),
        status,
        limit,
    )


def get_ticket(db: Db, ticket_id: Id) -> Row:
    """Show one ticket with its comments, the oldest first. The customer reads the public ones."""
    ticket = _ticket(db, ticket_id)
    ticket["comments"] = db.all(
        "SELECT id, author_id, body, is_public, written_at FROM ticket_comments WHERE ticket_id = "
        "? ORDER BY written_at, id",
        ticket_id,
    )
    return ticket


def create_ticket(
    db: Db,
    customer_id: Id,
    subject: Text,
    priority: TicketPriority = "normal",
    product_id: Id | None = None,
) -> Row:
    """Open a ticket for a customer, about an active product if one is given. Only supervisors and
    managers open urgent ones. Nobody is assigned yet."""
    _customer(db, customer_id)
    if product_id is not None:
        _active_product(db, product_id)
    if priority == "urgent":
        _require(db, "supervisor")
    number = _next_number(db, "tickets")
    due_at = _ticket_due(db, db.now, priority)
    ticket_id = db.insert(
        "tickets",
        reference=f"TK-{number:06d}",
        customer_id=customer_id,
        product_id=product_id,
        subject=subject,
        priority=priority,
        opened_at=db.now,
        due_at=due_at,
    )
    row = _ticket(db, ticket_id)
    return {"ticket_id": row.pop("id"), **row}


def set_ticket_priority(db: Db, ticket_id: Id, priority: TicketPriority) -> Row:
    """Change the priority of an unsolved ticket; its due time changes with it. Only supervisors and
    managers change to or from urgent."""
    ticket = _unsolved_ticket(db, ticket_id)
    if ticket["priority"] == priority:
        raise ToolError(f"Ticket {ticket_id} has the priority {priority} already.")
    if "urgent" in (priority, ticket["priority"]):
        _require(db, "supervisor")
    due_at = _ticket_due(db, ticket["opened_at"], priority)
    db.run("UPDATE tickets SET priority = ?, due_at = ? WHERE id = ?", priority, due_at, ticket_id)
    return _ticket(db, ticket_id)


def assign_ticket(db: Db, ticket_id: Id, employee_id: Id) -> Row:
    """Assign an unsolved ticket to an active employee."""
    ticket = _unsolved_ticket(db, ticket_id)
    _active_employee(db, employee_id)
    if ticket["assignee_id"] == employee_id:
        raise ToolError(f"Ticket {ticket_id} is assigned to employee {employee_id} already.")
    num = db.value(
        "SELECT count(*) FROM tickets WHERE assignee_id = ? AND status <> 'solved'", employee_id
    )
    if num >= MOST_TICKETS_ASSIGNED:
        raise ToolError(
            f"Employee {employee_id} has {num} unsolved tickets already;"
            f" {MOST_TICKETS_ASSIGNED} are allowed."
        )
    db.run("UPDATE tickets SET assignee_id = ? WHERE id = ?", employee_id, ticket_id)
    return _ticket(db, ticket_id)


def add_ticket_comment(db: Db, ticket_id: Id, body: Text, is_public: bool) -> Row:
    """Write a comment on an unsolved ticket, in your own name. A public comment goes to the
    customer; an internal one does not."""
    _unsolved_ticket(db, ticket_id)
    comment_id = db.insert(
        "ticket_comments",
        ticket_id=ticket_id,
        author_id=_me(db)["id"],
        body=body,
        is_public=int(is_public),
        written_at=db.now,
    )
    return {
        "comment_id": comment_id,
        "ticket_id": ticket_id,
        "body": body,
        "is_public": int(is_public),
        "written_at": db.now,
    }


def solve_ticket(db: Db, ticket_id: Id) -> Row:
    """Mark a ticket as solved. It must be assigned and have a public comment."""
    ticket = _unsolved_ticket(db, ticket_id)
    if ticket["assignee_id"] is None:
        raise ToolError(f"Ticket {ticket_id} is not assigned.")
    answered = db.value(
        "SELECT count(*) FROM ticket_comments WHERE ticket_id = ? AND is_public = 1", ticket_id
    )
    if not answered:
        raise ToolError(f"Ticket {ticket_id} has no public comment.")
    db.run("UPDATE tickets SET status = 'solved', solved_at = ? WHERE id = ?", db.now, ticket_id)
    return _ticket(db, ticket_id)


def reopen_ticket(db: Db, ticket_id: Id) -> Row:
    """Reopen a solved ticket, within the time that the rules allow. It keeps its assignee."""
    ticket = _ticket(db, ticket_id)
    if ticket["status"] != "solved":
        raise ToolError(f"Ticket {ticket_id} is {ticket['status']}.")
    if _moment(db.now) - _moment(ticket["solved_at"]) > timedelta(days=TICKET_REOPEN_DAYS):
        raise ToolError(f"Ticket {ticket_id} was solved more than {TICKET_REOPEN_DAYS} days ago.")
    db.run("UPDATE tickets SET status = 'open', solved_at = NULL WHERE id = ?", ticket_id)
    return _ticket(db, ticket_id)
