"""Seed rows of the shipments, and helpers that insert shipments with their parcels.

Pool: carrier_names (names of firms that carry parcels; five at least).
"""

from collections.abc import Sequence

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.parties.make import main_address, some_customer

_NAMES = (
    *("Swiftline", "Parcel North", "Redwing Express", "Pony & Post", "Baltic Freight"),
    *("Crossroads Delivery", "Blue Van", "Harrier Logistics"),
)
STRONG, INSURED, CHEAP, GONE = range(4)  # places in `carriers_of`


def rows(maker: Maker) -> None:
    """Four carriers, see `carriers_of`, and a shipment of each usual status."""
    prices = sorted(maker.rng.sample(range(450, 2_500, 50), k=4), reverse=True)
    names = maker.rng.sample(maker.pool("carrier_names", *_NAMES), k=4)
    grams = (maker.rng.randrange(28, 36), maker.rng.randrange(14, 18), maker.rng.randrange(8, 12))
    for index, name in enumerate(names):
        maker.insert(
            "carriers",
            name=name,
            parcel_cents=prices[index],
            most_grams=(*grams, grams[1])[index] * 1_000,
            is_insured=int(index in (STRONG, INSURED)),
            active=int(index != GONE),
        )
    for status, day in (("planned", 3), ("delivered", -9)):
        product = maker.rng.choice(maker.rows("products", status="active"))
        parcel = (product, 1, maker.rng.randrange(300, 7_000, 10))
        new_shipment(maker, some_customer(maker), [parcel], status, leaves=day)


def carriers_of(maker: Maker) -> list[Row]:
    """Return the carriers: a strong, insured, dear one (STRONG), an insured one in the middle
    (INSURED), a cheap one without insurance for light parcels (CHEAP), and the cheapest of all,
    which no longer works for us (GONE)."""
    return maker.rows("carriers")


def new_shipment(
    maker: Maker,
    customer: Row,
    parcels: Sequence[tuple[Row, int, int]],
    status: str = "planned",
    *,
    leaves: int = 4,
    carrier: int = INSURED,
    address: Row | None = None,
) -> Row:
    """Insert a shipment of these parcels (product, quantity, grams), which leaves in so many days
    (negative: has left), with one of the `carriers_of`; to the main address where None is given."""
    target = address or main_address(maker, customer)
    shipment = maker.insert(
        "shipments",
        reference=new_code(maker, "shipments", "reference", "SH", 5),
        customer_id=customer["id"],
        address_id=target["id"],
        carrier_id=carriers_of(maker)[carrier]["id"],
        status=status,
        leaves_on=maker.day(leaves),
    )
    for product, quantity, grams in parcels:
        maker.insert(
            "parcels",
            shipment_id=shipment["id"],
            product_id=product["id"],
            quantity=quantity,
            grams=grams,
        )
    return shipment
