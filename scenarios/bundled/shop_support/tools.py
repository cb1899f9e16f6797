"""The tools of Lark & Linden's back office, as a support agent has them.

Hard rules (states, stock, limits) stand here; the softer ones stand in policy.md only.
"""

from typing import Annotated, Any, Literal

import msgspec

from scenarios.api import Db, Row
from scenarios.errors import ToolError

Id = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Cents = Annotated[int, msgspec.Meta(ge=1, le=10_000_000, description="US cents")]
Quantity = Annotated[int, msgspec.Meta(ge=1, le=100)]
Limit = Annotated[
    int,
    msgspec.Meta(
        ge=1, le=200, description="rows at most; `truncated` tells whether there are more"
    ),
]
Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="YYYY-MM-DD")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
OrderStatus = Literal["open", "packed", "shipped", "delivered", "cancelled"]
WarehouseCode = Literal["RNO", "CMH"]

# --- helpers ---------------------------------------------------------------------------------


def _like(text: str) -> str:
    escaped = text.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _page(db: Db, limit: int, sql: str, *params: Any) -> Row:
    """Up to `limit` rows, and whether there are more. The statement ends in `LIMIT ?`."""
    rows = db.all(sql, *params, limit + 1)
    return {"rows": rows[:limit], "truncated": len(rows) > limit}


def _dollars(cents: int) -> str:
    return f"${cents / 100:,.2f}"


def _customer(db: Db, customer_id: int) -> Row:
    customer = db.one("SELECT * FROM customers WHERE id = ?", customer_id)
    if customer is None:
        raise ToolError(f"There is no customer {customer_id}.")
    return customer


def _active_customer(db: Db, customer_id: int) -> Row:
    customer = _customer(db, customer_id)
    if customer["status"] != "active":
        raise ToolError(f"The record of customer {customer_id} is {customer['status']}.")
    return customer


def _order(db: Db, order_id: int) -> Row:
    order = db.one("SELECT * FROM orders WHERE id = ?", order_id)
    if order is None:
        raise ToolError(f"There is no order {order_id}.")
    return order


def _free_order(db: Db, order_id: int, *statuses: str) -> Row:
    """An order in one of these statuses that no hold blocks."""
    order = _order(db, order_id)
    if order["hold"] != "none":
        raise ToolError(
            f"Order {order_id} is on hold ({order['hold']}); only the fraud team may change it."
        )
    if order["status"] not in statuses:
        wanted = " or ".join(statuses)
        raise ToolError(f"Order {order_id} is {order['status']}; this needs an order {wanted}.")
    return order


def _line(db: Db, order_line_id: int) -> Row:
    line = db.one(
        "SELECT l.*, v.sku, v.product_id FROM order_lines l JOIN variants v ON v.id = l.variant_id"
        " WHERE l.id = ?",
        order_line_id,
    )
    if line is None:
        raise ToolError(f"There is no order line {order_line_id}.")
    return line


def _variant(db: Db, sku: str) -> Row:
    variant = db.one(
        "SELECT v.*, p.name AS product, p.status AS product_status, p.final_sale,"
        " c.name AS category FROM variants v JOIN products p ON p.id = v.product_id"
        " JOIN categories c ON c.id = p.category_id WHERE v.sku = ?",
        sku.strip().upper(),
    )
    if variant is None:
        raise ToolError(f"There is no SKU {sku!r}.")
    return variant


def _ticket(db: Db, ticket_id: int) -> Row:
    ticket = db.one("SELECT * FROM tickets WHERE id = ?", ticket_id)
    if ticket is None:
        raise ToolError(f"There is no ticket {ticket_id}.")
    return ticket


def _warehouse_id(db: Db, code: str) -> int:
    found = db.value("SELECT id FROM warehouses WHERE code = ?", code)
    if found is None:
        raise ToolError(f"There is no warehouse {code!r}.")
    return int(found)


def _me(db: Db) -> Row:
    agent = db.one("SELECT * FROM agents WHERE login = ? AND active = 1", db.user.id)
    if agent is None:
        raise ToolError(f"{db.user.id!r} is not an active agent.")
    return agent


def _event(db: Db, order_id: int, kind: str, detail: str) -> None:
    db.insert(
        "order_events", order_id=order_id, kind=kind, detail=detail, actor=db.user.id, at=db.now
    )


def _audit(db: Db, customer_id: int, action: str, detail: str) -> None:
    db.insert(
        "audit_log",
        customer_id=customer_id,
        action=action,
        detail=detail,
        actor=db.user.id,
        at=db.now,
    )


def _reserve(db: Db, warehouse_id: int, variant_id: int, quantity: int) -> None:
    """Reserve units, or refuse when too few are available."""
    reserved = db.run(
        "UPDATE inventory SET reserved = reserved + ?1"
        " WHERE warehouse_id = ?2 AND variant_id = ?3 AND on_hand - reserved >= ?1",
        quantity,
        warehouse_id,
        variant_id,
    )
    if not reserved:
        raise ToolError(f"That warehouse has fewer than {quantity} available units of the item.")


def _release(db: Db, warehouse_id: int, variant_id: int, quantity: int) -> None:
    db.run(
        "UPDATE inventory SET reserved = max(0, reserved - ?)"
        " WHERE warehouse_id = ? AND variant_id = ?",
        quantity,
        warehouse_id,
        variant_id,
    )


# --- customers -------------------------------------------------------------------------------


def search_customers(db: Db, query: Text, limit: Limit = 20) -> Row:
    """Customers whose name, e-mail address or phone number contains the text."""
    like = _like(query)
    return _page(
        db,
        limit,
        "SELECT id, name, email, phone, tier, status FROM customers"
        " WHERE name LIKE ?1 ESCAPE '\\' OR email LIKE ?1 ESCAPE '\\' OR phone LIKE ?1 ESCAPE '\\'"
        " ORDER BY name, id LIMIT ?",
        like,
    )


def get_customer(db: Db, customer_id: Id) -> Row:
    """One customer's record with the address book and the numbers of orders and tickets."""
    customer = _customer(db, customer_id)
    customer["addresses"] = db.all(
        "SELECT id, label, recipient, street, city, state, postcode, country FROM addresses"
        " WHERE customer_id = ? ORDER BY id",
        customer_id,
    )
    customer |= (
        db.one(
            "SELECT (SELECT count(*) FROM orders WHERE customer_id = ?1) AS num_orders,"
            " (SELECT count(*) FROM tickets WHERE customer_id = ?1) AS num_tickets",
            customer_id,
        )
        or {}
    )
    return customer


def list_customer_orders(db: Db, customer_id: Id, limit: Limit = 20) -> Row:
    """A customer's orders, the latest first, with status, hold and total in cents."""
    _customer(db, customer_id)
    return _page(
        db,
        limit,
        "SELECT o.id, o.status, o.hold, o.placed_at, o.total_cents, o.address_id,"
        " sum(l.quantity) AS units, group_concat(v.sku, ', ' ORDER BY l.id) AS skus"
        " FROM orders o JOIN order_lines l ON l.order_id = o.id"
        " JOIN variants v ON v.id = l.variant_id WHERE o.customer_id = ?"
        " GROUP BY o.id ORDER BY o.placed_at DESC, o.id DESC LIMIT ?",
        customer_id,
    )


def list_gift_cards(db: Db, customer_id: Id) -> list[Row]:
    """A customer's gift cards, bought and goodwill ones, with balances in cents."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, code, kind, initial_cents, balance_cents, status, issued_at, expires_on"
        " FROM gift_cards WHERE customer_id = ? ORDER BY issued_at, id",
        customer_id,
    )


def get_gift_card(db: Db, code: Text) -> Row:
    """One gift card by its exact code, with its entries (cents; spent ones are negative)."""
    card = db.one("SELECT * FROM gift_cards WHERE code = ?", code.strip().upper())
    if card is None:
        raise ToolError(f"There is no gift card {code!r}.")
    card["entries"] = db.all(
        "SELECT kind, amount_cents, order_id, at FROM gift_card_entries"
        " WHERE gift_card_id = ? ORDER BY at, id",
        card["id"],
    )
    return card


def update_customer_contact(
    db: Db, customer_id: Id, field: Literal["email", "phone"], value: Text
) -> Row:
    """Change a customer's e-mail address or phone number. Gives the record as it is now."""
    customer = _active_customer(db, customer_id)
    new = value.strip().lower() if field == "email" else value.strip()
    if not new or new == customer[field]:
        raise ToolError(f"Nothing would change: the {field} is {customer[field]!r} already.")
    if field == "email":
        _check_email(db, customer_id, new)
        db.run("UPDATE customers SET email = ? WHERE id = ?", new, customer_id)
    else:
        db.run("UPDATE customers SET phone = ? WHERE id = ?", new, customer_id)
    _audit(db, customer_id, "contact_changed", f"{field}: {customer[field]} to {new}")
    return _customer(db, customer_id)


def _check_email(db: Db, customer_id: int, email: str) -> None:
    name, _, domain = email.partition("@")
    if not name or "." not in domain or " " in email:
        raise ToolError(f"{email!r} is not an e-mail address.")
    other = db.value("SELECT id FROM customers WHERE email = ? AND id <> ?", email, customer_id)
    if other is not None:
        raise ToolError(f"Customer {other} has this e-mail address already.")


def add_address(
    db: Db,
    customer_id: Id,
    label: Text,
    recipient: Text,
    street: Text,
    city: Text,
    state: Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}$", description="two letters")],
    postcode: Annotated[str, msgspec.Meta(min_length=3, max_length=12)],
    country: Literal["US", "CA"] = "US",
) -> Row:
    """Add an address to a customer's address book. Gives it with its id."""
    _active_customer(db, customer_id)
    known = db.value(
        "SELECT id FROM addresses WHERE customer_id = ? AND street = ? AND postcode = ?"
        " AND recipient = ?",
        customer_id,
        street,
        postcode,
        recipient,
    )
    if known is not None:
        raise ToolError(f"The customer has this address already: {known}.")
    address_id = db.insert(
        "addresses",
        customer_id=customer_id,
        label=label,
        recipient=recipient,
        street=street,
        city=city,
        state=state,
        postcode=postcode,
        country=country,
        created_at=db.now,
    )
    _audit(db, customer_id, "address_added", f"Address {address_id}.")
    return db.one("SELECT * FROM addresses WHERE id = ?", address_id) or {}


def issue_goodwill_card(db: Db, customer_id: Id, order_id: Id, amount_cents: Cents) -> Row:
    """Issue a goodwill gift card to a customer for a late order. It is valid for a year. Gives the
    card with its code and its last day."""
    _active_customer(db, customer_id)
    if _order(db, order_id)["customer_id"] != customer_id:
        raise ToolError(f"Order {order_id} is not an order of customer {customer_id}.")
    limit = _me(db)["goodwill_limit_cents"]
    if amount_cents > limit:
        raise ToolError(f"Your limit for a goodwill card is {_dollars(limit)}.")
    number = 1 + int(db.value("SELECT coalesce(max(id), 0) FROM gift_cards"))
    code = f"LL-GW-{number:05d}"
    db.insert(
        "gift_cards",
        id=number,
        code=code,
        customer_id=customer_id,
        kind="goodwill",
        initial_cents=amount_cents,
        balance_cents=amount_cents,
        status="active",
        issued_at=db.now,
        expires_on=str(db.value("SELECT date(?, '+1 year')", db.now)),
    )
    db.insert(
        "gift_card_entries",
        gift_card_id=number,
        kind="issued",
        amount_cents=amount_cents,
        order_id=order_id,
        at=db.now,
    )
    _audit(db, customer_id, "goodwill_card_issued", f"{code}, {amount_cents} cents.")
    return db.one("SELECT * FROM gift_cards WHERE id = ?", number) or {}


def merge_customer(db: Db, from_customer_id: Id, into_customer_id: Id) -> Row:
    """Mark a customer's record as merged into another one; its past orders stay reachable through
    the link. The record to give up must have no tickets and no order that is open or packed."""
    if from_customer_id == into_customer_id:
        raise ToolError("A record cannot be merged into itself.")
    _active_customer(db, from_customer_id)
    _active_customer(db, into_customer_id)
    tickets = db.value("SELECT count(*) FROM tickets WHERE customer_id = ?", from_customer_id)
    if tickets:
        raise ToolError(f"Customer {from_customer_id} still has {tickets} tickets; move them.")
    busy = db.value(
        "SELECT id FROM orders WHERE customer_id = ? AND status IN ('open', 'packed') ORDER BY id",
        from_customer_id,
    )
    if busy is not None:
        raise ToolError(f"Customer {from_customer_id} has order {busy} under way.")
    db.run(
        "UPDATE customers SET status = 'merged', merged_into = ? WHERE id = ?",
        into_customer_id,
        from_customer_id,
    )
    _audit(db, from_customer_id, "merged", f"Into customer {into_customer_id}.")
    return _customer(db, from_customer_id)


# --- products, prices and stock --------------------------------------------------------------


def list_categories(db: Db) -> list[Row]:
    """All categories with their return windows in days and whether they are hygiene goods."""
    return db.all("SELECT id, name, return_days, hygiene FROM categories ORDER BY id")


def search_products(db: Db, query: Text, limit: Limit = 20) -> Row:
    """Products whose name, brand or category contains the text, with the SKUs of their variants."""
    return _page(
        db,
        limit,
        "SELECT p.id, p.name, p.brand, c.name AS category, p.final_sale, p.status,"
        " (SELECT group_concat(sku, ', ') FROM (SELECT sku FROM variants"
        "   WHERE product_id = p.id ORDER BY id)) AS skus"
        " FROM products p JOIN categories c ON c.id = p.category_id"
        " WHERE p.name LIKE ?1 ESCAPE '\\' OR p.brand LIKE ?1 ESCAPE '\\'"
        " OR c.name LIKE ?1 ESCAPE '\\' ORDER BY p.name LIMIT ?",
        _like(query),
    )


def get_product(db: Db, product_id: Id) -> Row:
    """One product with its variants and their prices of today in cents."""
    product = db.one(
        "SELECT p.*, c.name AS category, c.return_days, c.hygiene FROM products p"
        " JOIN categories c ON c.id = p.category_id WHERE p.id = ?",
        product_id,
    )
    if product is None:
        raise ToolError(f"There is no product {product_id}.")
    product["variants"] = db.all(
        "SELECT v.id, v.sku, v.colour, v.size, pr.price_cents, pr.kind AS price_kind"
        " FROM variants v LEFT JOIN prices pr ON pr.variant_id = v.id AND pr.valid_from <= ?1"
        " AND (pr.valid_to IS NULL OR pr.valid_to >= ?1)"
        " WHERE v.product_id = ?2 ORDER BY v.id",
        db.now[:10],
        product_id,
    )
    return product


def get_variant(db: Db, sku: Text) -> Row:
    """One variant by its SKU, with product, category and whether it is a final sale."""
    return _variant(db, sku)


def list_prices(db: Db, sku: Text) -> list[Row]:
    """The price history of a SKU in cents, past, present and planned. Both days are inclusive; no
    valid_to means until further notice."""
    variant = _variant(db, sku)
    return db.all(
        "SELECT price_cents, kind, valid_from, valid_to FROM prices WHERE variant_id = ?"
        " ORDER BY valid_from",
        variant["id"],
    )


def check_stock(db: Db, sku: Text) -> Row:
    """The stock of a SKU by warehouse: on hand, reserved for orders, and available."""
    variant = _variant(db, sku)
    stock = db.all(
        "SELECT w.code AS warehouse, i.on_hand, i.reserved, i.on_hand - i.reserved AS available"
        " FROM inventory i JOIN warehouses w ON w.id = i.warehouse_id"
        " WHERE i.variant_id = ? ORDER BY w.code",
        variant["id"],
    )
    return {"sku": variant["sku"], "product": variant["product"], "stock": stock}


def list_inbound_deliveries(db: Db, sku: Text) -> list[Row]:
    """Deliveries from the supplier of a SKU to our warehouses, in every status, by day."""
    variant = _variant(db, sku)
    return db.all(
        "SELECT d.id, w.code AS warehouse, d.quantity, d.expected_on, d.status"
        " FROM inbound_deliveries d JOIN warehouses w ON w.id = d.warehouse_id"
        " WHERE d.variant_id = ? ORDER BY d.expected_on, d.id",
        variant["id"],
    )


def list_low_stock(db: Db, warehouse: WarehouseCode, limit: Limit = 50) -> Row:
    """The SKUs of a warehouse whose available units are at or below the reorder point."""
    return _page(
        db,
        limit,
        "SELECT v.sku, p.name AS product, i.on_hand, i.reserved,"
        " i.on_hand - i.reserved AS available, i.reorder_point"
        " FROM inventory i JOIN warehouses w ON w.id = i.warehouse_id"
        " JOIN variants v ON v.id = i.variant_id JOIN products p ON p.id = v.product_id"
        " WHERE w.code = ? AND p.status = 'active' AND i.on_hand - i.reserved <= i.reorder_point"
        " ORDER BY v.sku LIMIT ?",
        warehouse,
    )


# --- orders ----------------------------------------------------------------------------------


def find_orders(
    db: Db,
    sku: Text,
    status: OrderStatus | None = None,
    placed_from: Day | None = None,
    placed_to: Day | None = None,
    limit: Limit = 20,
) -> Row:
    """Orders that contain a SKU, the latest first, of one status and of a span of days (both
    inclusive) if given."""
    variant = _variant(db, sku)
    return _page(
        db,
        limit,
        "SELECT o.id, o.customer_id, c.name AS customer, o.status, o.hold, o.placed_at,"
        " l.id AS order_line_id, l.quantity, w.code AS warehouse"
        " FROM order_lines l JOIN orders o ON o.id = l.order_id"
        " JOIN customers c ON c.id = o.customer_id JOIN warehouses w ON w.id = l.warehouse_id"
        " WHERE l.variant_id = ?1 AND (?2 IS NULL OR o.status = ?2)"
        " AND (?3 IS NULL OR substr(o.placed_at, 1, 10) >= ?3)"
        " AND (?4 IS NULL OR substr(o.placed_at, 1, 10) <= ?4)"
        " ORDER BY o.placed_at DESC, l.id LIMIT ?",
        variant["id"],
        status,
        placed_from,
        placed_to,
    )


def get_order(db: Db, order_id: Id) -> Row:
    """One order with its delivery address, lines, payments and coupon. Money is in cents; a line's
    discount_cents is for the whole line."""
    order = _order(db, order_id)
    order["address"] = db.one(
        "SELECT recipient, street, city, state, postcode, country FROM addresses WHERE id = ?",
        order["address_id"],
    )
    order["lines"] = db.all(
        "SELECT l.id, v.sku, p.name AS product, v.colour, v.size, c.name AS category, l.quantity,"
        " l.unit_price_cents, l.discount_cents, w.code AS warehouse"
        " FROM order_lines l JOIN variants v ON v.id = l.variant_id"
        " JOIN products p ON p.id = v.product_id JOIN categories c ON c.id = p.category_id"
        " JOIN warehouses w ON w.id = l.warehouse_id WHERE l.order_id = ? ORDER BY l.id",
        order_id,
    )
    order["payments"] = db.all(
        "SELECT id, method, amount_cents, status, paid_at FROM payments WHERE order_id = ?"
        " ORDER BY id",
        order_id,
    )
    order["coupon"] = db.value(
        "SELECT c.code FROM coupon_redemptions r JOIN coupons c ON c.id = r.coupon_id"
        " WHERE r.order_id = ?",
        order_id,
    )
    return order


def list_order_events(db: Db, order_id: Id) -> list[Row]:
    """What happened to an order, the oldest first: kind, detail, who and when."""
    _order(db, order_id)
    return db.all(
        "SELECT kind, detail, actor, at FROM order_events WHERE order_id = ? ORDER BY at, id",
        order_id,
    )


def change_delivery_address(db: Db, order_id: Id, address_id: Id) -> Row:
    """Send an order that is open or packed to another address of its customer's address book."""
    order = _free_order(db, order_id, "open", "packed")
    owner = db.value("SELECT customer_id FROM addresses WHERE id = ?", address_id)
    if owner is None:
        raise ToolError(f"There is no address {address_id}.")
    if owner != order["customer_id"]:
        raise ToolError(f"Address {address_id} is not in the address book of the order's customer.")
    if address_id == order["address_id"]:
        raise ToolError(f"Order {order_id} goes to address {address_id} already.")
    db.run(
        "UPDATE orders SET address_id = ?, updated_at = ? WHERE id = ?",
        address_id,
        db.now,
        order_id,
    )
    _event(db, order_id, "address_changed", f"From {order['address_id']} to {address_id}.")
    return _order(db, order_id)


def cancel_order(
    db: Db, order_id: Id, reason: Literal["duplicate", "customer_request", "out_of_stock"]
) -> Row:
    """Cancel an open order and give its units free. It does not refund: do that for each captured
    payment afterwards. Gives the order."""
    _free_order(db, order_id, "open")
    db.run(
        "UPDATE inventory SET reserved = max(0, reserved - (SELECT sum(l.quantity)"
        " FROM order_lines l WHERE l.order_id = ?1 AND l.variant_id = inventory.variant_id"
        " AND l.warehouse_id = inventory.warehouse_id))"
        " WHERE (warehouse_id, variant_id) IN"
        " (SELECT warehouse_id, variant_id FROM order_lines WHERE order_id = ?1)",
        order_id,
    )
    db.run(
        "UPDATE orders SET status = 'cancelled', cancelled_at = ?1, cancel_reason = ?2,"
        " updated_at = ?1 WHERE id = ?3",
        db.now,
        reason,
        order_id,
    )
    _event(db, order_id, "cancelled", reason)
    return _order(db, order_id)


def hold_order(db: Db, order_id: Id, reason: Literal["address_check", "fraud_check"]) -> Row:
    """Put an open or packed order on hold, so that nothing moves until the fraud team releases
    it."""
    _free_order(db, order_id, "open", "packed")
    db.run("UPDATE orders SET hold = ?, updated_at = ? WHERE id = ?", reason, db.now, order_id)
    _event(db, order_id, "held", reason)
    return _order(db, order_id)


def change_line_variant(db: Db, order_line_id: Id, sku: Text) -> Row:
    """Swap the variant (size, colour) of a line of an open order for another variant of the same
    product, from the same warehouse and at the line's price."""
    line = _line(db, order_line_id)
    _free_order(db, line["order_id"], "open")
    variant = _variant(db, sku)
    if variant["product_id"] != line["product_id"]:
        raise ToolError(f"{variant['sku']} is not a variant of the same product as {line['sku']}.")
    if variant["id"] == line["variant_id"]:
        raise ToolError(f"Line {order_line_id} is for {variant['sku']} already.")
    _reserve(db, line["warehouse_id"], variant["id"], line["quantity"])
    _release(db, line["warehouse_id"], line["variant_id"], line["quantity"])
    db.run("UPDATE order_lines SET variant_id = ? WHERE id = ?", variant["id"], order_line_id)
    _event(
        db, line["order_id"], "variant_changed", f"Line {order_line_id} is {variant['sku']} now."
    )
    return _line(db, order_line_id)


def reallocate_line(db: Db, order_line_id: Id, warehouse: WarehouseCode) -> Row:
    """Let the other warehouse send a line of an open order. It needs the whole quantity there."""
    line = _line(db, order_line_id)
    _free_order(db, line["order_id"], "open")
    warehouse_id = _warehouse_id(db, warehouse)
    if warehouse_id == line["warehouse_id"]:
        raise ToolError(f"Line {order_line_id} comes from {warehouse} already.")
    _reserve(db, warehouse_id, line["variant_id"], line["quantity"])
    _release(db, line["warehouse_id"], line["variant_id"], line["quantity"])
    db.run("UPDATE order_lines SET warehouse_id = ? WHERE id = ?", warehouse_id, order_line_id)
    _event(db, line["order_id"], "reallocated", f"Line {order_line_id} comes from {warehouse} now.")
    return _line(db, order_line_id)


def create_replacement_order(
    db: Db, order_line_id: Id, quantity: Quantity, warehouse: WarehouseCode
) -> Row:
    """Create a free order that replaces units of a line that was sent, to the same address, and
    reserve its units in the warehouse. Gives the new order's id."""
    line = _line(db, order_line_id)
    order = _free_order(db, line["order_id"], "shipped", "delivered")
    replaced = db.value(
        "SELECT coalesce(sum(l.quantity), 0) FROM orders o JOIN order_lines l ON l.order_id = o.id"
        " WHERE o.replaces_order_id = ? AND l.variant_id = ? AND o.status <> 'cancelled'",
        order["id"],
        line["variant_id"],
    )
    if replaced + quantity > line["quantity"]:
        raise ToolError(
            f"Line {order_line_id} has {line['quantity']} units, {replaced} are replaced already."
        )
    warehouse_id = _warehouse_id(db, warehouse)
    _reserve(db, warehouse_id, line["variant_id"], quantity)
    new_id = db.insert(
        "orders",
        customer_id=order["customer_id"],
        address_id=order["address_id"],
        status="open",
        hold="none",
        channel="support",
        subtotal_cents=0,
        discount_cents=0,
        shipping_cents=0,
        total_cents=0,
        placed_at=db.now,
        replaces_order_id=order["id"],
        updated_at=db.now,
    )
    db.insert(
        "order_lines",
        order_id=new_id,
        variant_id=line["variant_id"],
        warehouse_id=warehouse_id,
        quantity=quantity,
        unit_price_cents=0,
        discount_cents=0,
    )
    _event(db, new_id, "placed", f"Replaces line {order_line_id} of order {order['id']}.")
    return {"order_id": new_id, "sku": line["sku"], "quantity": quantity, "warehouse": warehouse}


# --- coupons ---------------------------------------------------------------------------------


def get_coupon(db: Db, code: Text) -> Row:
    """One coupon by its code: what it gives, its category, its days and limits (money in cents),
    and how often it was redeemed."""
    coupon = db.one(
        "SELECT c.*, g.name AS category, (SELECT count(*) FROM coupon_redemptions r"
        " WHERE r.coupon_id = c.id) AS num_redemptions"
        " FROM coupons c LEFT JOIN categories g ON g.id = c.category_id WHERE c.code = ?",
        code.strip().upper(),
    )
    if coupon is None:
        raise ToolError(f"There is no coupon {code!r}.")
    return coupon


def list_coupon_redemptions(db: Db, code: Text, limit: Limit = 50) -> Row:
    """The orders that redeemed a coupon, the oldest first, with the discount in cents."""
    coupon = get_coupon(db, code)
    return _page(
        db,
        limit,
        "SELECT order_id, customer_id, discount_cents, redeemed_at FROM coupon_redemptions"
        " WHERE coupon_id = ? ORDER BY redeemed_at, id LIMIT ?",
        coupon["id"],
    )


def _check_coupon(db: Db, coupon: Row, order: Row) -> None:
    code, today = coupon["code"], db.now[:10]
    if not coupon["active"]:
        raise ToolError(f"Coupon {code} is switched off.")
    if not coupon["valid_from"] <= today <= coupon["valid_to"]:
        raise ToolError(
            f"Coupon {code} is valid from {coupon['valid_from']} to {coupon['valid_to']} only."
        )
    if order["subtotal_cents"] < coupon["min_subtotal_cents"]:
        raise ToolError(
            f"Coupon {code} needs a subtotal of {_dollars(coupon['min_subtotal_cents'])}."
        )
    if coupon["max_redemptions"] is not None and (
        coupon["num_redemptions"] >= coupon["max_redemptions"]
    ):
        raise ToolError(f"Coupon {code} is used up.")
    used = db.one(
        "SELECT sum(order_id = ?1) AS here, sum(coupon_id = ?2 AND customer_id = ?3) AS times"
        " FROM coupon_redemptions",
        order["id"],
        coupon["id"],
        order["customer_id"],
    )
    if used and used["here"]:
        raise ToolError(f"Order {order['id']} has a coupon already.")
    if used and (used["times"] or 0) >= coupon["per_customer"]:
        raise ToolError(f"The customer has used coupon {code} already.")


def _line_discounts(coupon: Row, lines: list[Row]) -> dict[int, int]:
    """What a coupon takes off each line, in cents; a fixed amount is used up line by line.

    Example: 15 % of a line of 17950 -> 2693 (half a cent is rounded up)
    """
    discounts: dict[int, int] = {}
    left = coupon["amount_cents"] or 0
    for line in lines:
        worth = line["quantity"] * line["unit_price_cents"] - line["discount_cents"]
        if coupon["kind"] == "percent":
            cut = (worth * coupon["percent"] + 50) // 100
        else:
            cut = min(left, worth)
            left -= cut
        if cut > 0:
            discounts[line["id"]] = cut
    return discounts


def apply_coupon(db: Db, order_id: Id, code: Text) -> Row:
    """Apply a coupon to an open order; it takes its discount off the lines of its category. Gives
    the new total and what was paid too much (cents), which is not refunded by itself."""
    order = _free_order(db, order_id, "open")
    coupon = get_coupon(db, code)
    _check_coupon(db, coupon, order)
    lines = db.all(
        "SELECT l.* FROM order_lines l JOIN variants v ON v.id = l.variant_id"
        " JOIN products p ON p.id = v.product_id"
        " WHERE l.order_id = ?1 AND (?2 IS NULL OR p.category_id = ?2) ORDER BY l.id",
        order_id,
        coupon["category_id"],
    )
    discounts = _line_discounts(coupon, lines)
    total = sum(discounts.values())
    if total == 0:
        raise ToolError(f"Order {order_id} has nothing that coupon {coupon['code']} is good for.")
    for line_id, cut in discounts.items():
        db.run(
            "UPDATE order_lines SET discount_cents = discount_cents + ? WHERE id = ?", cut, line_id
        )
    db.run(
        "UPDATE orders SET discount_cents = discount_cents + ?1, total_cents = total_cents - ?1,"
        " updated_at = ?2 WHERE id = ?3",
        total,
        db.now,
        order_id,
    )
    db.insert(
        "coupon_redemptions",
        coupon_id=coupon["id"],
        order_id=order_id,
        customer_id=order["customer_id"],
        discount_cents=total,
        redeemed_at=db.now,
    )
    _event(db, order_id, "coupon_applied", f"{coupon['code']}, {total} cents.")
    return {
        "order_id": order_id,
        "discount_cents": total,
        "total_cents": order["total_cents"] - total,
        "overpaid_cents": _overpaid(db, order_id),
    }


# --- payments and refunds --------------------------------------------------------------------


def get_my_limits(db: Db) -> Row:
    """Your role and your limits in cents: for one refund and for one goodwill card."""
    agent = _me(db)
    return {key: agent[key] for key in agent if key not in ("id", "active")}


def list_refunds(db: Db, order_id: Id) -> list[Row]:
    """The refunds of an order, the oldest first, with amount in cents, reason, who and when."""
    _order(db, order_id)
    return db.all(
        "SELECT id, payment_id, order_line_id, amount_cents, reason, created_at, created_by"
        " FROM refunds WHERE order_id = ? ORDER BY created_at, id",
        order_id,
    )


def _overpaid(db: Db, order_id: int) -> int:
    """Captured payments less the order's total and what coupons gave back already, in cents."""
    return int(
        db.value(
            "SELECT (SELECT coalesce(sum(amount_cents), 0) FROM payments"
            "   WHERE order_id = ?1 AND status = 'captured')"
            " - (SELECT coalesce(sum(amount_cents), 0) FROM refunds"
            "   WHERE order_id = ?1 AND reason = 'coupon_applied')"
            " - (SELECT total_cents FROM orders WHERE id = ?1)",
            order_id,
        )
    )


def _check_refund_reason(db: Db, order: Row, amount_cents: int, reason: str) -> None:
    if reason == "order_cancelled":
        if order["status"] != "cancelled":
            raise ToolError(f"Order {order['id']} is {order['status']}, not cancelled.")
    elif order["status"] == "cancelled":
        raise ToolError(f"Order {order['id']} is cancelled; the reason must be order_cancelled.")
    if reason == "coupon_applied" and amount_cents > _overpaid(db, order["id"]):
        raise ToolError("That is more than was paid too much on the order.")


def _check_refund_line(db: Db, order_id: int, order_line_id: int, amount_cents: int) -> None:
    line = _line(db, order_line_id)
    if line["order_id"] != order_id:
        raise ToolError(f"Line {order_line_id} is not of order {order_id}.")
    refunded = db.value(
        "SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE order_line_id = ?", order_line_id
    )
    left = line["quantity"] * line["unit_price_cents"] - line["discount_cents"] - refunded
    if amount_cents > left:
        raise ToolError(f"Of line {order_line_id} only {_dollars(left)} can still be refunded.")


def _captured_payment(db: Db, order_id: int, payment_id: int, amount_cents: int) -> Row:
    payment = db.one(
        "SELECT p.*, p.amount_cents - (SELECT coalesce(sum(r.amount_cents), 0) FROM refunds r"
        " WHERE r.payment_id = p.id) AS left_cents FROM payments p WHERE p.id = ?",
        payment_id,
    )
    if payment is None or payment["order_id"] != order_id:
        raise ToolError(f"Order {order_id} has no payment {payment_id}.")
    if payment["status"] != "captured":
        raise ToolError(f"Payment {payment_id} has {payment['status']}; there is nothing to repay.")
    if amount_cents > payment["left_cents"]:
        left = _dollars(payment["left_cents"])
        raise ToolError(f"Of payment {payment_id} only {left} can still be refunded.")
    return payment


def _credit_gift_card(db: Db, card_id: int, order_id: int, amount_cents: int) -> None:
    credited = db.run(
        "UPDATE gift_cards SET balance_cents = balance_cents + ?1"
        " WHERE id = ?2 AND balance_cents + ?1 <= initial_cents",
        amount_cents,
        card_id,
    )
    if not credited:
        raise ToolError("The gift card's balance would exceed what it was issued with.")
    db.insert(
        "gift_card_entries",
        gift_card_id=card_id,
        kind="refunded",
        amount_cents=amount_cents,
        order_id=order_id,
        at=db.now,
    )


def refund_payment(
    db: Db,
    order_id: Id,
    payment_id: Id,
    amount_cents: Cents,
    reason: Literal[
        "order_cancelled",
        "damaged_item",
        "return_received",
        "price_adjustment",
        "coupon_applied",
        "lost_parcel",
    ],
    order_line_id: Id | None = None,
) -> Row:
    """Refund cents of a captured payment of an order, up to your limit for one refund. Name the
    order line unless the reason is order_cancelled or coupon_applied. A payment by gift card goes
    back to the card."""
    order = _order(db, order_id)
    if order["hold"] != "none":
        raise ToolError(f"Order {order_id} is on hold ({order['hold']}).")
    limit = _me(db)["refund_limit_cents"]
    if amount_cents > limit:
        raise ToolError(f"{_dollars(amount_cents)} is above your limit of {_dollars(limit)}.")
    payment = _captured_payment(db, order_id, payment_id, amount_cents)
    _check_refund_reason(db, order, amount_cents, reason)
    if (reason in ("order_cancelled", "coupon_applied")) != (order_line_id is None):
        raise ToolError("Name the order line, except for order_cancelled and coupon_applied.")
    if order_line_id is not None:
        _check_refund_line(db, order_id, order_line_id, amount_cents)
    refund_id = db.insert(
        "refunds",
        order_id=order_id,
        payment_id=payment_id,
        order_line_id=order_line_id,
        amount_cents=amount_cents,
        reason=reason,
        created_at=db.now,
        created_by=db.user.id,
    )
    if payment["gift_card_id"] is not None:
        _credit_gift_card(db, payment["gift_card_id"], order_id, amount_cents)
    _event(db, order_id, "refunded", f"{amount_cents} cents to payment {payment_id} ({reason}).")
    return {
        "refund_id": refund_id,
        "order_id": order_id,
        "payment_id": payment_id,
        "method": payment["method"],
        "order_line_id": order_line_id,
        "amount_cents": amount_cents,
        "left_on_payment_cents": payment["left_cents"] - amount_cents,
    }


def list_escalations(
    db: Db, status: Literal["open", "approved", "rejected"] | None = None, limit: Limit = 20
) -> Row:
    """Cases that were handed to supervisors or the fraud team, the latest first."""
    return _page(
        db,
        limit,
        "SELECT * FROM escalations WHERE ?1 IS NULL OR status = ?1"
        " ORDER BY created_at DESC, id DESC LIMIT ?",
        status,
    )


def create_escalation(
    db: Db,
    order_id: Id,
    kind: Literal["refund_over_limit", "fraud", "return_exception"],
    amount_cents: Cents,
    reason: Text,
    ticket_id: Id | None = None,
) -> Row:
    """Hand a case on an order to the supervisors (or, with kind fraud, to the fraud team), with
    the amount in question in cents and the reason in words."""
    order = _order(db, order_id)
    paid = db.value(
        "SELECT coalesce(sum(amount_cents), 0) FROM payments"
        " WHERE order_id = ? AND status = 'captured'",
        order_id,
    )
    if amount_cents > paid:
        raise ToolError(f"Order {order_id} was paid with {_dollars(paid)} only.")
    if ticket_id is not None and _ticket(db, ticket_id)["customer_id"] != order["customer_id"]:
        raise ToolError(f"Ticket {ticket_id} is not of the customer of order {order_id}.")
    known = db.value(
        "SELECT id FROM escalations WHERE order_id = ? AND kind = ? AND status = 'open'",
        order_id,
        kind,
    )
    if known is not None:
        raise ToolError(f"Escalation {known} of order {order_id} is open already.")
    escalation_id = db.insert(
        "escalations",
        order_id=order_id,
        ticket_id=ticket_id,
        kind=kind,
        amount_cents=amount_cents,
        reason=reason,
        status="open",
        created_at=db.now,
        created_by=db.user.id,
    )
    _event(db, order_id, "escalated", f"{kind}, {amount_cents} cents.")
    return db.one("SELECT * FROM escalations WHERE id = ?", escalation_id) or {}


# --- shipments -------------------------------------------------------------------------------


def list_shipments(db: Db, order_id: Id) -> list[Row]:
    """The shipments of an order with carrier, tracking number, promised day, delivery, the
    carrier's last scan and the order lines inside."""
    _order(db, order_id)
    return db.all(
        "SELECT s.id, w.code AS warehouse, s.carrier, s.tracking, s.status, s.shipped_at,"
        " s.promised_on, s.delivered_at, s.trace_started_at,"
        " (SELECT max(at) FROM shipment_scans WHERE shipment_id = s.id) AS last_scan_at,"
        " group_concat(sl.order_line_id, ', ' ORDER BY sl.order_line_id) AS order_lines"
        " FROM shipments s JOIN warehouses w ON w.id = s.warehouse_id"
        " JOIN shipment_lines sl ON sl.shipment_id = s.id"
        " WHERE s.order_id = ? GROUP BY s.id ORDER BY s.id",
        order_id,
    )


def track_shipment(db: Db, tracking: Text) -> Row:
    """One shipment by its tracking number, with the carrier's scans, the oldest first."""
    shipment = db.one("SELECT * FROM shipments WHERE tracking = ?", tracking.strip().upper())
    if shipment is None:
        raise ToolError(f"There is no shipment with tracking number {tracking!r}.")
    shipment["scans"] = db.all(
        "SELECT at, place, what FROM shipment_scans WHERE shipment_id = ? ORDER BY at, id",
        shipment["id"],
    )
    return shipment


def start_carrier_trace(db: Db, shipment_id: Id) -> Row:
    """Ask the carrier to look for a shipment that is in transit."""
    shipment = db.one("SELECT * FROM shipments WHERE id = ?", shipment_id)
    if shipment is None:
        raise ToolError(f"There is no shipment {shipment_id}.")
    if shipment["status"] != "in_transit":
        raise ToolError(f"Shipment {shipment_id} is {shipment['status']}.")
    if shipment["trace_started_at"] is not None:
        raise ToolError(f"A trace runs since {shipment['trace_started_at']}.")
    db.run("UPDATE shipments SET trace_started_at = ? WHERE id = ?", db.now, shipment_id)
    _event(db, shipment["order_id"], "trace_started", f"Shipment {shipment_id}.")
    shipment["trace_started_at"] = db.now
    return shipment


# --- returns ---------------------------------------------------------------------------------


def list_returns(
    db: Db,
    status: Literal["requested", "approved", "denied", "received"] | None = None,
    limit: Limit = 20,
) -> Row:
    """Returns, the oldest first, of one status if given, with order and customer."""
    return _page(
        db,
        limit,
        "SELECT r.id, r.order_id, o.customer_id, c.name AS customer, r.status, r.reason,"
        " r.requested_at FROM returns r JOIN orders o ON o.id = r.order_id"
        " JOIN customers c ON c.id = o.customer_id WHERE ?1 IS NULL OR r.status = ?1"
        " ORDER BY r.requested_at, r.id LIMIT ?",
        status,
    )


def _return(db: Db, return_id: int) -> Row:
    found = db.one("SELECT * FROM returns WHERE id = ?", return_id)
    if found is None:
        raise ToolError(f"There is no return {return_id}.")
    return found


def _requested_return(db: Db, return_id: int) -> Row:
    found = _return(db, return_id)
    if found["status"] != "requested":
        raise ToolError(f"Return {return_id} is {found['status']}; it awaits no decision.")
    return found


def get_return(db: Db, return_id: Id) -> Row:
    """One return with its customer and lines: item, category with its return days, quantity,
    condition and delivery."""
    found = _return(db, return_id)
    found["customer_id"] = db.value(
        "SELECT customer_id FROM orders WHERE id = ?", found["order_id"]
    )
    found["lines"] = db.all(
        "SELECT rl.order_line_id, v.sku, p.name AS product, c.name AS category, p.final_sale,"
        " c.return_days, c.hygiene, rl.quantity, rl.condition,"
        " (SELECT max(s.delivered_at) FROM shipment_lines sl JOIN shipments s"
        "   ON s.id = sl.shipment_id WHERE sl.order_line_id = l.id) AS delivered_at"
        " FROM return_lines rl"
        " JOIN order_lines l ON l.id = rl.order_line_id JOIN variants v ON v.id = l.variant_id"
        " JOIN products p ON p.id = v.product_id JOIN categories c ON c.id = p.category_id"
        " WHERE rl.return_id = ? ORDER BY rl.order_line_id",
        return_id,
    )
    return found


def open_return(
    db: Db,
    order_line_id: Id,
    quantity: Quantity,
    reason: Literal["changed_mind", "wrong_size", "faulty", "wrong_item"],
    condition: Literal["unopened", "as_new", "used"],
) -> Row:
    """Record a customer's wish to return units of a delivered order line. It then awaits a
    decision. Gives the return with its id."""
    line = _line(db, order_line_id)
    _free_order(db, line["order_id"], "delivered")
    taken = db.value(
        "SELECT coalesce(sum(rl.quantity), 0) FROM return_lines rl"
        " JOIN returns r ON r.id = rl.return_id"
        " WHERE rl.order_line_id = ? AND r.status <> 'denied'",
        order_line_id,
    )
    if taken + quantity > line["quantity"]:
        raise ToolError(
            f"Line {order_line_id} has {line['quantity']} units, {taken} are in returns already."
        )
    return_id = db.insert(
        "returns",
        order_id=line["order_id"],
        status="requested",
        reason=reason,
        requested_at=db.now,
    )
    db.insert(
        "return_lines",
        return_id=return_id,
        order_line_id=order_line_id,
        quantity=quantity,
        condition=condition,
    )
    _event(db, line["order_id"], "return_opened", f"Return {return_id}.")
    return get_return(db, return_id)


def approve_return(
    db: Db, return_id: Id, resolution: Literal["refund", "exchange", "store_credit"], note: str = ""
) -> Row:
    """Approve a return that awaits a decision, and say what the customer gets when it arrives.
    Money moves only then."""
    found = _requested_return(db, return_id)
    db.run(
        "UPDATE returns SET status = 'approved', resolution = ?, decided_at = ?, decided_by = ?,"
        " note = ? WHERE id = ?",
        resolution,
        db.now,
        db.user.id,
        note or None,
        return_id,
    )
    _event(db, found["order_id"], "return_approved", f"Return {return_id}, {resolution}.")
    return _return(db, return_id)


def deny_return(
    db: Db,
    return_id: Id,
    reason: Literal["outside_window", "hygiene", "final_sale", "not_our_item"],
    note: str = "",
) -> Row:
    """Deny a return that awaits a decision, with the reason."""
    found = _requested_return(db, return_id)
    db.run(
        "UPDATE returns SET status = 'denied', denial_reason = ?, decided_at = ?, decided_by = ?,"
        " note = ? WHERE id = ?",
        reason,
        db.now,
        db.user.id,
        note or None,
        return_id,
    )
    _event(db, found["order_id"], "return_denied", f"Return {return_id}, {reason}.")
    return _return(db, return_id)


# --- tickets ---------------------------------------------------------------------------------


def list_tickets(
    db: Db,
    customer_id: Id | None = None,
    status: Literal["open", "waiting", "solved"] | None = None,
    limit: Limit = 20,
) -> Row:
    """Tickets, the oldest first, of one customer and of one status if given."""
    return _page(
        db,
        limit,
        "SELECT id, customer_id, order_id, subject, status, priority, assignee, created_at,"
        " updated_at FROM tickets WHERE (?1 IS NULL OR customer_id = ?1)"
        " AND (?2 IS NULL OR status = ?2) ORDER BY created_at, id LIMIT ?",
        customer_id,
        status,
    )


def get_ticket(db: Db, ticket_id: Id) -> Row:
    """One ticket with its customer's name and its messages, the oldest first; attachments is the
    number of photos or files of a message."""
    ticket = _ticket(db, ticket_id)
    ticket["customer"] = db.value("SELECT name FROM customers WHERE id = ?", ticket["customer_id"])
    ticket["messages"] = db.all(
        "SELECT author_kind, author, body, attachments, sent_at FROM messages"
        " WHERE ticket_id = ? ORDER BY sent_at, id",
        ticket_id,
    )
    return ticket


def reply_to_ticket(db: Db, ticket_id: Id, body: Text) -> Row:
    """Send the customer a message on a ticket that is not solved. The ticket's status stays."""
    ticket = _ticket(db, ticket_id)
    if ticket["status"] == "solved":
        raise ToolError(f"Ticket {ticket_id} is solved; reopen it before you reply.")
    if not body.strip():
        raise ToolError("The message is empty.")
    message_id = db.insert(
        "messages",
        ticket_id=ticket_id,
        author_kind="agent",
        author=db.user.id,
        body=body,
        attachments=0,
        sent_at=db.now,
    )
    db.run("UPDATE tickets SET updated_at = ? WHERE id = ?", db.now, ticket_id)
    return {
        "message_id": message_id,
        "ticket_id": ticket_id,
        "ticket_status": ticket["status"],
        "sent_at": db.now,
    }


def set_ticket_status(db: Db, ticket_id: Id, status: Literal["open", "waiting", "solved"]) -> Row:
    """Set the status of a ticket. Gives the ticket."""
    ticket = _ticket(db, ticket_id)
    if ticket["status"] == status:
        raise ToolError(f"Ticket {ticket_id} is {status} already.")
    db.run("UPDATE tickets SET status = ?, updated_at = ? WHERE id = ?", status, db.now, ticket_id)
    return _ticket(db, ticket_id)


def move_ticket(db: Db, ticket_id: Id, customer_id: Id) -> Row:
    """Move a ticket to another customer's record, as when two records turn out to be one
    person."""
    ticket = _ticket(db, ticket_id)
    _active_customer(db, customer_id)
    if ticket["customer_id"] == customer_id:
        raise ToolError(f"Ticket {ticket_id} is customer {customer_id}'s already.")
    db.run(
        "UPDATE tickets SET customer_id = ?, updated_at = ? WHERE id = ?",
        customer_id,
        db.now,
        ticket_id,
    )
    _audit(db, customer_id, "ticket_moved", f"Ticket {ticket_id} from {ticket['customer_id']}.")
    return _ticket(db, ticket_id)
