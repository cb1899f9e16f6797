"""The suppliers, their price lists, and what is purchased from them."""

from datetime import timedelta
from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _active_product, _product
from rehearsal_room.scenarios.generate.modules.common import (
    Id,
    Limit,
    Quantity,
    Text,
    _day,
    _like,
    _money,
)
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

CLERK_PURCHASE_CENTS = 120_000
MOST_PURCHASE_KINDS = 5
PurchaseStatus = Literal["draft", "sent", "received", "cancelled"]


def _supplier(db: Db, supplier_id: int) -> Row:
    supplier = db.one("SELECT * FROM suppliers WHERE id = ?", supplier_id)
    if supplier is None:
        raise ToolError(f"There is no supplier {supplier_id}.")
    return supplier


def _active_supplier(db: Db, supplier_id: int) -> Row:
    supplier = _supplier(db, supplier_id)
    if supplier["status"] != "active":
        raise ToolError(f"Supplier {supplier_id} is {supplier['status']}.")
    return supplier


def _purchase(db: Db, purchase_id: int, *statuses: PurchaseStatus) -> Row:
    """The purchase with its total; it must have one of these statuses if some are given."""
    purchase = db.one("SELECT * FROM purchases WHERE id = ?", purchase_id)
    if purchase is None:
        raise ToolError(f"There is no purchase {purchase_id}.")
    if statuses and purchase["status"] not in statuses:
        wanted = " or ".join(statuses)
        raise ToolError(f"Purchase {purchase_id} is {purchase['status']}, not {wanted}.")
    purchase["total_cents"] = db.value(
        "SELECT coalesce(sum(quantity * cost_cents), 0) FROM purchase_parts WHERE purchase_id = ?",
        purchase_id,
    )
    return purchase


def _add_part(db: Db, purchase: Row, product_id: int, quantity: int) -> int:
    """A new part of a purchase, at the price of its supplier's list."""
    _active_product(db, product_id)
    cost = db.value(
        "SELECT cost_cents FROM supplier_prices WHERE supplier_id = ? AND product_id = ?",
        purchase["supplier_id"],
        product_id,
    )
    if cost is None:
        raise ToolError(f"Supplier {purchase['supplier_id']} does not sell product {product_id}.")
    return db.insert(
        "purchase_parts",
        purchase_id=purchase["id"],
        product_id=product_id,
        quantity=quantity,
        cost_cents=cost,
    )


def search_suppliers(db: Db, query: Text, limit: Limit = 20) -> list[Row]:
    """Suppliers whose name or town contains the text."""
    return db.all(
        "SELECT id, name, email, city, status, lead_days, least_cents FROM suppliers"
        " WHERE name LIKE ?1 ESCAPE '\\' OR city LIKE ?1 ESCAPE '\\' ORDER BY name LIMIT ?2",
        _like(query),
        limit,
    )


def list_supplier_prices(db: Db, supplier_id: Id) -> list[Row]:
    """The price list of a supplier, in hundredths."""
    _supplier(db, supplier_id)
    return db.all(
        "SELECT c.product_id, p.code, p.name, c.cost_cents FROM supplier_prices c"
        " JOIN products p ON p.id = c.product_id WHERE c.supplier_id = ? ORDER BY p.name",
        supplier_id,
    )


def find_suppliers_of(db: Db, product_id: Id) -> list[Row]:
    """Who supplies a product, and for how many hundredths, by name."""
    _product(db, product_id)
    return db.all(
        "SELECT s.id, s.name, s.status, s.lead_days, s.least_cents, c.cost_cents FROM suppliers s"
        " JOIN supplier_prices c ON c.supplier_id = s.id WHERE c.product_id = ? ORDER BY s.name",
        product_id,
    )


def find_purchases(
    db: Db, supplier_id: Id, status: PurchaseStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The purchases from a supplier, of one status if given, the latest first."""
    _supplier(db, supplier_id)
    return db.all(
        "SELECT id, reference, status, opened_by, due_on FROM purchases"
        " WHERE supplier_id = ?1 AND (?2 IS NULL OR status = ?2) ORDER BY id DESC LIMIT ?3",
        supplier_id,
        status,
        limit,
    )


def get_purchase(db: Db, purchase_id: Id) -> Row:
    """One purchase with its parts and its total in hundredths."""
    purchase = _purchase(db, purchase_id)
    purchase["supplier"] = _supplier(db, purchase["supplier_id"])["name"]
    purchase["parts"] = db.all(
        "SELECT k.id, k.product_id, p.name, k.quantity, k.cost_cents FROM purchase_parts k"
        " JOIN products p ON p.id = k.product_id WHERE k.purchase_id = ? ORDER BY k.id",
        purchase_id,
    )
    return purchase


def find_purchase_by_reference(db: Db, reference: Text) -> Row:
    """The purchase with this exact reference, with its parts and its total."""
    purchase_id = db.value(
        "SELECT id FROM purchases WHERE reference = ?", reference.strip().upper()
    )
    if purchase_id is None:
        raise ToolError(f"There is no purchase with the reference {reference!r}.")
    return get_purchase(db, purchase_id)


def start_purchase(db: Db, supplier_id: Id, product_id: Id, quantity: Quantity) -> Row:
    """Begin a draft of a purchase with one product of an active supplier's price list. Further
    products are added one by one, then it is sent."""
    _active_supplier(db, supplier_id)
    number = 1 + int(
        db.value("SELECT coalesce(max(CAST(substr(reference, 4) AS INTEGER)), 0) FROM purchases")
    )
    reference = f"PU-{number:05d}"
    purchase_id = db.insert(
        "purchases", reference=reference, supplier_id=supplier_id, opened_by=_me(db)["id"]
    )
    _add_part(db, {"id": purchase_id, "supplier_id": supplier_id}, product_id, quantity)
    return {"purchase_id": purchase_id, **get_purchase(db, purchase_id)}


def add_to_purchase(db: Db, purchase_id: Id, product_id: Id, quantity: Quantity) -> Row:
    """Add to a draft a product that it does not have yet."""
    purchase = _purchase(db, purchase_id, "draft")
    parts = db.all("SELECT product_id FROM purchase_parts WHERE purchase_id = ?", purchase_id)
    if any(part["product_id"] == product_id for part in parts):
        raise ToolError(f"Purchase {purchase_id} has product {product_id} already.")
    if len(parts) >= MOST_PURCHASE_KINDS:
        raise ToolError(f"A purchase has {MOST_PURCHASE_KINDS} different products at most.")
    _add_part(db, purchase, product_id, quantity)
    return get_purchase(db, purchase_id)


def change_purchase(db: Db, purchase_id: Id, product_id: Id, quantity: Quantity) -> Row:
    """Change how many of a product a draft has."""
    _purchase(db, purchase_id, "draft")
    part = db.one(
        "SELECT * FROM purchase_parts WHERE purchase_id = ? AND product_id = ?",
        purchase_id,
        product_id,
    )
    if part is None:
        raise ToolError(f"Purchase {purchase_id} has no product {product_id}.")
    if part["quantity"] == quantity:
        raise ToolError(f"It has {quantity} of it already.")
    db.run("UPDATE purchase_parts SET quantity = ? WHERE id = ?", quantity, part["id"])
    return get_purchase(db, purchase_id)


def send_purchase(db: Db, purchase_id: Id) -> Row:
    """Send a draft to its supplier, who delivers after the usual days. A clerk may send up to a
    limited total."""
    purchase = _purchase(db, purchase_id, "draft")
    supplier = _active_supplier(db, purchase["supplier_id"])
    total = purchase["total_cents"]
    if total < supplier["least_cents"]:
        raise ToolError(f"The total is {_money(total)}, not {_money(supplier['least_cents'])}.")
    if total > CLERK_PURCHASE_CENTS:
        _require(db, "supervisor")
    due_on = (_day(db.now[:10]) + timedelta(days=supplier["lead_days"])).isoformat()
    db.run("UPDATE purchases SET status = 'sent', due_on = ? WHERE id = ?", due_on, purchase_id)
    return _purchase(db, purchase_id)


def receive_purchase(db: Db, purchase_id: Id) -> Row:
    """Note that a sent purchase has arrived."""
    _purchase(db, purchase_id, "sent")
    db.run("UPDATE purchases SET status = 'received' WHERE id = ?", purchase_id)
    return _purchase(db, purchase_id)


def cancel_purchase(db: Db, purchase_id: Id) -> Row:
    """Cancel a draft, or a sent purchase, which takes a supervisor or a manager."""
    if _purchase(db, purchase_id, "draft", "sent")["status"] == "sent":
        _require(db, "supervisor")
    db.run("UPDATE purchases SET status = 'cancelled' WHERE id = ?", purchase_id)
    return _purchase(db, purchase_id)
