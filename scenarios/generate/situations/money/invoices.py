"""Situations about invoices: what stands on them, until when they are paid, what came in."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.event_times import later_day
from rehearsal_room.scenarios.generate.modules.invoices.make import new_invoice, new_reminder
from rehearsal_room.scenarios.generate.modules.orders.make import new_order
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

GROUP = "invoice_desk"  # first part of the ids of these situations


@situation("invoices", steps=5, common=True, without=("catering",))
def forgot_to_charge_for_it(maker: Maker) -> Draft | None:
    """Something is missing on a draft; it is added and the draft sent."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    draft = new_invoice(maker, customer, [(goods[0], 2)], "draft", due=18)
    other = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=6)
    count = maker.rng.randrange(2, 6)
    return Draft(
        kind="change",
        ask=Voices(
            email="We've forgotten to charge {name} for {count} × {product}. Could you "
            "complete {name.his} draft [invoice] and send it?",
            colleague="We forgot to put {count} × {product} on {name}'s [invoice], which is "
            "still a draft. Could you please complete it and send it?",
            chat="we left {count} × {product} off the draft [invoice] for {name}. can "
            "you fix that and send it",
            note="The draft [invoice] for {name} should also include {count} × "
            "{product}. Please complete it and send it today.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="draft"),
            call("search_products", query=goods[2]["name"]),
            call(
                "add_invoice_position",
                invoice_id=draft["id"],
                product_id=goods[2]["id"],
                quantity=count,
            ),
            call("send_invoice", invoice_id=draft["id"]),
        ),
        answer=f"{draft['number']} is sent, now with {count} × {goods[2]['name']}.",
        values={"name": customer["name"], "product": goods[2]["name"], "count": count},
        spare=(("invoices", other["id"]),),
    )


@situation("invoices", steps=3, common=True)
def which_one_does_it_pay(maker: Maker) -> Draft | None:
    """Money has come in without a number; only one invoice has exactly this total."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    mine = new_invoice(maker, customer, [(goods[0], 3)], "sent", due=4)
    near = new_invoice(maker, customer, [(goods[0], 2), (goods[1], 1)], "sent", due=7)
    alike = new_customer(maker, like=customer)
    theirs = new_invoice(maker, alike, [(goods[0], 3)], "sent", due=2)
    if mine["total_cents"] == near["total_cents"]:
        return None
    day = maker.day(-maker.rng.randrange(1, 4))
    return Draft(
        kind="change",
        ask=Voices(
            email="The bank shows {total} from {name}, received on {day}, without a reference. "
            "Could you find the [invoice] it's for and mark it as paid on that day?",
            colleague="{name} paid {total} on {day} but didn't say which [invoice] it was "
            "for. Could you please find the right one and mark it as paid on that day?",
            chat="{total} came in from {name} on {day}, no reference. can you find the [invoice] "
            "with that amount and mark it paid, same date",
            note="There's a transfer of {total} from {name} on our bank statement for "
            "{day}, without a number. Please find the [invoice] with that total and mark "
            "it as paid on that day.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("mark_invoice_paid", invoice_id=mine["id"], paid_on=day),
        ),
        answer=f"{mine['number']} is marked as paid on {long_day(day)}; the amount is exactly its "
        "total.",
        values={
            "name": customer["name"],
            "total": maker.money(mine["total_cents"]),
            "day": long_day(day),
        },
        spare=(("invoices", near["id"]), ("invoices", theirs["id"])),
        trap="Somebody with a similar name owes the same amount.",
    )


@situation("invoices", steps=5, without=("catering",), common=True, weight=0.8)
def a_little_more_time(maker: Maker) -> Draft | None:
    """The [invoice] for one thing is deferred by as many days as asked; the rules allow it."""
    goods = some_products(maker, 2)
    most = maker.parameters["MOST_DEFERRED_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    mine = new_invoice(maker, customer, [(goods[0], 1)], "sent", due=3)
    other = new_invoice(maker, customer, [(goods[1], 2)], "sent", due=12)
    pair = (other, mine)
    days = maker.rng.randrange(4, most)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has money coming in soon and has asked for {days} more days to pay "
            "the [invoice] for the {product}. I've agreed to that. Could you change the due date?",
            colleague="{name} would like {days} more days to pay the [invoice] for the "
            "{product}, and I've said yes. Could you please move the due date?",
            chat="{name} needs {days} more days for the [invoice] for the {product}, thats ok. "
            "can you move the due date",
            note="I've just spoken to {name} about the [invoice] for the {product}, and "
            "{name.he} needs {days} more days to pay. Please change the due date "
            "accordingly.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            *(call("get_invoice", invoice_id=row["id"]) for row in pair),
            call("defer_invoice", invoice_id=mine["id"], due_on=later_day(mine["due_on"], days)),
        ),
        answer=f"{mine['number']} is due on {long_day(later_day(mine['due_on'], days))} now.",
        values={"name": customer["name"], "product": goods[0]["name"], "days": days},
        spare=(("invoices", other["id"]),),
    )


@situation("invoices", kind="decline", steps=3, common=True)
def one_more_delay(maker: Maker) -> Draft | None:
    """An invoice that was deferred before is to be deferred again."""
    goods = some_products(maker, 1)
    if not goods:
        return None
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], 2)], "sent", due=5, sent=28, deferred=1)
    new_invoice(maker, customer, [(goods[0], 1)], "paid", due=-40)
    days = maker.rng.randrange(3, 9)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} can't pay the open [invoice] in time and has asked for another {days} "
            "days. {name.He}'s always been reliable. Could you move the due date?",
            colleague="{name} is still waiting for some money to come in and can't pay the "
            "open [invoice] yet. Could you give {name.him} another {days} days, please?",
            chat="{name} is still waiting for money so {name.he} cant pay the open "
            "[invoice]. can you give {name.him} another {days} days",
            note="{name} is short of money at the moment, and I'd rather not send "
            "{name.him} [a reminder]. Please give {name.him} another {days} days to pay "
            "{name.his} open [invoice].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=invoice["id"]),
        ),
        answer=f"I could not defer {invoice['number']} again: it has been deferred before, and "
        "that is done once only.",
        values={"name": customer["name"], "days": days},
        reasons=("once", "before", "already", "second time", "again"),
        tempts=("defer_invoice",),
        spare=(("invoices", invoice["id"]),),
        trap="The number of days alone would be allowed.",
    )


@situation("invoices", steps=5, weight=0.7)
def grace_for_one_of_them(maker: Maker) -> Draft | None:
    """Two invoices are to be deferred; one has been already."""
    goods = some_products(maker, 2)
    most = maker.parameters["MOST_DEFERRED_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    fresh = new_invoice(maker, customer, [(goods[0], 1)], "sent", due=6)
    used = new_invoice(maker, customer, [(goods[1], 2)], "sent", due=9, sent=30, deferred=1)
    day = later_day(fresh["due_on"], most - 2)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has asked for more time for the [invoices] for the {one} and the {two}. "
            "Could you move both due dates to {day}? If one can't be moved, tell me why.",
            colleague="{name} can only pay the [invoices] for the {one} and the {two} on "
            "{day}. Could you please move both due dates to that day? If one of them can't "
            "be moved, please tell me why.",
            chat="{name} wants to pay for the {one} and the {two} on {day}. can you move both "
            "due dates? tell me if you cant move one, and why",
            note="{name} has asked for time until {day} to pay the [invoices] for the "
            "{one} and the {two}. Please change both due dates, and if you can't change "
            "one of them, tell me why.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=used["id"]),
            call("get_invoice", invoice_id=fresh["id"]),
            call("defer_invoice", invoice_id=fresh["id"], due_on=day),
        ),
        answer=f"{fresh['number']} for {goods[0]['name']} is due on {long_day(day)} now. I could "
        f"not defer {used['number']}, since that has been done once already.",
        values={
            "name": customer["name"],
            "one": goods[0]["name"],
            "two": goods[1]["name"],
            "day": long_day(day),
        },
        reasons=("once", "already", "before", "second time"),
        spare=(("invoices", used["id"]),),
    )


@situation("invoices", kind="decline", because="permission", steps=4, common=True, weight=0.8)
def too_much_to_cancel(maker: Maker) -> Draft | None:
    """A sent invoice above the own limit is to be cancelled."""
    goods = some_products(maker, 1)
    if maker.me["role"] == "manager" or not goods:
        return None
    limit = maker.me["limit_cents"]
    count = limit // goods[0]["price_cents"] + maker.rng.randrange(2, 5)
    customer = new_customer(maker)
    invoice = new_invoice(maker, customer, [(goods[0], count)], "sent", due=8)
    new_invoice(maker, customer, [(goods[0], 1)], "cancelled", due=-25)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="We sent {name} [an invoice] for the {product} by mistake; it should have "
            "gone to another [customer]. Could you cancel it?",
            colleague="I sent {name} [an invoice] for the {product} that was meant for "
            "another [customer]. It hasn't been paid yet, so could you please cancel it?",
            chat="i picked the wrong [customer], so {name} got [an invoice] for the "
            "{product} by mistake. its still open, can you cancel it",
            note="We've invoiced {name} for the {product} by mistake; {name.he} never "
            "ordered it. The [invoice] is still open, so please cancel it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=invoice["id"]),
            call("get_my_profile"),
        ),
        answer=f"I could not cancel {invoice['number']}. It is over "
        f"{maker.money(invoice['total_cents'])}, my limit is {maker.money(limit)}.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=("limit",),
        tempts=("cancel_invoice",),
        spare=(("invoices", invoice["id"]),),
    )


@situation("invoices", steps=6, common=True, weight=1.0)
def sent_out_two_times(maker: Maker) -> Draft | None:
    """Two sent invoices have the same positions; the one with the later due day is cancelled."""
    goods = some_products(maker, 2, most=maker.me["limit_cents"] // 2)
    if not goods:
        return None
    customer = new_customer(maker)
    first = new_invoice(maker, customer, [(goods[0], 1), (goods[1], 1)], "sent", due=4)
    double = new_invoice(maker, customer, [(goods[0], 1), (goods[1], 1)], "sent", due=11)
    other = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=14)
    listed = (other, double, first)
    return Draft(
        kind="change",
        ask=Voices(
            email=(
                (
                    "{name} says {name.he}'s been invoiced twice for the same things. Could "
                    "you check, and if that's right, cancel the [invoice] we sent later?"
                ),
                (
                    "{name} has had two identical [invoices] from us, both still unpaid. "
                    "Could you find them and cancel the later one?"
                ),
            ),
            colleague=(
                (
                    "{name} has had the same [invoice] from us twice. Could you please "
                    "cancel the one we sent later?"
                ),
                (
                    "By mistake, we've invoiced {name} twice for the same things. Please "
                    "find the two [invoices] and cancel the later one."
                ),
            ),
            chat=(
                (
                    "{name} was invoiced twice for the same things. can you find the two and "
                    "cancel the later one"
                ),
                (
                    "{name} says {name.he} got the same [invoice] twice. can you check and "
                    "cancel the later one"
                ),
            ),
            note="{name} rang to say that two of our [invoices] to {name.him} list "
            "exactly the same items. Please cancel the one that we sent later.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            *(call("get_invoice", invoice_id=row["id"]) for row in listed),
            call("cancel_invoice", invoice_id=double["id"]),
        ),
        answer=f"{double['number']} is cancelled; {first['number']} has the same items, was "
        "sent before it, and stays.",
        values={"name": customer["name"]},
        spare=(("invoices", first["id"]), ("invoices", other["id"])),
    )


@situation("invoices", kind="question", steps=4, common=True, without=("hotel",), weight=0.8)
def everything_they_owe(maker: Maker) -> Draft | None:
    """What a customer owes: open totals and the fees of reminders that were not waived."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    gap = maker.parameters["REMINDER_GAP_DAYS"]
    late = new_invoice(maker, customer, [(goods[0], 2)], "sent", due=-2 * gap - 9)
    new_reminder(maker, late, gap + 6, fee=0)
    fee = new_reminder(maker, late, 3)["fee_cents"]
    fresh = new_invoice(maker, customer, [(goods[1], 1)], "sent", due=9)
    new_invoice(maker, customer, [(goods[2], 1)], "draft", due=20)
    new_invoice(maker, customer, [(goods[2], 2)], "paid", due=-30)
    cents = late["total_cents"] + fresh["total_cents"] + fee
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to pay everything {name.he} owes us in one transfer, "
            "including the [reminder] fees and what isn't due yet. What does it come to?",
            colleague="{name} would like to know what {name.he} owes us in total. Could you "
            "add up all the unpaid [invoices] we've sent, due or not, and the [reminder] "
            "fees?",
            chat="how much does {name} owe us altogether, with [reminder] fees? {name.he} wants "
            "to pay it all at once",
            note="{name} is coming in at four to settle {name.his} account. How much "
            "does {name.he} owe us altogether, with every unpaid [invoice] we've sent and "
            "the [reminder] fees?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=fresh["id"]),
            call("get_invoice", invoice_id=late["id"]),
        ),
        answer="{name} owes {total} altogether.",
        values={"name": customer["name"], "total": maker.money(cents)},
        trap="One reminder was free, and a draft does not count.",
    )


@situation("invoices", kind="question", steps=2)
def how_punctual_they_are(maker: Maker) -> Draft | None:
    """How many paid invoices were paid late, and the largest delay."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    delays = maker.rng.sample(range(11, 30), k=2)
    for index, late in enumerate((*delays, -2, 0)):
        due = -40 - 12 * index
        new_invoice(maker, customer, [(goods[index % 2], 1)], "paid", due=due, paid=-due - late)
    new_invoice(maker, customer, [(goods[0], 2)], "sent", due=5)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} has asked for more time to pay. How many of {name.his} paid "
            "[invoices] have been late so far, and how many days late was the worst one?",
            colleague="I'm thinking of giving {name} more time to pay. How many of "
            "{name.his} paid [invoices] were paid late, and how many days was the longest "
            "delay?",
            chat="does {name} pay late? how many of {name.his} paid [invoices] were late and by "
            "how many days at most",
            note="{name} would like better payment terms. Could you check how many of "
            "{name.his} paid [invoices] were paid after the due date, and how many days "
            "late the worst one was?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_invoices", customer_id=customer["id"], status="paid"),
        ),
        answer="{late} of them were paid late, the worst by {days} days.",
        values={"name": customer["name"], "late": 2, "days": max(delays)},
    )


@situation("invoices", "orders", steps=7, common=True, weight=2.6)
def bill_what_was_ordered(maker: Maker) -> Draft | None:
    """A draft lacks one line of the completed order; it is completed and sent."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    counts = (2, maker.rng.randrange(3, 7), 1)
    lines = list(zip(goods, counts, strict=True))
    order = new_order(maker, customer, lines, "completed", placed=12)
    draft = new_invoice(maker, customer, [lines[0], lines[2]], "draft", due=21)
    other = new_invoice(maker, customer, [(goods[1], 2)], "sent", due=3)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} still hasn't had [an invoice] for [order] {reference}. We have "
            "a draft, but it isn't complete. Could you add what's missing and send it?",
            colleague="{name} is waiting for {name.his} [invoice]. Could you please compare "
            "the draft with [order] {reference}, add whatever is missing and send it?",
            chat="{name} is waiting for the [invoice] for [order] {reference}. theres a "
            "draft but i think somethings missing, can you add that and send it",
            note="Somebody started [an invoice] for {name} and never finished it. "
            "Please compare the draft with [order] {reference}, add whatever was left out, "
            "and send it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=order["id"]),
            call("find_invoices", customer_id=customer["id"], status="draft"),
            call("get_invoice", invoice_id=draft["id"]),
            call(
                "add_invoice_position",
                invoice_id=draft["id"],
                product_id=goods[1]["id"],
                quantity=counts[1],
            ),
            call("send_invoice", invoice_id=draft["id"]),
        ),
        answer=f"{counts[1]} × {goods[1]['name']} were missing. They are on {draft['number']} now, "
        "and it is sent.",
        values={"name": customer["name"], "reference": order["reference"]},
        spare=(("invoices", other["id"]),),
    )


@situation("invoices", "orders", kind="question", steps=3, common=True)
def billed_more_than_ordered(maker: Maker) -> Draft | None:
    """By how much an invoice is above what was ordered, and because of what."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 2), (goods[1], 3)], "completed", placed=15)
    extra = maker.rng.randrange(2, 5)
    bill = new_invoice(maker, customer, [(goods[0], 2), (goods[1], 3 + extra)], "sent", due=6)
    new_invoice(maker, customer, [(goods[1], 1)], "paid", due=-50)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} says our unpaid [invoice] is higher than what {name.he} ordered under "
            "{reference}. Could you compare the two and tell me what we overcharged, and by how "
            "much?",
            colleague="{name} says the open [invoice] is higher than {name.his} [order] "
            "{reference}. Could you check which item we charged too much for, and what the "
            "difference is?",
            chat="{name} says the open [invoice] is higher than [order] {reference}. "
            "what did we overcharge {name.him} for and by how much",
            note="{name} won't pay the open [invoice], because it's higher than [order] "
            "{reference}. Could you compare the two and find out what we overcharged, and "
            "how much?",
        ),
        calls=(
            call("find_order_by_reference", reference=order["reference"]),
            call("find_invoices", customer_id=customer["id"], status="sent"),
            call("get_invoice", invoice_id=bill["id"]),
        ),
        answer="The [invoice] is {difference} too high, for {product}.",
        values={
            "name": customer["name"],
            "reference": order["reference"],
            "difference": maker.money(extra * goods[1]["price_cents"]),
            "product": goods[1]["name"],
        },
    )
