"""The invoices: sending, paying, deferring, reminding."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _active_product
from rehearsal_room.scenarios.generate.modules.common import (
    Day,
    Id,
    Limit,
    Quantity,
    Text,
    _day,
    _money,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me

REMINDER_FEE_CENTS = 500
MOST_REMINDERS = 3
REMINDER_GAP_DAYS = 10
MOST_DEFERRED_DAYS = 20
InvoiceStatus = Literal["draft", "sent", "paid", "cancelled"]


def _invoice(db: Db, invoice_id: int, *statuses: InvoiceStatus) -> Row:
    """The invoice, which must have one of these statuses if some are given."""
    invoice = db.one("SELECT * FROM invoices WHERE id = ?", invoice_id)
    if invoice is None:
        raise ToolError(f"There is no invoice {invoice_id}.")
    if statuses and invoice["status"] not in statuses:
        wanted = " or ".join(statuses)
        raise ToolError(f"Invoice {invoice_id} is {invoice['status']}, not {wanted}.")
    return invoice


def _renew_invoice(db: Db, invoice_id: int) -> None:
    """Renew the total of an invoice from its positions."""
    db.run(
        "UPDATE invoices SET total_cents = (SELECT coalesce(sum(quantity * unit_cents), 0)"
        " FROM invoice_positions WHERE invoice_id = ?1) WHERE id = ?1",
        invoice_id,
    )


def find_invoices(
    db: Db, customer_id: Id, status: InvoiceStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The invoices of a customer, of one status if given, the latest due day first. Money is in
    hundredths."""
    _customer(db, customer_id)
    return db.all(
        "SELECT id, number, status, total_cents, due_on, sent_on, paid_on FROM invoices"
        " WHERE customer_id = ?1 AND (?2 IS NULL OR status = ?2)"
        " ORDER BY due_on DESC, id DESC LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def list_overdue_invoices(db: Db, limit: Limit = 20) -> list[Row]:
    """Sent invoices whose due day is over, the oldest first, with the number of reminders."""
    return db.all(
        "SELECT i.id, i.number, i.customer_id, i.total_cents, i.due_on,"
        " (SELECT count(*) FROM invoice_reminders r WHERE r.invoice_id = i.id) AS num_reminders"
        " FROM invoices i WHERE i.status = 'sent' AND i.due_on < ?1"
        " ORDER BY i.due_on, i.id LIMIT ?2",
        db.now[:10],
        limit,
    )


def get_invoice(db: Db, invoice_id: Id) -> Row:
    """One invoice with its positions and reminders. Money is in hundredths."""
    invoice = _invoice(db, invoice_id)
    invoice["positions"] = db.all(
        "SELECT s.id, s.product_id, p.name, s.quantity, s.unit_cents FROM invoice_positions s"
        " JOIN products p ON p.id = s.product_id WHERE s.invoice_id = ? ORDER BY s.id",
        invoice_id,
    )
    invoice["reminders"] = db.all(
        "SELECT id, step, fee_cents, sent_at FROM invoice_reminders WHERE invoice_id = ?"
        " ORDER BY step",
        invoice_id,
    )
    return invoice


def find_invoice_by_number(db: Db, number: Text) -> Row:
    """The invoice with this exact number, with its positions and reminders."""
    invoice_id = db.value("SELECT id FROM invoices WHERE number = ?", number.strip().upper())
    if invoice_id is None:
        raise ToolError(f"There is no invoice with the number {number!r}.")
    return get_invoice(db, invoice_id)


def add_invoice_position(db: Db, invoice_id: Id, product_id: Id, quantity: Quantity) -> Row:
    """Add an active product, at its present price, to a draft that does not have it yet."""
    _invoice(db, invoice_id, "draft")
    product = _active_product(db, product_id)
    known = db.value(
        "SELECT id FROM invoice_positions WHERE invoice_id = ? AND product_id = ?",
        invoice_id,
        product_id,
    )
    if known is not None:
        raise ToolError(f"Position {known} has this product already.")
    position_id = db.insert(
        "invoice_positions",
        invoice_id=invoice_id,
        product_id=product_id,
        quantity=quantity,
        unit_cents=product["price_cents"],
    )
    _renew_invoice(db, invoice_id)
    return {"position_id": position_id, **get_invoice(db, invoice_id)}


def send_invoice(db: Db, invoice_id: Id) -> Row:
    """Send a draft to its customer."""
    if _invoice(db, invoice_id, "draft")["total_cents"] == 0:
        raise ToolError(f"Invoice {invoice_id} has no position.")
    db.run("UPDATE invoices SET status = 'sent', sent_on = ? WHERE id = ?", db.now[:10], invoice_id)
    return _invoice(db, invoice_id)


def mark_invoice_paid(db: Db, invoice_id: Id, paid_on: Day) -> Row:
    """Enter the day on which a sent invoice was paid: not before it was sent, nor after today."""
    invoice = _invoice(db, invoice_id, "sent")
    if not invoice["sent_on"] <= _day(paid_on).isoformat() <= db.now[:10]:
        raise ToolError(f"The day must lie between {invoice['sent_on']} and {db.now[:10]}.")
    db.run("UPDATE invoices SET status = 'paid', paid_on = ? WHERE id = ?", paid_on, invoice_id)
    return _invoice(db, invoice_id)


def defer_invoice(db: Db, invoice_id: Id, due_on: Day) -> Row:
    """Give a sent invoice a later due day, by a limited number of days."""
    invoice = _invoice(db, invoice_id, "sent")
    days = (_day(due_on) - _day(invoice["due_on"])).days
    if not 0 < days <= MOST_DEFERRED_DAYS:
        raise ToolError(f"It is deferred by 1 to {MOST_DEFERRED_DAYS} days, not by {days}.")
    db.run("UPDATE invoices SET due_on = ?, is_deferred = 1 WHERE id = ?", due_on, invoice_id)
    return _invoice(db, invoice_id)


def cancel_invoice(db: Db, invoice_id: Id) -> Row:
    """Cancel a draft or a sent invoice whose total is within your own limit."""
    invoice = _invoice(db, invoice_id, "draft", "sent")
    most = _me(db)["limit_cents"]
    if invoice["total_cents"] > most:
        total = _money(invoice["total_cents"])
        raise ToolError(f"The total is {total}; your limit is {_money(most)}.")
    db.run("UPDATE invoices SET status = 'cancelled' WHERE id = ?", invoice_id)
    return _invoice(db, invoice_id)


def send_reminder(db: Db, invoice_id: Id) -> Row:
    """Remind a customer of an overdue invoice, for a fee."""
    invoice = _invoice(db, invoice_id, "sent")
    if invoice["due_on"] >= db.now[:10]:
        raise ToolError(f"Invoice {invoice_id} is not overdue; it is due on {invoice['due_on']}.")
    count = db.value("SELECT count(*) FROM invoice_reminders WHERE invoice_id = ?", invoice_id)
    if count >= MOST_REMINDERS:
        raise ToolError(f"It has {count} reminders; more are not sent.")
    reminder_id = db.insert(
        "invoice_reminders",
        invoice_id=invoice_id,
        step=count + 1,
        fee_cents=REMINDER_FEE_CENTS,
        sent_by=_me(db)["id"],
        sent_at=db.now,
    )
    return {"reminder_id": reminder_id, **get_invoice(db, invoice_id)}


def waive_reminder_fee(db: Db, reminder_id: Id) -> Row:
    """Waive the fee of one reminder of a sent invoice."""
    reminder = db.one("SELECT * FROM invoice_reminders WHERE id = ?", reminder_id)
    if reminder is None:
        raise ToolError(f"There is no reminder {reminder_id}.")
    _invoice(db, reminder["invoice_id"], "sent")
    if reminder["fee_cents"] == 0:
        raise ToolError("Its fee is waived already.")
    db.run("UPDATE invoice_reminders SET fee_cents = 0 WHERE id = ?", reminder_id)
    return {"waived_cents": reminder["fee_cents"], **reminder, "fee_cents": 0}
