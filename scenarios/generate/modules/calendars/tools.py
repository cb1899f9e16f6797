"""The calendar: who meets which customer, when and where."""

from datetime import timedelta
from typing import Annotated, Literal

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Day,
    Id,
    Limit,
    Moment,
    Text,
    _day,
    _like,
    _moment,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import (
    _active_employee,
    _employee,
    _me,
    _require,
)

MOST_PARTICIPANTS = 4
APPOINTMENT_NOTICE_DAYS = 3
APPOINTMENT_HORIZON_DAYS = 90
Minutes = Annotated[int, msgspec.Meta(ge=15, le=240)]


def _appointment(db: Db, appointment_id: int) -> Row:
    appointment = db.one("SELECT * FROM appointments WHERE id = ?", appointment_id)
    if appointment is None:
        raise ToolError(f"There is no appointment {appointment_id}.")
    return appointment


def _planned_appointment(db: Db, appointment_id: int) -> Row:
    appointment = _appointment(db, appointment_id)
    if appointment["status"] != "planned" or appointment["starts_at"] <= db.now:
        raise ToolError(f"Appointment {appointment_id} is {appointment['status']} or has begun.")
    return appointment


def _require_organiser(db: Db, appointment: Row) -> None:
    """The acting employee must be its organiser, or a supervisor or manager."""
    if _me(db)["id"] != appointment["organiser_id"]:
        _require(db, "supervisor")


def _span(db: Db, starts_at: str, minutes: int) -> tuple[str, str]:
    """Begin and end of an appointment to be, which lie in the working hours of one day to come."""
    begin, now = _moment(starts_at), _moment(db.now)
    if not now < begin <= now + timedelta(days=APPOINTMENT_HORIZON_DAYS):
        raise ToolError(f"It must begin in the next {APPOINTMENT_HORIZON_DAYS} days.")
    end = begin + timedelta(minutes=minutes)
    closing = begin.replace(hour=18, minute=0, second=0)
    if begin.hour < 8 or end > closing:
        raise ToolError("Appointments lie between 08:00 and 18:00.")
    return begin.strftime("%Y-%m-%dT%H:%M:%SZ"), end.strftime("%Y-%m-%dT%H:%M:%SZ")


def _require_free(db: Db, employee_id: int, starts_at: str, ends_at: str, without: int = 0) -> None:
    """The employee must have no other appointment at that time."""
    other = db.value(
        "SELECT a.id FROM appointments a WHERE a.status = 'planned' AND a.id <> ?1"
        " AND a.starts_at < ?3 AND a.ends_at > ?2 AND (a.organiser_id = ?4 OR EXISTS (SELECT 1"
        " FROM participants p WHERE p.appointment_id = a.id AND p.employee_id = ?4)) ORDER BY a.id",
        without,
        starts_at,
        ends_at,
        employee_id,
    )
    if other is not None:
        raise ToolError(f"Employee {employee_id} has appointment {other} at that time.")


def list_appointments(
    db: Db, employee_id: Id, first_day: Day, last_day: Day, limit: Limit = 20
) -> list[Row]:
    """List the planned appointments of an employee, as organiser or participant, from the first to
    the last day."""
    _employee(db, employee_id)
    return db.all(
        "SELECT a.id, a.subject, a.customer_id, a.organiser_id, a.place, a.starts_at, a.ends_at"
        " FROM appointments a WHERE a.status = 'planned' AND substr(a.starts_at, 1, 10) BETWEEN"
        " ?2 AND ?3 AND (a.organiser_id = ?1 OR EXISTS (SELECT 1 FROM participants p"
        " WHERE p.appointment_id = a.id AND p.employee_id = ?1)) ORDER BY a.starts_at, a.id"
        " LIMIT ?4",
        employee_id,
        _day(first_day).isoformat(),
        _day(last_day).isoformat(),
        limit,
    )


def find_appointments(
    db: Db, customer_id: Id, subject: Text | None = None, limit: Limit = 20
) -> list[Row]:
    """Find the appointments of a customer, past ones too, by a part of their subject if given."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, subject, organiser_id, place, starts_at, status FROM appointments"
        " WHERE customer_id = ?1 AND (?2 IS NULL OR subject LIKE ?2 ESCAPE '\\')"
        " ORDER BY starts_at, id LIMIT ?3",
        customer_id,
        None if subject is None else _like(subject),
        limit,
    )


def get_appointment(db: Db, appointment_id: Id) -> Row:
    """Show one appointment with its participants."""
    appointment = _appointment(db, appointment_id)
    appointment["participants"] = db.all(
        "SELECT p.id, p.employee_id, e.name, p.presence FROM participants p"
        " JOIN employees e ON e.id = p.employee_id WHERE p.appointment_id = ? ORDER BY p.id",
        appointment_id,
    )
    return appointment


def create_appointment(
    db: Db, customer_id: Id, subject: Text, place: Text, starts_at: Moment, minutes: Minutes = 60
) -> Row:
    """Plan an appointment with an active customer, with yourself as the organiser."""
    me = _me(db)["id"]
    _active_customer(db, customer_id)
    begin, end = _span(db, starts_at, minutes)
    _require_free(db, me, begin, end)
    appointment_id = db.insert(
        "appointments",
        organiser_id=me,
        customer_id=customer_id,
        subject=subject.strip(),
        place=place.strip(),
        starts_at=begin,
        ends_at=end,
    )
    return {"appointment_id": appointment_id, **_appointment(db, appointment_id)}


def add_participant(
    db: Db,
    appointment_id: Id,
    employee_id: Id,
    presence: Literal["required", "optional"] = "required",
) -> Row:
    """Let another active employee take part in a planned appointment, if they are free then."""
    appointment = _planned_appointment(db, appointment_id)
    _active_employee(db, employee_id)
    _require_free(db, employee_id, appointment["starts_at"], appointment["ends_at"])
    known = db.value("SELECT count(*) FROM participants WHERE appointment_id = ?", appointment_id)
    if known >= MOST_PARTICIPANTS:
        raise ToolError(f"An appointment has {MOST_PARTICIPANTS} participants at most.")
    participant_id = db.insert(
        "participants", appointment_id=appointment_id, employee_id=employee_id, presence=presence
    )
    return {
        "participant_id": participant_id,
        "appointment_id": appointment_id,
        "employee_id": employee_id,
        "presence": presence,
    }


def remove_participant(db: Db, appointment_id: Id, employee_id: Id) -> Row:
    """Take an employee out of a planned appointment; return what was removed."""
    _planned_appointment(db, appointment_id)
    gone = db.one(
        "SELECT * FROM participants WHERE appointment_id = ? AND employee_id = ?",
        appointment_id,
        employee_id,
    )
    if gone is None:
        raise ToolError(f"Employee {employee_id} does not take part in it.")
    db.run("DELETE FROM participants WHERE id = ?", gone["id"])
    return gone


def move_appointment(db: Db, appointment_id: Id, starts_at: Moment) -> Row:
    """Move a planned appointment to another begin; it stays as long as it is. For its organiser,
    supervisors and managers. All who take part must be free then."""
    appointment = _planned_appointment(db, appointment_id)
    _require_organiser(db, appointment)
    length = _moment(appointment["ends_at"]) - _moment(appointment["starts_at"])
    begin, end = _span(db, starts_at, int(length.total_seconds()) // 60)
    if begin == appointment["starts_at"]:
        raise ToolError(f"Appointment {appointment_id} begins then already.")
    _require_free(db, appointment["organiser_id"], begin, end, appointment_id)
    for row in db.all(
        "SELECT employee_id FROM participants WHERE appointment_id = ? ORDER BY id", appointment_id
    ):
        _require_free(db, row["employee_id"], begin, end, appointment_id)
    db.run(
        "UPDATE appointments SET starts_at = ?, ends_at = ? WHERE id = ?",
        begin,
        end,
        appointment_id,
    )
    return _appointment(db, appointment_id)


def cancel_appointment(db: Db, appointment_id: Id) -> Row:
    """Cancel a planned appointment. For its organiser, supervisors and managers."""
    _require_organiser(db, _planned_appointment(db, appointment_id))
    db.run("UPDATE appointments SET status = 'cancelled' WHERE id = ?", appointment_id)
    return _appointment(db, appointment_id)
