"""Longer situations about goods: several orders, returns and shipments decided one by one."""

from collections.abc import Callable

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, ResultField, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.invoices.make import new_invoice
from rehearsal_room.scenarios.generate.modules.orders.make import new_order, order_lines
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.returns.make import new_return
from rehearsal_room.scenarios.generate.modules.shipments.make import (
    CHEAP,
    INSURED,
    STRONG,
    carriers_of,
    new_shipment,
)
from rehearsal_room.scenarios.generate.modules.stock.make import SERVICE_TRADES, new_levels
from rehearsal_room.scenarios.generate.modules.suppliers.make import (
    OTHER_PURCHASES,
    may_send,
    new_supplier,
    new_supplier_price,
)

GROUP = "long_orders"  # first part of the ids of these situations

_NO_STOCK = tuple(dict.fromkeys((*SERVICE_TRADES, *OTHER_PURCHASES)))


@situation("orders", "stock", steps=10, memory=True, without=SERVICE_TRADES)
def confirm_what_we_can_fill(maker: Maker) -> Draft | None:
    """Of three open orders those are confirmed for which enough lies in the open warehouses."""
    goods = some_products(maker, 3, without="stock_levels")
    if not goods or maker.parameters["MOST_OPEN_ORDERS"] < 3:
        return None
    have = ((6, 5), (4, 3), (9, 8))
    for product, pair in zip(goods, have, strict=True):
        if not new_levels(maker, product, [(pair[0], 0), (pair[1], 0)]):
            return None
    customer = new_customer(maker)
    need = (11, 9, 12)
    orders = [
        new_order(maker, customer, [(product, count)], placed=2 + 2 * index)
        for index, (product, count) in enumerate(zip(goods, need, strict=True))
    ]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has three open [orders] with us. Please confirm the ones for which we "
            "have everything in stock, all [warehouses] together, and leave the others open.",
            colleague="Could you go through {name}'s open [orders] and confirm the ones we "
            "can fill from stock, counting all [warehouses] together? The other [orders] "
            "can stay open.",
            chat="can you confirm the open [orders] from {name}? only the ones we have "
            "enough stock for in all [warehouses] together, leave the rest open",
            note="We owe {name} an answer about {name.his} open [orders]. Please check "
            "them against the stock in all our [warehouses] together, and confirm the ones "
            "we can fill completely.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            *(call("get_order", order_id=row["id"]) for row in orders),
            *(call("find_product_levels", product_id=row["id"]) for row in goods),
            call("confirm_order", order_id=orders[0]["id"]),
            call("confirm_order", order_id=orders[2]["id"]),
        ),
        answer=f"{orders[0]['reference']} and {orders[2]['reference']} are confirmed. For "
        f"{orders[1]['reference']} we have only 7 of 9, so it stays open.",
        values={"name": customer["name"]},
        spare=(("orders", orders[1]["id"]),),
    )


@situation("orders", "shipments", steps=10, rare=True, weight=0.4)
def still_planned_for_nothing(maker: Maker) -> Draft | None:
    """Shipments were planned for orders that have been cancelled since; they are cancelled, too."""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    off = [
        new_order(maker, customer, [(goods[0], 2)], "cancelled", placed=8),
        new_order(maker, customer, [(goods[1], 1)], "cancelled", placed=11),
    ]
    alive = new_order(maker, customer, [(goods[2], 3)], "confirmed", placed=5)
    shipments = [
        new_shipment(maker, customer, [(goods[0], 2, 2_300)], leaves=6),
        new_shipment(maker, customer, [(goods[2], 3, 3_900)], leaves=4),
        new_shipment(maker, customer, [(goods[1], 1, 1_000)], leaves=3),
    ]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has been told that something is on its way, although {name.he} "
            "cancelled it. Could you cancel all the [shipments] that are planned for {name.his} "
            "cancelled [orders]?",
            colleague="{name} cancelled some [orders], but the [shipments] for them are still "
            "planned. Please cancel those.",
            chat="{name} cancelled a few [orders] but we still have [shipments] planned for them. "
            "can you cancel those",
            note="{name} cancelled some [orders], and nobody cancelled the [shipments]. Please "
            "cancel the ones that are still planned for those [orders].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="cancelled"),
            *(call("get_order", order_id=row["id"]) for row in off),
            call("find_shipments", customer_id=customer["id"], status="planned"),
            *(call("get_shipment", shipment_id=row["id"]) for row in shipments),
            call("cancel_shipment", shipment_id=shipments[0]["id"]),
            call("cancel_shipment", shipment_id=shipments[2]["id"]),
        ),
        answer=f"{shipments[0]['reference']} and {shipments[2]['reference']} are cancelled; both "
        f"were for cancelled [orders]. {shipments[1]['reference']} leaves as planned.",
        values={"name": customer["name"]},
        spare=(("shipments", shipments[1]["id"]), ("orders", alive["id"])),
    )


@situation("returns", "orders", steps=8)
def three_on_the_bench(maker: Maker) -> Draft | None:
    """Three inspected returns are decided, each by its reason and conditions."""
    goods = some_products(maker, 3, most=maker.me["limit_cents"])
    if not goods or maker.parameters["MOST_OPEN_RETURNS"] < 3:
        return None
    customer = new_customer(maker)
    backs = []
    states = (("unwanted", "new"), ("unwanted", "broken"), ("damaged", "broken"))
    for index, (product, (reason, condition)) in enumerate(zip(goods, states, strict=True)):
        order = new_order(maker, customer, [(product, 2)], "completed", placed=16 + index)
        line = order_lines(maker, order)[0]
        backs.append(
            new_return(
                maker, order, [(line, 1, condition)], reason, "received", announced=5 + index
            )
        )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has sent three things back and is waiting for an answer. "
            "They've all been inspected. Could you accept or refuse each of the returns?",
            colleague="We still owe {name} an answer about three returns. They've all been "
            "inspected, so could you accept or refuse each of them, please?",
            chat="the 3 returns from {name} have been inspected, can you go through "
            "them and accept or refuse each one",
            note="{name} has been waiting for a decision on three returns. They've been "
            "inspected and their condition is recorded, so please accept or refuse each of "
            "the three.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_returns", customer_id=customer["id"], status="received"),
            *(call("get_return", return_id=row["id"]) for row in backs),
            call("accept_return", return_id=backs[0]["id"]),
            call("refuse_return", return_id=backs[1]["id"]),
            call("accept_return", return_id=backs[2]["id"]),
        ),
        answer=f"Accepted: {backs[0]['reference']}, unwanted but as new, and "
        f"{backs[2]['reference']}, damaged. Refused: {backs[1]['reference']}, unwanted and broken.",
        values={"name": customer["name"]},
        trap="Two of them are broken; the reason makes the difference.",
    )


@situation("suppliers", "stock", steps=9, without=_NO_STOCK)
def both_gaps_in_one_delivery(maker: Maker) -> Draft | None:
    """Two products are below their reorder points; one supplier has both, what is missing comes."""
    goods = some_products(maker, 2, without="stock_levels")
    if not goods or any(maker.rows("supplier_prices", product_id=row["id"]) for row in goods):
        return None
    gaps = (maker.rng.randrange(4, 8), maker.rng.randrange(9, 13))
    for product, gap in zip(goods, gaps, strict=True):
        if not new_levels(maker, product, [(30 - gap, 30), (28, 14)]):
            return None
    total = sum(gap * row["price_cents"] for gap, row in zip(gaps, goods, strict=True))
    if not may_send(maker, total):
        return None
    both = new_supplier(maker, least_cents=0)
    only = [new_supplier(maker, least_cents=0) for _ in goods]
    for product, single in zip(goods, only, strict=True):
        new_supplier_price(maker, both, product, max(2, product["price_cents"] * 6 // 10))
        new_supplier_price(maker, single, product, max(2, product["price_cents"] * 5 // 10))
    return Draft(
        kind="change",
        ask=Voices(
            email="The {one} and the {two} have each dropped below the reorder point in one of "
            "our [warehouses]. Please buy just what's missing, in one [purchase] from the "
            "[supplier] that has both, and send it.",
            colleague="The {one} and the {two} are both running low. Could you buy what's "
            "missing up to the reorder points, in one [purchase] from the [supplier] that "
            "sells both, and send it?",
            chat="the {one} and the {two} are running low. can you buy whats missing up "
            "to the reorder points in one [purchase], from the [supplier] that has both, "
            "and send it",
            note="The {one} and the {two} have each dropped below the reorder point in "
            "one [warehouse]. Please buy exactly what's missing, in one [purchase] from "
            "the [supplier] that sells both, and send it.",
        ),
        calls=(
            call("search_products", query=goods[0]["name"]),
            call("search_products", query=goods[1]["name"]),
            *(call("find_product_levels", product_id=row["id"]) for row in goods),
            call("find_suppliers_of", product_id=goods[0]["id"]),
            call("list_supplier_prices", supplier_id=both["id"]),
            call(
                "start_purchase",
                supplier_id=both["id"],
                product_id=goods[0]["id"],
                quantity=gaps[0],
            ),
            call(
                "add_to_purchase",
                purchase_id=ResultField(6, "purchase_id"),
                product_id=goods[1]["id"],
                quantity=gaps[1],
            ),
            call("send_purchase", purchase_id=ResultField(6, "purchase_id")),
        ),
        answer=f"{gaps[0]} × {goods[0]['name']} and {gaps[1]} × {goods[1]['name']} are on order "
        f"from {both['name']}.",
        values={"one": goods[0]["name"], "two": goods[1]["name"]},
        spare=tuple(("suppliers", row["id"]) for row in only),
        trap="Each product alone is cheaper elsewhere.",
    )


@situation("shipments", steps=11, memory=True, rare=True)
def the_freight_bill_of_one(maker: Maker) -> Draft | None:
    """Three planned shipments, each to go with the cheapest carrier that may take it."""
    most = maker.parameters["INSURED_FROM_CENTS"]
    goods = some_products(maker, 3, most=most // 2)
    if not goods:
        return None
    customer = new_customer(maker)
    dear = most // goods[1]["price_cents"] + 1
    if dear > 60:
        return None
    shipments = [
        new_shipment(maker, customer, [(goods[0], 1, 3_100)], leaves=5, carrier=STRONG),
        new_shipment(maker, customer, [(goods[1], dear, 4_600)], leaves=4, carrier=STRONG),
        new_shipment(maker, customer, [(goods[2], 1, 20_500)], leaves=3, carrier=STRONG),
    ]
    carriers = carriers_of(maker)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s planned [shipments] are all with our most expensive [carrier]. "
            "Could you move each of them to the cheapest one that's allowed to take it?",
            colleague="{name}'s planned [shipments] are all booked with the most expensive "
            "[carrier]. Please change each to the cheapest one that can take it.",
            chat="all of {name}'s planned [shipments] are with our priciest [carrier]. can you "
            "put each on the cheapest one that can take it",
            note="We're spending too much on shipping to {name}. Please move each of {name.his} "
            "planned [shipments] to the cheapest [carrier] that can take it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_shipments", customer_id=customer["id"], status="planned"),
            *(call("get_shipment", shipment_id=row["id"]) for row in shipments),
            call("list_carriers"),
            *(call("get_product", product_id=row["id"]) for row in goods),
            call(
                "change_carrier",
                shipment_id=shipments[0]["id"],
                carrier_id=carriers[CHEAP]["id"],
            ),
            call(
                "change_carrier",
                shipment_id=shipments[1]["id"],
                carrier_id=carriers[INSURED]["id"],
            ),
        ),
        answer=f"{shipments[0]['reference']} goes with {carriers[CHEAP]['name']} and "
        f"{shipments[1]['reference']} with {carriers[INSURED]['name']}, as it is worth more. "
        f"{shipments[2]['reference']} is too heavy for either and stays.",
        values={"name": customer["name"]},
        spare=(("shipments", shipments[2]["id"]),),
        trap="Value, weight and a carrier that no longer works for us each rule something out.",
    )


@situation("orders", "invoices", kind="question", steps=8, common=True, weight=2.4)
def the_one_never_billed(maker: Maker) -> Draft | None:
    """Which completed order has no invoice, by what is in it, and what is it worth?"""
    goods = some_products(maker, 3)
    if not goods:
        return None
    customer = new_customer(maker)
    orders = [
        new_order(maker, customer, [(product, 2 + index)], "completed", placed=15 + 9 * index)
        for index, product in enumerate(goods)
    ]
    bills = [
        new_invoice(maker, customer, [(goods[0], 2)], "sent", due=6),
        new_invoice(maker, customer, [(goods[2], 4)], "paid", due=-10),
    ]
    totals = {row["total_cents"] for row in orders}
    if len(totals) < 3:
        return None
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} says {name.he}'s had [invoices] for only two of {name.his} three "
            "completed [orders]. Which one did we forget, and what's its total?",
            colleague="I'd like to bill {name} today, because one of {name.his} completed "
            "[orders] was never invoiced. Could you tell me which one it is, and its "
            "total?",
            chat="one of the completed [orders] from {name} was never billed. can you "
            "find out which one and whats the total",
            note="It looks as if we never sent {name} [an invoice] for one of "
            "{name.his} completed [orders]. Could you find out which [order] that is, and "
            "what its total is?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="completed"),
            call("find_invoices", customer_id=customer["id"]),
            *(call("get_invoice", invoice_id=row["id"]) for row in bills),
            *(call("get_order", order_id=row["id"]) for row in orders),
        ),
        answer="{reference} was never invoiced; its total is {total}.",
        values={
            "name": customer["name"],
            "reference": orders[1]["reference"],
            "total": maker.money(orders[1]["total_cents"]),
        },
    )


@situation(steps=4, rare=True, without=("charity", "public_library"))
def the_whole_category_goes_up(maker: Maker) -> Callable[[], Draft | None]:
    """All active products of a category but one, the dearest, become dearer by the same amount."""
    most = maker.parameters["MOST_PRICE_CHANGE_PERCENT"]

    def draft() -> Draft | None:
        for category in maker.rows("categories"):
            products = maker.rows("products", category_id=category["id"], status="active")
            prices = {row["price_cents"] for row in products}
            if 3 <= len(products) == len(prices) <= 5:
                break
        else:
            return None
        products.sort(key=lambda row: row["price_cents"])
        *rest, dearest = products
        step = min(rest[0]["price_cents"] * (most - 1) // 100 // 50 * 50, 500)
        if step < 50 or rest[-1]["price_cents"] + step >= dearest["price_cents"]:
            return None
        rest.sort(key=lambda row: row["name"])
        return Draft(
            kind="change",
            ask=Voices(
                email="Our costs have gone up, so everything we still offer in the {category} "
                "[category] will go up by {step} from today, except the {dear}. Could you change "
                "the prices?",
                colleague="Please raise the prices in the {category} [category] by {step} each, "
                "for all we still offer except the {dear}.",
                chat="can you put everything we still offer in the {category} [category] up by "
                "{step}? not the {dear}, that stays",
                note="Prices in the {category} [category] go up: please add {step} to "
                "everything we still offer. Only the {dear} stays as it is.",
            ),
            calls=(
                call("list_categories"),
                call("search_products", category_id=category["id"]),
                *(
                    call("set_price", product_id=row["id"], price_cents=row["price_cents"] + step)
                    for row in rest
                ),
            ),
            answer=f"{', '.join(row['name'] for row in rest)} are dearer now; {dearest['name']} "
            "keeps its price.",
            values={
                "category": category["name"],
                "step": maker.money(step),
                "dear": dearest["name"],
            },
            spare=(("products", dearest["id"]),),
            trap="A retired product of the category keeps its price, too.",
        )

    return draft
