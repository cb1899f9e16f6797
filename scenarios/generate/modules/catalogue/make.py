"""Seed rows of the catalogue, and helpers that choose or insert products and price changes."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.event_times import some_staff
from rehearsal_room.scenarios.generate.vocabulary.trades import Goods


def rows(maker: Maker) -> None:
    """The trade's categories, some of its goods, and past changes of prices."""
    employees = maker.rows("employees", active=1)
    num_goods = maker.many(12, least=4)
    chosen = [goods for _ in range(num_goods) if (goods := maker.goods()) is not None]
    categories: dict[str, Row] = {}
    for name in dict.fromkeys((*(goods.category for goods in chosen), *maker.trade.categories[:1])):
        lead = maker.rng.choice(employees)["id"]
        categories[name] = maker.insert("categories", name=name, lead_id=lead)
    for index, goods in enumerate(chosen):
        product = maker.insert(
            "products",
            code=f"{goods.category[:2].upper()}-{maker.rng.randrange(10, 99)}{index:02d}",
            name=goods.name,
            category_id=categories[goods.category]["id"],
            price_cents=maker.cents(goods.least, goods.most),
            unit=goods.unit,
            status="retired" if index > 5 and maker.chance(0.12) else "active",
        )
        if maker.chance(0.15):
            step = maker.one_of(-1, 1) * maker.cents(5, 45, 5)
            new_price_change(
                maker, product, product["price_cents"] + step, maker.rng.randrange(20, 400)
            )


def new_price_change(
    maker: Maker, product: Row, old_cents: int, days: int, by: Row | None = None
) -> Row:
    """Insert that a product got its present price so many days ago."""
    return maker.insert(
        "price_changes",
        product_id=product["id"],
        old_cents=old_cents,
        new_cents=product["price_cents"],
        changed_by=(by or some_staff(maker))["id"],
        changed_at=maker.ago(days),
    )


def add_product(maker: Maker, goods: Goods, **columns: object) -> Row:
    """Insert goods of the trade that the world does not have yet."""
    category = maker.pick("categories", name=goods.category)
    if category is None:
        category = maker.insert("categories", name=goods.category, lead_id=some_staff(maker)["id"])
    number = len(maker.rows("products"))
    given: dict[str, object] = {
        "code": f"{goods.category[:2].upper()}-{maker.rng.randrange(10, 99)}{number:02d}",
        "name": goods.name,
        "category_id": category["id"],
        "price_cents": maker.cents(goods.least, goods.most),
        "unit": goods.unit,
        "status": "active",
    }
    return maker.insert("products", **(given | columns))


def some_products(
    maker: Maker, count: int, *, least: int = 1, most: int = 10**9, without: str = ""
) -> list[Row]:
    """Return so many active products, no two at the same price, whose prices lie within these
    cents and to which no row of the table `without` refers; [] when there are too few."""
    used = {row["product_id"] for row in maker.rows(without)} if without else set()
    found = maker.rows(
        "products",
        lambda row: least <= row["price_cents"] <= most and row["id"] not in used,
        status="active",
    )
    maker.rng.shuffle(found)
    by_price = {row["price_cents"]: row for row in found}
    chosen = list(by_price.values())
    return chosen[:count] if len(chosen) >= count else []


def some_product(maker: Maker) -> Row:
    """An active product."""
    product = maker.pick("products", status="active")
    assert product is not None, "the first products are active"
    return product
