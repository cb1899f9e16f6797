"""Longer situations: households, recalls, shortages, margins; one purpose with many steps."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, ResultField, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.orders.make import new_order
from rehearsal_room.scenarios.generate.modules.parties.make import (
    new_customer,
)
from rehearsal_room.scenarios.generate.modules.stock.make import SERVICE_TRADES, new_levels
from rehearsal_room.scenarios.generate.modules.suppliers.make import (
    OTHER_PURCHASES,
    may_send,
    new_supplier,
    new_supplier_price,
)

GROUP = "long_cases"  # first part of the ids of these situations

_NO_STOCK = tuple(dict.fromkeys((*SERVICE_TRADES, *OTHER_PURCHASES)))


@situation("orders", "stock", "suppliers", steps=7, without=_NO_STOCK, common=True)
def short_of_what_was_promised(maker: Maker) -> Draft | None:
    """A confirmed order needs more than lies in the stock; what is missing is purchased."""
    goods = some_products(maker, 1, without="stock_levels")
    if not goods or maker.rows("supplier_prices", product_id=goods[0]["id"]):
        return None
    have = (maker.rng.randrange(3, 7), maker.rng.randrange(7, 12))
    if not new_levels(maker, goods[0], [(have[0], 0), (have[1], 0)]):
        return None
    need = sum(have) + maker.rng.randrange(12, 19)
    missing = need - sum(have)
    price = goods[0]["price_cents"]
    if not may_send(maker, missing * price):
        return None
    offers = ((12, 48, "active"), (9, 61, "active"), (4, 30, "suspended"))
    suppliers = [
        new_supplier(maker, lead_days=days, status=status, least_cents=0)
        for days, _, status in offers
    ]
    for supplier, (_, percent, _) in zip(suppliers, offers, strict=True):
        new_supplier_price(maker, supplier, goods[0], max(2, price * percent // 100))
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], need)], "confirmed", placed=2)
    return Draft(
        kind="change",
        ask=Voices(
            email="We've confirmed {name}'s [order] for the {product}, and I don't think we "
            "have enough. Please check all the [warehouses], buy what's missing from the "
            "cheapest active [supplier], and send the [purchase] today.",
            colleague="We've confirmed {name}'s [order] for the {product}, but all our "
            "[warehouses] together may not have enough. Could you buy what's missing from "
            "the cheapest active [supplier], please, and send the [purchase]?",
            chat="can you check if we have enough of the {product} for the confirmed "
            "[order] from {name}? if not buy whats missing from the cheapest active "
            "[supplier] and send it",
            note="Somebody confirmed {name}'s [order] for the {product} without "
            "checking the stock. Please see how many we're short across all [warehouses], "
            "buy those from the cheapest active [supplier], and send the [purchase] today.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_orders", customer_id=customer["id"], status="confirmed"),
            call("get_order", order_id=order["id"]),
            call("find_product_levels", product_id=goods[0]["id"]),
            call("find_suppliers_of", product_id=goods[0]["id"]),
            call(
                "start_purchase",
                supplier_id=suppliers[0]["id"],
                product_id=goods[0]["id"],
                quantity=missing,
            ),
            call("send_purchase", purchase_id=ResultField(5, "purchase_id")),
        ),
        answer=f"We have {sum(have)} of {need}. I've purchased the missing {missing} from "
        f"{suppliers[0]['name']} and sent it off.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        spare=(("suppliers", suppliers[2]["id"]),),
        trap="The cheapest supplier is suspended.",
    )


@situation(
    "suppliers", steps=8, without=(*OTHER_PURCHASES, "public_library"), rare=True, weight=0.5
)
def prices_below_our_margin(maker: Maker) -> Draft | None:
    """What costs less than one and a half times its cost at a supplier becomes just that dear."""
    goods = some_products(maker, 4, least=600)
    if not goods:
        return None
    supplier = new_supplier(maker)
    rates = (106, 80, 108, 70)  # the new price in per cent of the present one
    costs = {}
    for product, rate in zip(goods, rates, strict=True):
        cost = product["price_cents"] * rate // 150 // 2 * 2
        costs[product["id"]] = cost
        new_supplier_price(maker, supplier, product, cost)
    listed = sorted(goods, key=lambda row: row["name"])
    low = [row for row in listed if costs[row["id"]] * 3 // 2 > row["price_cents"]]
    if len(low) != 2 or "’" in supplier["name"]:
        return None
    return Draft(
        kind="change",
        ask=Voices(
            email="{supplier} has put its prices up. Could you check what we charge for their "
            "goods? It should be at least 1.5 times the cost, so raise it to that where it's "
            "less.",
            colleague="{supplier} has put its prices up. Please check our prices for what we "
            "buy from them, and raise any that are below 1.5 times the cost to 1.5 times.",
            chat="can you check our prices for what we buy from {supplier}? anything under 1.5x "
            "the cost goes up to 1.5x",
            note="{supplier} has put up its prices, and we haven't followed. Where we charge "
            "less than 1.5 times the cost for what we buy from them, please raise our price to "
            "that.",
        ),
        calls=(
            call("search_suppliers", query=supplier["name"]),
            call("list_supplier_prices", supplier_id=supplier["id"]),
            *(call("get_product", product_id=row["id"]) for row in listed),
            *(
                call("set_price", product_id=row["id"], price_cents=costs[row["id"]] * 3 // 2)
                for row in low
            ),
        ),
        answer=f"{low[0]['name']} and {low[1]['name']} were too cheap; they're now "
        f"{maker.money(costs[low[0]['id']] * 3 // 2)} and "
        f"{maker.money(costs[low[1]['id']] * 3 // 2)}.",
        values={"supplier": supplier["name"]},
        spare=tuple(("products", row["id"]) for row in goods if row not in low),
    )
