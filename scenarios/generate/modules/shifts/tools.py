"""The shifts: who works at which post when, and who takes a shift over."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Day, Id, Limit, _day
from rehearsal_room.scenarios.generate.modules.staff.tools import (
    _active_employee,
    _employee,
    _me,
    _require,
)

MOST_SHIFTS_AHEAD = 5
SWAP_NOTICE_DAYS = 3
Part = Literal["early", "late", "night"]


def _shift(db: Db, shift_id: int) -> Row:
    shift = db.one("SELECT * FROM shifts WHERE id = ?", shift_id)
    if shift is None:
        raise ToolError(f"There is no shift {shift_id}.")
    return shift


def _shift_ahead(db: Db, shift_id: int) -> Row:
    shift = _shift(db, shift_id)
    if shift["worked_on"] <= db.now[:10]:
        raise ToolError(f"Shift {shift_id} is not to come.")
    return shift


def _swap(db: Db, swap_id: int) -> Row:
    swap = db.one("SELECT * FROM swaps WHERE id = ?", swap_id)
    if swap is None:
        raise ToolError(f"There is no swap {swap_id}.")
    return swap


def _asked_swap(db: Db, swap_id: int) -> Row:
    """A swap on which nobody has decided."""
    swap = _swap(db, swap_id)
    if swap["status"] != "asked":
        raise ToolError(f"Swap {swap_id} is {swap['status']}.")
    return swap


def _check_can_work(db: Db, employee_id: int, day: str) -> None:
    """Refuse an employee who has left, is away, works on that day or has enough shifts ahead."""
    _active_employee(db, employee_id)
    away = db.value(
        "SELECT id FROM absences WHERE employee_id = ?1 AND ?2 BETWEEN first_day AND last_day",
        employee_id,
        day,
    )
    if away is not None:
        raise ToolError(f"Employee {employee_id} is away on {day}.")
    known = db.value(
        "SELECT id FROM shifts WHERE employee_id = ? AND worked_on = ?", employee_id, day
    )
    if known is not None:
        raise ToolError(f"Employee {employee_id} has shift {known} on {day}.")
    num_ahead = db.value(
        "SELECT count(*) FROM shifts WHERE employee_id = ? AND worked_on > ?",
        employee_id,
        db.now[:10],
    )
    if num_ahead >= MOST_SHIFTS_AHEAD:
        raise ToolError(f"Employee {employee_id} has {num_ahead} shifts ahead already.")


def list_posts(db: Db) -> list[Row]:
    """List all posts with their team, and whether they need somebody senior: a supervisor or a
    manager."""
    return db.all(
        "SELECT p.id, p.name, t.name AS team, p.needs_rank FROM shift_posts p"
        " JOIN teams t ON t.id = p.team_id ORDER BY p.name"
    )


def search_shifts(
    db: Db,
    first_day: Day,
    last_day: Day,
    employee_id: Id | None = None,
    post_id: Id | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """List the shifts from the first to the last day, of one employee or post if given."""
    return db.all(
        "SELECT s.id, s.worked_on, s.part, p.name AS post, s.post_id, s.employee_id,"
        " e.name AS worker FROM shifts s JOIN shift_posts p ON p.id = s.post_id"
        " JOIN employees e ON e.id = s.employee_id WHERE s.worked_on BETWEEN ?1 AND ?2"
        " AND (?3 IS NULL OR s.employee_id = ?3) AND (?4 IS NULL OR s.post_id = ?4)"
        " ORDER BY s.worked_on, s.id LIMIT ?5",
        _day(first_day).isoformat(),
        _day(last_day).isoformat(),
        employee_id,
        post_id,
        limit,
    )


def list_swaps(db: Db, employee_id: Id) -> list[Row]:
    """List the swaps that concern an employee, who gives the shift away or takes it."""
    _employee(db, employee_id)
    return db.all(
        "SELECT w.id, w.shift_id, s.worked_on, s.part, s.employee_id, w.taker_id, w.status"
        " FROM swaps w JOIN shifts s ON s.id = w.shift_id"
        " WHERE w.taker_id = ?1 OR s.employee_id = ?1 ORDER BY s.worked_on, w.id",
        employee_id,
    )


def add_shift(db: Db, post_id: Id, employee_id: Id, worked_on: Day, part: Part) -> Row:
    """Let an active employee who is not away work at a post on a day to come, one shift a day."""
    if db.value("SELECT id FROM shift_posts WHERE id = ?", post_id) is None:
        raise ToolError(f"There is no post {post_id}.")
    day = _day(worked_on).isoformat()
    if day <= db.now[:10]:
        raise ToolError(f"{day} is not to come.")
    _check_can_work(db, employee_id, day)
    taken = db.value(
        "SELECT id FROM shifts WHERE post_id = ? AND worked_on = ? AND part = ?", post_id, day, part
    )
    if taken is not None:
        raise ToolError(f"Shift {taken} is at this post then.")
    shift_id = db.insert(
        "shifts", post_id=post_id, employee_id=employee_id, worked_on=day, part=part
    )
    return {"shift_id": shift_id, **_shift(db, shift_id)}


def drop_shift(db: Db, shift_id: Id) -> Row:
    """Delete a shift to come for which no swap was ever asked. For supervisors and managers."""
    _require(db, "supervisor")
    shift = _shift_ahead(db, shift_id)
    known = db.value("SELECT id FROM swaps WHERE shift_id = ?", shift_id)
    if known is not None:
        raise ToolError(f"Swap {known} is about this shift.")
    db.run("DELETE FROM shifts WHERE id = ?", shift_id)
    return shift


def ask_swap(db: Db, shift_id: Id, taker_id: Id) -> Row:
    """Ask that another active employee, who is free then, takes over a shift to come. It waits for
    a decision."""
    shift = _shift_ahead(db, shift_id)
    known = db.value("SELECT id FROM swaps WHERE shift_id = ? AND status = 'asked'", shift_id)
    if known is not None:
        raise ToolError(f"Swap {known} is asked for this shift already.")
    _check_can_work(db, taker_id, shift["worked_on"])
    swap_id = db.insert("swaps", shift_id=shift_id, taker_id=taker_id, asked_at=db.now)
    return {"swap_id": swap_id, **_swap(db, swap_id)}


def decide_swap(db: Db, swap_id: Id, decision: Literal["agreed", "refused"]) -> Row:
    """Agree to a swap that was asked for, by which the shift is the taker's, or refuse it."""
    swap = _asked_swap(db, swap_id)
    shift = _shift_ahead(db, swap["shift_id"])
    if decision == "agreed":
        _check_can_work(db, swap["taker_id"], shift["worked_on"])
        db.run("UPDATE shifts SET employee_id = ? WHERE id = ?", swap["taker_id"], shift["id"])
    db.run(
        "UPDATE swaps SET status = ?, decided_by = ? WHERE id = ?",
        decision,
        _me(db)["id"],
        swap_id,
    )
    return _swap(db, swap_id)


def withdraw_swap(db: Db, swap_id: Id) -> Row:
    """Delete a swap that was asked for and on which nobody has decided."""
    swap = _asked_swap(db, swap_id)
    db.run("DELETE FROM swaps WHERE id = ?", swap_id)
    return swap
