"""Seed rows of the invoices, and helpers that insert invoices with positions and reminders."""

from collections.abc import Sequence

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import some_staff
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_STATES = (("draft", 14), ("paid", -20), ("sent", 9))


def rows(maker: Maker) -> None:
    """A draft, a paid invoice, and one that is due later."""
    for status, due in _STATES:
        product = maker.rng.choice(maker.rows("products", status="active"))
        positions = [(product, maker.rng.randrange(1, 5))]
        new_invoice(maker, some_customer(maker), positions, status, due=due)


def new_invoice(
    maker: Maker,
    customer: Row,
    positions: Sequence[tuple[Row, int]],
    status: str = "sent",
    *,
    due: int = 10,
    sent: int | None = None,
    paid: int | None = None,
    deferred: int = 0,
) -> Row:
    """Insert an invoice of these (product, quantity) at present prices, due in so many days
    (negative: so many days ago). `sent`, `paid`: so many days ago, else as usual."""
    sent_ago = max(0, 21 - due) if sent is None else sent
    paid_ago = max(0, -due + 2) if paid is None else paid
    invoice = maker.insert(
        "invoices",
        number=new_code(maker, "invoices", "number", "IV", 5),
        customer_id=customer["id"],
        status=status,
        total_cents=0,
        due_on=maker.day(due),
        sent_on=None if status == "draft" else maker.day(-sent_ago),
        paid_on=maker.day(-min(paid_ago, sent_ago)) if status == "paid" else None,
        is_deferred=deferred,
    )
    for product, quantity in positions:
        maker.insert(
            "invoice_positions",
            invoice_id=invoice["id"],
            product_id=product["id"],
            quantity=quantity,
            unit_cents=product["price_cents"],
        )
        invoice["total_cents"] += quantity * product["price_cents"]
    return invoice


def new_reminder(maker: Maker, invoice: Row, days: int, *, fee: int | None = None) -> Row:
    """Insert the next reminder of an invoice, sent so many days ago, with the usual fee."""
    known = maker.rows("invoice_reminders", invoice_id=invoice["id"])
    return maker.insert(
        "invoice_reminders",
        invoice_id=invoice["id"],
        step=len(known) + 1,
        fee_cents=maker.parameters["REMINDER_FEE_CENTS"] if fee is None else fee,
        sent_by=some_staff(maker)["id"],
        sent_at=maker.ago(days),
    )
