"""The training: courses, the days on which they are held, who takes part."""

from typing import Annotated

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _require

MOST_ENROLMENTS_AHEAD = 3
ENROLMENT_NOTICE_DAYS = 5
MOST_SESSION_SEATS = 16
Seats = Annotated[int, msgspec.Meta(ge=1, le=200)]


def _session(db: Db, session_id: int) -> Row:
    """A session with the number of its free seats."""
    session = db.one(
        "SELECT s.*, s.seats - (SELECT count(*) FROM enrolments e WHERE e.session_id = s.id"
        " AND e.status = 'enrolled') AS num_free FROM course_sessions s WHERE s.id = ?",
        session_id,
    )
    if session is None:
        raise ToolError(f"There is no session {session_id}.")
    return session


def _session_ahead(db: Db, session_id: int) -> Row:
    session = _session(db, session_id)
    if session["held_on"] <= db.now[:10]:
        raise ToolError(f"Session {session_id} is not to come.")
    return session


def _enrolment(db: Db, enrolment_id: int) -> Row:
    enrolment = db.one("SELECT * FROM enrolments WHERE id = ?", enrolment_id)
    if enrolment is None:
        raise ToolError(f"There is no enrolment {enrolment_id}.")
    return enrolment


def _enrolment_ahead(db: Db, enrolment_id: int) -> Row:
    """An enrolment that stands, in a session that is to come."""
    enrolment = _enrolment(db, enrolment_id)
    if enrolment["status"] == "cancelled":
        raise ToolError(f"Enrolment {enrolment_id} is cancelled.")
    _session_ahead(db, enrolment["session_id"])
    return enrolment


def _check_not_in_session(db: Db, session_id: int, customer_id: int) -> None:
    known = db.value(
        "SELECT id FROM enrolments WHERE session_id = ? AND customer_id = ?"
        " AND status <> 'cancelled'",
        session_id,
        customer_id,
    )
    if known is not None:
        raise ToolError(f"Enrolment {known} of this customer is for the same session.")


def _fill_session(db: Db, session_id: int) -> None:
    """Let those who wait have the seats that are free, the first first."""
    num_free = max(0, _session(db, session_id)["num_free"])
    db.run(
        "UPDATE enrolments SET status = 'enrolled' WHERE id IN (SELECT id FROM enrolments"
        " WHERE session_id = ? AND status = 'waiting' ORDER BY made_at, id LIMIT ?)",
        session_id,
        num_free,
    )


def list_courses(db: Db) -> list[Row]:
    """List all courses with their category and fee in hundredths."""
    return db.all(
        "SELECT c.id, c.title, c.fee_cents, k.name AS category FROM courses c"
        " JOIN categories k ON k.id = c.category_id ORDER BY c.title"
    )


def list_sessions(db: Db, course_id: Id) -> list[Row]:
    """List the sessions of a course that are to come, by their day, with the number of free
    seats."""
    if db.value("SELECT id FROM courses WHERE id = ?", course_id) is None:
        raise ToolError(f"There is no course {course_id}.")
    return db.all(
        "SELECT s.id, s.held_on, s.place, s.seats, s.seats - (SELECT count(*) FROM enrolments e"
        " WHERE e.session_id = s.id AND e.status = 'enrolled') AS num_free"
        " FROM course_sessions s WHERE s.course_id = ? AND s.held_on > ? ORDER BY s.held_on",
        course_id,
        db.now[:10],
    )


def get_session(db: Db, session_id: Id) -> Row:
    """Show one session with those who are enrolled or wait, the first first."""
    session = _session(db, session_id)
    session["enrolments"] = db.all(
        "SELECT e.id, e.customer_id, c.name AS customer, e.status, e.made_at FROM enrolments e"
        " JOIN customers c ON c.id = e.customer_id WHERE e.session_id = ?"
        " AND e.status <> 'cancelled' ORDER BY e.made_at, e.id",
        session_id,
    )
    return session


def list_enrolments(db: Db, customer_id: Id) -> list[Row]:
    """List the enrolments of a customer with course and day, the latest day first."""
    _customer(db, customer_id)
    return db.all(
        "SELECT e.id, e.session_id, c.title AS course, s.course_id, s.held_on, e.status"
        " FROM enrolments e JOIN course_sessions s ON s.id = e.session_id"
        " JOIN courses c ON c.id = s.course_id WHERE e.customer_id = ?"
        " ORDER BY s.held_on DESC, e.id",
        customer_id,
    )


def add_enrolment(db: Db, session_id: Id, customer_id: Id) -> Row:
    """Enrol an active customer for a session to come. Where no seat is free, they wait for one."""
    _active_customer(db, customer_id)
    session = _session_ahead(db, session_id)
    _check_not_in_session(db, session_id, customer_id)
    num_ahead = db.value(
        "SELECT count(*) FROM enrolments e JOIN course_sessions s ON s.id = e.session_id"
        " WHERE e.customer_id = ? AND e.status <> 'cancelled' AND s.held_on > ?",
        customer_id,
        db.now[:10],
    )
    if num_ahead >= MOST_ENROLMENTS_AHEAD:
        raise ToolError(f"The customer has {num_ahead} enrolments ahead already.")
    status = "enrolled" if session["num_free"] > 0 else "waiting"
    enrolment_id = db.insert(
        "enrolments",
        session_id=session_id,
        customer_id=customer_id,
        status=status,
        made_at=db.now,
    )
    return {"enrolment_id": enrolment_id, **_enrolment(db, enrolment_id)}


def move_enrolment(db: Db, enrolment_id: Id, session_id: Id) -> Row:
    """Move an enrolment to another session of the same course that has a free seat. Who waits for
    the former one moves up."""
    enrolment = _enrolment_ahead(db, enrolment_id)
    session = _session_ahead(db, session_id)
    former = _session(db, enrolment["session_id"])
    if session["course_id"] != former["course_id"]:
        raise ToolError(f"Session {session_id} is one of another course.")
    _check_not_in_session(db, session_id, enrolment["customer_id"])
    if session["num_free"] < 1:
        raise ToolError(f"Session {session_id} has no free seat.")
    db.run(
        "UPDATE enrolments SET session_id = ?, status = 'enrolled' WHERE id = ?",
        session_id,
        enrolment_id,
    )
    _fill_session(db, former["id"])
    return _enrolment(db, enrolment_id)


def cancel_enrolment(db: Db, enrolment_id: Id) -> Row:
    """Cancel an enrolment for a session to come. Who waits for a seat moves up."""
    enrolment = _enrolment_ahead(db, enrolment_id)
    db.run("UPDATE enrolments SET status = 'cancelled' WHERE id = ?", enrolment_id)
    _fill_session(db, enrolment["session_id"])
    return _enrolment(db, enrolment_id)


def set_session_seats(db: Db, session_id: Id, seats: Seats) -> Row:
    """Change the number of seats of a session to come, not below those who are enrolled. Who waits
    moves up. For supervisors and managers."""
    _require(db, "supervisor")
    session = _session_ahead(db, session_id)
    if seats > MOST_SESSION_SEATS:
        raise ToolError(f"A session has {MOST_SESSION_SEATS} seats at most.")
    if seats == session["seats"]:
        raise ToolError(f"Session {session_id} has {seats} seats already.")
    if seats < session["seats"] - session["num_free"]:
        raise ToolError("More people than that are enrolled.")
    db.run("UPDATE course_sessions SET seats = ? WHERE id = ?", seats, session_id)
    _fill_session(db, session_id)
    return _session(db, session_id)


def change_teacher(db: Db, session_id: Id, employee_id: Id) -> Row:
    """Let another active employee teach a session to come; nobody teaches twice on a day."""
    session = _session_ahead(db, session_id)
    _active_employee(db, employee_id)
    busy = db.value(
        "SELECT id FROM course_sessions WHERE teacher_id = ? AND held_on = ?",
        employee_id,
        session["held_on"],
    )
    if busy is not None:
        raise ToolError(f"Employee {employee_id} teaches session {busy} on that day.")
    db.run("UPDATE course_sessions SET teacher_id = ? WHERE id = ?", employee_id, session_id)
    return _session(db, session_id)
