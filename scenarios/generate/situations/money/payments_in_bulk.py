"""Longer situations about money: several payments, refunds, claims or invoices, one by one."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.invoices.make import new_invoice
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment
from rehearsal_room.scenarios.generate.modules.refunds.make import refund_reason, share_of

GROUP = "long_money"  # first part of the ids of these situations


@situation(
    "payments",
    steps=7,
    memory=True,
    without=(
        "public_library",
        "theatre",
        "museum",
        "law_office",
        "accounting_office",
    ),
    weight=0.1,
)
def everything_that_bounced(maker: Maker) -> Draft | None:
    """All failed payments: switched where the method is dead, tried again where still in time."""
    goods = some_products(maker, 3)
    window = maker.parameters["RETRY_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    dead = new_method(maker, customer, "card", expires=-2)
    good = new_method(maker, customer, "debit")
    one = new_payment(maker, customer, dead, goods[0], status="failed", created=2)
    two = new_payment(maker, customer, good, goods[1], status="failed", created=5)
    old = new_payment(maker, customer, good, goods[2], status="failed", created=window + 6)
    return Draft(
        kind="change",
        ask=Voices(
            email="Several of {name}'s [payments] failed while {name.he} was away, some "
            "because a card had expired. Could you retry them, with {name.his} valid card "
            "where necessary, and tell me which ones are too old?",
            colleague="Some of {name}'s [payments] failed, partly because a card had "
            "expired. Could you please retry them, with the valid card where the old one "
            "has run out? Tell me which ones are too old.",
            chat="some [payments] from {name} failed, partly cos a card expired. can "
            "you retry them, with the valid card where needed? tell me which ones are too "
            "old",
            note="{name} would like to pay everything that failed. Please retry those "
            "[payments], with {name.his} valid card where the old one has expired, and "
            "tell me which of them are too old.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_payments", customer_id=customer["id"], status="failed"),
            call("list_payment_methods", customer_id=customer["id"]),
            call("get_payment", payment_id=old["id"]),
            call("switch_payment_method", payment_id=one["id"], method_id=good["id"]),
            call("retry_payment", payment_id=one["id"]),
            call("retry_payment", payment_id=two["id"]),
        ),
        answer=f"I switched {one['reference']} to the debit card and retried it, and retried "
        f"{two['reference']} as well. I could not retry {old['reference']}: it's more than "
        f"{window} days old.",
        values={"name": customer["name"]},
        reasons=(f"{window} days", "too old", "too late", "window", "too long ago"),
        spare=(("payments", old["id"]),),
    )


@situation(
    "refunds",
    "payments",
    steps=6,
    memory=True,
    rare=True,
    without=(
        "credit_union",
        "law_office",
        "permits_office",
    ),
)
def goodwill_for_a_bad_week(maker: Maker) -> Draft | None:
    """Goodwill on each of a customer's payments of a week, at the whole share."""
    goods = some_products(maker, 3)
    if not goods or maker.parameters["MOST_OPEN_REFUNDS"] < 2:
        return None
    customer = new_customer(maker)
    method = new_method(maker, customer)
    payments = [
        new_payment(maker, customer, method, product, status="settled", created=days)
        for product, days in zip(goods, (6, 8, 21), strict=True)
    ]
    failed = new_payment(maker, customer, method, goods[2], status="failed", created=7)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has had nothing but trouble with us since {day}. Please open a "
            "goodwill [refund] on each of {name.his} settled [payments] from that day on, at the "
            "maximum.",
            colleague="{name} has had a terrible week with us. Please open a goodwill [refund] "
            "on each of {name.his} settled [payments] from {day} on, at the maximum.",
            chat="{name} has had nothing but trouble with us since {day}. can you open goodwill "
            "[refunds] on all {name.his} settled [payments] from that day on, the maximum each "
            "time",
            note="We've let {name} down more than once since {day}. Please open the maximum "
            "goodwill [refund] on each of {name.his} settled [payments] from that day on.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_payments", customer_id=customer["id"], status="settled"),
            call("list_refund_reasons"),
            call("find_refunds", customer_id=customer["id"]),
            *(
                call(
                    "open_refund",
                    payment_id=row["id"],
                    reason_id=refund_reason(maker, "Goodwill")["id"],
                    amount_cents=share_of(maker, row, "Goodwill"),
                )
                for row in payments[:2]
            ),
        ),
        answer=f"I've opened goodwill [refunds] for {payments[0]['reference']} and "
        f"{payments[1]['reference']}.",
        values={"name": customer["name"], "day": long_day(maker.ago(10))},
        spare=(("payments", payments[2]["id"]), ("payments", failed["id"])),
        trap="One payment is older, another one failed.",
    )


@situation("invoices", steps=4, common=True)
def three_lines_of_a_statement(maker: Maker) -> Draft | None:
    """Three transfers: two fit an invoice exactly, the third fits none."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    bills = [
        new_invoice(maker, customer, [(product, 1 + index)], "sent", due=9 - 3 * index)
        for index, product in enumerate(goods)
    ]
    totals = [row["total_cents"] for row in bills]
    if len(set(totals)) < 3:
        return None
    odd = totals[2] - 10
    one, two = maker.day(-3), maker.day(-1)
    if odd in totals:
        return None
    return Draft(
        kind="change",
        ask=Voices(
            email="There are three transfers from {name} on our bank statement: {first} on "
            "{one}, and {second} and {third} on {two}. Please mark the [invoices] they match as "
            "paid, with those dates. Tell me if one doesn't fit.",
            colleague="We've had three transfers from {name}: {first} on {one}, and {second} "
            "and {third} on {two}. Could you mark the [invoices] with exactly those "
            "amounts as paid on those days, and tell me if one doesn't match?",
            chat="{name} sent 3 transfers, {first} on {one}, {second} and {third} on {two}. can "
            "you mark the [invoices] paid with the date? tell me if one doesnt match",
            note="{name} has paid us {first} on {one}, and {second} and {third} on "
            "{two}. Please mark the [invoices] with exactly those amounts as paid on those "
            "days. If one amount doesn't match, tell me.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("mark_invoice_paid", invoice_id=bills[0]["id"], paid_on=one),
            call("mark_invoice_paid", invoice_id=bills[1]["id"], paid_on=two),
        ),
        answer=f"{bills[0]['number']} and {bills[1]['number']} are marked as paid. "
        f"{maker.money(odd)} doesn't match any [invoice], so I could not mark anything for it: "
        f"{bills[2]['number']} is for {maker.money(totals[2])}.",
        values={
            "name": customer["name"],
            "first": maker.money(totals[0]),
            "second": maker.money(totals[1]),
            "third": maker.money(odd),
            "one": long_day(one),
            "two": long_day(two),
        },
        reasons=(
            "equals no",
            "exactly",
            "does not fit",
            "doesn't fit",
            "does not match",
            "doesn't match",
            "short",
        ),
        spare=(("invoices", bills[2]["id"]),),
        tempts=("mark_invoice_paid",),
    )
