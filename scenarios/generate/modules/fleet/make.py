"""Seed rows of the fleet, and helpers that insert vehicles, trips and defects.

Pools: vehicle_models (a kind of vehicle), minor_defects and serious_defects (a sentence each,
without a full stop).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.staff.make import some_team

_MODELS = ("Small estate", "Long estate", "Box van", "Flatbed", "Electric runabout")
_MINOR = (
    *("The wing mirror is cracked", "A seat is torn", "The radio is silent"),
    *("The number plate light is out", "The rear wiper smears", "A hubcap is missing"),
)
_SERIOUS = (
    *("The brakes pull to one side", "The engine is losing oil", "A front tyre is bald"),
    *("The seat belt comes undone", "There is play in the steering"),
)


def rows(maker: Maker) -> None:
    """A few vehicles with trips behind and a minor defect."""
    employees = maker.rows("employees", active=1)
    for index in range(maker.many(3, least=1)):
        vehicle = new_vehicle(maker)
        new_trip(
            maker, vehicle, maker.rng.choice(employees), -maker.rng.randrange(3, 40), status="done"
        )
        if index == 1:
            new_defect(maker, vehicle)


def vehicle_model(maker: Maker) -> str:
    """Return a kind of vehicle."""
    return maker.rng.choice(maker.pool("vehicle_models", *_MODELS))


def defect_titles(maker: Maker, severity: str, count: int = 1) -> list[str]:
    """Return this many different titles of defects of a severity."""
    usual = _SERIOUS if severity == "serious" else _MINOR
    return maker.rng.sample(maker.pool(f"{severity}_defects", *usual), k=count)


def new_vehicle(maker: Maker, *, check: int = 200, **columns: Any) -> Row:
    """Insert a vehicle that is ready, whose next check is in so many days."""
    given = {
        "model": vehicle_model(maker),
        "seats": maker.one_of(2, 3, 5, 9),
        "odometer_km": maker.rng.randrange(4_000, 190_000),
        "status": "ready",
    } | columns
    if "team_id" not in given:
        given["team_id"] = some_team(maker)["id"]
    return maker.insert(
        "vehicles",
        plate=new_code(maker, "vehicles", "plate", "KV", 5),
        next_check_on=maker.day(check),
        **given,
    )


def new_trip(
    maker: Maker, vehicle: Row, driver: Row, day: int, *, status: str = "planned", **columns: Any
) -> Row:
    """Insert a trip in so many days (negative: ago)."""
    most = maker.parameters["MOST_TRIP_KM"]
    given = {
        "destination": maker.people.city(),
        "driven_km": maker.rng.randrange(15, most) if status == "done" else None,
    } | columns
    return maker.insert(
        "trips",
        vehicle_id=vehicle["id"],
        driver_id=driver["id"],
        goes_on=maker.day(day),
        status=status,
        **given,
    )


def new_defect(
    maker: Maker, vehicle: Row, severity: str = "minor", *, title: str | None = None, **columns: Any
) -> Row:
    """Insert an open defect; a serious one blocks its vehicle."""
    if severity == "serious" and columns.get("status", "open") == "open":
        vehicle["status"] = "blocked"
    given = {
        "status": "open",
        "reported_by": maker.rng.choice(maker.rows("employees"))["id"],
        "reported_on": maker.day(-maker.rng.randrange(1, 20)),
    } | columns
    return maker.insert(
        "defects",
        vehicle_id=vehicle["id"],
        title=title or defect_titles(maker, severity)[0],
        severity=severity,
        **given,
    )
