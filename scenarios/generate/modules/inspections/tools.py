"""The inspections: what is looked at, what is found, who sees to it."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _category
from rehearsal_room.scenarios.generate.modules.common import (
    Day,
    Id,
    Limit,
    Text,
    _day,
    _like,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _require

MOST_INSPECTIONS_AHEAD = 4
FOLLOWUP_DAYS = 30
CRITICAL_FOLLOWUP_DAYS = 5
InspectionStatus = Literal["planned", "done", "cancelled"]
Severity = Literal["minor", "major", "critical"]


def _inspection(db: Db, inspection_id: int) -> Row:
    inspection = db.one("SELECT * FROM inspections WHERE id = ?", inspection_id)
    if inspection is None:
        raise ToolError(f"There is no inspection {inspection_id}.")
    return inspection


def _planned_inspection(db: Db, inspection_id: int) -> Row:
    inspection = _inspection(db, inspection_id)
    if inspection["status"] != "planned":
        raise ToolError(f"Inspection {inspection_id} is {inspection['status']}.")
    return inspection


def _finding(db: Db, finding_id: int) -> Row:
    finding = db.one("SELECT * FROM findings WHERE id = ?", finding_id)
    if finding is None:
        raise ToolError(f"There is no finding {finding_id}.")
    return finding


def _followup(db: Db, followup_id: int) -> Row:
    followup = db.one("SELECT * FROM followups WHERE id = ?", followup_id)
    if followup is None:
        raise ToolError(f"There is no followup {followup_id}.")
    return followup


def _open_finding(db: Db, finding_id: int) -> Row:
    finding = _finding(db, finding_id)
    if finding["status"] != "open":
        raise ToolError(f"Finding {finding_id} is {finding['status']}.")
    return finding


def _check_inspector(db: Db, employee_id: int) -> None:
    """Refuse an employee who has left or has as many inspections ahead as one may have."""
    _active_employee(db, employee_id)
    num_ahead = db.value(
        "SELECT count(*) FROM inspections WHERE inspector_id = ? AND status = 'planned'",
        employee_id,
    )
    if num_ahead >= MOST_INSPECTIONS_AHEAD:
        raise ToolError(f"Employee {employee_id} has {num_ahead} inspections ahead already.")


def search_inspections(
    db: Db, query: Text, status: InspectionStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """Find inspections by a part of their reference, place, category's name or inspector's name,
    of one status if given, ordered by day."""
    return db.all(
        "SELECT i.id, i.reference, c.name AS category, i.place, i.inspector_id,"
        " e.name AS inspector, i.planned_on, i.status FROM inspections i"
        " JOIN categories c ON c.id = i.category_id JOIN employees e ON e.id = i.inspector_id"
        " WHERE (i.reference LIKE ?1 ESCAPE '\\' OR i.place LIKE ?1 ESCAPE '\\'"
        " OR c.name LIKE ?1 ESCAPE '\\' OR e.name LIKE ?1 ESCAPE '\\')"
        " AND (?2 IS NULL OR i.status = ?2) ORDER BY i.planned_on, i.id LIMIT ?3",
        _like(query),
        status,
        limit,
    )


def get_inspection(db: Db, inspection_id: Id) -> Row:
    """Show one inspection with its findings, each with its followups."""
    inspection = _inspection(db, inspection_id)
    inspection["findings"] = db.all(
        "SELECT id, title, severity, status FROM findings WHERE inspection_id = ? ORDER BY id",
        inspection_id,
    )
    inspection["followups"] = db.all(
        "SELECT f.id, f.finding_id, f.employee_id, f.due_on, f.status FROM followups f"
        " JOIN findings d ON d.id = f.finding_id WHERE d.inspection_id = ? ORDER BY f.id",
        inspection_id,
    )
    return inspection


def plan_inspection(db: Db, category_id: Id, place: Text, inspector_id: Id, planned_on: Day) -> Row:
    """Plan an inspection of a category at a place, by an active employee, for a day to come."""
    _category(db, category_id)
    _check_inspector(db, inspector_id)
    day = _day(planned_on).isoformat()
    if day <= db.now[:10]:
        raise ToolError(f"{day} is not to come.")
    known = db.value(
        "SELECT id FROM inspections WHERE category_id = ? AND place = ? AND planned_on = ?"
        " AND status = 'planned'",
        category_id,
        place.strip(),
        day,
    )
    if known is not None:
        raise ToolError(f"Inspection {known} is planned for the same there and then.")
    number = _next_number(db, "inspections")
    inspection_id = db.insert(
        "inspections",
        reference=f"IN-{number:06d}",
        category_id=category_id,
        place=place.strip(),
        inspector_id=inspector_id,
        planned_on=day,
    )
    return {"inspection_id": inspection_id, **_inspection(db, inspection_id)}


def change_inspector(db: Db, inspection_id: Id, inspector_id: Id) -> Row:
    """Let another active employee make a planned inspection."""
    inspection = _planned_inspection(db, inspection_id)
    if inspection["inspector_id"] == inspector_id:
        raise ToolError(f"Employee {inspector_id} makes this inspection already.")
    _check_inspector(db, inspector_id)
    db.run("UPDATE inspections SET inspector_id = ? WHERE id = ?", inspector_id, inspection_id)
    return _inspection(db, inspection_id)


def report_finding(db: Db, inspection_id: Id, title: Text, severity: Severity) -> Row:
    """Report what was found at an inspection that is not cancelled and whose day has come. The
    inspection counts as done from then on."""
    inspection = _inspection(db, inspection_id)
    if inspection["status"] == "cancelled" or inspection["planned_on"] > db.now[:10]:
        raise ToolError(f"Inspection {inspection_id} is cancelled or still to come.")
    known = db.value(
        "SELECT id FROM findings WHERE inspection_id = ? AND title = ?",
        inspection_id,
        title.strip(),
    )
    if known is not None:
        raise ToolError(f"Finding {known} of this inspection has this title.")
    db.run("UPDATE inspections SET status = 'done' WHERE id = ?", inspection_id)
    finding_id = db.insert(
        "findings", inspection_id=inspection_id, title=title.strip(), severity=severity
    )
    return {"finding_id": finding_id, **_finding(db, finding_id)}


def add_followup(db: Db, finding_id: Id, employee_id: Id, due_on: Day) -> Row:
    """Let an active employee see to an open finding of which no followup is open, until a day that
    is not over; critical findings have less time."""
    finding = _open_finding(db, finding_id)
    _active_employee(db, employee_id)
    known = db.value(
        "SELECT id FROM followups WHERE finding_id = ? AND status = 'open'", finding_id
    )
    if known is not None:
        raise ToolError(f"Followup {known} of this finding is open.")
    most = CRITICAL_FOLLOWUP_DAYS if finding["severity"] == "critical" else FOLLOWUP_DAYS
    days = (_day(due_on) - _day(db.now[:10])).days
    if not 0 <= days <= most:
        raise ToolError(f"The day must be one of the next {most} days, or today.")
    followup_id = db.insert(
        "followups",
        finding_id=finding_id,
        employee_id=employee_id,
        due_on=_day(due_on).isoformat(),
    )
    return {"followup_id": followup_id, **_followup(db, followup_id)}


def close_followup(db: Db, followup_id: Id) -> Row:
    """Mark an open followup as done; its finding is resolved by it."""
    followup = _followup(db, followup_id)
    if followup["status"] != "open":
        raise ToolError(f"Followup {followup_id} is {followup['status']}.")
    db.run("UPDATE followups SET status = 'done' WHERE id = ?", followup_id)
    db.run("UPDATE findings SET status = 'resolved' WHERE id = ?", followup["finding_id"])
    return _followup(db, followup_id) | {"finding_status": "resolved"}


def waive_finding(db: Db, finding_id: Id) -> Row:
    """Let an open finding be, without a followup. For supervisors and managers; critical findings
    are never waived."""
    _require(db, "supervisor")
    finding = _open_finding(db, finding_id)
    if finding["severity"] == "critical":
        raise ToolError("A critical finding is not waived.")
    if db.value("SELECT id FROM followups WHERE finding_id = ?", finding_id) is not None:
        raise ToolError(f"Finding {finding_id} has a followup.")
    db.run("UPDATE findings SET status = 'waived' WHERE id = ?", finding_id)
    return _finding(db, finding_id)
