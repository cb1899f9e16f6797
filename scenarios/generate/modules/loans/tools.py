"""The loans: what may be borrowed, who has it until when, and who waits for it."""

from datetime import date, timedelta
from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Text, _like
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _require

LOAN_DAYS = 14
MOST_LOANS = 3
MOST_RENEWALS = 2
ItemStatus = Literal["in", "lent", "withdrawn"]


def _item(db: Db, item_id: int) -> Row:
    item = db.one("SELECT * FROM items WHERE id = ?", item_id)
    if item is None:
        raise ToolError(f"There is no item {item_id}.")
    return item


def _present_loan(db: Db, loan_id: int) -> Row:
    """A loan whose item is not back."""
    loan = db.one("SELECT * FROM loans WHERE id = ?", loan_id)
    if loan is None:
        raise ToolError(f"There is no loan {loan_id}.")
    if loan["returned_on"] is not None:
        raise ToolError(f"Loan {loan_id} ended on {loan['returned_on']}.")
    return loan


def _loan_end(day: str) -> str:
    return (date.fromisoformat(day) + timedelta(days=LOAN_DAYS)).isoformat()


def search_items(
    db: Db, query: Text, status: ItemStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """Find items by a part of their code or title, of one status if given."""
    return db.all(
        "SELECT i.id, i.code, i.title, i.condition, i.status FROM items i"
        " WHERE (i.code LIKE ?1 ESCAPE '\\' OR i.title LIKE ?1 ESCAPE '\\')"
        " AND (?2 IS NULL OR i.status = ?2)"
        " ORDER BY i.code LIMIT ?3",
        _like(query),
        status,
        limit,
    )


def get_item(db: Db, item_id: Id) -> Row:
    """Show one item with its present loan, if any, and those who wait for it, the first first."""
    item = _item(db, item_id)
    item["loan"] = db.one("SELECT * FROM loans WHERE item_id = ? AND returned_on IS NULL", item_id)
    item["reservations"] = db.all(
        "SELECT r.id, r.customer_id, c.name AS customer, r.made_on FROM reservations r"
        " JOIN customers c ON c.id = r.customer_id WHERE r.item_id = ? ORDER BY r.made_on, r.id",
        item_id,
    )
    return item


def list_loans(db: Db, customer_id: Id, limit: Limit = 20) -> list[Row]:
    """List the loans of a customer, those first that are due last. Past ones have a day of
    return."""
    _customer(db, customer_id)
    return db.all(
        "SELECT l.id, l.item_id, i.code, i.title, l.lent_on, l.due_on, l.returned_on,"
        " l.num_renewals FROM loans l JOIN items i ON i.id = l.item_id WHERE l.customer_id = ?"
        " ORDER BY l.due_on DESC, l.id LIMIT ?",
        customer_id,
        limit,
    )


def lend_item(db: Db, item_id: Id, customer_id: Id) -> Row:
    """Lend an item that is in to an active customer. If others wait for it, only the first of them
    may have it, whose reservation ends."""
    _active_customer(db, customer_id)
    item = _item(db, item_id)
    if item["status"] != "in":
        raise ToolError(f"Item {item_id} is {item['status']}.")
    num_present = db.value(
        "SELECT count(*) FROM loans WHERE customer_id = ? AND returned_on IS NULL", customer_id
    )
    if num_present >= MOST_LOANS:
        raise ToolError(f"The customer has {num_present} items already.")
    first = db.one("SELECT * FROM reservations WHERE item_id = ? ORDER BY made_on, id", item_id)
    if first is not None:
        if first["customer_id"] != customer_id:
            raise ToolError(f"Customer {first['customer_id']} waits for this item.")
        db.run("DELETE FROM reservations WHERE id = ?", first["id"])
    db.run("UPDATE items SET status = 'lent' WHERE id = ?", item_id)
    today = db.now[:10]
    due_on = _loan_end(today)
    loan_id = db.insert(
        "loans", item_id=item_id, customer_id=customer_id, lent_on=today, due_on=due_on
    )
    return {
        "loan_id": loan_id,
        "item_id": item_id,
        "customer_id": customer_id,
        "lent_on": today,
        "due_on": due_on,
    }


def renew_loan(db: Db, loan_id: Id) -> Row:
    """Renew a loan by the usual time, counted from the day on which it is due, unless somebody
    waits for the item."""
    loan = _present_loan(db, loan_id)
    if loan["num_renewals"] >= MOST_RENEWALS:
        raise ToolError(f"Loan {loan_id} was renewed {loan['num_renewals']} times already.")
    if db.value("SELECT id FROM reservations WHERE item_id = ?", loan["item_id"]) is not None:
        raise ToolError("Somebody waits for this item.")
    due_on = _loan_end(loan["due_on"])
    db.run(
        "UPDATE loans SET due_on = ?, num_renewals = num_renewals + 1 WHERE id = ?", due_on, loan_id
    )
    return _present_loan(db, loan_id)


def take_back_item(db: Db, item_id: Id, condition: Literal["good", "worn"]) -> Row:
    """Take back an item that is lent, in the condition in which it comes back."""
    item = _item(db, item_id)
    if item["status"] != "lent":
        raise ToolError(f"Item {item_id} is {item['status']}.")
    db.run(
        "UPDATE loans SET returned_on = ? WHERE item_id = ? AND returned_on IS NULL",
        db.now[:10],
        item_id,
    )
    db.run("UPDATE items SET status = 'in', condition = ? WHERE id = ?", condition, item_id)
    return _item(db, item_id)


def add_reservation(db: Db, item_id: Id, customer_id: Id) -> Row:
    """Let an active customer wait for an item that somebody else has."""
    _active_customer(db, customer_id)
    item = _item(db, item_id)
    if item["status"] != "lent":
        raise ToolError(f"Item {item_id} is {item['status']}.")
    holder = db.value(
        "SELECT customer_id FROM loans WHERE item_id = ? AND returned_on IS NULL", item_id
    )
    known = db.value(
        "SELECT id FROM reservations WHERE item_id = ? AND customer_id = ?", item_id, customer_id
    )
    if holder == customer_id or known is not None:
        raise ToolError("The customer has this item or waits for it already.")
    reservation_id = db.insert(
        "reservations", item_id=item_id, customer_id=customer_id, made_on=db.now[:10]
    )
    return {
        "reservation_id": reservation_id,
        "item_id": item_id,
        "customer_id": customer_id,
        "made_on": db.now[:10],
    }


def withdraw_item(db: Db, item_id: Id) -> Row:
    """Take an item that is in out of lending for good. For supervisors and managers."""
    _require(db, "supervisor")
    item = _item(db, item_id)
    if item["status"] != "in":
        raise ToolError(f"Item {item_id} is {item['status']}.")
    db.run("UPDATE items SET status = 'withdrawn' WHERE id = ?", item_id)
    return _item(db, item_id)
