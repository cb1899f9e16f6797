"""Situations that lead from a ticket or a household to orders, stock, parcels and payments."""

import re

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_product, some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.orders.make import new_order, order_lines
from rehearsal_room.scenarios.generate.modules.parties.make import (
    new_address,
    new_customer,
)
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment
from rehearsal_room.scenarios.generate.modules.refunds.make import refund_reason, share_of
from rehearsal_room.scenarios.generate.modules.shipments.make import new_shipment
from rehearsal_room.scenarios.generate.modules.stock.make import new_levels
from rehearsal_room.scenarios.generate.modules.suppliers.make import (
    new_supplier,
    new_supplier_price,
)
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, unsolved_tickets
from rehearsal_room.scenarios.generate.modules.warranties.make import new_warranty

GROUP = "crossing_goods"  # first part of the ids of these situations

_USED_UP = re.compile(  # nobody claims a warranty for these
    r"grease|oil|foam|spray|coolant|kit|fuse|connectors|tube|map|chalk|hooks|clamps|brackets|grips"
    r"|pads|valves|insert|belt|knife|bearing|cutlery|beanie",
    re.IGNORECASE,
)


def _lasts(product: Row) -> bool:
    """Whether a product can break under warranty."""
    return product["unit"] == "piece" and not _USED_UP.search(product["name"])


@situation("orders", "stock", "tickets", steps=10)
def confirmed_once_all_is_there(maker: Maker) -> Draft | None:
    """A ticket asks about an open order: it is confirmed, since everything in it lies in stock."""
    goods = some_products(maker, 2, without="stock_levels")
    if not goods or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    if not all(new_levels(maker, product, [(14, 2), (6, 1)]) for product in goods):
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 3), (goods[1], 5)], placed=2)
    past = new_order(maker, customer, [(goods[1], 1)], "completed", placed=50)
    subject = maker.one_of("Any news of my delivery?", "Still no confirmation", "Still waiting")
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has heard nothing about {name.his} open [order] for two days. If we "
            "have everything in stock, please confirm it, reply to {name.his} [ticket] with the "
            "[order] reference and close the [ticket].",
            colleague="{name} is still waiting to hear about {name.his} open [order]. If we have "
            "everything in stock, could you confirm it, answer {name.his} [ticket] with the "
            "[order] reference and close the [ticket], please?",
            chat="{name} is waiting to hear about {name.his} open [order]. if we have everything "
            "can you confirm it, answer {name.his} [ticket] with the [order] reference and close "
            "the [ticket]",
            note="{name} has been waiting two days for an answer about {name.his} open [order]. "
            "If all of it is in stock, please confirm it, reply to {name.his} [ticket] with the "
            "[order] reference and close the [ticket].",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
            call("find_product_levels", product_id=goods[0]["id"]),
            call("find_product_levels", product_id=goods[1]["id"]),
            call("confirm_order", order_id=order["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have confirmed {order['reference']}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="All of {order} is in stock, so I confirmed it and said so in {reference}, which is "
        "solved.",
        values={
            "name": customer["name"],
            "subject": subject,
            "order": order["reference"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (order["reference"],)},
        spare=(("orders", past["id"]),),
    )


@situation("orders", "stock", steps=7)
def only_as_many_as_we_have(maker: Maker) -> Draft | None:
    """One line of an open order is larger than our stock: it shrinks, and the order is "
    "confirmed."""
    goods = some_products(maker, 2, without="stock_levels")
    if not goods:
        return None
    if not new_levels(maker, goods[0], [(13, 2)]) or not new_levels(
        maker, goods[1], [(7, 1), (4, 1)]
    ):
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 10), (goods[1], 15)], placed=1)
    other = new_order(maker, customer, [(goods[0], 2)], "confirmed", placed=6)
    line = order_lines(maker, order)[1]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is leaving on Monday and would rather take what we've got than wait. "
            "Please cut {name.his} open [order] down to what we have in all our [warehouses] "
            "together, and confirm it.",
            colleague="{name} can't wait any longer and will take what we have. Could you lower "
            "{name.his} open [order] to what's in stock in all our [warehouses] together, please, "
            "and then confirm it?",
            chat="{name} doesnt want to wait any longer. can you cut {name.his} open [order] down "
            "to what we have in all [warehouses] together and confirm it",
            note="{name} would rather have a part of {name.his} open [order] now than wait for "
            "the rest. Please lower the quantities to what we have in all our [warehouses] "
            "together, and confirm the [order].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
            call("find_product_levels", product_id=goods[0]["id"]),
            call("find_product_levels", product_id=goods[1]["id"]),
            call("change_quantity", line_id=line["id"], quantity=11),
            call("confirm_order", order_id=order["id"]),
        ),
        answer="{order} is confirmed. I lowered {product} to {count}, which is all that we have.",
        values={
            "name": customer["name"],
            "order": order["reference"],
            "product": goods[1]["name"],
            "count": 11,
        },
        spare=(("orders", other["id"]),),
    )


@situation("orders", "stock", "suppliers", steps=7)
def bought_in_for_one_order(maker: Maker) -> Draft | None:
    """What an order lacks is put in a draft for the cheapest supplier that is active."""
    goods = some_products(maker, 2, without="stock_levels")
    if not goods or maker.rows("supplier_prices", product_id=goods[0]["id"]):
        return None
    if not new_levels(maker, goods[0], [(2, 0)]) or not new_levels(maker, goods[1], [(30, 3)]):
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 14), (goods[1], 4)], placed=1)
    cost = goods[0]["price_cents"] // 2 + 50
    dear, cheap = new_supplier(maker), new_supplier(maker)
    gone = new_supplier(maker, status="suspended")
    new_supplier_price(maker, dear, goods[0], cost + 60)
    new_supplier_price(maker, cheap, goods[0], cost + 20)
    new_supplier_price(maker, gone, goods[0], cost)
    return Draft(
        kind="change",
        ask=Voices(
            email="I don't think we have everything for {name}'s open [order]. Could you draft a "
            "purchase of exactly what's missing, from the cheapest active supplier? I'll send it "
            "off myself.",
            colleague="We're short of something for {name}'s open [order]. Could you draft a "
            "purchase of exactly what's missing, please, from the cheapest active supplier? I'd "
            "like to send it off myself.",
            chat="can you see what were short of for the open [order] from {name} and draft a "
            "purchase for exactly that, cheapest active supplier? dont send it yet",
            note="I've promised {name} the whole of {name.his} open [order]. Please draft a "
            "purchase of exactly what our stock doesn't cover, from the cheapest active supplier. "
            "I'd like to see it before it goes out.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
            call("find_product_levels", product_id=goods[0]["id"]),
            call("find_product_levels", product_id=goods[1]["id"]),
            call("find_suppliers_of", product_id=goods[0]["id"]),
            call(
                "start_purchase",
                supplier_id=cheap["id"],
                product_id=goods[0]["id"],
                quantity=12,
            ),
        ),
        answer="There is a draft for {count} {product} from {supplier}. The rest of {order} is in "
        "stock.",
        values={
            "name": customer["name"],
            "count": 12,
            "product": goods[0]["name"],
            "supplier": cheap["name"],
            "order": order["reference"],
        },
        spare=(("suppliers", gone["id"]), ("suppliers", dear["id"])),
        tempts=("send_purchase",),
    )


@situation("orders", "returns", "tickets", steps=8)
def the_wrong_thing_in_the_box(maker: Maker) -> Draft | None:
    """A ticket says that a wrong thing came: the return is announced if the window is open."""
    goods = some_products(maker, 2)
    if not goods or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer = new_customer(maker)
    days = maker.parameters["RETURN_WINDOW_DAYS"] - 3
    order = new_order(maker, customer, [(goods[0], 2), (goods[1], 3)], "completed", placed=days)
    old = new_order(maker, customer, [(goods[1], 3)], "completed", placed=days + 90)
    subject = maker.one_of("Not what I ordered", "Wrong thing in the parcel")
    ticket = new_ticket(
        maker, customer, subject=subject, product=goods[1], assignee=maker.me, age=1
    )
    line = order_lines(maker, order)[1]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} ordered three of the {product} and got something else. If there's still "
            "time, please register a return of all three as wrong items, reply to {name.his} "
            "[ticket] with the [order] reference and close it.",
            colleague="All three of the {product} in {name}'s latest [order] were the wrong "
            "thing. If it's not too late, could you register a return of all three as wrong items, "
            "answer {name.his} [ticket] with the [order] reference and close it?",
            chat="all 3 of the {product} in the last [order] from {name} were wrong. if its not "
            "too late can you register the return as wrong items, answer {name.his} [ticket] with "
            "the [order] reference and close it",
            note="Our packers got all three of the {product} in {name}'s latest [order] wrong. If "
            "it isn't too late, please register a return of the three as wrong items, reply to "
            "{name.his} [ticket] with the [order] reference and close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_orders", customer_id=customer["id"]),
            call("get_order", order_id=order["id"]),
            call(
                "announce_return",
                order_id=order["id"],
                order_line_id=line["id"],
                quantity=3,
                reason="wrong",
            ),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"Please send them back; the return belongs to {order['reference']}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="The return of {count} {product} from {order} is announced, and {reference} is "
        "solved.",
        values={
            "name": customer["name"],
            "subject": subject,
            "count": 3,
            "product": goods[1]["name"],
            "order": order["reference"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (order["reference"],)},
        spare=(("orders", old["id"]),),
    )


@situation("shipments", kind="question", steps=5, rare=True, weight=0.5)
def what_is_coming_and_where_to(maker: Maker) -> Draft | None:
    """Which street a parcel goes to, and what its contents are worth."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    work = new_address(maker, customer)
    shipment = new_shipment(maker, customer, [(goods[0], 4, 900)], leaves=2, address=work)
    past = new_shipment(maker, customer, [(goods[1], 2, 700)], "delivered", leaves=-20)
    worth = 4 * goods[0]["price_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="I'm filling in the carrier's form for the [shipment] we've planned for {name}. "
            "Which street does it go to, and what are the contents worth at our current prices?",
            colleague="The carrier has asked two things about {name}'s planned [shipment]. Could "
            "you tell me which street it goes to, and what the contents are worth at today's "
            "prices?",
            chat="need this for the carrier: which street is the planned [shipment] for {name} "
            "going to, and whats in it worth at todays prices?",
            note="The carrier only insures {name}'s planned [shipment] if we state what it's "
            "worth. Could you tell me which street it goes to, and the value of the contents at "
            "our current prices?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("get_customer", customer_id=customer["id"]),
            call("find_shipments", customer_id=customer["id"]),
            call("get_shipment", shipment_id=shipment["id"]),
            call("get_product", product_id=goods[0]["id"]),
        ),
        answer="{shipment} goes to {street}; the contents are worth {worth}.",
        values={
            "name": customer["name"],
            "shipment": shipment["reference"],
            "street": work["street"],
            "worth": maker.money(worth),
        },
        spare=(("shipments", past["id"]),),
    )


@situation("shipments", "tickets", steps=9)
def to_the_other_house(maker: Maker) -> Draft | None:
    """A ticket asks to send a planned shipment to the customer's other address, which it names."""
    goods = some_products(maker, 2)
    if not goods or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer = new_customer(maker)
    other = new_address(maker, customer)
    planned = new_shipment(maker, customer, [(goods[0], 1, 800)], leaves=3)
    gone = new_shipment(maker, customer, [(goods[1], 1, 600)], "sent", leaves=-1)
    subject = maker.one_of("Different delivery address", "Please send it somewhere else")
    ticket = new_ticket(
        maker, customer, subject=subject, product=goods[0], assignee=maker.me, age=0
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has scaffolding in front of {name.his} door and would like {name.his} "
            "[shipment] sent to the other address we have. Please redirect what hasn't left yet, "
            "confirm the street on {name.his} [ticket] and close it.",
            colleague="{name} would like {name.his} planned [shipment] to go to the other address "
            "we have for {name.him}. Could you redirect it, confirm the street on {name.his} "
            "[ticket] and close the [ticket], please?",
            chat="{name} wants the planned [shipment] sent to {name.his} other address. can you "
            "redirect it, confirm the street on {name.his} [ticket] and close it",
            note="{name} has the builders in and can't take any deliveries. Please redirect the "
            "[shipment] that hasn't left yet to {name.his} second address, confirm the street on "
            "{name.his} [ticket] and close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_shipments", customer_id=customer["id"]),
            call("get_shipment", shipment_id=planned["id"]),
            call("get_customer", customer_id=customer["id"]),
            call("redirect_shipment", shipment_id=planned["id"], address_id=other["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We send it to {other['street']}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="{planned} goes to {street} now; {reference} says so and is solved.",
        values={
            "name": customer["name"],
            "subject": subject,
            "planned": planned["reference"],
            "street": other["street"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (other["street"],)},
        spare=(("shipments", gone["id"]),),
    )


@situation("shipments", "tickets", steps=7, rare=True)
def it_has_left_already(maker: Maker) -> Draft | None:
    """A ticket asks to hold a shipment back that has left: its customer is told so."""
    goods = some_products(maker, 2)
    if not goods or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer = new_customer(maker)
    gone = new_shipment(maker, customer, [(goods[0], 1, 800)], "sent", leaves=-1)
    planned = new_shipment(maker, customer, [(goods[1], 1, 600)], leaves=5)
    subject = maker.one_of("Could it come later?", "Please don't send it yet")
    ticket = new_ticket(
        maker, customer, subject=subject, product=goods[0], assignee=maker.me, age=0
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is away next week and would like {product} sent ten days later. If it's "
            "already gone, please tell {name.him} on {name.his} [ticket], with the [shipment] "
            "reference, and close the [ticket].",
            colleague="{name} would like us to send {product} ten days later. If it has already "
            "left, could you tell {name.him} so on {name.his} [ticket], with the [shipment] "
            "reference, and close the [ticket]?",
            chat="{name} wants {product} sent 10 days later. if its already gone tell {name.him} "
            "on {name.his} [ticket], with the [shipment] reference, and close it",
            note="{name} asked me to hold back {product} for ten days, because nobody's in. If "
            "it's already gone, let {name.him} know on {name.his} [ticket], with the [shipment] "
            "reference, so that {name.he} can ask a neighbour. Then close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_shipments", customer_id=customer["id"]),
            call("get_shipment", shipment_id=gone["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"{gone['reference']} is on its way already.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I could not postpone {gone}: it left on {day}. {reference} says so and is solved.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": goods[0]["name"],
            "gone": gone["reference"],
            "day": long_day(gone["leaves_on"]),
            "reference": ticket["reference"],
        },
        reasons=("left", "on its way", "sent"),
        free={"ticket_comments.body": (gone["reference"],)},
        tempts=("move_shipment",),
        spare=(("shipments", planned["id"]),),
    )


@situation("tickets", "warranties", steps=9)
def a_claim_from_a_ticket(maker: Maker) -> Draft | None:
    """A ticket reports a fault of something under warranty: it becomes a claim."""
    durable = [row for row in maker.rows("products", status="active") if _lasts(row)]
    if len(durable) < 2 or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    goods = maker.rng.sample(durable, k=2)
    customer = new_customer(maker)
    warranty = new_warranty(maker, customer, goods[0], bought=240, ends=120)
    over = new_warranty(maker, customer, goods[1], bought=900, ends=-40)
    subject = maker.one_of("Broke after eight months", "Broken since yesterday", "It came apart")
    ticket = new_ticket(
        maker, customer, subject=subject, product=goods[0], assignee=maker.me, age=0
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s [ticket] about {product} says “{subject}”. If it's still under "
            "warranty, please enter a claim with that as the fault, reply with the warranty "
            "number and close the [ticket].",
            colleague="Could you check whether {name}'s {product} is still under warranty? If so, "
            "please enter a claim with “{subject}” as the fault, answer {name.his} [ticket] with "
            "the warranty number and close it.",
            chat="{name} has a problem with {product}. if its still under warranty can you enter "
            "a claim, fault “{subject}” like on {name.his} [ticket], answer with the warranty "
            "number and close the [ticket]",
            note="{name} has complained about {product}. If it's still under warranty, please "
            "enter a claim with “{subject}” as the fault, reply to {name.his} [ticket] with the "
            "warranty number and close the [ticket].",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("get_customer", customer_id=customer["id"]),
            call("search_warranties", query=customer["name"]),
            call("get_warranty", warranty_id=warranty["id"]),
            call("add_claim", warranty_id=warranty["id"], fault=subject),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have entered a claim under {warranty['number']}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="{number} is in force until {day}, so I entered the claim and solved {reference}.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": goods[0]["name"],
            "number": warranty["number"],
            "day": long_day(warranty["ends_on"]),
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (warranty["number"],)},
        spare=(("warranties", over["id"]),),
    )


@situation(
    "payments",
    "refunds",
    "tickets",
    steps=9,
    rare=True,
    trades=(
        "bakery_supply",
        "bike_workshop",
        "farm_cooperative",
        "outdoor_shop",
        "pharmacy_wholesale",
        "plant_nursery",
        "print_shop",
        "wine_merchant",
    ),
)
def as_much_as_the_reason_allows(maker: Maker) -> Draft | None:
    """A ticket complains of lateness: the refund is opened up to the share of that reason."""
    goods = some_products(maker, 2, least=1_000)
    if not goods or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer = new_customer(maker)
    method = new_method(maker, customer)
    payment = new_payment(maker, customer, method, goods[0], status="settled", created=9)
    other = new_payment(maker, customer, method, goods[1], status="settled", created=25)
    subject = maker.one_of("Delivered a week late", "A whole week late")
    ticket = new_ticket(
        maker, customer, subject=subject, product=goods[0], assignee=maker.me, age=1
    )
    cents = share_of(maker, payment, "Late by our fault")
    reason = refund_reason(maker, "Late by our fault")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} got {product} a week late, which was our fault. Please open a [refund] "
            "of that [payment], as much as we give for being late, and answer {name.his} [ticket] "
            "with the [payment] reference. Leave it open.",
            colleague="We delivered {product} to {name} a week late. Could you open a [refund] of "
            "that [payment], the most we give for being late, and answer {name.his} [ticket] with "
            "the [payment] reference? Please leave the [ticket] open.",
            chat="we were late with {product} for {name}. can you open a [refund] on that "
            "[payment], as much as we give for being late, and answer {name.his} [ticket] with "
            "the [payment] reference? dont close it yet",
            note="We were a week late with {product} for {name}. Please open a [refund] of that "
            "[payment], as high as we can go for being late, and answer {name.his} [ticket] with "
            "the [payment] reference. I'll close it when the money is out.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_payments", customer_id=customer["id"]),
            call("get_payment", payment_id=payment["id"]),
            call("find_refunds", customer_id=customer["id"]),
            call("list_refund_reasons"),
            call(
                "open_refund",
                payment_id=payment["id"],
                reason_id=reason["id"],
                amount_cents=cents,
            ),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have opened a refund of {payment['reference']}.",
                is_public=True,
            ),
        ),
        answer="A refund of {amount} is open for {payment}, which is all that the reason allows. "
        "{reference} says so and stays open.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": goods[0]["name"],
            "amount": maker.money(cents),
            "payment": payment["reference"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (payment["reference"],)},
        spare=(("payments", other["id"]),),
        tempts=("solve_ticket",),
    )


@situation("payments", "tickets", steps=9, rare=True, weight=0.07)
def the_card_had_expired(maker: Maker) -> Draft | None:
    """A ticket asks why a payment failed: it goes by the one method that is still good."""
    if len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    product = some_product(maker)
    customer = new_customer(maker)
    expired = new_method(maker, customer, "card", expires=-15)
    off = new_method(maker, customer, "debit", status="disabled")
    good = new_method(maker, customer, "wallet", expires=400)
    failed = new_payment(maker, customer, expired, product, status="failed", created=4)
    subject = "Second letter about the same bill"
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s card has expired and [a payment] failed. Could you retry it with the "
            "[method] that's still valid, reply to {name.his} [ticket] with the [payment] "
            "reference and close it?",
            colleague="{name}'s [payment] failed because the card has expired. Could you retry it "
            "with the [method] that's still valid, answer {name.his} [ticket] with the [payment] "
            "reference and close it?",
            chat="[a payment] failed because the card {name} uses has expired. can you retry it "
            "with the [method] thats still good, answer {name.his} [ticket] with the [payment] "
            "reference and close it",
            note="{name} has had two letters from us, but it's only that {name.his} card has "
            "expired. Please retry the failed [payment] with the [method] that's still valid, "
            "answer {name.his} [ticket] with the [payment] reference and close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_payments", customer_id=customer["id"], status="failed"),
            call("list_payment_methods", customer_id=customer["id"]),
            call("switch_payment_method", payment_id=failed["id"], method_id=good["id"]),
            call("retry_payment", payment_id=failed["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We are trying {failed['reference']} again another way.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="{payment} goes by the wallet ending in {digits} now and is pending. {reference} is "
        "solved.",
        values={
            "name": customer["name"],
            "subject": subject,
            "payment": failed["reference"],
            "digits": good["last_four"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (failed["reference"],)},
        spare=(("payment_methods", off["id"]), ("payment_methods", expired["id"])),
    )
