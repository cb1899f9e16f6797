"""Situations in which orders meet what is sent, what comes back, and what lies in the stock."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.orders.make import new_order, order_lines
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment
from rehearsal_room.scenarios.generate.modules.refunds.make import refund_reason, share_of
from rehearsal_room.scenarios.generate.modules.returns.make import new_return
from rehearsal_room.scenarios.generate.modules.shipments.make import STRONG, new_shipment
from rehearsal_room.scenarios.generate.modules.stock.make import SERVICE_TRADES, new_levels

GROUP = "goods_flow"  # first part of the ids of these situations

_ODD = (
    "car_rental",
    "courier_service",
    "film_rental",
    "laboratory",
    "moving_company",
    "theatre",
    "farm_cooperative",
)
_BY_THE_DAY = ("car_rental", "film_rental")  # quantities are days there
_NOT_FROM_STOCK = (*SERVICE_TRADES, "machine_service")


@situation("orders", "shipments", "returns", steps=7, memory=True, common=True)
def not_out_of_the_door_yet(maker: Maker) -> Draft | None:
    """What is not wanted any more has not left: order and shipment are cancelled."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    days = min(5, maker.parameters["LATE_DAYS"] - 1)
    order = new_order(maker, customer, [(goods[0], 2)], "confirmed", placed=days)
    other = new_order(maker, customer, [(goods[1], 1)], "completed", placed=days + 12)
    mine = new_shipment(maker, customer, [(goods[0], 2, 3_000)], leaves=1)
    gone = new_shipment(maker, customer, [(goods[1], 1, 1_500)], "delivered", leaves=-8)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has managed to get the {product} locally and doesn't need ours any "
            "more. If it hasn't gone out yet, please cancel the [order] and the [shipment]. If it "
            "has, register a return as unwanted.",
            colleague="{name} no longer wants the {product}. If it hasn't left yet, could "
            "you please cancel the [order] and the [shipment]? If it has, please register "
            "a return as unwanted.",
            chat="{name} doesnt want the {product} any more. if it hasnt been sent yet "
            "can you cancel the [order] and the [shipment]? otherwise set up a return, "
            "unwanted",
            note="{name} has just rung to say {name.he} doesn't want the {product} any more. If "
            "it hasn't been sent, please cancel both the [order] and the [shipment]. If it has, "
            "set up a return as unwanted.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"]),
            call("get_order", order_id=order["id"]),
            call("find_shipments", customer_id=customer["id"]),
            call("get_shipment", shipment_id=mine["id"]),
            call("cancel_shipment", shipment_id=mine["id"]),
            call("cancel_order", order_id=order["id"]),
        ),
        answer=f"It hadn't left yet, so I've cancelled {order['reference']} and the [shipment] "
        f"{mine['reference']}.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        spare=(("orders", other["id"]), ("shipments", gone["id"])),
        tempts=("announce_return",),
    )


@situation("orders", "shipments", "returns", steps=6, common=True)
def it_is_at_their_door_already(maker: Maker) -> Draft | None:
    """The same wish, but it was delivered: a return is announced."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[1], 1), (goods[0], 4)], "completed", placed=9)
    open_one = new_order(maker, customer, [(goods[1], 2)], "open", placed=1)
    shipment = new_shipment(
        maker, customer, [(goods[0], 4, 4_000), (goods[1], 1, 800)], "delivered", leaves=-4
    )
    line = order_lines(maker, order)[1]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} ordered four of the {product} and doesn't need any of them. If the "
            "[shipment] is still planned, please cancel it and the [order]. If it's been "
            "delivered, register a return of all four as unwanted.",
            colleague="{name} ordered 4 × {product} and doesn't want any of them. If the "
            "[shipment] is still planned, could you cancel it and the [order]? Otherwise, "
            "please register a return of all four as unwanted.",
            chat="{name} doesnt want any of the 4 × {product}. can you cancel the "
            "[shipment] and the [order]? if its already been delivered make it a return of "
            "all 4, unwanted",
            note="{name} ordered four of the {product} by mistake. If the [shipment] "
            "hasn't gone yet, please cancel it and the [order]. If it's been delivered, "
            "please register a return of all four as unwanted.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_shipments", customer_id=customer["id"]),
            call("get_shipment", shipment_id=shipment["id"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=order["id"]),
            call(
                "announce_return",
                order_id=order["id"],
                order_line_id=line["id"],
                quantity=4,
                reason="unwanted",
            ),
        ),
        answer=f"{shipment['reference']} has already been delivered, so I announced a return of "
        f"the 4 × {goods[0]['name']} from {order['reference']}.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        spare=(("orders", open_one["id"]),),
        tempts=("cancel_shipment", "cancel_order"),
    )


@situation("orders", "shipments", steps=7, without=_ODD, rare=True)
def packed_before_it_grew(maker: Maker) -> Draft | None:
    """An order was raised after its shipment was packed; what is missing gets a parcel."""
    least = maker.parameters["INSURED_FROM_CENTS"]
    goods = some_products(maker, 2, most=least // 6)
    if not goods:
        return None
    customer = new_customer(maker)
    packed, wanted = maker.rng.randrange(2, 4), maker.rng.randrange(6, 9)
    lines = [(goods[0], 2), (goods[1], wanted)]
    order = new_order(maker, customer, lines, "confirmed", placed=4)
    new_order(maker, customer, [(goods[1], 3)], "completed", placed=50)
    shipment = new_shipment(
        maker, customer, [(goods[0], 2, 2_000), (goods[1], packed, 900)], leaves=2, carrier=STRONG
    )
    missing = wanted - packed
    grams = missing * maker.rng.randrange(310, 990, 20)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} raised the quantity of the {product} on {name.his} confirmed [order], "
            "and the planned [shipment] doesn't have all of it. Please add what's missing as one "
            "more [parcel], {grams} g.",
            colleague="{name}'s planned [shipment] doesn't have all the {product} from the "
            "confirmed [order]. Please add what's missing as one more [parcel], which "
            "weighs {grams} g.",
            chat="planned [shipment] for {name} is short on the {product}, the [order] was "
            "raised later. can you add [a parcel] with whats missing? {grams} g all in",
            note="{name}'s planned [shipment] has too few of the {product}, compared with the "
            "confirmed [order]. Please add the missing ones as one more [parcel]. It weighs "
            "{grams} g.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="confirmed"),
            call("get_order", order_id=order["id"]),
            call("find_shipments", customer_id=customer["id"], status="planned"),
            call("get_shipment", shipment_id=shipment["id"]),
            call("list_carriers"),
            call(
                "add_parcel",
                shipment_id=shipment["id"],
                product_id=goods[1]["id"],
                quantity=missing,
                grams=grams,
            ),
        ),
        answer=f"{packed} of {wanted} were packed, so I added one more [parcel] with {missing} × "
        f"{goods[1]['name']} to {shipment['reference']}.",
        values={"name": customer["name"], "product": goods[1]["name"], "grams": grams},
    )


@situation("returns", "refunds", "payments", "orders", steps=8, common=True)
def accept_it_and_pay_back(maker: Maker) -> Draft | None:
    """A wrong delivery is accepted, and its payment goes back as far as the reason allows."""
    goods = some_products(maker, 2, most=maker.me["limit_cents"])
    if not goods:
        return None
    customer = new_customer(maker)
    method = new_method(maker, customer, "card")
    order = new_order(maker, customer, [(goods[0], 1)], "completed", placed=14)
    payment = new_payment(maker, customer, method, goods[0], status="settled", created=14)
    other = new_payment(maker, customer, method, goods[1], status="settled", created=12)
    line = order_lines(maker, order)[0]
    back = new_return(maker, order, [(line, 1, "new")], "wrong", "received", announced=5)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has sent back the {product}, because it wasn't the one "
            "{name.he}'d ordered. The return has been inspected. Could you accept it and "
            "open the maximum [refund] for “not as described” on the [payment]?",
            colleague="The {product} that {name} sent back was the wrong one, and the return "
            "has been inspected. Could you accept it and open the maximum [refund] for "
            "“not as described” on the [payment]?",
            chat="{name} sent back the {product} because it was the wrong one. its been "
            "inspected, so can you accept the return and open the maximum [refund] for it, "
            "not as described",
            note="{name} is waiting for {name.his} money for the {product}, because "
            "we'd sent the wrong one. The return has been inspected, so please accept it "
            "and open the maximum [refund] for “not as described”.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_returns", customer_id=customer["id"], status="received"),
            call("get_return", return_id=back["id"]),
            call("accept_return", return_id=back["id"]),
            call("find_payments", customer_id=customer["id"], status="settled"),
            call("get_payment", payment_id=payment["id"]),
            call("list_refund_reasons"),
            call(
                "open_refund",
                payment_id=payment["id"],
                reason_id=refund_reason(maker, "Not as described")["id"],
                amount_cents=share_of(maker, payment, "Not as described"),
            ),
        ),
        answer=f"{back['reference']} is accepted, and [a refund] of "
        f"{maker.money(share_of(maker, payment, 'Not as described'))} is open for "
        f"{payment['reference']}.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        spare=(("payments", other["id"]),),
    )


@situation("orders", "stock", steps=5, without=_NOT_FROM_STOCK, rare=True)
def as_many_as_we_have(maker: Maker) -> Draft | None:
    """A quantity is raised as far as the open warehouses hold it."""
    goods = some_products(maker, 1, without="stock_levels")
    if not goods:
        return None
    here, there = maker.rng.randrange(11, 16), maker.rng.randrange(5, 9)
    if not new_levels(maker, goods[0], [(here, 0), (there, 0)]):
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 4)], placed=2)
    line = order_lines(maker, order)[0]
    wish = here + there + maker.rng.randrange(4, 30)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like {wish} of the {product} on {name.his} open [order], or all "
            "we've got if that's fewer. Please see what's in stock across all our [warehouses] "
            "and change the quantity.",
            colleague="{name} would like {wish} × {product} on {name.his} open [order]. If all "
            "our [warehouses] together don't have that many, put in what they have.",
            chat="{name} wants {wish} x {product} on {name.his} open [order] - if we dont have "
            "that many in stock overall, put in the max we have",
            note="{name} now needs {wish} × {product} on {name.his} open [order], or as many as "
            "all our [warehouses] have together if that's fewer. We won't get any new stock in "
            "time.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
            call("find_product_levels", product_id=goods[0]["id"]),
            call("change_quantity", line_id=line["id"], quantity=here + there),
        ),
        answer=f"We have {here + there} × {goods[0]['name']} in total, so that's now the "
        f"quantity in {order['reference']}.",
        values={"name": customer["name"], "product": goods[0]["name"], "wish": wish},
    )


@situation("orders", "stock", kind="question", steps=5, without=_NOT_FROM_STOCK)
def from_one_place(maker: Maker) -> Draft | None:
    """Which warehouse can fill an order all by itself?"""
    goods = some_products(maker, 2, without="stock_levels")
    if not goods:
        return None
    need = (maker.rng.randrange(8, 12), maker.rng.randrange(4, 7))
    first = new_levels(maker, goods[0], [(need[0] + 6, 0), (need[0] + 2, 0)])
    if not first:
        return None
    places = [place for place, _ in first]
    for place, on_hand in zip(places, (need[1] - 2, need[1] + 1), strict=True):
        maker.insert(
            "stock_levels",
            warehouse_id=place["id"],
            product_id=goods[1]["id"],
            on_hand=on_hand,
            reorder_point=0,
        )
    customer = new_customer(maker)
    order = new_order(maker, customer, list(zip(goods, need, strict=True)), "confirmed", placed=3)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to pick up {name.his} confirmed [order] in one trip. Which "
            "[warehouse] has all of it in stock?",
            colleague="{name} would rather not drive to two places for {name.his} confirmed "
            "[order]. Could you tell me which [warehouse] has enough stock for all of it?",
            chat="{name} is picking up {name.his} confirmed [order] today, which "
            "[warehouse] has all of it in stock?",
            note="{name} is coming with a van to collect {name.his} confirmed [order] "
            "and only wants to make one stop. Which [warehouse] has enough of everything "
            "in the [order]?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="confirmed"),
            call("get_order", order_id=order["id"]),
            *(call("find_product_levels", product_id=row["id"]) for row in goods),
        ),
        answer="All of it is in {place}.",
        values={"name": customer["name"], "place": places[1]["name"]},
        trap="Another warehouse has more of one product, but too few of the other.",
    )


@situation("orders", steps=4, without=_BY_THE_DAY, rare=True)
def no_further_one_allowed(maker: Maker) -> Draft | None:
    """The customer has as many open orders as allowed: the new thing joins the latest."""
    most = maker.parameters["MOST_OPEN_ORDERS"]
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    orders = [
        new_order(maker, customer, [(goods[index % 2], 1 + index)], placed=2 * (most - index))
        for index in range(most)
    ]
    count = maker.rng.randrange(2, 9)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would also like {count} × {product}. Please make that a new [order]. If "
            "{name.he} has as many open as we allow, add it to the latest one.",
            colleague="{name} wants {count} × {product} as a new [order]. If {name.he} has too "
            "many open already, add it to {name.his} latest one.",
            chat="{count} x {product} for {name}, as a new [order] if {name.he} can have one "
            "more open, otherwise add to {name.his} newest open one",
            note="{name} rang and wants {count} × {product}, as a new [order] please. If "
            "{name.he} already has too many open, put it on the most recent one.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("search_products", query=goods[2]["name"]),
            call(
                "add_order_line",
                order_id=orders[-1]["id"],
                product_id=goods[2]["id"],
                quantity=count,
            ),
        ),
        answer=f"They already have {most} open [orders], which is the maximum, so I added the "
        f"{count} × {goods[2]['name']} to the latest, {orders[-1]['reference']}.",
        values={"name": customer["name"], "product": goods[2]["name"], "count": count},
        tempts=("place_order",),
        spare=tuple(("orders", row["id"]) for row in orders[:-1]),
    )


@situation("orders", kind="decline", steps=2, without=_BY_THE_DAY, common=True)
def blocked_and_in_a_hurry(maker: Maker) -> Draft | None:
    """A blocked customer cannot order; neither can somebody of a similar name for them."""
    goods = some_products(maker, 1)
    if not goods:
        return None
    customer = new_customer(maker, status="blocked")
    alike = new_customer(maker, like=customer)
    new_order(maker, customer, [(goods[0], 2)], "completed", placed=70)
    count = maker.rng.randrange(2, 8)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} needs {count} × {product} by the weekend and would like to pay "
            "on account as usual. Could you place the [order] this morning?",
            colleague="{name} has rung twice already because {name.he} needs {count} × "
            "{product}. Could you please place [an order] for {name.him}?",
            chat="{name} urgently needs {count} × {product}. can you put in a new "
            "[order] for {name.him}",
            note="{name} was at the counter just now and needs {count} × {product} "
            "before the weekend. I've promised {name.him} a confirmation today, so please "
            "place the [order].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("get_customer", customer_id=customer["id"]),
        ),
        answer=f"I could not place that [order]: {customer['name']} is blocked with us, and "
        "we can't take [orders] for a blocked account.",
        values={"name": customer["name"], "product": goods[0]["name"], "count": count},
        reasons=("blocked",),
        tempts=("place_order",),
        spare=(("customers", alike["id"]),),
        trap="Somebody with a similar name is not blocked.",
    )


@situation("orders", "shipments", kind="question", steps=4, without=("laboratory",), common=True)
def where_is_the_rest(maker: Maker) -> Draft | None:
    """Two products of one order travel apart: when did one leave, and does the other?"""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 1), (goods[1], 2)], "confirmed", placed=6)
    sent = new_shipment(maker, customer, [(goods[0], 1, 1_100)], "sent", leaves=-1)
    planned = new_shipment(maker, customer, [(goods[1], 2, 1_800)], leaves=5)
    old = new_shipment(maker, customer, [(goods[1], 1, 900)], "delivered", leaves=-33)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} has only had part of {name.his} [order] {reference} and is asking about "
            "the rest. What's still missing, and when will it leave?",
            colleague="{name} is asking about the rest of {name.his} [order] {reference}. "
            "Could you tell me what hasn't gone out yet, and on what day it's due to "
            "leave?",
            chat="{name} only got part of [order] {reference}. what still has to be "
            "sent and what day does it go out",
            note="{name} only got part of {name.his} [order] {reference} this week, and "
            "I'm calling {name.him} back this afternoon. What's still missing, and on what "
            "date does it leave?",
        ),
        calls=(
            call("find_order_by_reference", reference=order["reference"]),
            call("find_shipments", customer_id=customer["id"]),
            *(call("get_shipment", shipment_id=row["id"]) for row in (planned, sent)),
        ),
        answer="The {rest} is still here; it leaves on {day}.",
        values={
            "name": customer["name"],
            "reference": order["reference"],
            "rest": goods[1]["name"],
            "day": long_day(planned["leaves_on"]),
        },
        spare=(("shipments", old["id"]),),
        trap="An earlier shipment had the same product.",
    )
