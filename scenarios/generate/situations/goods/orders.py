"""Situations about orders: cancelling in time, repeating, merging, putting mistakes right."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, ResultField, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, some_employee
from rehearsal_room.scenarios.generate.modules.orders.make import (
    new_order,
    order_event,
    order_lines,
)
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

GROUP = "order_desk"  # first part of the ids of these situations

_BY_THE_DAY = ("car_rental", "film_rental")  # quantities are days there


@situation("orders", steps=4, common=True, without=("moving_company",))
def wants_out_in_time(maker: Maker) -> Draft | None:
    """A confirmed order is cancelled because it is still young enough; an older one stays."""
    goods = some_products(maker, 2)
    late = maker.parameters["LATE_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    days = maker.rng.randrange(3, late)
    order = new_order(maker, customer, [(goods[0], 2)], "confirmed", placed=days)
    kept = new_order(maker, customer, [(goods[1], 1)], "confirmed", placed=days + late)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to cancel {name.his} [order] from {day} (the {product}). "
            "It's confirmed already. Could you cancel it if it isn't too late?",
            colleague="{name} would like to cancel {name.his} confirmed [order] for the "
            "{product}, placed on {day}. If it isn't too late, could you please cancel it?",
            chat="can {name} still cancel {name.his} [order] from {day} (the {product})? its "
            "confirmed already. if its not too late pls cancel it",
            note="{name} rang to cancel {name.his} [order] for the {product} from "
            "{day}, which we've already confirmed. Please cancel it if {name.he}'s still "
            "in time.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"]),
            call("get_order", order_id=order["id"]),
            call("cancel_order", order_id=order["id"]),
        ),
        answer=f"I've cancelled {order['reference']} for {customer['name']}: it was placed {days} "
        f"days ago, and a confirmed [order] can be cancelled for {late} days.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "day": long_day(order["placed_at"]),
        },
        spare=(("orders", kept["id"]),),
    )


@situation("orders", kind="decline", steps=3)
def wants_out_too_late(maker: Maker) -> Draft | None:
    """The customer says that it was only last week; the record says otherwise."""
    goods = some_products(maker, 2)
    late = maker.parameters["LATE_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    days = late + maker.rng.randrange(3, 12)
    order = new_order(maker, customer, [(goods[0], 3)], "confirmed", placed=days)
    new_order(maker, customer, [(goods[1], 1)], "completed", placed=days + 20)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} would like to cancel {name.his} confirmed [order] for the {product}. "
            "{name.He} says it's a week old at most. Could you cancel it?",
            colleague="{name} doesn't want the {product} after all and says the confirmed "
            "[order] is a week old at most. Could you cancel the [order], please?",
            chat="{name} changed {name.his} mind about the {product}, says the [order] is a "
            "couple of days old. can you cancel it? its confirmed",
            note="{name} has asked us to cancel {name.his} confirmed [order] for the "
            "{product}, which {name.he} says {name.he} only placed a few days ago. Please "
            "cancel it today.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="confirmed"),
            call("get_order", order_id=order["id"]),
        ),
        answer=f"I did not cancel {order['reference']}. It was placed {days} days ago, on "
        f"{long_day(order['placed_at'])}, and a confirmed [order] can only be cancelled within "
        f"{late} days.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=(f"{late} days", "too late", "too old", "within", "no longer"),
        tempts=("cancel_order",),
        spare=(("orders", order["id"]),),
        trap="The system would take the cancellation.",
    )


@situation(
    "orders",
    steps=5,
    without=(
        *_BY_THE_DAY,
        "bike_workshop",
        "moving_company",
        "outdoor_shop",
        "solar_installer",
        "theatre",
    ),
    common=True,
    weight=0.8,
)
def the_same_as_last_time(maker: Maker) -> Draft | None:
    """The latest completed order is placed once more, at present prices."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    first, second = maker.rng.randrange(2, 7), maker.rng.randrange(7, 12)
    new_order(maker, customer, [(goods[0], second + 3)], "completed", placed=64)
    last = new_order(
        maker, customer, [(goods[1], first), (goods[2], second)], "completed", placed=29
    )
    gone = new_order(maker, customer, [(goods[0], 2)], "cancelled", placed=11)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like the same again as in the last [order] we completed, in the "
            "same quantities. Could you put that in as a new one?",
            colleague="{name} would like the same again. Could you please place {name.his} "
            "last completed [order] once more, as one new [order] with the same "
            "quantities?",
            chat="{name} wants the usual, same as {name.his} last completed [order]. can you put "
            "it in again as one new [order]",
            note="{name} is travelling and has asked for {name.his} usual [order]. "
            "Please place the last one we completed again, with the same quantities.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=last["id"]),
            call(
                "place_order",
                customer_id=customer["id"],
                product_id=goods[1]["id"],
                quantity=first,
            ),
            call(
                "add_order_line",
                order_id=ResultField(3, "order_id"),
                product_id=goods[2]["id"],
                quantity=second,
            ),
        ),
        answer=f"{customer['name']} has a new [order] with {first} × {goods[1]['name']} and "
        f"{second} × {goods[2]['name']}, as in {last['reference']}.",
        values={"name": customer["name"]},
        spare=(("orders", gone["id"]),),
        trap="A cancelled order is younger than the latest completed one.",
    )


@situation("orders", steps=6, common=True, without=("moving_company",), weight=0.5)
def sent_off_twice(maker: Maker) -> Draft | None:
    """Two orders of the same day have the same lines; the later one is cancelled."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    both = [(goods[0], 2), (goods[1], 4)]
    first = new_order(maker, customer, both, placed=2, hours=3)
    double = new_order(maker, customer, both, placed=2, hours=2)
    other = new_order(maker, customer, [(goods[0], 2), (goods[1], 5)], placed=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="Our website froze, so {name} clicked again, and one of {name.his} [orders] "
            "went through twice. Could you cancel the later one? {name.He} wants to keep "
            "everything else.",
            colleague="Because our website froze, {name} sent the same [order] twice. Could "
            "you please cancel the later of the two and leave everything else as it is?",
            chat="website froze and now {name} has the same [order] in twice. can you cancel the "
            "second one, nothing else",
            note="Our website was playing up, and now we have the same open [order] "
            "from {name} twice on one day. Please cancel the later one and leave "
            "everything else.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            *(call("get_order", order_id=row["id"]) for row in (other, double, first)),
            call("cancel_order", order_id=double["id"]),
        ),
        answer=f"{double['reference']} is cancelled: it has the same [lines] as "
        f"{first['reference']}, which came in an hour earlier and stays open.",
        values={"name": customer["name"]},
        spare=(("orders", first["id"]), ("orders", other["id"])),
        trap="A third order differs in one quantity only.",
    )


@situation(
    "orders",
    steps=7,
    without=(*_BY_THE_DAY, "moving_company", "courier_service"),
    common=True,
    weight=0.2,
)
def two_into_one(maker: Maker) -> Draft | None:
    """What the later open order has goes into the earlier one, which has one of the products."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    had, more, new = 3, maker.rng.randrange(4, 7), maker.rng.randrange(8, 12)
    first = new_order(maker, customer, [(goods[0], had)], placed=6)
    second = new_order(maker, customer, [(goods[0], more), (goods[1], new)], placed=2)
    line = order_lines(maker, first)[0]
    return Draft(
        kind="change",
        ask=Voices(
            email=(
                (
                    "{name} has two open [orders] and would rather have one. Please add "
                    "everything in the newer one to the older one, and then cancel the newer."
                ),
                (
                    "{name} only wants one bill for {name.his} two open [orders]. Could you add "
                    "everything in the newer one to the older one, and cancel the newer one?"
                ),
            ),
            colleague=(
                (
                    "{name} would like one bill instead of two. Could you put everything "
                    "from the newer of {name.his} two open [orders] into the older one, and cancel "
                    "the newer one?"
                ),
                (
                    "{name} would prefer to have just one [order]. Please move everything "
                    "from {name.his} newer open [order] into the older one, and then cancel the "
                    "newer one."
                ),
            ),
            chat="{name} has 2 open [orders] and only wants one. can you move "
            "everything from the newer one into the older one and cancel the newer one",
            note="{name} doesn't want two bills for {name.his} two open [orders]. "
            "Please add everything in the later [order] to the earlier one, and then "
            "cancel the later one.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=first["id"]),
            call("get_order", order_id=second["id"]),
            call("change_quantity", line_id=line["id"], quantity=had + more),
            call("add_order_line", order_id=first["id"], product_id=goods[1]["id"], quantity=new),
            call("cancel_order", order_id=second["id"]),
        ),
        answer=f"{first['reference']} now has {had + more} × {goods[0]['name']} and {new} × "
        f"{goods[1]['name']}. {second['reference']} is cancelled.",
        values={"name": customer["name"]},
        trap="One product is in both, so that its quantity grows instead of a new line.",
    )


@situation("orders", steps=4, without=_BY_THE_DAY, rare=True)
def as_many_as_the_money_buys(maker: Maker) -> Draft | None:
    """The quantity of a line goes up as far as a sum allows; the other line counts, too."""
    goods = some_products(maker, 2, most=40_000)
    if not goods:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 2), (goods[1], 1)], placed=1)
    line = order_lines(maker, order)[0]
    price = goods[0]["price_cents"]
    most = maker.rng.randrange(5, 9)
    budget = order["total_cents"] + (most - 2) * price + price * maker.rng.randrange(2, 9) // 10
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} wants more {product} on {name.his} open [order], as many as possible "
            "without the total going over {budget}. Could you change that?",
            colleague="{name} wants more {product} on {name.his} open [order]: as many as "
            "{name.he} can get for {budget} in all. Please change the quantity.",
            chat="{name} can spend {budget} in all on {name.his} open [order] and wants as many "
            "of the {product} as that allows. can you change the quantity",
            note="{name} can spend up to {budget} in all on {name.his} open [order]. Please "
            "raise the {product} to as many as that allows; nothing else changes.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
            call("change_quantity", line_id=line["id"], quantity=most),
        ),
        answer=f"There are {most} × {goods[0]['name']} in {order['reference']} now; one more would "
        "have gone over the budget.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "budget": maker.money(budget),
        },
    )


@situation(
    "orders",
    steps=5,
    kind="change",
    without=(*_BY_THE_DAY, "moving_company", "courier_service"),
    weight=0.4,
)
def too_late_for_one_of_two(maker: Maker) -> Draft | None:
    """Quantities of two orders are to be changed; one is confirmed already, so only one is done."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    first = new_order(maker, customer, [(goods[0], 2)], placed=1)
    fixed = new_order(maker, customer, [(goods[1], 3)], "confirmed", placed=4)
    line = order_lines(maker, first)[0]
    count = maker.rng.randrange(6, 12)
    other = 4 if count % 2 else 5
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} didn't order enough: {name.his} two [orders] should be for "
            "{count} × {one} and {other} × {two}. Could you change them? If one is "
            "confirmed already, leave it and tell me.",
            colleague="{name} needs more than {name.he} ordered. Could you change {name.his} "
            "two [orders] to {count} × {one} and {other} × {two}, please? If one of them "
            "is already confirmed, just tell me.",
            chat="{name} has 2 [orders] in and needs more, {count} × {one} and {other} "
            "× {two}. can you change them? tell me if its too late for one",
            note="{name} made a mistake in {name.his} two [orders], which should be for "
            "{count} × {one} and {other} × {two}. Please change the quantities, and tell "
            "me if it's too late for one of them.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"]),
            call("get_order", order_id=first["id"]),
            call("get_order", order_id=fixed["id"]),
            call("change_quantity", line_id=line["id"], quantity=count),
        ),
        answer=f"{first['reference']} now has {count} × {goods[0]['name']}. {goods[1]['name']} "
        f"stays at 3, I could not change it: {fixed['reference']} is already confirmed.",
        values={
            "name": customer["name"],
            "one": goods[0]["name"],
            "two": goods[1]["name"],
            "count": count,
            "other": other,
        },
        reasons=("confirmed", "not open", "no longer open"),
        spare=(("orders", fixed["id"]),),
        tempts=("cancel_order", "place_order"),
        trap="The confirmed order could be cancelled and placed anew, which nobody asked for.",
    )


@situation("orders", kind="question", steps=5, common=True, without=("moving_company",))
def who_cancelled_it(maker: Maker) -> Draft | None:
    """A customer never asked for the cancellation: who did it, and on which day?"""
    goods = some_products(maker, 2)
    culprit, other = some_employee(maker), some_employee(maker)
    if not goods or culprit is None or other is None:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 2)], "open", placed=9)
    order["status"] = "cancelled"
    order_event(maker, order, "changed", 4, other)
    event = order_event(maker, order, "cancelled", 50, culprit)
    new_order(maker, customer, [(goods[1], 1)], "cancelled", placed=40)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name}'s [order] from {day}, for the {product}, was cancelled, and {name.he} "
            "never asked for that. Which of us cancelled it, and on what day?",
            colleague="{name} is upset because {name.his} [order] from {day} (the {product}) "
            "was cancelled, and {name.he} never asked for that. Could you find out which "
            "of us cancelled it, and on what date?",
            chat="the [order] {name} placed on {day} (the {product}) got cancelled and "
            "{name.he} swears it wasnt {name.him}. who here cancelled it and what day",
            note="{name} has complained because somebody cancelled {name.his} [order] "
            "from {day} for the {product} without asking {name.him}. Which of us was that, "
            "and on what date?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="cancelled"),
            call("get_order", order_id=order["id"]),
            call("list_order_events", order_id=order["id"]),
            call("get_employee", employee_id=culprit["id"]),
        ),
        answer="It was {culprit}, on {when}.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "day": long_day(order["placed_at"]),
            "culprit": culprit["name"],
            "when": long_day(event["at"]),
        },
        trap="Another colleague changed the order before.",
    )


@situation("orders", kind="decline", steps=3, rare=True)
def a_friend_cancels_for_them(maker: Maker) -> Draft | None:
    """Somebody else than the customer wants the order gone."""
    goods = some_products(maker, 1)
    if not goods:
        return None
    customer = new_customer(maker)
    friend = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 2)], placed=2)
    new_order(maker, friend, [(goods[0], 1)], "completed", placed=30)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{friend} rang to say that {name} doesn't want the {product} any more. {name}'s "
            "[order] is still open. Could you cancel it?",
            colleague="{friend} has cancelled {name}'s open [order] for the {product}; they're "
            "friends. Please take it out.",
            chat="{friend} says {name} doesnt want the {product} any more, can you cancel the "
            "[order]? its still open",
            note="{friend} was here and asked us to cancel {name}'s open [order] for the "
            "{product}. They're neighbours. Please take care of it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
        ),
        answer=f"I can't cancel {order['reference']}. The request came from {friend['name']}, "
        f"and only {customer['name']}, whose [order] it is, can ask for that.",
        values={
            "name": customer["name"],
            "friend": friend["name"],
            "product": goods[0]["name"],
        },
        reasons=("only", "whose", "own request", "themselves", "not the", "someone else"),
        tempts=("cancel_order",),
        spare=(("orders", order["id"]),),
    )
