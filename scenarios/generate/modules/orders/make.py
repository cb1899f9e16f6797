"""Seed rows of the orders, and helpers that insert orders with their lines and history."""

from collections.abc import Sequence

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import later, some_staff
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_STATUSES = ("open", "confirmed", "completed", "cancelled")


def rows(maker: Maker) -> None:
    """A few orders, one of each status, for the customers of the background."""
    for index in range(maker.many(4, least=1)):
        status = _STATUSES[index % len(_STATUSES)]
        products = maker.rng.sample(
            maker.rows("products", status="active"), k=maker.one_of(1, 1, 2)
        )
        lines = [(product, maker.rng.randrange(1, 6)) for product in products]
        new_order(maker, some_customer(maker), lines, status, placed=maker.rng.randrange(3, 60))


def new_order(
    maker: Maker,
    customer: Row,
    lines: Sequence[tuple[Row, int]],
    status: str = "open",
    *,
    placed: int = 3,
    hours: int | None = None,
) -> Row:
    """Insert an order of these (product, quantity), placed so many days ago, with its history.

    Lines have the present prices. `hours`: so many hours before the clock's time of day.
    """
    order = maker.insert(
        "orders",
        customer_id=customer["id"],
        reference=new_code(maker, "orders", "reference", "R"),
        status=status,
        placed_at=maker.ago(placed, hours),
    )
    for product, quantity in lines:
        maker.insert(
            "order_lines",
            order_id=order["id"],
            product_id=product["id"],
            quantity=quantity,
            unit_cents=product["price_cents"],
        )
        order["total_cents"] += quantity * product["price_cents"]
    order_event(maker, order, "placed", 0)
    if status in ("confirmed", "completed"):
        order_event(maker, order, "confirmed", 5)
    if status in ("completed", "cancelled"):
        order_event(maker, order, status, 31)
    return order


def order_event(
    maker: Maker, order: Row, kind: str, hours: int, employee: Row | None = None
) -> Row:
    """Insert what happened to an order so many hours after it was placed. The customer places an
    order; everything else some employee does."""
    by = None if kind == "placed" else (employee or some_staff(maker))["id"]
    at = later(maker, order["placed_at"], hours)
    return maker.insert("order_events", order_id=order["id"], kind=kind, employee_id=by, at=at)


def order_lines(maker: Maker, order: Row) -> list[Row]:
    """Return the lines of an order, in their order."""
    return maker.rows("order_lines", order_id=order["id"])
