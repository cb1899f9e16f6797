"""Seed rows of the subscriptions, and helpers that insert plans, subscriptions and charges.

Pools: subscribed (names of the trade's goods that people subscribe to; none: all of them).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.catalogue.make import add_product
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code


def rows(maker: Maker) -> None:
    """Plans of two or three lengths for some products, and a few subscriptions; situations need
    products that have no plans yet."""
    for name in maker.pool("subscribed"):
        goods = maker.goods_named(name)
        if goods is not None:
            add_product(maker, goods)
    products = subscribable(maker)
    for product in maker.rng.sample(products, k=max(1, min(3, len(products) - 2))):
        new_plans(maker, product, (1, 3, 12) if maker.chance(0.6) else (1, 12))
    customers = maker.rows("customers", status="active")
    for customer in maker.rng.sample(customers, k=min(maker.many(3, least=1), len(customers))):
        plan = maker.pick("plans")
        if plan is not None:
            new_subscription(maker, customer, plan, age=maker.rng.randrange(90, 400))


def subscribable(maker: Maker) -> list[Row]:
    """Return the active products that people subscribe to."""
    products = maker.rows("products", status="active")
    names = maker.pool("subscribed")
    return [row for row in products if row["name"] in names] or products


def bare_product(maker: Maker) -> Row | None:
    """Return a product that people subscribe to and that has no plans yet."""
    bare = [row for row in subscribable(maker) if not maker.rows("plans", product_id=row["id"])]
    return maker.rng.choice(bare) if bare else None


def new_plans(
    maker: Maker, product: Row, months: tuple[int, ...], *, month_cents: int | None = None
) -> list[Row]:
    """Insert plans of a product that has none, of these numbers of months, and return them; the
    longer ones are cheaper by the month."""
    cents = maker.cents(900, 4_000, 100) if month_cents is None else month_cents
    share = {1: 100, 3: 95, 12: 85}
    return [
        maker.insert(
            "plans",
            code=new_code(maker, "plans", "code", "PL", 4),
            product_id=product["id"],
            months=length,
            price_cents=length * cents * share[length] // 100,
            is_offered=1,
        )
        for length in months
    ]


def plans_of(maker: Maker, least: int) -> list[Row]:
    """Return the offered plans of a product that has so many of them, the shortest first; empty:
    there is none. A product without plans gets some where no other has enough."""
    found = []
    for product in maker.rows("products", status="active"):
        plans = maker.rows("plans", product_id=product["id"], is_offered=1)
        if len(plans) >= least:
            found.append(sorted(plans, key=lambda row: int(row["months"])))
    if found:
        return maker.rng.choice(found)
    bare = bare_product(maker)
    return [] if bare is None else new_plans(maker, bare, (1, 3, 12))


def product_of(maker: Maker, plan: Row) -> Row:
    """Return the product of a plan."""
    return maker.get("products", plan["product_id"])


def new_subscription(
    maker: Maker,
    customer: Row,
    plan: Row,
    *,
    age: int = 200,
    charges: bool = True,
    last: int | None = None,
    **columns: Any,
) -> Row:
    """Insert a subscription that began `age` days ago, and return it.

    With `charges` it has a paid charge of its first day and one of `last` days ago.
    """
    given = {"status": "active", "discount_percent": 0, "paused_until": None} | columns
    subscription = maker.insert(
        "subscriptions",
        reference=new_code(maker, "subscriptions", "reference", "SB"),
        customer_id=customer["id"],
        plan_id=plan["id"],
        started_on=maker.day(-age),
        **given,
    )
    if charges:
        new_charge(maker, subscription, days=age)
        if age > 40 or last is not None:
            new_charge(
                maker, subscription, days=maker.rng.randrange(3, 25) if last is None else last
            )
    return subscription


def new_charge(
    maker: Maker, subscription: Row, *, days: int, status: str = "paid", cents: int | None = None
) -> Row:
    """Insert what was charged for a subscription `days` days ago: its price less the discount
    unless an amount is given."""
    plan = maker.get("plans", subscription["plan_id"])
    usual = plan["price_cents"] * (100 - subscription["discount_percent"]) // 100
    return maker.insert(
        "charges",
        subscription_id=subscription["id"],
        amount_cents=usual if cents is None else cents,
        status=status,
        made_on=maker.day(-days),
    )
