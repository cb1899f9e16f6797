"""Seed rows of the memberships, and helpers that insert memberships and freezes.

Pools: tier_names (five names of tiers, the cheapest first; the last is not offered any more).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code

_TIERS = ("Basic", "Bronze", "Silver", "Gold", "Founder")


def rows(maker: Maker) -> None:
    """Tiers of rising price, the last not offered any more, and a few members."""
    cents = maker.cents(1_500, 3_000, 100)
    names = maker.pool("tier_names", *_TIERS)
    for index, name in enumerate(names):
        maker.insert(
            "tiers",
            name=name,
            month_cents=cents,
            num_guests=index,
            is_offered=int(index < len(names) - 1),
        )
        cents += maker.cents(500, 2_000, 100)
    customers = maker.rows("customers", status="active")
    for customer in maker.rng.sample(customers, k=min(maker.many(3, least=1), len(customers))):
        new_membership(maker, customer, age=maker.rng.randrange(200, 700))


def tiers(maker: Maker) -> list[Row]:
    """Return the tiers that are offered, the cheapest first."""
    return sorted(maker.rows("tiers", is_offered=1), key=lambda row: int(row["month_cents"]))


def old_tier(maker: Maker) -> Row:
    """Return the tier that is not offered any more."""
    return maker.rows("tiers", is_offered=0)[0]


def new_membership(
    maker: Maker, customer: Row, *, tier: Row | None = None, age: int = 300, **columns: Any
) -> Row:
    """Insert a membership that began `age` days ago, without a last day unless one is given."""
    return maker.insert(
        "memberships",
        card=new_code(maker, "memberships", "card", "M", 7),
        customer_id=customer["id"],
        tier_id=(tier or maker.rng.choice(tiers(maker)))["id"],
        first_day=maker.day(-age),
        **({"last_day": None} | columns),
    )


def new_freeze(maker: Maker, membership: Row, *, begin: int, days: int) -> Row:
    """Insert a freeze of so many days that begins in `begin` days."""
    return maker.insert(
        "freezes",
        membership_id=membership["id"],
        first_day=maker.day(begin),
        last_day=maker.day(begin + days - 1),
        entered_by=maker.rng.choice(maker.rows("employees", active=1))["id"],
    )
