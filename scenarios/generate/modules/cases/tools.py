"""The cases: what somebody's trouble is, who handles it, what is done about it."""

from typing import Literal

from scenarios.api import Db, Row
from scenarios.errors import ToolError
from scenarios.generate.modules.common import Cents, Day, Id, Limit, Text, _day, _like, _money
from scenarios.generate.modules.parties.tools import _active_customer
from scenarios.generate.modules.staff.tools import _active_employee, _me

MOST_OPEN_MEASURES = 3
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


def _measure(db: Db, measure_id: int) -> Row:
    """A measure of an open case that is planned."""
    measure = db.one("SELECT * FROM measures WHERE id = ?", measure_id)
    if measure is None:
        raise ToolError(f"There is no measure {measure_id}.")
    if measure["status"] != "planned":
        raise ToolError(f"Measure {measure_id} is {measure['status']}.")
    _open_case(db, measure["case_id"])
    return measure


def _num_planned(db: Db, case_id: int) -> int:
    return int(
        db.value("SELECT count(*) FROM measures WHERE case_id = ? AND status = 'planned'", case_id)
    )


def search_cases(
    db: Db, query: Text, status: CaseStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """Cases whose reference, subject or customer's name contains the text, of one status if
    given."""
    return db.all(
        "SELECT k.id, k.reference, k.subject, c.name AS customer, k.priority, k.status"
        " FROM cases k JOIN customers c ON c.id = k.customer_id"
        " WHERE (k.reference LIKE ?1 ESCAPE '\\' OR k.subject LIKE ?1 ESCAPE '\\'"
        " OR c.name LIKE ?1 ESCAPE '\\') AND (?2 IS NULL OR k.status = ?2)"
        " ORDER BY k.reference LIMIT ?3",
        _like(query),
        status,
        limit,
    )


def get_case(db: Db, case_id: Id) -> Row:
    """One case with its measures and its notes."""
    found = _case(db, case_id)
    found["measures"] = db.all(
        "SELECT id, what, due_on, cost_cents, status FROM measures WHERE case_id = ? ORDER BY id",
        case_id,
    )
    found["notes"] = db.all(
        "SELECT n.body, n.written_at, e.name AS author FROM case_notes n"
        " JOIN employees e ON e.id = n.author_id WHERE n.case_id = ? ORDER BY n.written_at, n.id",
        case_id,
    )
    return found


def open_case(
    db: Db, customer_id: Id, subject: Text, priority: Literal["low", "normal", "high"]
) -> Row:
    """Open a case for an active customer who has no open case with this subject. You handle it."""
    _active_customer(db, customer_id)
    known = db.value(
        "SELECT id FROM cases WHERE customer_id = ? AND subject = ? AND status = 'open'",
        customer_id,
        subject.strip(),
    )
    if known is not None:
        raise ToolError(f"Case {known} of the customer has this subject and is open.")
    number = 1 + int(db.value("SELECT coalesce(max(id), 0) FROM cases"))
    case_id = db.insert(
        "cases",
        reference=f"CA-{number:06d}",
        customer_id=customer_id,
        subject=subject.strip(),
        handler_id=_me(db)["id"],
        priority=priority,
        opened_on=db.now[:10],
    )
    return {"case_id": case_id, "reference": f"CA-{number:06d}"}


def add_case_note(db: Db, case_id: Id, body: Text) -> Row:
    """Write a note on an open case, in your own name."""
    _open_case(db, case_id)
    author_id = _me(db)["id"]
    note_id = db.insert(
        "case_notes", case_id=case_id, author_id=author_id, body=body, written_at=db.now
    )
    return {"note_id": note_id}


def plan_measure(db: Db, case_id: Id, what: Text, due_on: Day, cost_cents: Cents) -> Row:
    """Plan a measure of an open case for a day that is not over. It must not cost more than your
    own limit."""
    _open_case(db, case_id)
    me = _me(db)
    if cost_cents > me["limit_cents"]:
        raise ToolError(f"Your limit is {_money(me['limit_cents'])}.")
    day = _day(due_on).isoformat()
    if day < db.now[:10]:
        raise ToolError(f"{day} is over.")
    if _num_planned(db, case_id) >= MOST_OPEN_MEASURES:
        raise ToolError(f"A case has {MOST_OPEN_MEASURES} planned measures at most.")
    measure_id = db.insert(
        "measures",
        case_id=case_id,
        what=what.strip(),
        due_on=day,
        cost_cents=cost_cents,
        planned_by=me["id"],
    )
    return {"measure_id": measure_id, "case_id": case_id}


def settle_measure(db: Db, measure_id: Id, status: Literal["done", "dropped"]) -> Row:
    """Mark a planned measure of an open case as done, or as dropped."""
    _measure(db, measure_id)
    db.run("UPDATE measures SET status = ? WHERE id = ?", status, measure_id)
    return {"measure_id": measure_id, "status": status}


def hand_over_case(db: Db, case_id: Id, employee_id: Id) -> Row:
    """Let another active employee handle an open case."""
    found = _open_case(db, case_id)
    _active_employee(db, employee_id)
    if found["handler_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} handles this case already.")
    db.run("UPDATE cases SET handler_id = ? WHERE id = ?", employee_id, case_id)
    return _case(db, case_id)


def close_case(db: Db, case_id: Id) -> Row:
    """Close an open case of which no measure is planned any more."""
    _open_case(db, case_id)
    if num_planned := _num_planned(db, case_id):
        raise ToolError(f"{num_planned} measures of case {case_id} are still planned.")
    db.run("UPDATE cases SET status = 'closed' WHERE id = ?", case_id)
    return _case(db, case_id)
