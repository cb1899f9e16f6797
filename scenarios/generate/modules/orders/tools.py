"""The orders: placing, changing, confirming, cancelling."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _active_product
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Quantity, Text, _next_number
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me

MOST_OPEN_ORDERS = 4
LATE_DAYS = 14
OrderStatus = Literal["open", "confirmed", "completed", "cancelled"]


def _order(db: Db, order_id: int, *statuses: OrderStatus) -> Row:
    """The order, which must have one of these statuses if some are given."""
    order = db.one("SELECT * FROM orders WHERE id = ?", order_id)
    if order is None:
        raise ToolError(f"There is no order {order_id}.")
    if statuses and order["status"] not in statuses:
        raise ToolError(f"Order {order_id} is {order['status']}, not {' or '.join(statuses)}.")
    return order


def _order_changed(db: Db, order_id: int, kind: str) -> None:
    """Renew the total of an order and note what happened."""
    db.run(
        "UPDATE orders SET total_cents = (SELECT coalesce(sum(quantity * unit_cents), 0)"
        " FROM order_lines WHERE order_id = ?1) WHERE id = ?1",
        order_id,
    )
    me = _me(db)["id"]
    db.insert("order_events", order_id=order_id, kind=kind, employee_id=me, at=db.now)


def find_orders(
    db: Db, customer_id: Id, status: OrderStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The orders of a customer, of one status if given, the latest first."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, reference, status, total_cents, placed_at FROM orders"
        " WHERE customer_id = ?1 AND (?2 IS NULL OR status = ?2)"
        " ORDER BY placed_at DESC, id DESC LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def get_order(db: Db, order_id: Id) -> Row:
    """One order with its lines. Money is in hundredths."""
    order = _order(db, order_id)
    order["lines"] = db.all(
        "SELECT l.id, l.product_id, p.code, p.name, l.quantity, l.unit_cents FROM order_lines l"
        " JOIN products p ON p.id = l.product_id WHERE l.order_id = ? ORDER BY l.id",
        order_id,
    )
    return order


def find_order_by_reference(db: Db, reference: Text) -> Row:
    """The order with this exact reference, with its lines."""
    order_id = db.value("SELECT id FROM orders WHERE reference = ?", reference.strip().upper())
    if order_id is None:
        raise ToolError(f"There is no order with the reference {reference!r}.")
    return get_order(db, order_id)


def list_order_events(db: Db, order_id: Id) -> list[Row]:
    """What happened to an order, the oldest first."""
    _order(db, order_id)
    return db.all(
        "SELECT kind, employee_id, at FROM order_events WHERE order_id = ? ORDER BY at, id",
        order_id,
    )


def place_order(db: Db, customer_id: Id, product_id: Id, quantity: Quantity = 1) -> Row:
    """Place an order of one product for an active customer, at the present price. Further
    products are added as lines."""
    _active_customer(db, customer_id)
    product = _active_product(db, product_id)
    num_open = db.value(
        "SELECT count(*) FROM orders WHERE customer_id = ? AND status = 'open'", customer_id
    )
    if num_open >= MOST_OPEN_ORDERS:
        raise ToolError(f"The customer has {num_open} open orders; {MOST_OPEN_ORDERS} are allowed.")
    number = _next_number(db, "orders")
    order_id = db.insert(
        "orders", customer_id=customer_id, reference=f"R-{number:06d}", placed_at=db.now
    )
    db.insert(
        "order_lines",
        order_id=order_id,
        product_id=product_id,
        quantity=quantity,
        unit_cents=product["price_cents"],
    )
    _order_changed(db, order_id, "placed")
    return {"order_id": order_id, **get_order(db, order_id)}


def add_order_line(db: Db, order_id: Id, product_id: Id, quantity: Quantity) -> Row:
    """Add a product that an open order does not have yet, at the present price."""
    _order(db, order_id, "open")
    product = _active_product(db, product_id)
    known = db.value(
        "SELECT id FROM order_lines WHERE order_id = ? AND product_id = ?", order_id, product_id
    )
    if known is not None:
        raise ToolError(f"Line {known} of the order has this product; change its quantity.")
    line_id = db.insert(
        "order_lines",
        order_id=order_id,
        product_id=product_id,
        quantity=quantity,
        unit_cents=product["price_cents"],
    )
    _order_changed(db, order_id, "changed")
    return {"line_id": line_id, **get_order(db, order_id)}


def change_quantity(db: Db, line_id: Id, quantity: Quantity) -> Row:
    """Change the quantity of a line of an open order."""
    line = db.one("SELECT * FROM order_lines WHERE id = ?", line_id)
    if line is None:
        raise ToolError(f"There is no order line {line_id}.")
    _order(db, line["order_id"], "open")
    if line["quantity"] == quantity:
        raise ToolError(f"Line {line_id} has this quantity already.")
    db.run("UPDATE order_lines SET quantity = ? WHERE id = ?", quantity, line_id)
    _order_changed(db, line["order_id"], "changed")
    return get_order(db, line["order_id"])


def confirm_order(db: Db, order_id: Id) -> Row:
    """Confirm an open order."""
    _order(db, order_id, "open")
    db.run("UPDATE orders SET status = 'confirmed' WHERE id = ?", order_id)
    _order_changed(db, order_id, "confirmed")
    return _order(db, order_id)


def cancel_order(db: Db, order_id: Id) -> Row:
    """Cancel an order that is open or confirmed."""
    _order(db, order_id, "open", "confirmed")
    db.run("UPDATE orders SET status = 'cancelled' WHERE id = ?", order_id)
    _order_changed(db, order_id, "cancelled")
    return _order(db, order_id)
