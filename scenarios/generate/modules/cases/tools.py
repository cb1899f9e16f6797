"""The cases: what somebody's trouble is, who handles it, what is done about it."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Cents,
    Day,
    Id,
    Limit,
    Text,
    _day,
    _like,
    _money,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me

MOST_OPEN_STEPS = 3
LEAST_CASE_DAYS = 7
CaseStatus = Literal["open", "closed"]


def _case(db: Db, case_id: int) -> Row:
    found = db.one("SELECT * FROM cases WHERE id = ?", case_id)
    if found is None:
        raise ToolError(f"There is no case {case_id}.")
    return found


def _open_case(db: Db, case_id: int) -> Row:
    found = _case(db, case_id)
    if found["status"] != "open":
        raise ToolError(f"Case {case_id} is {found['status']}.")
    return found


def _step(db: Db, step_id: int) -> Row:
    """A step of an open case that is planned."""
    step = db.one("SELECT * FROM steps WHERE id = ?", step_id)
    if step is None:
        raise ToolError(f"There is no step {step_id}.")
    if step["status"] != "planned":
        raise ToolError(f"Measure {step_id} is {step['status']}.")
    _open_case(db, step["case_id"])
    return step


def _num_planned(db: Db, case_id: int) -> int:
    return int(
        db.value("SELECT count(*) FROM steps WHERE case_id = ? AND status = 'planned'", case_id)
    )


def search_cases(
    db: Db,
    query: Text | None = None,
    customer_id: Id | None = None,
    handler_id: Id | None = None,
    status: CaseStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find cases by a part of their reference or subject, by customer, by handler, by status, or by
    any of these together. Without any of them all cases are listed."""
    return db.all(
        "SELECT k.id, k.reference, k.customer_id, c.name AS customer, k.subject, k.handler_id, "
        "k.priority, k.status FROM cases k JOIN customers c ON c.id = k.customer_id WHERE (?1 IS "
        "NULL OR k.reference LIKE ?1 ESCAPE '\\' OR k.subject LIKE ?1 ESCAPE '\\') AND (?2 IS NULL "
        "OR k.customer_id = ?2) AND (?3 IS NULL OR k.handler_id = ?3) AND (?4 IS NULL OR k.status "
        "= ?4) ORDER BY k.reference LIMIT ?5",
        None if query is None else _like(query),
        customer_id,
        handler_id,
        status,
        limit,
    )


def get_case(db: Db, case_id: Id) -> Row:
    """Show one case with its steps and its notes. The handler is the employee who deals with it."""
    found = _case(db, case_id)
    found["steps"] = db.all(
        "SELECT id, what, due_on, cost_cents, status FROM steps WHERE case_id = ? ORDER BY id",
        case_id,
    )
    found["notes"] = db.all(
        "SELECT n.body, n.written_at, e.name AS author FROM case_notes n JOIN employees e ON e.id "
        "= n.author_id WHERE n.case_id = ? ORDER BY n.written_at, n.id",
        case_id,
    )
    return found


def open_case(
    db: Db, customer_id: Id, subject: Text, priority: Literal["low", "normal", "high"]
) -> Row:
    """Open a case for an active customer who has no open case with this subject. You become its
    handler."""
    _active_customer(db, customer_id)
    known = db.value(
        "SELECT id FROM cases WHERE customer_id = ? AND subject = ? AND status = 'open'",
        customer_id,
        subject.strip(),
    )
    if known is not None:
        raise ToolError(f"Case {known} of the customer has this subject and is open.")
    number = _next_number(db, "cases")
    case_id = db.insert(
        "cases",
        reference=f"CA-{number:06d}",
        customer_id=customer_id,
        subject=subject.strip(),
        handler_id=_me(db)["id"],
        priority=priority,
        opened_on=db.now[:10],
    )
    row = _case(db, case_id)
    return {"case_id": row.pop("id"), **row}


def add_case_note(db: Db, case_id: Id, body: Text) -> Row:
    """Write a note on an open case, in your own name."""
    _open_case(db, case_id)
    note: Row = {
        "case_id": case_id,
        "author_id": _me(db)["id"],
        "body": body,
        "written_at": db.now,
    }
    return {"note_id": db.insert("case_notes", **note), **note}


def plan_step(db: Db, case_id: Id, what: Text, due_on: Day, cost_cents: Cents) -> Row:
    """Plan a step in an open case, due today or later, with what it costs in hundredths. It must
    not cost more than your own limit."""
    _open_case(db, case_id)
    me = _me(db)
    if cost_cents > me["limit_cents"]:
        raise ToolError(f"{_money(cost_cents)} is above your limit of {_money(me['limit_cents'])}.")
    day = _day(due_on).isoformat()
    if day < db.now[:10]:
        raise ToolError(f"{day} has passed.")
    if _num_planned(db, case_id) >= MOST_OPEN_STEPS:
        raise ToolError(f"A case has {MOST_OPEN_STEPS} planned steps at most.")
    step_id = db.insert(
        "steps",
        case_id=case_id,
        what=what.strip(),
        due_on=day,
        cost_cents=cost_cents,
        planned_by=me["id"],
    )
    return {
        "step_id": step_id,
        "case_id": case_id,
        "what": what.strip(),
        "due_on": day,
        "cost_cents": cost_cents,
        "status": "planned",
    }


def settle_step(db: Db, step_id: Id, status: Literal["done", "dropped"]) -> Row:
    """Mark a planned step of an open case as done or as dropped."""
    step = _step(db, step_id)
    db.run("UPDATE steps SET status = ? WHERE id = ?", status, step_id)
    return {**step, "status": status}


def hand_over_case(db: Db, case_id: Id, employee_id: Id) -> Row:
    """Hand an open case over to another active employee."""
    found = _open_case(db, case_id)
    _active_employee(db, employee_id)
    if found["handler_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} handles this case already.")
    db.run("UPDATE cases SET handler_id = ? WHERE id = ?", employee_id, case_id)
    return _case(db, case_id)


def close_case(db: Db, case_id: Id) -> Row:
    """Close an open case in which no step is planned any more."""
    _open_case(db, case_id)
    if num_planned := _num_planned(db, case_id):
        raise ToolError(f"{num_planned} steps of case {case_id} are still planned.")
    db.run("UPDATE cases SET status = 'closed' WHERE id = ?", case_id)
    return _case(db, case_id)
