"""The shipments: where they go, with which carrier, in which parcels."""

from typing import Annotated, Literal

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _active_product
from rehearsal_room.scenarios.generate.modules.common import Day, Id, Limit, Quantity, Text, _day
from rehearsal_room.scenarios.generate.modules.parties.tools import _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _require

MOST_PARCELS = 4
MOST_POSTPONED_DAYS = 14
INSURED_FROM_CENTS = 25_000
ShipmentStatus = Literal["planned", "sent", "delivered", "lost", "cancelled"]
Grams = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


def _shipment(db: Db, shipment_id: int, *statuses: ShipmentStatus) -> Row:
    """The shipment, which must have one of these statuses if some are given."""
    shipment = db.one("SELECT * FROM shipments WHERE id = ?", shipment_id)
    if shipment is None:
        raise ToolError(f"There is no shipment {shipment_id}.")
    if statuses and shipment["status"] not in statuses:
        wanted = " or ".join(statuses)
        raise ToolError(f"Shipment {shipment_id} is {shipment['status']}, not {wanted}.")
    return shipment


def _carrier(db: Db, carrier_id: int) -> Row:
    carrier = db.one("SELECT * FROM carriers WHERE id = ?", carrier_id)
    if carrier is None:
        raise ToolError(f"There is no carrier {carrier_id}.")
    return carrier


def list_carriers(db: Db) -> list[Row]:
    """All carriers: the price of a parcel in hundredths, the heaviest parcel in grams, and whether
    they are insured."""
    return db.all("SELECT * FROM carriers ORDER BY name")


def find_shipments(
    db: Db, customer_id: Id, status: ShipmentStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The shipments to a customer, of one status if given, the latest day first."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, reference, address_id, carrier_id, status, leaves_on FROM shipments"
        " WHERE customer_id = ?1 AND (?2 IS NULL OR status = ?2)"
        " ORDER BY leaves_on DESC, id DESC LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def get_shipment(db: Db, shipment_id: Id) -> Row:
    """One shipment with the name of its carrier and its parcels."""
    shipment = _shipment(db, shipment_id)
    shipment["carrier"] = _carrier(db, shipment["carrier_id"])["name"]
    shipment["parcels"] = db.all(
        "SELECT k.id, k.product_id, p.name, k.quantity, k.grams FROM parcels k"
        " JOIN products p ON p.id = k.product_id WHERE k.shipment_id = ? ORDER BY k.id",
        shipment_id,
    )
    return shipment


def find_shipment_by_reference(db: Db, reference: Text) -> Row:
    """The shipment with this exact reference, with its parcels."""
    shipment_id = db.value(
        "SELECT id FROM shipments WHERE reference = ?", reference.strip().upper()
    )
    if shipment_id is None:
        raise ToolError(f"There is no shipment with the reference {reference!r}.")
    return get_shipment(db, shipment_id)


def redirect_shipment(db: Db, shipment_id: Id, address_id: Id) -> Row:
    """Send a planned shipment to another address of the same customer."""
    shipment = _shipment(db, shipment_id, "planned")
    owner = db.value("SELECT customer_id FROM addresses WHERE id = ?", address_id)
    if owner != shipment["customer_id"]:
        raise ToolError(f"Customer {shipment['customer_id']} has no address {address_id}.")
    if shipment["address_id"] == address_id:
        raise ToolError(f"The shipment goes to address {address_id} already.")
    db.run("UPDATE shipments SET address_id = ? WHERE id = ?", address_id, shipment_id)
    return _shipment(db, shipment_id)


def change_carrier(db: Db, shipment_id: Id, carrier_id: Id) -> Row:
    """Give a planned shipment to another active carrier that takes parcels as heavy as its own."""
    shipment = _shipment(db, shipment_id, "planned")
    carrier = _carrier(db, carrier_id)
    if not carrier["active"]:
        raise ToolError(f"Carrier {carrier_id} does not work for us any more.")
    if shipment["carrier_id"] == carrier_id:
        raise ToolError(f"The shipment goes with carrier {carrier_id} already.")
    heaviest = db.value(
        "SELECT coalesce(max(grams), 0) FROM parcels WHERE shipment_id = ?", shipment_id
    )
    if heaviest > carrier["most_grams"]:
        raise ToolError(f"A parcel has {heaviest} g; the carrier takes {carrier['most_grams']} g.")
    db.run("UPDATE shipments SET carrier_id = ? WHERE id = ?", carrier_id, shipment_id)
    return _shipment(db, shipment_id)


def move_shipment(db: Db, shipment_id: Id, leaves_on: Day) -> Row:
    """Let a planned shipment leave on another day, which must not be over nor too far ahead."""
    shipment = _shipment(db, shipment_id, "planned")
    ahead = (_day(leaves_on) - _day(db.now[:10])).days
    if not 0 <= ahead <= MOST_POSTPONED_DAYS:
        raise ToolError(f"It must leave within {MOST_POSTPONED_DAYS} days from today on.")
    if shipment["leaves_on"] == leaves_on:
        raise ToolError(f"It leaves on {leaves_on} already.")
    db.run("UPDATE shipments SET leaves_on = ? WHERE id = ?", leaves_on, shipment_id)
    return _shipment(db, shipment_id)


def add_parcel(db: Db, shipment_id: Id, product_id: Id, quantity: Quantity, grams: Grams) -> Row:
    """Add a parcel with units of one active product to a planned shipment."""
    shipment = _shipment(db, shipment_id, "planned")
    _active_product(db, product_id)
    known = db.value("SELECT count(*) FROM parcels WHERE shipment_id = ?", shipment_id)
    if known >= MOST_PARCELS:
        raise ToolError(f"A shipment has {MOST_PARCELS} parcels at most.")
    most = _carrier(db, shipment["carrier_id"])["most_grams"]
    if grams > most:
        raise ToolError(f"Its carrier takes {most} g at most, not {grams} g.")
    parcel_id = db.insert(
        "parcels", shipment_id=shipment_id, product_id=product_id, quantity=quantity, grams=grams
    )
    return {"parcel_id": parcel_id, **get_shipment(db, shipment_id)}


def remove_parcel(db: Db, parcel_id: Id) -> Row:
    """Take a parcel out of a planned shipment that has others."""
    parcel = db.one("SELECT * FROM parcels WHERE id = ?", parcel_id)
    if parcel is None:
        raise ToolError(f"There is no parcel {parcel_id}.")
    _shipment(db, parcel["shipment_id"], "planned")
    count = db.value("SELECT count(*) FROM parcels WHERE shipment_id = ?", parcel["shipment_id"])
    if count == 1:
        raise ToolError("It is the only one; cancel the shipment instead.")
    db.run("DELETE FROM parcels WHERE id = ?", parcel_id)
    return parcel


def cancel_shipment(db: Db, shipment_id: Id) -> Row:
    """Cancel a planned shipment."""
    _shipment(db, shipment_id, "planned")
    db.run("UPDATE shipments SET status = 'cancelled' WHERE id = ?", shipment_id)
    return _shipment(db, shipment_id)


def report_lost(db: Db, shipment_id: Id) -> Row:
    """Report a sent shipment as lost. For supervisors and managers."""
    _require(db, "supervisor")
    _shipment(db, shipment_id, "sent")
    db.run("UPDATE shipments SET status = 'lost' WHERE id = ?", shipment_id)
    return _shipment(db, shipment_id)
