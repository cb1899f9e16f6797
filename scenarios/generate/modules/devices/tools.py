"""The devices: who has them, what their counters say, who comes to look after them."""

from typing import Annotated, Literal

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Day, Id, Limit, Text, _day, _like
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _require

MOST_DAY_VISITS = 3
VISIT_NOTICE_DAYS = 2
MOST_READING_RISE_PERCENT = 50
DeviceStatus = Literal["running", "stopped", "retired"]
Purpose = Literal["maintenance", "repair", "calibration"]
Counter = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]


def _device(db: Db, device_id: int) -> Row:
    device = db.one("SELECT * FROM devices WHERE id = ?", device_id)
    if device is None:
        raise ToolError(f"There is no device {device_id}.")
    return device


def _device_in_use(db: Db, device_id: int) -> Row:
    device = _device(db, device_id)
    if device["status"] == "retired":
        raise ToolError(f"Device {device_id} is retired.")
    return device


def _visit(db: Db, visit_id: int) -> Row:
    visit = db.one("SELECT * FROM device_visits WHERE id = ?", visit_id)
    if visit is None:
        raise ToolError(f"There is no visit {visit_id}.")
    return visit


def _planned_visit(db: Db, visit_id: int) -> Row:
    visit = _visit(db, visit_id)
    if visit["status"] != "planned":
        raise ToolError(f"Visit {visit_id} is {visit['status']}.")
    return visit


def _visit_day(db: Db, employee_id: int, text: str) -> str:
    """A day to come on which somebody has room for one more visit."""
    day = _day(text).isoformat()
    if day <= db.now[:10]:
        raise ToolError(f"{day} is not to come.")
    num_planned = db.value(
        "SELECT count(*) FROM device_visits WHERE employee_id = ? AND planned_on = ?"
        " AND status = 'planned'",
        employee_id,
        day,
    )
    if num_planned >= MOST_DAY_VISITS:
        raise ToolError(f"Employee {employee_id} has {num_planned} visits on {day} already.")
    return day


def search_devices(
    db: Db, query: Text, status: DeviceStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """Find devices by a part of their serial number, of their model or of the customer's name, of
    one status if given."""
    return db.all(
        "SELECT d.id, d.serial, d.model, d.customer_id, c.name AS customer, d.status"
        " FROM devices d JOIN customers c ON c.id = d.customer_id"
        " WHERE (d.serial LIKE ?1 ESCAPE '\\' OR d.model LIKE ?1 ESCAPE '\\'"
        " OR c.name LIKE ?1 ESCAPE '\\') AND (?2 IS NULL OR d.status = ?2)"
        " ORDER BY d.serial LIMIT ?3",
        _like(query),
        status,
        limit,
    )


def get_device(db: Db, device_id: Id) -> Row:
    """Show one device with its visits, the latest first."""
    device = _device(db, device_id)
    device["visits"] = db.all(
        "SELECT id, planned_on, purpose, employee_id, status FROM device_visits"
        " WHERE device_id = ? ORDER BY planned_on DESC, id DESC",
        device_id,
    )
    return device


def list_readings(db: Db, device_id: Id, limit: Limit = 10) -> list[Row]:
    """List the readings of a device's counter, the latest first."""
    _device(db, device_id)
    return db.all(
        "SELECT id, taken_on, counter FROM device_readings WHERE device_id = ?"
        " ORDER BY taken_on DESC LIMIT ?",
        device_id,
        limit,
    )


def record_reading(db: Db, device_id: Id, counter: Counter) -> Row:
    """Record what the counter of a device in use says today, once a day. Counters never go back;
    an unusual rise takes a supervisor or a manager."""
    _device_in_use(db, device_id)
    last = db.one(
        "SELECT * FROM device_readings WHERE device_id = ? ORDER BY taken_on DESC", device_id
    )
    if last is not None:
        if last["taken_on"] >= db.now[:10]:
            raise ToolError(f"Reading {last['id']} is of today already.")
        if counter < last["counter"]:
            raise ToolError(f"The counter stood at {last['counter']} before.")
        if (counter - last["counter"]) * 100 > last["counter"] * MOST_READING_RISE_PERCENT:
            _require(db, "supervisor")
    reading_id = db.insert(
        "device_readings", device_id=device_id, counter=counter, taken_on=db.now[:10]
    )
    return {
        "reading_id": reading_id,
        "device_id": device_id,
        "counter": counter,
        "taken_on": db.now[:10],
    }


def plan_visit(db: Db, device_id: Id, employee_id: Id, planned_on: Day, purpose: Purpose) -> Row:
    """Plan a visit of an active employee to a device in use, for a day to come. A device has one
    planned visit at most."""
    _device_in_use(db, device_id)
    _active_employee(db, employee_id)
    day = _visit_day(db, employee_id, planned_on)
    known = db.value(
        "SELECT id FROM device_visits WHERE device_id = ? AND status = 'planned'", device_id
    )
    if known is not None:
        raise ToolError(f"Visit {known} to this device is planned already.")
    visit_id = db.insert(
        "device_visits",
        device_id=device_id,
        employee_id=employee_id,
        planned_on=day,
        purpose=purpose,
    )
    return {"visit_id": visit_id, **_visit(db, visit_id)}


def move_visit(db: Db, visit_id: Id, planned_on: Day) -> Row:
    """Move a planned visit to another day to come."""
    visit = _planned_visit(db, visit_id)
    if visit["planned_on"] == _day(planned_on).isoformat():
        raise ToolError(f"Visit {visit_id} is planned for that day already.")
    day = _visit_day(db, visit["employee_id"], planned_on)
    db.run("UPDATE device_visits SET planned_on = ? WHERE id = ?", day, visit_id)
    return _visit(db, visit_id)


def cancel_visit(db: Db, visit_id: Id) -> Row:
    """Cancel a planned visit."""
    _planned_visit(db, visit_id)
    db.run("UPDATE device_visits SET status = 'cancelled' WHERE id = ?", visit_id)
    return _visit(db, visit_id)


def retire_device(db: Db, device_id: Id) -> Row:
    """Take a device out of use for good; a planned visit to it is cancelled. For supervisors and
    managers."""
    _require(db, "supervisor")
    _device_in_use(db, device_id)
    db.run("UPDATE devices SET status = 'retired' WHERE id = ?", device_id)
    db.run(
        "UPDATE device_visits SET status = 'cancelled' WHERE device_id = ? AND status = 'planned'",
        device_id,
    )
    return _device(db, device_id)
