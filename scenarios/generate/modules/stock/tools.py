"""What the warehouses hold: levels, movements, counts, losses."""

from typing import Annotated, Literal

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _product
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Quantity, _money
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

MOST_MOVED_UNITS = 30
MOST_MISCOUNT_UNITS = 5
StockCount = Annotated[int, msgspec.Meta(ge=0, le=100_000)]


def _warehouse(db: Db, warehouse_id: int) -> Row:
    warehouse = db.one("SELECT * FROM warehouses WHERE id = ?", warehouse_id)
    if warehouse is None:
        raise ToolError(f"There is no warehouse {warehouse_id}.")
    return warehouse


def _level(db: Db, warehouse_id: int, product_id: int) -> Row:
    _warehouse(db, warehouse_id)
    _product(db, product_id)
    level = db.one(
        "SELECT * FROM stock_levels WHERE warehouse_id = ? AND product_id = ?",
        warehouse_id,
        product_id,
    )
    if level is None:
        raise ToolError(f"Warehouse {warehouse_id} does not hold product {product_id}.")
    return level


def _note_movement(
    db: Db, product_id: int, quantity: int, kind: str, *, source: int | None, target: int | None
) -> int:
    return db.insert(
        "stock_movements",
        product_id=product_id,
        from_warehouse_id=source,
        to_warehouse_id=target,
        quantity=quantity,
        kind=kind,
        employee_id=_me(db)["id"],
        moved_at=db.now,
    )


def list_warehouses(db: Db) -> list[Row]:
    """All warehouses with their keepers and how many products each holds."""
    return db.all(
        "SELECT w.id, w.code, w.name, w.status, w.keeper_id, e.name AS keeper,"
        " (SELECT count(*) FROM stock_levels s WHERE s.warehouse_id = w.id) AS num_held"
        " FROM warehouses w JOIN employees e ON e.id = w.keeper_id ORDER BY w.name"
    )


def list_warehouse_levels(
    db: Db, warehouse_id: Id, only_low: bool = False, limit: Limit = 20
) -> list[Row]:
    """What a warehouse holds, by product; with `only_low` only what lies below its reorder
    point."""
    _warehouse(db, warehouse_id)
    return db.all(
        "SELECT s.id, s.product_id, p.code, p.name, s.on_hand, s.reorder_point"
        " FROM stock_levels s JOIN products p ON p.id = s.product_id WHERE s.warehouse_id = ?1"
        " AND (?2 = 0 OR s.on_hand < s.reorder_point) ORDER BY p.name LIMIT ?3",
        warehouse_id,
        int(only_low),
        limit,
    )


def find_product_levels(db: Db, product_id: Id) -> list[Row]:
    """In which warehouses a product lies, how many of it, and its reorder point there."""
    _product(db, product_id)
    return db.all(
        "SELECT s.warehouse_id, w.name, w.status, s.on_hand, s.reorder_point FROM stock_levels s"
        " JOIN warehouses w ON w.id = s.warehouse_id WHERE s.product_id = ? ORDER BY w.name",
        product_id,
    )


def list_stock_movements(db: Db, product_id: Id, limit: Limit = 20) -> list[Row]:
    """The movements of a product, the latest first."""
    _product(db, product_id)
    return db.all(
        "SELECT id, from_warehouse_id, to_warehouse_id, quantity, kind, employee_id, moved_at"
        " FROM stock_movements WHERE product_id = ? ORDER BY moved_at DESC, id DESC LIMIT ?",
        product_id,
        limit,
    )


def move_stock(
    db: Db, product_id: Id, from_warehouse_id: Id, to_warehouse_id: Id, quantity: Quantity
) -> Row:
    """Move units of a product from one warehouse to another, open one. A clerk may move a limited
    number only."""
    level = _level(db, from_warehouse_id, product_id)
    if from_warehouse_id == to_warehouse_id:
        raise ToolError("Both are the same warehouse.")
    if _warehouse(db, to_warehouse_id)["status"] != "open":
        raise ToolError(f"Warehouse {to_warehouse_id} is closed.")
    if level["on_hand"] < quantity:
        raise ToolError(f"Warehouse {from_warehouse_id} has only {level['on_hand']} of it.")
    if quantity > MOST_MOVED_UNITS:
        _require(db, "supervisor")
    db.run("UPDATE stock_levels SET on_hand = on_hand - ? WHERE id = ?", quantity, level["id"])
    db.run(
        "INSERT INTO stock_levels (warehouse_id, product_id, on_hand) VALUES (?, ?, ?)"
        " ON CONFLICT (warehouse_id, product_id) DO UPDATE"
        " SET on_hand = on_hand + excluded.on_hand",
        to_warehouse_id,
        product_id,
        quantity,
    )
    movement_id = _note_movement(
        db, product_id, quantity, "moved", source=from_warehouse_id, target=to_warehouse_id
    )
    return {
        "movement_id": movement_id,
        "product_id": product_id,
        "quantity": quantity,
        "units_left": level["on_hand"] - quantity,
        "units_there": _level(db, to_warehouse_id, product_id)["on_hand"],
    }


def correct_level(db: Db, warehouse_id: Id, product_id: Id, counted: StockCount) -> Row:
    """After a count, set how many of a product a warehouse has. A clerk may correct by a limited
    number only."""
    level = _level(db, warehouse_id, product_id)
    change = counted - level["on_hand"]
    if change == 0:
        raise ToolError(f"The level is {counted} already.")
    if abs(change) > MOST_MISCOUNT_UNITS:
        _require(db, "supervisor")
    db.run("UPDATE stock_levels SET on_hand = ? WHERE id = ?", counted, level["id"])
    source, target = (None, warehouse_id) if change > 0 else (warehouse_id, None)
    _note_movement(db, product_id, abs(change), "counted", source=source, target=target)
    return _level(db, warehouse_id, product_id)


def set_reorder_point(db: Db, warehouse_id: Id, product_id: Id, reorder_point: StockCount) -> Row:
    """Set below which number a product of a warehouse counts as low."""
    level = _level(db, warehouse_id, product_id)
    if level["reorder_point"] == reorder_point:
        raise ToolError(f"The reorder point is {reorder_point} already.")
    db.run("UPDATE stock_levels SET reorder_point = ? WHERE id = ?", reorder_point, level["id"])
    return _level(db, warehouse_id, product_id)


def write_off_stock(
    db: Db,
    warehouse_id: Id,
    product_id: Id,
    quantity: Quantity,
    cause: Literal["damaged", "lost", "expired"],
) -> Row:
    """Take units of a product off a warehouse's level. Their worth must be within your own
    limit."""
    level = _level(db, warehouse_id, product_id)
    if level["on_hand"] < quantity:
        raise ToolError(f"Warehouse {warehouse_id} has only {level['on_hand']} of it.")
    worth = quantity * _product(db, product_id)["price_cents"]
    most = _me(db)["limit_cents"]
    if worth > most:
        raise ToolError(f"They are worth {_money(worth)}; your limit is {_money(most)}.")
    db.run("UPDATE stock_levels SET on_hand = on_hand - ? WHERE id = ?", quantity, level["id"])
    _note_movement(db, product_id, quantity, cause, source=warehouse_id, target=None)
    return _level(db, warehouse_id, product_id)
