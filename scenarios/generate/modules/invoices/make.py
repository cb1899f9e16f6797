"""Seed rows and tasks of the invoices."""

from datetime import date, timedelta

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.catalogue.make import product_named, some_product
from scenarios.generate.modules.draft_helpers import new_code, within_limit
from scenarios.generate.modules.parties.make import customer_named, some_customer

# What the invoices in the seed rows are like, one after the other.
_STATES = (
    *("reminded long ago", "reminded lately", "draft", "due later", "deferred"),
    *("overdue", "paid", "waived once", "draft", "cancelled"),
)


def rows(maker: Maker) -> None:
    """Invoices in every state: drafts, due ones, overdue ones with and without reminders."""
    for index in range(maker.many(9, least=8)):
        _add_invoice(maker, _STATES[index % len(_STATES)])


def _add_invoice(maker: Maker, state: str) -> None:
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    is_ahead = state in ("draft", "due later")
    due = maker.rng.randrange(4, 20) if is_ahead else -maker.rng.randrange(gap + 12, gap + 60)
    statuses = {"draft": "draft", "paid": "paid", "cancelled": "cancelled"}
    status = statuses.get(state, "sent")
    invoice = maker.insert(
        "invoices",
        number=new_code(maker, "invoices", "number", "IV", 5),
        customer_id=some_customer(maker)["id"],
        status=status,
        total_cents=0,
        due_on=maker.day(due),
        sent_on=None if status == "draft" else maker.day(due - 30),
        paid_on=maker.day(due + 2) if status == "paid" else None,
        is_deferred=int(state == "deferred"),
    )
    products = maker.rows("products", status="active")
    for product in maker.rng.sample(products, k=maker.one_of(1, 1, 2)):
        quantity = maker.rng.randrange(1, 5)
        maker.insert(
            "invoice_positions",
            invoice_id=invoice["id"],
            product_id=product["id"],
            quantity=quantity,
            unit_cents=product["price_cents"],
        )
        invoice["total_cents"] += quantity * product["price_cents"]
    if state in ("reminded long ago", "reminded lately", "waived once"):
        _add_reminders(maker, invoice, state)


def _add_reminders(maker: Maker, invoice: Row, state: str) -> None:
    """One reminder, or two of which the first was free."""
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    is_late = state == "reminded lately"
    days = maker.rng.randrange(1, gap) if is_late else maker.rng.randrange(gap, gap + 8)
    fee = maker.parameters["REMINDER_FEE_CENTS"]
    fees = ((0, days + 3), (fee, days)) if state == "waived once" else ((fee, days),)
    for step, (cents, ago) in enumerate(fees, 1):
        maker.insert(
            "invoice_reminders",
            invoice_id=invoice["id"],
            step=step,
            fee_cents=cents,
            sent_by=maker.rng.choice(maker.rows("employees", active=1))["id"],
            sent_at=maker.ago(ago),
        )


def invoice_named(maker: Maker, invoice: Row) -> Named:
    """How an instruction names an invoice, and the calls that find it."""
    lookup = call("get_invoice", invoice_id=invoice["id"])
    if not maker.is_vague():
        return Named("invoice {invoice}", {"invoice": invoice["id"]}, (lookup,))
    customer = maker.get("customers", invoice["customer_id"])
    same = maker.rows("invoices", customer_id=customer["id"], status=invoice["status"])
    if len(same) > 1 or maker.chance(0.4):
        found = call("find_invoice_by_number", number=invoice["number"])
        return Named("the invoice {invoice}", {"invoice": invoice["number"]}, (found,))
    who = customer_named(maker, customer)
    find = call("find_invoices", customer_id=customer["id"], status=invoice["status"])
    state = {"draft": "a draft", "sent": "sent and not paid"}.get(invoice["status"])
    text = f"the only invoice of {who.text} that is {state or invoice['status']}"
    return Named(text, who.values, (*who.calls, find, lookup))


def _reminders(maker: Maker, invoice: Row) -> list[Row]:
    return maker.rows("invoice_reminders", invoice_id=invoice["id"])


def _overdue(maker: Maker) -> list[Row]:
    """Sent invoices whose due day is over, the oldest first."""
    found = maker.rows("invoices", lambda row: row["due_on"] < maker.day(), status="sent")
    return sorted(found, key=lambda row: (row["due_on"], row["id"]))


def _may_be_reminded(maker: Maker, invoice: Row) -> bool:
    """By the tool's limits and by the gap that only the rules tell."""
    sent = _reminders(maker, invoice)
    latest = maker.day(-maker.parameters["REMINDER_GAP_DAYS"])
    return len(sent) < maker.parameters["MOST_REMINDERS"] and all(
        row["sent_at"][:10] <= latest for row in sent
    )


def _later(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


def reminder_to_send(maker: Maker) -> Draft | None:
    """An overdue invoice that may be reminded of."""
    eligible = [row for row in _overdue(maker) if _may_be_reminded(maker, row)]
    if not eligible:
        return None
    invoice = maker.rng.choice(eligible)
    what = invoice_named(maker, invoice)
    return Draft(
        kind="change",
        ask=f"Send a reminder for {what.text}.",
        calls=(
            *what.calls,
            call("send_reminder", invoice_id=invoice["id"]),
        ),
        answer="The reminder is sent.",
        values=what.values,
    )


def oldest_to_remind(maker: Maker) -> Draft | None:
    """The invoice that has been overdue the longest, which must be found."""
    overdue = _overdue(maker)
    if len(overdue) < 2 or overdue[0]["due_on"] == overdue[1]["due_on"]:
        return None
    oldest = overdue[0]
    if not _may_be_reminded(maker, oldest):
        return None
    return Draft(
        kind="change",
        ask="Send a reminder for the invoice that has been overdue the longest of all.",
        calls=(
            call("list_overdue_invoices"),
            call("get_invoice", invoice_id=oldest["id"]),
            call("send_reminder", invoice_id=oldest["id"]),
        ),
        answer="The reminder for {number} is sent.",
        values={"number": oldest["number"]},
    )


def _deferrable(maker: Maker, *, is_deferred: bool) -> Row | None:
    return maker.pick("invoices", status="sent", is_deferred=int(is_deferred))


def _deferred(maker: Maker, invoice: Row, days: int, closing: str = "") -> Draft:
    what = invoice_named(maker, invoice)
    due = _later(invoice["due_on"], days)
    return Draft(
        kind="change",
        ask=f"Defer {what.text}: it shall be due {{days}} days later than now{closing}.",
        calls=(
            *what.calls,
            call("defer_invoice", invoice_id=invoice["id"], due_on=due),
        ),
        answer="It is due on {due} now.",
        values={**what.values, "days": days, "due": due},
    )


def invoice_to_defer(maker: Maker) -> Draft | None:
    """By a few days from its due day, which must be looked up."""
    invoice = _deferrable(maker, is_deferred=False)
    if invoice is None:
        return None
    days = maker.rng.randrange(3, maker.parameters["MOST_DEFERRED_DAYS"] + 1)
    return _deferred(maker, invoice, days)


def invoice_paid(maker: Maker) -> Draft | None:
    """Its money came in on a day that is named."""
    invoice = maker.pick("invoices", status="sent")
    if invoice is None:
        return None
    what = invoice_named(maker, invoice)
    day = maker.day(-maker.rng.randrange(1, 9))
    return Draft(
        kind="change",
        ask=f"Mark {what.text} as paid: the money came in on {{day}}.",
        calls=(*what.calls, call("mark_invoice_paid", invoice_id=invoice["id"], paid_on=day)),
        answer="It is marked as paid on {day}.",
        values={**what.values, "day": day},
    )


def fee_to_waive(maker: Maker) -> Draft | None:
    """The fee of the only reminder of an invoice, for good reason."""
    reminders = maker.rows("invoice_reminders", lambda row: row["fee_cents"] > 0)
    alone = [
        row
        for row in reminders
        if len(maker.rows("invoice_reminders", invoice_id=row["invoice_id"])) == 1
    ]
    if not alone:
        return None
    reminder = maker.rng.choice(alone)
    invoice = maker.get("invoices", reminder["invoice_id"])
    what = invoice_named(maker, invoice)
    return Draft(
        kind="change",
        ask=f"Waive the fee of the reminder for {what.text}: our bank had made a mistake.",
        calls=(
            *what.calls,
            call("waive_reminder_fee", reminder_id=reminder["id"]),
        ),
        answer="The fee of {fee} is waived.",
        values={**what.values, "fee": maker.money(reminder["fee_cents"])},
    )


def draft_to_send(maker: Maker) -> Draft | None:
    """A draft gets one more position and is sent."""
    invoice = maker.pick("invoices", status="draft")
    if invoice is None:
        return None
    product = some_product(maker)
    if maker.rows("invoice_positions", invoice_id=invoice["id"], product_id=product["id"]):
        return None
    what, goods = invoice_named(maker, invoice), product_named(maker, product)
    quantity = maker.rng.randrange(1, 9)
    add = call(
        "add_invoice_position",
        invoice_id=invoice["id"],
        product_id=product["id"],
        quantity=quantity,
    )
    return Draft(
        kind="change",
        ask=f"Add {{quantity}} of {goods.text} to {what.text}, then send it.",
        calls=(
            *what.calls,
            *goods.calls,
            add,
            call("send_invoice", invoice_id=invoice["id"]),
        ),
        answer="It is sent, with the new position.",
        values={**what.values, **goods.values, "quantity": quantity},
        trap="Once it is sent, nothing can be added.",
    )


def invoice_to_cancel(maker: Maker) -> Draft | None:
    """Written by mistake; above the own limit it is to be declined."""
    invoice = maker.pick("invoices", lambda row: row["status"] in ("draft", "sent"))
    if invoice is None:
        return None
    what = invoice_named(maker, invoice)
    cancel = Draft(
        kind="change",
        ask=f"Cancel {what.text}, which was written by mistake.",
        calls=(*what.calls, call("cancel_invoice", invoice_id=invoice["id"])),
        answer="It is cancelled.",
        values=what.values,
    )
    return within_limit(maker, invoice["total_cents"], cancel, "its total")


def same_due_day(maker: Maker) -> Draft | None:
    """A memory task: an invoice shall be due on the day of another one."""
    one, other = maker.pick("invoices"), _deferrable(maker, is_deferred=False)
    if one is None or other is None:
        return None
    most = _later(other["due_on"], maker.parameters["MOST_DEFERRED_DAYS"])
    if not other["due_on"] < one["due_on"] <= most:
        return None
    return Draft(
        kind="change",
        ask="Look up on which day the invoice {one} is due, and keep that day in mind.",
        later="Finally, defer the invoice {other}, so that it is due on that same day.",
        calls=(
            call("find_invoice_by_number", number=one["number"]),
            call("find_invoice_by_number", number=other["number"]),
            call("defer_invoice", invoice_id=other["id"], due_on=one["due_on"]),
        ),
        hold=1,
        answer="Both are due on the same day.",
        values={"one": one["number"], "other": other["number"]},
    )


def when_due(maker: Maker) -> Draft | None:
    """The due day of an invoice."""
    invoice = maker.pick("invoices")
    assert invoice is not None, "there are invoices"
    what = invoice_named(maker, invoice)
    return Draft(
        kind="question",
        ask=f"On which day is {what.text} due?",
        calls=what.calls,
        answer="It is due on {day}.",
        values={**what.values, "day": day_of(invoice["due_on"])},
    )


def what_is_owed(maker: Maker) -> Draft | None:
    """What someone owes: their sent invoices with all fees, a sum over two tables."""
    invoice = maker.pick("invoices", status="sent")
    if invoice is None:
        return None
    customer = maker.get("customers", invoice["customer_id"])
    sent = maker.rows("invoices", customer_id=customer["id"], status="sent")
    fees = sum(fee["fee_cents"] for row in sent for fee in _reminders(maker, row))
    total = sum(row["total_cents"] for row in sent) + fees
    return Draft(
        kind="question",
        ask="What does {name} owe us for all invoices that are sent and not paid, the fees of "
        "their reminders included?",
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            *(call("get_invoice", invoice_id=row["id"]) for row in sent),
        ),
        answer="Together it is {total}.",
        values={"name": customer["name"], "total": maker.money(total)},
    )


def reminder_too_soon(maker: Maker) -> Draft | None:
    """The one before is too young; the tool would send it."""
    eligible = [
        row
        for row in _overdue(maker)
        if not _may_be_reminded(maker, row)
        and len(_reminders(maker, row)) < maker.parameters["MOST_REMINDERS"]
    ]
    if not eligible:
        return None
    invoice = maker.rng.choice(eligible)
    what = invoice_named(maker, invoice)
    return Draft(
        kind="decline",
        ask=f"Send another reminder for {what.text}.",
        calls=what.calls,
        answer="I decline: the reminder before must be {gap} days old, so this is too soon.",
        values={**what.values, "gap": maker.parameters["REMINDER_GAP_DAYS"]},
        reasons=("too soon", "days old", "too early", "gap", "too recent"),
        trap="The invoice is overdue, so the tool would send it.",
    )


def deferred_before(maker: Maker) -> Draft | None:
    """It was deferred once; the tool would do it again."""
    invoice = _deferrable(maker, is_deferred=True)
    if invoice is None:
        return None
    draft = _deferred(maker, invoice, maker.rng.randrange(3, 9))
    return Draft(
        kind="decline",
        ask=draft.ask,
        calls=draft.calls[:-1],
        answer="I decline: it was deferred before, and that is done once only.",
        values=draft.values,
        reasons=("once", "before", "already", "second time", "again"),
        trap="The days are few, so the tool would defer it.",
    )


def deferred_in_steps(maker: Maker) -> Draft | None:
    """More days than the rules allow, with the hint to do it in steps."""
    invoice = _deferrable(maker, is_deferred=False)
    if invoice is None:
        return None
    most = maker.parameters["MOST_DEFERRED_DAYS"]
    hint = ", in several steps if it does not go at once"
    draft = _deferred(maker, invoice, most + maker.rng.randrange(5, most), hint)
    return Draft(
        kind="decline",
        ask=draft.ask,
        calls=draft.calls[:-1],
        answer="I decline: {most} days at most are allowed, and several steps are forbidden.",
        values={**draft.values, "most": most},
        reasons=("at most", "steps", "limit", "maximum", "too long"),
        trap="Each of two smaller steps would pass the tool.",
    )


DRAFTS = (
    reminder_to_send,
    oldest_to_remind,
    invoice_to_defer,
    invoice_paid,
    fee_to_waive,
    draft_to_send,
    invoice_to_cancel,
    same_due_day,
    when_due,
    what_is_owed,
    reminder_too_soon,
    deferred_before,
    deferred_in_steps,
)
