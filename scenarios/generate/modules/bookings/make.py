"""Seed rows of the bookings, and helpers that insert resources, slots and bookings.

Pools: resource_names (the proper name of a room, hall or court that is booked by the hour).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.naming import new_title
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_NAMES = (
    *("Elm Room", "Linden Room", "River Room", "Blue Room", "Tower Room", "Garden Room"),
    *("Corner Room", "Mirror Room", "North Room", "Ivy Room", "Sun Room", "Maple Room"),
    *("Cedar Room", "Harbour Room", "Pine Room", "Amber Room", "Orchard Room", "Slate Room"),
)


def rows(maker: Maker) -> None:
    """A few resources with slots behind and ahead, and a few bookings."""
    for _ in range(maker.many(2, least=1)):
        resource = new_resource(maker, capacity=maker.rng.randrange(7, 13))
        past = new_slot(maker, resource, -maker.rng.randrange(3, 20))
        ahead = new_slot(maker, resource, maker.rng.randrange(6, 30))
        new_booking(maker, past, some_customer(maker), status="attended")
        if maker.chance(0.6):
            new_booking(maker, ahead, some_customer(maker), status="cancelled")


def new_resource(maker: Maker, *, capacity: int = 10, **columns: Any) -> Row:
    """Insert an active resource with a name that no other has."""
    known = {row["name"] for row in maker.rows("resources")}
    names = maker.pool("resource_names", *_NAMES)
    free = [name for name in names if name not in known]
    given = {
        "name": maker.rng.choice(free)
        if free
        else new_title(maker, "resources", "name", maker.rng.choice(names), again=" {}"),
        "place": maker.location(),
        "keeper_id": maker.rng.choice(maker.rows("employees", active=1))["id"],
        "status": "active",
    } | columns
    return maker.insert("resources", capacity=capacity, **given)


def new_slot(
    maker: Maker, resource: Row, day: int, hour: int | None = None, *, cents: int | None = None
) -> Row:
    """Insert a slot of an hour and a half, so many days ahead (negative: ago)."""
    begin = maker.rng.randrange(8, 17) if hour is None else hour
    return maker.insert(
        "slots",
        resource_id=resource["id"],
        starts_at=maker.ahead(day, begin),
        ends_at=maker.ahead(day, begin + 1, 30),
        price_cents=maker.cents(2_000, 12_000) if cents is None else cents,
    )


def new_booking(
    maker: Maker,
    slot: Row,
    customer: Row,
    *,
    num_people: int = 2,
    status: str = "booked",
    made: int = 25,
) -> Row:
    """Insert a booking of a slot that was made so many days ago."""
    return maker.insert(
        "bookings",
        reference=new_code(maker, "bookings", "reference", "BK"),
        slot_id=slot["id"],
        customer_id=customer["id"],
        num_people=num_people,
        status=status,
        made_by=maker.rng.choice(maker.rows("employees"))["id"],
        made_at=maker.ago(made),
    )
