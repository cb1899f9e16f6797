"""What comes back from customers: returns, their lines and conditions."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Quantity, Text, _day, _money
from rehearsal_room.scenarios.generate.modules.orders.tools import _order
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me

RETURN_WINDOW_DAYS = 30
MOST_OPEN_RETURNS = 2
ReturnStatus = Literal["announced", "received", "accepted", "refused", "cancelled"]
ReturnReason = Literal["damaged", "wrong", "unwanted", "late"]


def _goods_return(db: Db, return_id: int, *statuses: ReturnStatus) -> Row:
    """The return, which must have one of these statuses if some are given."""
    found = db.one("SELECT * FROM returns WHERE id = ?", return_id)
    if found is None:
        raise ToolError(f"There is no return {return_id}.")
    if statuses and found["status"] not in statuses:
        raise ToolError(f"Return {return_id} is {found['status']}, not {' or '.join(statuses)}.")
    return found


def _returnable_line(db: Db, order_id: int, order_line_id: int, quantity: int) -> None:
    """Refuse what the order does not have, or what comes back already."""
    line = db.one(
        "SELECT * FROM order_lines WHERE id = ? AND order_id = ?", order_line_id, order_id
    )
    if line is None:
        raise ToolError(f"Order {order_id} has no line {order_line_id}.")
    back = db.value(
        "SELECT coalesce(sum(b.quantity), 0) FROM return_lines b JOIN returns r"
        " ON r.id = b.return_id WHERE b.order_line_id = ?"
        " AND r.status NOT IN ('refused', 'cancelled')",
        order_line_id,
    )
    if quantity > line["quantity"] - back:
        raise ToolError(f"The line has {line['quantity']}, of which {back} come back already.")


def _return_changed(db: Db, return_id: int, kind: str) -> None:
    me = _me(db)["id"]
    db.insert("return_events", return_id=return_id, kind=kind, employee_id=me, at=db.now)


def _return_becomes(db: Db, return_id: int, status: ReturnStatus) -> Row:
    db.run("UPDATE returns SET status = ? WHERE id = ?", status, return_id)
    _return_changed(db, return_id, status)
    return _goods_return(db, return_id)


def find_returns(
    db: Db, customer_id: Id, status: ReturnStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The returns of a customer, of one status if given, the latest first."""
    _customer(db, customer_id)
    return db.all(
        "SELECT r.id, r.reference, r.order_id, r.reason, r.status, r.announced_at FROM returns r"
        " JOIN orders o ON o.id = r.order_id"
        " WHERE o.customer_id = ?1 AND (?2 IS NULL OR r.status = ?2)"
        " ORDER BY r.announced_at DESC, r.id DESC LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def get_return(db: Db, return_id: Id) -> Row:
    """One return with its lines and what happened to it. Money is in hundredths."""
    found = _goods_return(db, return_id)
    found["lines"] = db.all(
        "SELECT b.id, b.order_line_id, l.product_id, p.name, b.quantity, l.unit_cents, b.condition"
        " FROM return_lines b JOIN order_lines l ON l.id = b.order_line_id"
        " JOIN products p ON p.id = l.product_id WHERE b.return_id = ? ORDER BY b.id",
        return_id,
    )
    found["events"] = db.all(
        "SELECT kind, employee_id, at FROM return_events WHERE return_id = ? ORDER BY at, id",
        return_id,
    )
    return found


def find_return_by_reference(db: Db, reference: Text) -> Row:
    """The return with this exact reference, with its lines."""
    return_id = db.value("SELECT id FROM returns WHERE reference = ?", reference.strip().upper())
    if return_id is None:
        raise ToolError(f"There is no return with the reference {reference!r}.")
    return get_return(db, return_id)


def announce_return(
    db: Db, order_id: Id, order_line_id: Id, quantity: Quantity, reason: ReturnReason
) -> Row:
    """Announce that units of one line of a completed order come back. Further lines of the order
    are added one by one."""
    order = _order(db, order_id, "completed")
    _active_customer(db, order["customer_id"])
    age = (_day(db.now[:10]) - _day(order["placed_at"][:10])).days
    if age > RETURN_WINDOW_DAYS:
        raise ToolError(f"It was placed {age} days ago; {RETURN_WINDOW_DAYS} are allowed.")
    num_open = db.value(
        "SELECT count(*) FROM returns r JOIN orders o ON o.id = r.order_id"
        " WHERE o.customer_id = ? AND r.status IN ('announced', 'received')",
        order["customer_id"],
    )
    if num_open >= MOST_OPEN_RETURNS:
        raise ToolError(f"The customer has {num_open} such returns; more are not allowed.")
    _returnable_line(db, order_id, order_line_id, quantity)
    number = 1 + int(
        db.value("SELECT coalesce(max(CAST(substr(reference, 4) AS INTEGER)), 0) FROM returns")
    )
    return_id = db.insert(
        "returns",
        order_id=order_id,
        reference=f"RT-{number:05d}",
        reason=reason,
        announced_at=db.now,
    )
    db.insert("return_lines", return_id=return_id, order_line_id=order_line_id, quantity=quantity)
    _return_changed(db, return_id, "announced")
    return {"return_id": return_id, **_goods_return(db, return_id)}


def add_return_line(db: Db, return_id: Id, order_line_id: Id, quantity: Quantity) -> Row:
    """Add another line of the same order to a return that is announced."""
    found = _goods_return(db, return_id, "announced")
    known = db.value(
        "SELECT id FROM return_lines WHERE return_id = ? AND order_line_id = ?",
        return_id,
        order_line_id,
    )
    if known is not None:
        raise ToolError(f"The return has line {order_line_id} already.")
    _returnable_line(db, found["order_id"], order_line_id, quantity)
    new = db.insert(
        "return_lines", return_id=return_id, order_line_id=order_line_id, quantity=quantity
    )
    return {"return_line_id": new, **get_return(db, return_id)}


def receive_return(db: Db, return_id: Id) -> Row:
    """Note that an announced return has arrived."""
    _goods_return(db, return_id, "announced")
    return _return_becomes(db, return_id, "received")


def record_condition(
    db: Db, return_line_id: Id, condition: Literal["new", "used", "broken"]
) -> Row:
    """Enter in which condition a line of a received return is."""
    line = db.one("SELECT * FROM return_lines WHERE id = ?", return_line_id)
    if line is None:
        raise ToolError(f"There is no line {return_line_id} of a return.")
    _goods_return(db, line["return_id"], "received")
    if line["condition"] == condition:
        raise ToolError(f"Its condition is {condition} already.")
    db.run("UPDATE return_lines SET condition = ? WHERE id = ?", condition, return_line_id)
    _return_changed(db, line["return_id"], "inspected")
    return get_return(db, line["return_id"])


def accept_return(db: Db, return_id: Id) -> Row:
    """Accept a received return whose lines all have a condition. Its worth must be within your
    own limit."""
    _goods_return(db, return_id, "received")
    lines = db.all(
        "SELECT b.quantity * l.unit_cents AS cents, b.condition FROM return_lines b"
        " JOIN order_lines l ON l.id = b.order_line_id WHERE b.return_id = ?",
        return_id,
    )
    if any(line["condition"] is None for line in lines):
        raise ToolError("The condition of a line is missing.")
    worth, most = sum(line["cents"] for line in lines), _me(db)["limit_cents"]
    if worth > most:
        raise ToolError(f"It is worth {_money(worth)}; your limit is {_money(most)}.")
    return _return_becomes(db, return_id, "accepted")


def refuse_return(db: Db, return_id: Id) -> Row:
    """Refuse a received return."""
    _goods_return(db, return_id, "received")
    return _return_becomes(db, return_id, "refused")


def cancel_return(db: Db, return_id: Id) -> Row:
    """Cancel an announced return: the customer keeps the goods after all."""
    _goods_return(db, return_id, "announced")
    return _return_becomes(db, return_id, "cancelled")
