"""The payments of customers and the methods by which they pay."""

from typing import Annotated, Literal

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Day, Id, Limit, Text, _day, _money
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me

RETRY_DAYS = 14
MOST_METHODS = 4
PaymentStatus = Literal["pending", "settled", "failed", "void"]
LastFour = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}$", description="the last four digits")]


def _payment(db: Db, payment_id: int, *statuses: PaymentStatus) -> Row:
    """The payment, which must have one of these statuses if some are given."""
    payment = db.one("SELECT * FROM payments WHERE id = ?", payment_id)
    if payment is None:
        raise ToolError(f"There is no payment {payment_id}.")
    if statuses and payment["status"] not in statuses:
        wanted = " or ".join(statuses)
        raise ToolError(f"Payment {payment_id} is {payment['status']}, not {wanted}.")
    return payment


def _method(db: Db, method_id: int) -> Row:
    method = db.one("SELECT * FROM payment_methods WHERE id = ?", method_id)
    if method is None:
        raise ToolError(f"There is no method {method_id}.")
    return method


def _usable_method(db: Db, method_id: int) -> Row:
    method = _method(db, method_id)
    if method["status"] != "active":
        raise ToolError(f"Method {method_id} is {method['status']}.")
    if method["expires_on"] < db.now[:10]:
        raise ToolError(f"Method {method_id} expired on {method['expires_on']}.")
    return method


def _payment_changed(db: Db, payment_id: int, kind: str) -> Row:
    """Note what happened to a payment; gives it as it is now."""
    me = _me(db)["id"]
    db.insert("payment_events", payment_id=payment_id, kind=kind, employee_id=me, at=db.now)
    return _payment(db, payment_id)


def list_payment_methods(db: Db, customer_id: Id) -> list[Row]:
    """The methods by which a customer pays or has paid."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, kind, last_four, expires_on, status FROM payment_methods"
        " WHERE customer_id = ? ORDER BY id",
        customer_id,
    )


def find_payments(
    db: Db, customer_id: Id, status: PaymentStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The payments of a customer, of one status if given, the latest first. Money is in
    hundredths."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, reference, product_id, method_id, amount_cents, status, created_at"
        " FROM payments WHERE customer_id = ?1 AND (?2 IS NULL OR status = ?2)"
        " ORDER BY created_at DESC, id DESC LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def get_payment(db: Db, payment_id: Id) -> Row:
    """One payment with what it is for and what happened to it."""
    payment = _payment(db, payment_id)
    payment["product"] = db.value("SELECT name FROM products WHERE id = ?", payment["product_id"])
    payment["events"] = db.all(
        "SELECT kind, employee_id, at FROM payment_events WHERE payment_id = ? ORDER BY at, id",
        payment_id,
    )
    return payment


def find_payment_by_reference(db: Db, reference: Text) -> Row:
    """The payment with this exact reference."""
    payment_id = db.value("SELECT id FROM payments WHERE reference = ?", reference.strip().upper())
    if payment_id is None:
        raise ToolError(f"There is no payment with the reference {reference!r}.")
    return get_payment(db, payment_id)


def settle_payment(db: Db, payment_id: Id) -> Row:
    """Mark a pending payment as settled: its money has come in."""
    _payment(db, payment_id, "pending")
    db.run(
        "UPDATE payments SET status = 'settled', settled_at = ? WHERE id = ?", db.now, payment_id
    )
    return _payment_changed(db, payment_id, "settled")


def retry_payment(db: Db, payment_id: Id) -> Row:
    """Try a payment again that failed: it becomes pending. Its method must be active and must not
    have expired."""
    payment = _payment(db, payment_id, "failed")
    _usable_method(db, payment["method_id"])
    db.run("UPDATE payments SET status = 'pending' WHERE id = ?", payment_id)
    return _payment_changed(db, payment_id, "retried")


def void_payment(db: Db, payment_id: Id) -> Row:
    """Make a payment void that is pending or failed. Its amount must be within your own limit."""
    payment = _payment(db, payment_id, "pending", "failed")
    most = _me(db)["limit_cents"]
    if payment["amount_cents"] > most:
        amount = _money(payment["amount_cents"])
        raise ToolError(f"The amount is {amount}; your limit is {_money(most)}.")
    db.run("UPDATE payments SET status = 'void' WHERE id = ?", payment_id)
    return _payment_changed(db, payment_id, "void")


def switch_payment_method(db: Db, payment_id: Id, method_id: Id) -> Row:
    """Let a pending or failed payment go by another method of the same customer."""
    payment = _payment(db, payment_id, "pending", "failed")
    method = _usable_method(db, method_id)
    if method["customer_id"] != payment["customer_id"]:
        raise ToolError(f"Method {method_id} is another customer's.")
    if payment["method_id"] == method_id:
        raise ToolError(f"The payment goes by method {method_id} already.")
    db.run("UPDATE payments SET method_id = ? WHERE id = ?", method_id, payment_id)
    return _payment_changed(db, payment_id, "switched")


def add_payment_method(
    db: Db,
    customer_id: Id,
    kind: Literal["card", "debit", "wallet"],
    last_four: LastFour,
    expires_on: Day,
) -> Row:
    """Enter a new method of an active customer; it must not have expired."""
    _active_customer(db, customer_id)
    if _day(expires_on).isoformat() < db.now[:10]:
        raise ToolError(f"It expired on {expires_on}.")
    known = db.all(
        "SELECT last_four, status FROM payment_methods WHERE customer_id = ?", customer_id
    )
    if any(method["last_four"] == last_four for method in known):
        raise ToolError(f"The customer has a method that ends in {last_four} already.")
    if sum(method["status"] == "active" for method in known) >= MOST_METHODS:
        raise ToolError(f"A customer has {MOST_METHODS} active methods at most.")
    method_id = db.insert(
        "payment_methods",
        customer_id=customer_id,
        kind=kind,
        last_four=last_four,
        expires_on=expires_on,
    )
    return {"method_id": method_id, **_method(db, method_id)}


def disable_payment_method(db: Db, method_id: Id) -> Row:
    """Disable a method by which no pending payment goes."""
    if _method(db, method_id)["status"] != "active":
        raise ToolError(f"Method {method_id} is disabled already.")
    pending = db.value(
        "SELECT reference FROM payments WHERE method_id = ? AND status = 'pending'", method_id
    )
    if pending is not None:
        raise ToolError(f"The pending payment {pending} goes by it.")
    db.run("UPDATE payment_methods SET status = 'disabled' WHERE id = ?", method_id)
    return _method(db, method_id)
