"""Situations about returns: what may come back, and what becomes of it when it is here."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, ResultField, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.orders.make import new_order, order_lines
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.returns.make import new_return, return_lines

GROUP = "returns_desk"  # first part of the ids of these situations


@situation("returns", "orders", steps=5, common=True, without=("wine_merchant",))
def both_arrived_broken(maker: Maker) -> Draft | None:
    """Two of three lines of one order come back, damaged, in one return."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    placed = maker.rng.randrange(6, 16)
    amounts = (3, 5, 4)
    order = new_order(
        maker, customer, list(zip(goods, amounts, strict=True)), "completed", placed=placed
    )
    other = new_order(maker, customer, [(goods[0], 2)], "completed", placed=placed + 60)
    lines = order_lines(maker, order)
    return Draft(
        kind="change",
        ask=Voices(
            email="Some of {name}'s [order] of {day} arrived damaged: five of the {one} and two "
            "of the {two}. Could you register one return for both?",
            colleague="Part of {name}'s [order] of {day} arrived damaged: 5 × {one} and 2 × "
            "{two}. Could you please register one return for both?",
            chat="{name} got 5 × {one} and 2 × {two} damaged ([order] from {day}). can you set up "
            "one return for both",
            note="{name} has sent us photos of what arrived damaged in {name.his} "
            "[order] of {day}: 5 × {one} and 2 × {two}. Please register both in one "
            "return.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=order["id"]),
            call(
                "announce_return",
                order_id=order["id"],
                order_line_id=lines[1]["id"],
                quantity=5,
                reason="damaged",
            ),
            call(
                "add_return_line",
                return_id=ResultField(3, "return_id"),
                order_line_id=lines[2]["id"],
                quantity=2,
            ),
        ),
        answer=f"One return of {order['reference']} is announced for {customer['name']}: 5 × "
        f"{goods[1]['name']} and 2 × {goods[2]['name']}, reason damaged.",
        values={
            "name": customer["name"],
            "day": long_day(order["placed_at"]),
            "one": goods[1]["name"],
            "two": goods[2]["name"],
        },
        spare=(("orders", other["id"]),),
    )


@situation("returns", "orders", kind="decline", steps=3, without=("print_shop",), common=True)
def bought_much_earlier_than_told(maker: Maker) -> Draft | None:
    """A fortnight ago, says the customer; the order is older than the window."""
    goods = some_products(maker, 2)
    window = maker.parameters["RETURN_WINDOW_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    days = window + maker.rng.randrange(4, 25)
    order = new_order(maker, customer, [(goods[0], 2)], "completed", placed=days)
    new_order(maker, customer, [(goods[1], 1)], "completed", placed=9)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} bought two of the {product} two weeks ago and doesn't need them after "
            "all. Could you register the return as unwanted? I'll e-mail {name.him} the label.",
            colleague="{name} bought two of the {product} two weeks ago and no longer needs "
            "them. Could you please register them as an unwanted return?",
            chat="{name} wants to return 2 × {product}, unwanted, {name.he} says it's "
            "only been 2 weeks. can you set that up",
            note="{name} phoned about two of the {product}, which {name.he} bought a "
            "fortnight ago and doesn't need. I said we'd take them back, so please "
            "register the return as unwanted.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=order["id"]),
        ),
        answer=f"I could not announce that return. {order['reference']} was placed on "
        f"{long_day(order['placed_at'])}, {days} days ago, and we only take goods back within "
        f"{window} days.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=(f"{window} days", "window", "too late", "too old", "too long ago", "deadline"),
        tempts=("announce_return",),
        trap="Another order of the same customer is young enough, but has another product.",
    )


@situation("returns", "orders", steps=3, common=True)
def opened_box_unwanted(maker: Maker) -> Draft | None:
    """Unwanted goods came back used: the condition is entered and the return refused."""
    goods = some_products(maker, 2, most=maker.me["limit_cents"] // 2)
    if not goods:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 1), (goods[1], 1)], "completed", placed=17)
    lines = order_lines(maker, order)
    back = new_return(
        maker, order, [(lines[0], 1, "new"), (lines[1], 1, None)], "unwanted", "received"
    )
    mine = next(row for row in return_lines(maker, back) if row["condition"] is None)
    return Draft(
        kind="change",
        ask=Voices(
            email="The back room has checked the {two} in {name}'s return {reference}, "
            "and the condition is “used”. The {one} was checked earlier. Could you record "
            "that, and then accept or refuse the return?",
            colleague="We've now checked the {two} in {name}'s return {reference}, and the "
            "condition is “used”. Could you please record that, and then either accept or "
            "refuse the return?",
            chat="just checked the {two} in return {reference}, condition is used (the "
            "{one} was fine). can you record that and accept or refuse the return? {name} "
            "is waiting",
            note="{name} has asked about return {reference} twice. Only the condition "
            "of the {two} was missing, and it's clearly “used”. Please record it, and then "
            "accept or refuse the return.",
        ),
        calls=(
            call("find_return_by_reference", reference=back["reference"]),
            call("record_condition", return_line_id=mine["id"], condition="used"),
            call("refuse_return", return_id=back["id"]),
        ),
        answer=f"{back['reference']} is refused: it was sent back as unwanted, and "
        f"the {goods[1]['name']} is used. I've recorded that.",
        values={
            "reference": back["reference"],
            "name": customer["name"],
            "one": goods[0]["name"],
            "two": goods[1]["name"],
        },
        tempts=("accept_return",),
        trap="The system would accept the return.",
    )


@situation("returns", "orders", kind="decline", because="permission", steps=4)
def worth_more_than_i_may_accept(maker: Maker) -> Draft | None:
    """All is well with the return except that it is worth more than the own limit."""
    if maker.me["role"] == "manager":
        return None
    goods = some_products(maker, 1)
    if not goods:
        return None
    limit = maker.me["limit_cents"]
    count = limit // goods[0]["price_cents"] + maker.rng.randrange(2, 5)
    if count > 900:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], count)], "completed", placed=13)
    line = order_lines(maker, order)[0]
    back = new_return(maker, order, [(line, count, "broken")], "damaged", "received", announced=5)
    worth = maker.money(count * goods[0]["price_cents"])
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name} sent back the {product}, all damaged on the way, and hasn't heard from "
            "us. The return has been inspected. Could you accept it today?",
            colleague="{name}'s return of the {product} has been inspected, and everything "
            "in it really is damaged. Could you accept the return, please?",
            chat="the return of the {product} from {name} has been inspected, all "
            "damaged like {name.he} said. can you accept it, {name.he} is waiting",
            note="The return of the {product} from {name} has been on our shelf for "
            "days. It's been inspected, and everything in it is damaged, so please accept "
            "the return.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_returns", customer_id=customer["id"], status="received"),
            call("get_return", return_id=back["id"]),
            call("get_my_profile"),
        ),
        answer=f"I could not accept {back['reference']}: it is worth {worth}, and my limit is "
        f"{maker.money(limit)}. Somebody with a higher limit has to do it.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=("limit",),
        tempts=("accept_return",),
        spare=(("returns", back["id"]),),
    )


@situation("returns", "orders", steps=7, weight=0.3)
def send_back_all_the_rest(maker: Maker) -> Draft | None:
    """How many of a line are left to come back follows from what is on its way already; the other
    line of the order is in order."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    count, first = maker.rng.randrange(9, 13), maker.rng.randrange(2, 4)
    order = new_order(maker, customer, [(goods[0], count), (goods[1], 2)], "completed", placed=16)
    line = order_lines(maker, order)[0]
    one = new_return(maker, order, [(line, first, "broken")], "damaged", "accepted", announced=11)
    two = new_return(maker, order, [(line, 1, None)], "damaged", "cancelled", announced=8)
    pair = sorted((one, two), key=lambda row: row["announced_at"], reverse=True)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} sent back some of the {product} because of damage, and now it turns "
            "out that the rest of this [line] is damaged, too. Could you register a return for "
            "all of the {product} that {name.he} still has?",
            colleague="{name} has already returned some of the {product} as damaged, and now "
            "the rest has turned out to be damaged as well. Could you register a return "
            "for the whole rest of that [line]?",
            chat="{name} sent back some of the {product} before because of damage, and "
            "now the rest of that [line] is damaged too. can you register a return for all of it "
            "that {name.he} still has",
            note="{name} rang again about the damaged {product} and would like to send "
            "back all the rest of that [line], too; the other one is fine. Please register a "
            "return for what {name.he} still has of the {product}.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=order["id"]),
            call("find_returns", customer_id=customer["id"]),
            *(call("get_return", return_id=row["id"]) for row in pair),
            call(
                "announce_return",
                order_id=order["id"],
                order_line_id=line["id"],
                quantity=count - first,
                reason="damaged",
            ),
        ),
        answer=f"I've announced a return of {count - first} × {goods[0]['name']}: the [line] has "
        f"{count}, and {first} of them have already come back.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        trap="The unit of the cancelled return never left and comes back with the others.",
    )


@situation("returns", "orders", steps=5)
def box_without_a_number(maker: Maker) -> Draft | None:
    """Something has arrived without a reference: which announced return is it?"""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    namesake = new_customer(maker, like=customer)
    backs: list[Row] = []
    for owner, product in ((customer, goods[0]), (customer, goods[1]), (namesake, goods[0])):
        order = new_order(maker, owner, [(product, 3)], "completed", placed=14)
        line = order_lines(maker, order)[0]
        backs.append(new_return(maker, order, [(line, 2, None)], "wrong", announced=5))
    mine, other, alike = backs
    pair = sorted((mine, other), key=lambda row: (row["announced_at"], row["id"]), reverse=True)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} sent us a box with two of the {product}, but without the return number. "
            "Could you find the return and mark it as received?",
            colleague="A box from {name} has arrived with 2 × {product} in it, but without a "
            "return number. Could you please find the matching return and mark it as "
            "received?",
            chat="theres a box from {name} here, no return number, 2 × {product} in it. can you "
            "find the return and mark it received",
            note="There's a box from {name} in the post room, with two of the {product} "
            "and no return number. Please find the return it belongs to and mark it as "
            "received.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_returns", customer_id=customer["id"], status="announced"),
            *(call("get_return", return_id=row["id"]) for row in pair),
            call("receive_return", return_id=mine["id"]),
        ),
        answer=f"{mine['reference']} is marked as received. It's the one with 2 × "
        f"{goods[0]['name']}.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        spare=(("returns", other["id"]), ("returns", alike["id"])),
        trap="Another return of the same customer, and one of somebody with a similar name.",
    )


@situation(
    "returns",
    "orders",
    steps=5,
    without=("print_shop", "bike_workshop", "outdoor_shop", "solar_installer"),
)
def one_of_two_still_in_time(maker: Maker) -> Draft | None:
    """The same product was ordered twice; only what was ordered last may still come back."""
    goods = some_products(maker, 2)
    window = maker.parameters["RETURN_WINDOW_DAYS"]
    if not goods:
        return None
    customer = new_customer(maker)
    young = new_order(
        maker, customer, [(goods[0], 2), (goods[1], 1)], "completed", placed=window - 6
    )
    old = new_order(maker, customer, [(goods[0], 3)], "completed", placed=window + 8)
    line = order_lines(maker, young)[0]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to return five of the {product} from two [orders], "
            "unwanted. Please register what's still in time, and tell me why the others aren't.",
            colleague="{name} doesn't want five of the {product} that {name.he} bought in "
            "two [orders]. Could you register what we can still take as unwanted, and tell "
            "me why we can't take the rest?",
            chat="{name} wants to send back 5 × {product} (2 [orders], unwanted). can you "
            "register whats still possible? and tell me why the others arent",
            note="{name} has brought back five of the {product} from two different "
            "[orders], all unwanted. Please register the ones that are still in time, and "
            "tell me why the others aren't.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=young["id"]),
            call("get_order", order_id=old["id"]),
            call(
                "announce_return",
                order_id=young["id"],
                order_line_id=line["id"],
                quantity=2,
                reason="unwanted",
            ),
        ),
        answer=f"The 2 × {goods[0]['name']} of {young['reference']} are announced. I could not "
        f"include the other 3: {old['reference']} was placed more than {window} days ago.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=(f"{window} days", "window", "too old", "too late", "too long ago", "deadline"),
        spare=(("orders", old["id"]),),
    )


@situation("returns", "orders", kind="question", steps=4)
def worth_of_all_on_the_way(maker: Maker) -> Draft | None:
    """What the goods are worth that a customer has announced or that lie here undecided."""
    goods = some_products(maker, 3)
    if not goods or maker.parameters["MOST_OPEN_RETURNS"] < 2:
        return None
    customer = new_customer(maker)
    backs: list[Row] = []
    states = ((2, "announced", None), (1, "received", None), (1, "accepted", "broken"))
    for product, (count, status, condition) in zip(goods, states, strict=True):
        order = new_order(maker, customer, [(product, 4)], "completed", placed=15)
        line = order_lines(maker, order)[0]
        backs.append(
            new_return(
                maker,
                order,
                [(line, count, condition)],
                "damaged",
                status,
                announced=3 + len(backs),
            )
        )
    cents = 2 * goods[0]["price_cents"] + goods[1]["price_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to know how much {name.his} open returns are worth. What's "
            "the total of those we haven't decided on, including what's still on its way to us?",
            colleague="Could you tell me what {name}'s open returns are worth in total? I "
            "mean all that we haven't decided on, whether they're here or still on the "
            "way.",
            chat="{name} wants to know what {name.his} open returns are worth "
            "altogether. can you add up the announced and received ones, not the decided "
            "ones",
            note="I'm seeing {name} tomorrow about {name.his} returns. What's the total "
            "worth of those we haven't decided on yet, whether they're here or still on "
            "the way?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_returns", customer_id=customer["id"]),
            *(call("get_return", return_id=row["id"]) for row in backs[:2]),
        ),
        answer="The returns we haven't decided yet are worth {worth} in total.",
        values={"name": customer["name"], "worth": maker.money(cents)},
        trap="An accepted return does not count.",
    )


@situation("returns", "orders", kind="decline", steps=4, without=("print_shop",))
def as_many_returns_as_allowed(maker: Maker) -> Draft | None:
    """The customer has as many returns under way as the rules let them have."""
    goods = some_products(maker, 1)
    most = maker.parameters["MOST_OPEN_RETURNS"]
    if not goods:
        return None
    customer = new_customer(maker)
    for index in range(most):
        order = new_order(maker, customer, [(goods[0], 2)], "completed", placed=13 + index)
        line = order_lines(maker, order)[0]
        new_return(
            maker,
            order,
            [(line, 1, None)],
            "wrong",
            "announced" if index else "received",
            announced=4 + index,
        )
    order = new_order(maker, customer, [(goods[0], 5)], "completed", placed=5)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} ordered five of the {product} in {name.his} latest [order], "
            "which was too many, and would like to send two of them back. Please register "
            "that as unwanted.",
            colleague="{name} has five of the {product} from {name.his} latest [order] and "
            "would like to return two of them. Could you please register that return as "
            "unwanted?",
            chat="{name} wants to return 2 × {product} from {name.his} latest [order] "
            "(it has 5 of them), unwanted. can you register it",
            note="{name} would like to send back two of the five {product} in "
            "{name.his} latest [order], which {name.he} doesn't need. Please register the "
            "return as unwanted.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("get_order", order_id=order["id"]),
            call("find_returns", customer_id=customer["id"]),
        ),
        answer=f"I can't announce another return for {customer['name']}: they already have {most} "
        "announced or received, and that's as many as [a customer] may have.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=("at most", "as many as", "already", "maximum", "limit"),
        tempts=("announce_return", "add_return_line"),
    )
