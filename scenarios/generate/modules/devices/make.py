"""Seed rows of the devices, and helpers that insert devices, readings and visits.

Pools: device_models (what a device is, a short name of its kind without a maker).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_MODELS = (
    *("Water meter", "Heat meter", "Card terminal", "Label printer", "Copier", "Bench scales"),
    *("Air filter unit", "Cold cabinet", "Door lift", "Boiler"),
)
# Trades whose customers keep no devices that somebody comes to look after.
NO_DEVICES = ("dental_clinic", "gym", "public_library", "veterinary_practice", "event_venue")


def rows(maker: Maker) -> None:
    """A few devices with readings and past visits."""
    for index in range(maker.many(3, least=1)):
        device = new_device(
            maker, some_customer(maker), status="stopped" if index == 2 else "running"
        )
        counter = maker.rng.randrange(800, 9_000)
        new_reading(maker, device, counter, maker.rng.randrange(40, 70))
        new_reading(maker, device, counter + maker.rng.randrange(40, 250), 20)
        if maker.chance(0.5):
            employee = maker.rng.choice(maker.rows("employees", active=1))
            new_visit(maker, device, employee, -maker.rng.randrange(20, 200), status="done")


def device_models(maker: Maker, count: int = 1) -> list[str]:
    """Return this many different kinds of devices."""
    pool = maker.pool("device_models", *_MODELS)
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *_MODELS)))
    return maker.rng.sample(texts, k=count)


def new_device(maker: Maker, customer: Row, model: str | None = None, **columns: Any) -> Row:
    """Insert a running device of a customer."""
    given = {
        "status": "running",
        "installed_on": maker.day(-maker.rng.randrange(200, 1_500)),
    } | columns
    return maker.insert(
        "devices",
        serial=new_code(maker, "devices", "serial", "SN"),
        model=model or device_models(maker)[0],
        customer_id=customer["id"],
        **given,
    )


def new_reading(maker: Maker, device: Row, counter: int, days: int) -> Row:
    """Insert what the counter of a device said so many days ago."""
    return maker.insert(
        "device_readings", device_id=device["id"], counter=counter, taken_on=maker.day(-days)
    )


def new_visit(
    maker: Maker,
    device: Row,
    employee: Row,
    day: int,
    *,
    purpose: str = "maintenance",
    status: str = "planned",
) -> Row:
    """Insert a visit to a device in so many days (negative: ago)."""
    return maker.insert(
        "device_visits",
        device_id=device["id"],
        employee_id=employee["id"],
        planned_on=maker.day(day),
        purpose=purpose,
        status=status,
    )
