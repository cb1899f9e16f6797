"""The fleet: what can be driven, who drives where, what is broken."""

from typing import Annotated, Literal

import msgspec

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
)
from rehearsal_room.scenarios.generate.modules.staff.tools import (
    _active_employee,
    _employee,
    _me,
    _require,
)

MOST_TRIP_KM = 400
MOST_TRIPS_AHEAD = 4
CHECK_MARGIN_DAYS = 5
VehicleStatus = Literal["ready", "blocked", "sold"]
Kilometres = Annotated[int, msgspec.Meta(ge=1, le=5_000)]


def _vehicle(db: Db, vehicle_id: int) -> Row:
    vehicle = db.one("SELECT * FROM vehicles WHERE id = ?", vehicle_id)
    if vehicle is None:
        raise ToolError(f"There is no vehicle {vehicle_id}.")
    return vehicle


def _vehicle_in_use(db: Db, vehicle_id: int) -> Row:
    vehicle = _vehicle(db, vehicle_id)
    if vehicle["status"] == "sold":
        raise ToolError(f"Vehicle {vehicle_id} is sold.")
    return vehicle


def _trip(db: Db, trip_id: int) -> Row:
    trip = db.one("SELECT * FROM trips WHERE id = ?", trip_id)
    if trip is None:
        raise ToolError(f"There is no trip {trip_id}.")
    return trip


def _defect(db: Db, defect_id: int) -> Row:
    defect = db.one("SELECT * FROM defects WHERE id = ?", defect_id)
    if defect is None:
        raise ToolError(f"There is no defect {defect_id}.")
    return defect


def _planned_trip(db: Db, trip_id: int) -> Row:
    trip = _trip(db, trip_id)
    if trip["status"] != "planned":
        raise ToolError(f"Trip {trip_id} is {trip['status']}.")
    return trip


def _check_vehicle_free(db: Db, vehicle_id: int, day: str) -> None:
    """Refuse a vehicle that is not ready or goes elsewhere on a day."""
    vehicle = _vehicle(db, vehicle_id)
    if vehicle["status"] != "ready":
        raise ToolError(f"Vehicle {vehicle_id} is {vehicle['status']}.")
    known = db.value(
        "SELECT id FROM trips WHERE vehicle_id = ? AND goes_on = ? AND status = 'planned'",
        vehicle_id,
        day,
    )
    if known is not None:
        raise ToolError(f"Vehicle {vehicle_id} is on trip {known} on {day}.")


def search_vehicles(
    db: Db, query: Text, status: VehicleStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """Find vehicles by a part of their plate, model or team's name, of one status if given."""
    return db.all(
        "SELECT v.id, v.plate, v.model, t.name AS team, v.seats,"
        " v.status, v.next_check_on FROM vehicles v"
        " JOIN teams t ON t.id = v.team_id WHERE (v.plate LIKE ?1 ESCAPE '\\'"
        " OR v.model LIKE ?1 ESCAPE '\\' OR t.name LIKE ?1 ESCAPE '\\')"
        " AND (?2 IS NULL OR v.status = ?2) ORDER BY v.plate LIMIT ?3",
        _like(query),
        status,
        limit,
    )


def get_vehicle(db: Db, vehicle_id: Id) -> Row:
    """Show one vehicle with its planned trips and its open defects."""
    vehicle = _vehicle(db, vehicle_id)
    vehicle["trips"] = db.all(
        "SELECT id, goes_on, destination, driver_id FROM trips WHERE vehicle_id = ?"
        " AND status = 'planned' ORDER BY goes_on, id",
        vehicle_id,
    )
    vehicle["defects"] = db.all(
        "SELECT id, title, severity, reported_by, reported_on FROM defects WHERE vehicle_id = ?"
        " AND status = 'open' ORDER BY id",
        vehicle_id,
    )
    return vehicle


def list_driver_trips(db: Db, driver_id: Id, limit: Limit = 20) -> list[Row]:
    """List the trips of an employee in every status, the latest first."""
    _employee(db, driver_id)
    return db.all(
        "SELECT t.id, t.vehicle_id, v.plate, t.goes_on, t.destination, t.status, t.driven_km"
        " FROM trips t JOIN vehicles v ON v.id = t.vehicle_id WHERE t.driver_id = ?"
        " ORDER BY t.goes_on DESC, t.id DESC LIMIT ?",
        driver_id,
        limit,
    )


def plan_trip(db: Db, vehicle_id: Id, driver_id: Id, goes_on: Day, destination: Text) -> Row:
    """Plan a trip of an active employee with a vehicle that is ready and free, for today or a day
    to come."""
    _active_employee(db, driver_id)
    day = _day(goes_on).isoformat()
    if day < db.now[:10]:
        raise ToolError(f"{day} is over.")
    _check_vehicle_free(db, vehicle_id, day)
    num_ahead = db.value(
        "SELECT count(*) FROM trips WHERE driver_id = ? AND status = 'planned'", driver_id
    )
    if num_ahead >= MOST_TRIPS_AHEAD:
        raise ToolError(f"Employee {driver_id} has {num_ahead} trips ahead already.")
    trip_id = db.insert(
        "trips",
        vehicle_id=vehicle_id,
        driver_id=driver_id,
        goes_on=day,
        destination=destination.strip(),
    )
    return {"trip_id": trip_id, **_trip(db, trip_id)}


def cancel_trip(db: Db, trip_id: Id) -> Row:
    """Cancel a planned trip."""
    _planned_trip(db, trip_id)
    db.run("UPDATE trips SET status = 'cancelled' WHERE id = ?", trip_id)
    return _trip(db, trip_id)


def finish_trip(db: Db, trip_id: Id, driven_km: Kilometres) -> Row:
    """Enter that a planned trip whose day has come was made, and how many kilometres it took; they
    are added to the vehicle's odometer."""
    trip = _planned_trip(db, trip_id)
    if trip["goes_on"] > db.now[:10]:
        raise ToolError(f"Trip {trip_id} goes on {trip['goes_on']}.")
    if driven_km > MOST_TRIP_KM:
        raise ToolError(f"A trip has {MOST_TRIP_KM} kilometres at most.")
    db.run("UPDATE trips SET status = 'done', driven_km = ? WHERE id = ?", driven_km, trip_id)
    db.run(
        "UPDATE vehicles SET odometer_km = odometer_km + ? WHERE id = ?",
        driven_km,
        trip["vehicle_id"],
    )
    return _trip(db, trip_id)


def report_defect(
    db: Db, vehicle_id: Id, title: Text, severity: Literal["minor", "serious"]
) -> Row:
    """Report a defect of a vehicle in use, in your own name. A serious one blocks the vehicle."""
    _vehicle_in_use(db, vehicle_id)
    known = db.value(
        "SELECT id FROM defects WHERE vehicle_id = ? AND title = ? AND status = 'open'",
        vehicle_id,
        title.strip(),
    )
    if known is not None:
        raise ToolError(f"Defect {known} of this vehicle has this title and is open.")
    if severity == "serious":
        db.run("UPDATE vehicles SET status = 'blocked' WHERE id = ?", vehicle_id)
    defect_id = db.insert(
        "defects",
        vehicle_id=vehicle_id,
        title=title.strip(),
        severity=severity,
        reported_by=_me(db)["id"],
        reported_on=db.now[:10],
    )
    return {"defect_id": defect_id, **_defect(db, defect_id)}


def repair_defect(db: Db, defect_id: Id, cost_cents: Cents) -> Row:
    """Enter that an open defect was repaired and what that cost, which must not be above your own
    limit. A vehicle without another serious defect is ready again."""
    defect = _defect(db, defect_id)
    if defect["status"] != "open":
        raise ToolError(f"Defect {defect_id} is {defect['status']}.")
    limit = _me(db)["limit_cents"]
    if cost_cents > limit:
        raise ToolError(f"Your limit is {_money(limit)}.")
    db.run(
        "UPDATE defects SET status = 'repaired', cost_cents = ? WHERE id = ?", cost_cents, defect_id
    )
    db.run(
        "UPDATE vehicles SET status = 'ready' WHERE id = ?1 AND status = 'blocked' AND"
        " NOT EXISTS (SELECT 1 FROM defects WHERE vehicle_id = ?1 AND severity = 'serious'"
        " AND status = 'open')",
        defect["vehicle_id"],
    )
    return _defect(db, defect_id)


def sell_vehicle(db: Db, vehicle_id: Id) -> Row:
    """Enter that a vehicle without planned trips was sold. For supervisors and managers."""
    _require(db, "supervisor")
    _vehicle_in_use(db, vehicle_id)
    known = db.value(
        "SELECT id FROM trips WHERE vehicle_id = ? AND status = 'planned' ORDER BY id", vehicle_id
    )
    if known is not None:
        raise ToolError(f"Trip {known} with this vehicle is planned.")
    db.run("UPDATE vehicles SET status = 'sold' WHERE id = ?", vehicle_id)
    return _vehicle(db, vehicle_id)
