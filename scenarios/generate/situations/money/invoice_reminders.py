"""Situations about overdue invoices: whether to remind, whose fee to waive, what was paid when."""

from collections.abc import Callable

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.event_times import later_day
from rehearsal_room.scenarios.generate.modules.invoices.make import new_invoice, new_reminder
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment


@situation("invoices", steps=5, common=True, without=("hotel",), weight=0.6)
def time_to_ask_again(maker: Maker) -> Draft | None:
    """Two overdue invoices; for one the last reminder is old enough for another."""
    goods = some_products(maker, 2)
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    ripe = new_invoice(maker, customer, [(goods[0], 2)], "sent", due=-2 * gap - 8)
    new_reminder(maker, ripe, gap + 2)
    green = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=-gap - 6)
    new_reminder(maker, green, gap - 4)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} promised to pay last month, and nothing has arrived. Please send a "
            "[reminder] for each of {name.his} overdue [invoices], unless it's too soon for "
            "another.",
            colleague="{name} still hasn't paid {name.his} overdue [invoices]. Could you "
            "please send [a reminder] for each of them, unless the last one is too recent?",
            chat="{name} still owes us. can you send [reminders] for {name.his} overdue "
            "[invoices]? leave out any where its too soon for the next",
            note="{name} hasn't paid and doesn't answer the phone. Please send "
            "[reminders] for {name.his} overdue [invoices], but leave out any for which "
            "it's still too soon.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=green["id"]),
            call("get_invoice", invoice_id=ripe["id"]),
            call("send_reminder", invoice_id=ripe["id"]),
        ),
        answer=f"[A reminder] has gone out for {ripe['number']}. For {green['number']} the last "
        f"is less than {gap} days old, so I left it.",
        values={"name": customer["name"]},
        spare=(("invoices", green["id"]),),
    )


@situation("invoices", kind="decline", steps=3, without=("hotel",))
def reminded_only_lately(maker: Maker) -> Draft | None:
    """The last reminder is too recent for the next."""
    goods = some_products(maker, 1)
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], 3)], "sent", due=-gap - 9)
    days = maker.rng.randrange(2, gap - 1)
    new_reminder(maker, invoice, days)
    return Draft(
        kind="decline",
        ask=Voices(
            email="I'm trying to close the month, and {name} still hasn't paid for the {product}. "
            "Could you send {name.him} another [reminder] today?",
            colleague="{name} still hasn't paid the overdue [invoice] for the {product}. "
            "Could you please send {name.him} the next [reminder]?",
            chat="{name} still hasnt paid for the {product}, can you send {name.him} another "
            "[reminder]",
            note="The [invoice] to {name} for the {product} is well overdue by now. "
            "Please send {name.him} the next [reminder] before you finish today.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=invoice["id"]),
        ),
        answer=f"I did not send one: the last [reminder] for {invoice['number']} is {days} days "
        f"old, and there have to be {gap} days between two.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=(f"{gap} days", "too soon", "too early", "too recent", "between"),
        tempts=("send_reminder",),
        spare=(("invoices", invoice["id"]),),
        trap="The system would send it.",
    )


@situation("invoices", kind="decline", steps=3, common=True, without=("hotel",), weight=0.7)
def waived_one_already(maker: Maker) -> Draft | None:
    """The fee of a second reminder is to be waived; that of the first was."""
    goods = some_products(maker, 1)
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], 1)], "sent", due=-2 * gap - 11)
    new_reminder(maker, invoice, gap + 7, fee=0)
    new_reminder(maker, invoice, 4)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} was in hospital when we sent the latest [reminder] about the "
            "{product}, and has asked us to drop the fee. Please waive it.",
            colleague="{name} was in hospital and couldn't pay for the {product}. Could you "
            "please waive the fee for the latest [reminder] we sent {name.him}?",
            chat="can you waive the fee on the last [reminder] {name} got for the "
            "{product}? {name.he} was in hospital",
            note="{name} was ill and couldn't pay for the {product} in time. I've told "
            "{name.him} that {name.he} won't have to pay the fee for the latest "
            "[reminder], so please waive it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=invoice["id"]),
        ),
        answer=f"I could not waive it. The fee of the first [reminder] for {invoice['number']} "
        "has been waived already, and we do that only once per [invoice].",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=("already", "once", "one reminder", "first"),
        tempts=("waive_reminder_fee",),
        spare=(("invoices", invoice["id"]),),
    )


@situation("invoices", steps=5, common=True, without=("hotel",), weight=0.75)
def had_paid_before_we_asked(maker: Maker) -> Draft | None:
    """The money had come before the reminder: its fee is waived, then the invoice marked paid."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], 2)], "sent", due=-16)
    reminder = new_reminder(maker, invoice, 5)
    other = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=8)
    paid = maker.day(-8)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} paid for the {product} on {day} and still got a [reminder]. That was "
            "our mistake. Could you waive the fee and mark the [invoice] as paid on that day?",
            colleague="We received {name}'s money for the {product} on {day}, before we sent "
            "the [reminder]. Could you please waive the fee and mark the [invoice] as paid "
            "on that day?",
            chat="{name} paid for the {product} on {day}, we just didnt see it and sent a "
            "[reminder]. can you waive the fee and mark it paid on that date",
            note="{name} paid for the {product} on {day}, but nobody noticed, so we "
            "sent [a reminder]. Please waive the fee and mark the [invoice] as paid on "
            "that day.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=invoice["id"]),
            call("waive_reminder_fee", reminder_id=reminder["id"]),
            call("mark_invoice_paid", invoice_id=invoice["id"], paid_on=paid),
        ),
        answer=f"The fee is waived, and {invoice['number']} is marked as paid on {long_day(paid)}.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "day": long_day(paid),
        },
        spare=(("invoices", other["id"]),),
        trap="Once it is paid, the fee can no longer be waived.",
    )


@situation("invoices", steps=3, weight=0.5)
def the_oldest_without_one(maker: Maker) -> Callable[[], Draft | None] | None:
    """Of all overdue invoices those that were never reminded and are the oldest come first."""
    goods = some_products(maker, 2)
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    if not goods or maker.rows("invoices", due_on=maker.day(-gap - 98)):
        return None
    old = new_invoice(maker, new_customer(maker), [(goods[0], 1)], "sent", due=-gap - 98)
    new_reminder(maker, old, gap + 20)
    for days in maker.rng.sample(range(20, 90), k=3):
        new_invoice(maker, new_customer(maker), [(goods[1], 2)], "sent", due=-gap - days)

    def draft() -> Draft | None:
        overdue = maker.rows("invoices", lambda row: row["due_on"] < maker.day(), status="sent")
        reminded = {row["invoice_id"] for row in maker.rows("invoice_reminders")}
        never = sorted(
            (row for row in overdue if row["id"] not in reminded),
            key=lambda row: (row["due_on"], row["id"]),
        )
        if len(never) < 3 or never[1]["due_on"] == never[2]["due_on"]:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="Some overdue [invoices] have never had [a reminder]. Could you send one "
                "for each of the two oldest? I'd like to ring the others first.",
                colleague="Some of our overdue [invoices] haven't had [a reminder] yet. Could "
                "you please send one for each of the two oldest? I'm ringing the other people "
                "myself.",
                chat="can you find the 2 oldest overdue [invoices] that never had a [reminder] "
                "and send one for each? ill ring the others",
                note="I'm ringing people about the overdue [invoices] that have never had "
                "[a reminder]. For the two oldest of them, please send one instead.",
            ),
            calls=(
                call("list_overdue_invoices"),
                call("send_reminder", invoice_id=never[0]["id"]),
                call("send_reminder", invoice_id=never[1]["id"]),
            ),
            answer=f"[Reminders] went out for {never[0]['number']} and {never[1]['number']}.",
            spare=(("invoices", old["id"]), ("invoices", never[2]["id"])),
            trap="An older one has been reminded before.",
        )

    return draft


@situation("invoices", kind="decline", steps=3, common=True, without=("hotel",))
def we_have_asked_enough(maker: Maker) -> Draft | None:
    """All reminders that the rules allow have been sent."""
    goods = some_products(maker, 1)
    most = maker.parameters["MOST_REMINDERS"]
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], 2)], "sent", due=-(most + 1) * (gap + 4))
    for index in range(most):
        new_reminder(maker, invoice, (most - index) * (gap + 3))
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has been promising for months to pay for the {product}, and nothing "
            "has come. Could you send {name.him} one more [reminder]?",
            colleague="{name} still hasn't paid for the {product} and doesn't answer the "
            "phone. Could you send {name.him} one more [reminder], please?",
            chat="{name} still hasnt paid for the {product}, its ages overdue. can you send one "
            "more [reminder]",
            note="{name} has owed us for the {product} for months. Please send "
            "{name.him} one last [reminder] today, before I hand the case to our lawyer.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=invoice["id"]),
        ),
        answer=f"I cannot send another: {invoice['number']} has already had {most} [reminders], "
        "which is the maximum.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=("at most", "maximum", "more are not", "no more", "limit", "already"),
        tempts=("send_reminder",),
        spare=(("invoices", invoice["id"]),),
    )


@situation("invoices", kind="question", steps=4, common=True, without=("hotel",))
def was_never_reminded(maker: Maker) -> Draft | None:
    """The customer claims that no reminder ever came; how many, and when was the last?"""
    goods = some_products(maker, 2)
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], 2)], "sent", due=-2 * gap - 14)
    new_reminder(maker, invoice, gap + 8)
    last = new_reminder(maker, invoice, 5)
    other = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=-8)
    new_reminder(maker, other, 2)
    pair = (other, invoice)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} says {name.he}'s never had a [reminder] for the {product} and won't pay "
            "the fee. How many did we send, and when was the last one?",
            colleague="{name} says {name.he} never got [a reminder] for the {product}. Could "
            "you check how many we sent, and when the last one went out?",
            chat="{name} says {name.he} never got a [reminder] for the {product}. how many did we "
            "send and when did the last one go out",
            note="{name} is disputing the [reminder] fees for the {product}, and I'd "
            "like to call {name.him} back today. How many [reminders] did we send, and "
            "when was the last one?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            *(call("get_invoice", invoice_id=row["id"]) for row in pair),
        ),
        answer="We sent {count}, the last on {day}.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "count": 2,
            "day": long_day(last["sent_at"]),
        },
        trap="Another invoice of theirs was reminded later.",
    )


@situation(
    "invoices",
    "payments",
    steps=8,
    memory=True,
    common=True,
    without=("pharmacy_wholesale",),
)
def settled_by_card_meanwhile(maker: Maker) -> Draft | None:
    """A settled payment covers an open invoice, which gets the day of the payment."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    method = new_method(maker, customer, "card")
    invoice = new_invoice(maker, customer, [(goods[0], 1)], "sent", due=-6)
    other = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=-3)
    days = maker.rng.randrange(7, 12)
    payment = new_payment(maker, customer, method, goods[0], status="settled", created=days)
    failed = new_payment(maker, customer, method, goods[1], status="failed", created=days - 1)
    pair = (failed, payment)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} says {name.he} paid for the {one} and the {two} by card. Could you "
            "check, and mark any [invoice] that's been paid, with the day the [payment] settled?",
            colleague="{name} says {name.he} paid for the {one} and the {two} by card. Could "
            "you check both, and mark any [invoice] that's really been paid, with the day "
            "the [payment] settled?",
            chat="{name} says {name.he} paid the [invoices] for the {one} and the {two} "
            "by card. can you check and mark what has really been paid, with the day it "
            "settled",
            note="{name} says {name.he} paid the [invoices] for the {one} and the {two} "
            "by card, but both are still open. Please mark any [invoice] that's really "
            "been paid, with the day the [payment] settled.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=other["id"]),
            call("get_invoice", invoice_id=invoice["id"]),
            call("find_payments", customer_id=customer["id"]),
            *(call("get_payment", payment_id=row["id"]) for row in pair),
            call(
                "mark_invoice_paid",
                invoice_id=invoice["id"],
                paid_on=payment["settled_at"][:10],
            ),
        ),
        answer=f"{invoice['number']} is marked as paid on {long_day(payment['settled_at'])}. "
        f"{other['number']} stays open: the [payment] for {goods[1]['name']} failed.",
        values={"name": customer["name"], "one": goods[0]["name"], "two": goods[1]["name"]},
        spare=(("invoices", other["id"]),),
    )


@situation("invoices", steps=6, rare=True, without=("hotel",))
def rather_time_than_fees(maker: Maker) -> Draft | None:
    """Not yet due ones are deferred to the allowed end, the overdue one is reminded."""
    goods = some_products(maker, 2)
    most = maker.parameters["MOST_DEFERRED_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    late = new_invoice(maker, customer, [(goods[0], 1)], "sent", due=-maker.rng.randrange(4, 12))
    fresh = new_invoice(maker, customer, [(goods[1], 2)], "sent", due=4)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} can't pay this month. Please send the first [reminder] for the overdue "
            "[invoice], and give {name.him} as much time as we can for the one that isn't due yet.",
            colleague="{name} can't pay right now. Please send the first [reminder] for "
            "{name.his} overdue [invoice] and defer the other one for as long as we can.",
            chat="{name} is short of money. can you send the first reminder for the overdue "
            "[invoice], and defer the one that isn't due yet for as long as we can",
            note="{name} has two unpaid [invoices]. Please send the first [reminder] for the "
            "overdue one, and move the due date of the other as far back as we allow.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=fresh["id"]),
            call("get_invoice", invoice_id=late["id"]),
            call("send_reminder", invoice_id=late["id"]),
            call("defer_invoice", invoice_id=fresh["id"], due_on=later_day(fresh["due_on"], most)),
        ),
        answer=f"{fresh['number']} is due on {long_day(later_day(fresh['due_on'], most))} now, and "
        f"{late['number']} has had its first [reminder].",
        values={"name": customer["name"]},
    )
