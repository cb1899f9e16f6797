"""Seed rows of the campaigns and coupons, and helpers that insert them.

Pool: campaign_names (names of campaigns; twelve at least).
"""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import some_staff
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

_NAMES = (
    *("Kind regards", "Many thanks", "Welcome back", "Tenth anniversary", "Early birds"),
    *("Good neighbours", "Loyal customers", "Second visit", "Flash discount", "Ten per cent off"),
    *("Bring a friend", "Quiet Tuesdays", "Birthday gift", "Newsletter readers", "First order"),
    *("Late bookers", "Lucky seven", "Local people", "Thank you 100"),
)


def rows(maker: Maker) -> None:
    """A running campaign and a stopped one, each with a coupon."""
    for status in ("running", "stopped"):
        campaign = new_campaign(maker, status=status)
        if campaign is not None:
            new_coupon(maker, new_customer(maker), campaign)


def new_campaign(
    maker: Maker,
    percent: int | None = None,
    *,
    ends: int | None = None,
    budget: int | None = None,
    status: str = "running",
) -> Row | None:
    """Insert a campaign that ends in so many days; None when all names are used."""
    used = {row["name"] for row in maker.rows("campaigns")}
    free = [name for name in maker.pool("campaign_names", *_NAMES) if name not in used]
    if not free:
        return None
    return maker.insert(
        "campaigns",
        name=maker.rng.choice(free),
        percent_off=percent or maker.rng.randrange(5, 35, 5),
        budget_cents=maker.cents(200_000, 900_000, 5_000) if budget is None else budget,
        ends_on=maker.day(maker.rng.randrange(30, 120) if ends is None else ends),
        status=status,
    )


def new_coupon(
    maker: Maker, customer: Row, campaign: Row, status: str = "open", *, expires: int = 9
) -> Row:
    """Insert a coupon, open or void, whose last day is in so many days (negative: is over)."""
    return maker.insert(
        "coupons",
        code=new_code(maker, "coupons", "code", "CP", 5),
        campaign_id=campaign["id"],
        customer_id=customer["id"],
        status=status,
        expires_on=maker.day(expires),
    )


def saving(campaign: Row, product: Row) -> int:
    """Return what a coupon of a campaign saves on a product, in cents."""
    return int(product["price_cents"] * campaign["percent_off"] // 100)


def new_redeemed(
    maker: Maker, customer: Row, campaign: Row, product: Row, *, days: int = 6
) -> tuple[Row, Row]:
    """Insert a coupon that was redeemed for a product so many days ago, and its redemption."""
    coupon = new_coupon(maker, customer, campaign, "redeemed", expires=maker.rng.randrange(5, 20))
    redemption = maker.insert(
        "redemptions",
        coupon_id=coupon["id"],
        product_id=product["id"],
        saved_cents=saving(campaign, product),
        employee_id=some_staff(maker)["id"],
        redeemed_at=maker.ago(days),
    )
    return coupon, redemption


def couponable(maker: Maker, count: int, campaign: Row | None = None) -> list[Row]:
    """Return so many active products for which coupons are redeemed, no two at the same price; []
    when there are too few."""
    least = max(maker.parameters["LEAST_PRICE_CENTS"], 100)
    found = maker.rows("products", lambda row: row["price_cents"] >= least, status="active")
    maker.rng.shuffle(found)
    by_price = {row["price_cents"]: row for row in found}
    return list(by_price.values())[:count] if len(by_price) >= count else []
