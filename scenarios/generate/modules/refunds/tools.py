"""Money that goes back to customers: refunds, their reasons and notes."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Cents, Id, Limit, Text, _day, _money
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.payments.tools import _payment
from rehearsal_room.scenarios.generate.modules.staff.tools import _me

REFUND_WINDOW_DAYS = 60
MOST_OPEN_REFUNDS = 2
RefundStatus = Literal["open", "approved", "rejected", "cancelled"]


def _refund(db: Db, refund_id: int) -> Row:
    refund = db.one("SELECT * FROM refunds WHERE id = ?", refund_id)
    if refund is None:
        raise ToolError(f"There is no refund {refund_id}.")
    return refund


def _open_refund(db: Db, refund_id: int) -> Row:
    refund = _refund(db, refund_id)
    if refund["status"] != "open":
        raise ToolError(f"Refund {refund_id} is {refund['status']}, not open.")
    return refund


def _check_refund_amount(db: Db, payment: Row, reason_id: int, amount_cents: int) -> None:
    share = db.value("SELECT share_percent FROM refund_reasons WHERE id = ?", reason_id)
    if share is None:
        raise ToolError(f"There is no reason {reason_id}.")
    most = payment["amount_cents"] * share // 100
    if amount_cents > most:
        raise ToolError(f"This reason allows {share} % of the payment, which is {_money(most)}.")


def _decide_refund(db: Db, refund_id: int, status: RefundStatus) -> Row:
    db.run(
        "UPDATE refunds SET status = ?, decided_by = ?, decided_at = ? WHERE id = ?",
        status,
        _me(db)["id"],
        db.now,
        refund_id,
    )
    return _refund(db, refund_id)


def list_refund_reasons(db: Db) -> list[Row]:
    """The reasons for which money goes back, with the share of a payment that each allows."""
    return db.all("SELECT id, title, share_percent FROM refund_reasons ORDER BY title")


def find_refunds(
    db: Db, customer_id: Id, status: RefundStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The refunds of a customer, of one status if given, the latest first. Money is in
    hundredths."""
    _customer(db, customer_id)
    return db.all(
        "SELECT r.id, r.payment_id, p.reference, r.reason_id, r.amount_cents, r.status, r.opened_by"
        " FROM refunds r JOIN payments p ON p.id = r.payment_id"
        " WHERE p.customer_id = ?1 AND (?2 IS NULL OR r.status = ?2)"
        " ORDER BY r.opened_at DESC, r.id DESC LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def get_refund(db: Db, refund_id: Id) -> Row:
    """One refund with its reason and its notes."""
    refund = _refund(db, refund_id)
    refund["reason"] = db.value(
        "SELECT title FROM refund_reasons WHERE id = ?", refund["reason_id"]
    )
    refund["notes"] = db.all(
        "SELECT author_id, body, written_at FROM refund_notes WHERE refund_id = ?"
        " ORDER BY written_at, id",
        refund_id,
    )
    return refund


def open_refund(db: Db, payment_id: Id, reason_id: Id, amount_cents: Cents) -> Row:
    """Open a refund of a settled payment, in hundredths; it is approved in a second step. The
    reason limits its share."""
    payment = _payment(db, payment_id, "settled")
    _active_customer(db, payment["customer_id"])
    age = (_day(db.now[:10]) - _day(payment["settled_at"][:10])).days
    if age > REFUND_WINDOW_DAYS:
        raise ToolError(f"It was settled {age} days ago; {REFUND_WINDOW_DAYS} are allowed.")
    _check_refund_amount(db, payment, reason_id, amount_cents)
    known = db.all(
        "SELECT r.id, r.payment_id, r.status FROM refunds r JOIN payments p ON p.id = r.payment_id"
        " WHERE p.customer_id = ? AND r.status IN ('open', 'approved')",
        payment["customer_id"],
    )
    for other in known:
        if other["payment_id"] == payment_id:
            raise ToolError(f"The payment has refund {other['id']} already.")
    if sum(other["status"] == "open" for other in known) >= MOST_OPEN_REFUNDS:
        raise ToolError(f"The customer has {MOST_OPEN_REFUNDS} open ones already.")
    refund_id = db.insert(
        "refunds",
        payment_id=payment_id,
        reason_id=reason_id,
        amount_cents=amount_cents,
        opened_by=_me(db)["id"],
        opened_at=db.now,
    )
    return {"refund_id": refund_id, **_refund(db, refund_id)}


def change_refund(db: Db, refund_id: Id, reason_id: Id, amount_cents: Cents) -> Row:
    """Give an open refund another reason, another amount in hundredths, or both."""
    refund = _open_refund(db, refund_id)
    _check_refund_amount(db, _payment(db, refund["payment_id"]), reason_id, amount_cents)
    if (reason_id, amount_cents) == (refund["reason_id"], refund["amount_cents"]):
        raise ToolError("Nothing would change.")
    db.run(
        "UPDATE refunds SET reason_id = ?, amount_cents = ? WHERE id = ?",
        reason_id,
        amount_cents,
        refund_id,
    )
    return _refund(db, refund_id)


def approve_refund(db: Db, refund_id: Id) -> Row:
    """Approve an open refund whose amount is within your own limit."""
    refund = _open_refund(db, refund_id)
    most = _me(db)["limit_cents"]
    if refund["amount_cents"] > most:
        amount = _money(refund["amount_cents"])
        raise ToolError(f"The amount is {amount}; your limit is {_money(most)}.")
    return _decide_refund(db, refund_id, "approved")


def reject_refund(db: Db, refund_id: Id) -> Row:
    """Reject an open refund."""
    _open_refund(db, refund_id)
    return _decide_refund(db, refund_id, "rejected")


def cancel_refund(db: Db, refund_id: Id) -> Row:
    """Cancel an open refund that the customer does not want any more."""
    _open_refund(db, refund_id)
    return _decide_refund(db, refund_id, "cancelled")


def add_refund_note(db: Db, refund_id: Id, body: Text) -> Row:
    """Write a note on a refund, in your own name."""
    _refund(db, refund_id)
    note: Row = {
        "refund_id": refund_id,
        "author_id": _me(db)["id"],
        "body": body,
        "written_at": db.now,
    }
    return {"note_id": db.insert("refund_notes", **note), **note}
