"""Requests for money and the decisions on them."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Cents,
    Id,
    Limit,
    Text,
    _like,
    _money,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _employee, _me

STALE_REQUEST_DAYS = 30
MOST_OPEN_REQUESTS = 5
RequestStatus = Literal["open", "approved", "rejected", "withdrawn"]


def _request(db: Db, request_id: int) -> Row:
    request = db.one("SELECT * FROM requests WHERE id = ?", request_id)
    if request is None:
        raise ToolError(f"There is no request {request_id}.")
    return request


def _open_request(db: Db, request_id: int) -> Row:
    request = _request(db, request_id)
    if request["status"] != "open":
        raise ToolError(f"Request {request_id} is {request['status']}.")
    return request


def _decide(db: Db, request_id: int, verdict: Literal["approved", "rejected"], remark: str) -> Row:
    """Decide on an open request of somebody else, within the own limit."""
    request, me = _open_request(db, request_id), _me(db)
    if request["made_by"] == me["id"]:
        raise ToolError("Nobody decides on a request of their own.")
    if request["amount_cents"] > me["limit_cents"]:
        raise ToolError(
            f"{_money(request['amount_cents'])} is above your limit of {_money(me['limit_cents'])}."
        )
    db.run("UPDATE requests SET status = ? WHERE id = ?", verdict, request_id)
    db.insert(
        "decisions",
        request_id=request_id,
        employee_id=me["id"],
        verdict=verdict,
        remark=remark,
        decided_at=db.now,
    )
    return _request(db, request_id)


def list_request_kinds(db: Db) -> list[Row]:
    """List the kinds of requests with the highest amount of each, in hundredths."""
    return db.all("SELECT id, name, most_cents FROM request_kinds ORDER BY name")


def find_requests(
    db: Db,
    made_by: Id | None = None,
    decider_id: Id | None = None,
    query: Text | None = None,
    status: RequestStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find requests by who made them, by who is to decide, by a text in subject or reference, by
    status, or by any of these together. Without any of them all requests are listed. The oldest
    comes first."""
    return db.all(
        "SELECT r.id, r.reference, k.name AS kind, r.made_by, r.decider_id, r.subject, "
        "r.amount_cents, r.status, r.made_at FROM requests r JOIN request_kinds k ON k.id = "
        "r.kind_id WHERE (?1 IS NULL OR r.made_by = ?1) AND (?2 IS NULL OR r.decider_id = ?2) AND "
        "(?3 IS NULL OR r.subject LIKE ?3 ESCAPE '\\' OR r.reference LIKE ?3 ESCAPE '\\') AND (?4 "
        "IS NULL OR r.status = ?4) ORDER BY r.made_at, r.id LIMIT ?5",
        made_by,
        decider_id,
        None if query is None else _like(query),
        status,
        limit,
    )


def get_request(db: Db, request_id: Id) -> Row:
    """Show one request with its kind, the highest amount of that kind, and the decision if there is
    one."""
    request = _request(db, request_id)
    request["kind"] = db.one(
        "SELECT name, most_cents FROM request_kinds WHERE id = ?", request["kind_id"]
    )
    request["decision"] = db.one("SELECT * FROM decisions WHERE request_id = ?", request_id)
    return request


def create_request(db: Db, kind_id: Id, decider_id: Id, amount_cents: Cents, subject: Text) -> Row:
    """Make a request for money in your own name, for another active employee to decide."""
    me = _me(db)["id"]
    kind = db.one("SELECT * FROM request_kinds WHERE id = ?", kind_id)
    if kind is None:
        raise ToolError(f"There is no kind {kind_id} of requests.")
    _active_employee(db, decider_id)
    if decider_id == me:
        raise ToolError("Nobody decides on a request of their own.")
    if amount_cents > kind["most_cents"]:
        raise ToolError(f"{kind['name']} goes up to {_money(kind['most_cents'])}.")
    num_open = db.value("SELECT count(*) FROM requests WHERE made_by = ? AND status = 'open'", me)
    if num_open >= MOST_OPEN_REQUESTS:
        raise ToolError(f"You have {num_open} open requests already.")
    number = _next_number(db, "requests")
    request_id = db.insert(
        "requests",
        reference=f"RQ-{number:06d}",
        kind_id=kind_id,
        made_by=me,
        decider_id=decider_id,
        subject=subject,
        amount_cents=amount_cents,
        made_at=db.now,
    )
    row = _request(db, request_id)
    return {"request_id": row.pop("id"), **row}


def approve_request(db: Db, request_id: Id, remark: Text) -> Row:
    """Approve an open request of somebody else, up to your own limit, saying why."""
    return _decide(db, request_id, "approved", remark)


def reject_request(db: Db, request_id: Id, remark: Text) -> Row:
    """Reject an open request of somebody else, up to your own limit, saying why."""
    return _decide(db, request_id, "rejected", remark)


def hand_on_request(db: Db, request_id: Id, employee_id: Id) -> Row:
    """Hand an open request on to another active employee whose limit covers its amount."""
    request = _open_request(db, request_id)
    employee = _active_employee(db, employee_id)
    if employee_id in (request["made_by"], request["decider_id"]):
        raise ToolError(f"Employee {employee_id} made request {request_id} or has it already.")
    if employee["limit_cents"] < request["amount_cents"]:
        raise ToolError(f"The limit of employee {employee_id} is too low for it.")
    db.run("UPDATE requests SET decider_id = ? WHERE id = ?", employee_id, request_id)
    return _request(db, request_id)


def withdraw_request(db: Db, request_id: Id) -> Row:
    """Withdraw an open request that you made yourself."""
    request = _open_request(db, request_id)
    if request["made_by"] != _me(db)["id"]:
        maker = _employee(db, request["made_by"])["name"]
        raise ToolError(f"Request {request_id} was made by {maker}.")
    db.run("UPDATE requests SET status = 'withdrawn' WHERE id = ?", request_id)
    return _request(db, request_id)
