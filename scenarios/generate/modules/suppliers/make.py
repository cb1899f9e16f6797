"""Seed rows of the suppliers, and helpers that insert suppliers, prices and purchases."""

from collections.abc import Sequence

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import some_staff
from rehearsal_room.scenarios.generate.vocabulary.people import ascii_of

# Trades that purchase other things than what they sell.
OTHER_PURCHASES = (
    *("airline_lounge", "coworking", "dental_clinic", "event_venue", "hotel", "laboratory"),
    *("museum", "property_management", "veterinary_practice"),
)


def rows(maker: Maker) -> None:
    """Two suppliers with their price lists and a purchase of each."""
    for status in ("sent", "received"):
        supplier = new_supplier(maker)
        product = maker.rng.choice(maker.rows("products", status="active"))
        cost = max(1, product["price_cents"] * maker.rng.randrange(50, 75) // 100)
        new_supplier_price(maker, supplier, product, cost)
        new_purchase(maker, supplier, [(product, maker.rng.randrange(2, 9))], status, due=4)


def new_supplier(maker: Maker, **columns: object) -> Row:
    """Insert an active supplier."""
    name = maker.people.company()
    while any(name in known or known in name for known in _names(maker)):
        name = maker.people.company()
    given: dict[str, object] = {
        "name": name,
        "email": f"sales@{ascii_of(name)}.example",
        "city": maker.people.city(),
        "status": "active",
        "lead_days": maker.rng.randrange(3, 30),
        "least_cents": maker.cents(1_000, 4_000, 500),
    }
    return maker.insert("suppliers", **(given | columns))


def _names(maker: Maker) -> list[str]:
    return [row["name"] for row in maker.rows("suppliers")]


def new_supplier_price(maker: Maker, supplier: Row, product: Row, cents: int) -> Row:
    """Insert what a product costs at a supplier."""
    return maker.insert(
        "supplier_prices", supplier_id=supplier["id"], product_id=product["id"], cost_cents=cents
    )


def supplier_cost(maker: Maker, supplier: Row, product: Row) -> int:
    """Return what a product costs at a supplier, in cents."""
    found = maker.rows("supplier_prices", supplier_id=supplier["id"], product_id=product["id"])
    return int(found[0]["cost_cents"])


def new_purchase(
    maker: Maker,
    supplier: Row,
    parts: Sequence[tuple[Row, int]],
    status: str = "draft",
    *,
    due: int = 5,
    opener: Row | None = None,
) -> Row:
    """Insert a purchase of these (product, quantity) at the prices of the supplier's list.
    `due`: in so many days; a draft has no due day."""
    purchase = maker.insert(
        "purchases",
        reference=new_code(maker, "purchases", "reference", "PU", 5),
        supplier_id=supplier["id"],
        status=status,
        opened_by=(opener or some_staff(maker))["id"],
        due_on=None if status in ("draft", "cancelled") else maker.day(due),
    )
    for product, quantity in parts:
        maker.insert(
            "purchase_parts",
            purchase_id=purchase["id"],
            product_id=product["id"],
            quantity=quantity,
            cost_cents=supplier_cost(maker, supplier, product),
        )
    return purchase


def may_send(maker: Maker, cents: int) -> bool:
    """Whether the acting employee may send a purchase of so many cents."""
    return maker.me["role"] != "clerk" or cents <= maker.parameters["CLERK_PURCHASE_CENTS"]
