"""Seed rows of the stock, and helpers that insert levels and movements."""

from collections.abc import Sequence

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import some_staff

# Trades whose goods are services, seats or rooms: nothing that lies in a warehouse.
SERVICE_TRADES = (
    *("airline_lounge", "dental_clinic", "event_venue", "hotel", "laboratory", "moving_company"),
    *("museum", "theatre", "veterinary_practice"),
)


def rows(maker: Maker) -> None:
    """Warehouses, the last of them closed; a product that lies in two of them."""
    places = maker.rng.sample(maker.trade.locations, k=min(len(maker.trade.locations), 4))
    for index, name in enumerate(places):
        maker.insert(
            "warehouses",
            code=new_code(maker, "warehouses", "code", "WH", 3),
            name=name,
            keeper_id=some_staff(maker)["id"],
            status="closed" if index == len(places) - 1 else "open",
        )
    product = maker.rng.choice(maker.rows("products", status="active"))
    for warehouse in open_warehouses(maker)[:2]:
        point = maker.rng.randrange(12, 40)
        new_level(maker, warehouse, product, point + maker.rng.randrange(2, 30), point)


def open_warehouses(maker: Maker) -> list[Row]:
    """Return the open warehouses; the first two may hold more than the others."""
    return maker.rows("warehouses", status="open")


def closed_warehouse(maker: Maker) -> Row | None:
    """Return a closed warehouse."""
    return maker.pick("warehouses", status="closed")


def new_level(maker: Maker, warehouse: Row, product: Row, on_hand: int, point: int = 0) -> Row:
    """Insert how many of a product a warehouse has, and that they were received there."""
    new_movement(maker, product, warehouse, on_hand or 1, days=maker.rng.randrange(40, 90))
    return maker.insert(
        "stock_levels",
        warehouse_id=warehouse["id"],
        product_id=product["id"],
        on_hand=on_hand,
        reorder_point=point,
    )


def new_levels(
    maker: Maker, product: Row, levels: Sequence[tuple[int, int]]
) -> list[tuple[Row, Row]]:
    """Insert (on hand, reorder point) of a product in different open warehouses; return each
    warehouse with its level; [] when there are too few warehouses."""
    places = open_warehouses(maker)
    if len(places) < len(levels):
        return []
    chosen = maker.rng.sample(places, k=len(levels))
    return [
        (place, new_level(maker, place, product, on_hand, point))
        for place, (on_hand, point) in zip(chosen, levels, strict=True)
    ]


def new_movement(
    maker: Maker,
    product: Row,
    to: Row | None,
    quantity: int,
    *,
    kind: str = "received",
    source: Row | None = None,
    by: Row | None = None,
    days: int = 5,
) -> Row:
    """Insert a movement of so many days ago."""
    return maker.insert(
        "stock_movements",
        product_id=product["id"],
        from_warehouse_id=source and source["id"],
        to_warehouse_id=to and to["id"],
        quantity=quantity,
        kind=kind,
        employee_id=(by or some_staff(maker))["id"],
        moved_at=maker.ago(days),
    )
