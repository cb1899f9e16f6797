"""The bookings: which resource somebody has, and when."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Day,
    Id,
    Limit,
    Quantity,
    Text,
    _day,
    _like,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

MOST_BOOKINGS_AHEAD = 3
BOOKING_CANCEL_DAYS = 3
MOST_CLERK_BOOKING_PEOPLE = 5
BookingStatus = Literal["booked", "attended", "cancelled"]


def _resource(db: Db, resource_id: int) -> Row:
    resource = db.one("SELECT * FROM resources WHERE id = ?", resource_id)
    if resource is None:
        raise ToolError(f"There is no resource {resource_id}.")
    return resource


def _booking(db: Db, booking_id: int) -> Row:
    booking = db.one(
        "SELECT b.*, s.resource_id, s.starts_at, s.ends_at FROM bookings b"
        " JOIN slots s ON s.id = b.slot_id WHERE b.id = ?",
        booking_id,
    )
    if booking is None:
        raise ToolError(f"There is no booking {booking_id}.")
    return booking


def _booking_ahead(db: Db, booking_id: int) -> Row:
    """A booking that stands and has not begun."""
    booking = _booking(db, booking_id)
    if booking["status"] != "booked" or booking["starts_at"] <= db.now:
        raise ToolError(f"Booking {booking_id} is {booking['status']} or has begun.")
    return booking


def _free_slot(db: Db, slot_id: int, num_people: int, without: int = 0) -> Row:
    """A slot to come that has room for so many, the booking `without` left out."""
    slot = db.one(
        "SELECT s.*, r.capacity, r.status, (SELECT coalesce(sum(b.num_people), 0) FROM bookings b"
        " WHERE b.slot_id = s.id AND b.status = 'booked' AND b.id <> ?2) AS taken"
        " FROM slots s JOIN resources r ON r.id = s.resource_id WHERE s.id = ?1",
        slot_id,
        without,
    )
    if slot is None:
        raise ToolError(f"There is no slot {slot_id}.")
    if slot["starts_at"] <= db.now or slot["status"] != "active":
        raise ToolError(f"Slot {slot_id} has begun, or its resource is closed.")
    if slot["taken"] + num_people > slot["capacity"]:
        left = slot["capacity"] - slot["taken"]
        raise ToolError(f"Slot {slot_id} has room for {left} more, not for {num_people}.")
    return slot


def _check_group(db: Db, num_people: int) -> None:
    if num_people > MOST_CLERK_BOOKING_PEOPLE:
        _require(db, "supervisor")


def list_resources(db: Db) -> list[Row]:
    """List all resources with place, capacity, status and the employee who keeps them."""
    return db.all(
        "SELECT id, name, place, capacity, status, keeper_id FROM resources ORDER BY name"
    )


def search_slots(
    db: Db, resource_id: Id, first_day: Day, last_day: Day, limit: Limit = 20
) -> list[Row]:
    """List the slots of a resource from the first to the last day, with price in hundredths and the
    number of people for whom there is still room."""
    _resource(db, resource_id)
    return db.all(
        "SELECT s.id, s.starts_at, s.ends_at, s.price_cents, r.capacity - (SELECT"
        " coalesce(sum(b.num_people), 0) FROM bookings b WHERE b.slot_id = s.id"
        " AND b.status = 'booked') AS num_free FROM slots s JOIN resources r"
        " ON r.id = s.resource_id WHERE s.resource_id = ?1 AND substr(s.starts_at, 1, 10)"
        " BETWEEN ?2 AND ?3 ORDER BY s.starts_at LIMIT ?4",
        resource_id,
        _day(first_day).isoformat(),
        _day(last_day).isoformat(),
        limit,
    )


def find_bookings(
    db: Db,
    customer_id: Id | None = None,
    reference: Text | None = None,
    status: BookingStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find bookings of a customer, by a part of their reference, of one status, or by any of these
    together, ordered by when they begin. Without any of them all bookings are listed."""
    if customer_id is not None:
        _customer(db, customer_id)
    return db.all(
        "SELECT b.id, b.reference, b.customer_id, b.status, b.num_people, s.starts_at,"
        " s.price_cents, r.name AS resource FROM bookings b JOIN slots s ON s.id = b.slot_id"
        " JOIN resources r ON r.id = s.resource_id WHERE (?1 IS NULL OR b.customer_id = ?1)"
        " AND (?2 IS NULL OR b.reference LIKE ?2 ESCAPE '\\') AND (?3 IS NULL OR b.status = ?3)"
        " ORDER BY s.starts_at, b.id LIMIT ?4",
        customer_id,
        None if reference is None else _like(reference),
        status,
        limit,
    )


def get_booking(db: Db, booking_id: Id) -> Row:
    """Show one booking with its resource, begin and end."""
    booking = _booking(db, booking_id)
    booking["resource"] = _resource(db, booking["resource_id"])["name"]
    return booking


def create_booking(db: Db, slot_id: Id, customer_id: Id, num_people: Quantity) -> Row:
    """Make a booking of a slot for an active customer. Large groups take a supervisor or a
    manager."""
    _active_customer(db, customer_id)
    _check_group(db, num_people)
    _free_slot(db, slot_id, num_people)
    num_ahead = db.value(
        "SELECT count(*) FROM bookings b JOIN slots s ON s.id = b.slot_id"
        " WHERE b.customer_id = ? AND b.status = 'booked' AND s.starts_at > ?",
        customer_id,
        db.now,
    )
    if num_ahead >= MOST_BOOKINGS_AHEAD:
        raise ToolError(f"The customer has {num_ahead} bookings ahead already.")
    number = _next_number(db, "bookings")
    booking_id = db.insert(
        "bookings",
        reference=f"BK-{number:06d}",
        slot_id=slot_id,
        customer_id=customer_id,
        num_people=num_people,
        made_by=_me(db)["id"],
        made_at=db.now,
    )
    return {"booking_id": booking_id, **_booking(db, booking_id)}


def move_booking(db: Db, booking_id: Id, slot_id: Id) -> Row:
    """Move a booking that has not begun to another slot with room for it."""
    booking = _booking_ahead(db, booking_id)
    if booking["slot_id"] == slot_id:
        raise ToolError(f"Booking {booking_id} is in slot {slot_id} already.")
    _free_slot(db, slot_id, booking["num_people"])
    db.run("UPDATE bookings SET slot_id = ? WHERE id = ?", slot_id, booking_id)
    return _booking(db, booking_id)


def set_booking_size(db: Db, booking_id: Id, num_people: Quantity) -> Row:
    """Change the number of people of a booking that has not begun. Large groups take a supervisor
    or a manager."""
    booking = _booking_ahead(db, booking_id)
    if booking["num_people"] == num_people:
        raise ToolError(f"Booking {booking_id} is for {num_people} already.")
    if num_people > booking["num_people"]:
        _check_group(db, num_people)
    _free_slot(db, booking["slot_id"], num_people, without=booking_id)
    db.run("UPDATE bookings SET num_people = ? WHERE id = ?", num_people, booking_id)
    return _booking(db, booking_id)


def cancel_booking(db: Db, booking_id: Id) -> Row:
    """Cancel a booking that has not begun."""
    _booking_ahead(db, booking_id)
    db.run("UPDATE bookings SET status = 'cancelled' WHERE id = ?", booking_id)
    return _booking(db, booking_id)


def close_resource(db: Db, resource_id: Id) -> Row:
    """Close an active resource for which no booking is ahead. For supervisors and managers."""
    _require(db, "supervisor")
    if _resource(db, resource_id)["status"] != "active":
        raise ToolError(f"Resource {resource_id} is closed already.")
    ahead = db.value(
        "SELECT b.id FROM bookings b JOIN slots s ON s.id = b.slot_id"
        " WHERE s.resource_id = ? AND b.status = 'booked' AND s.starts_at > ? ORDER BY b.id",
        resource_id,
        db.now,
    )
    if ahead is not None:
        raise ToolError(f"Booking {ahead} of this resource is still ahead.")
    db.run("UPDATE resources SET status = 'closed' WHERE id = ?", resource_id)
    return _resource(db, resource_id)
