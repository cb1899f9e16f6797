"""Seed rows of the warranties, and helpers that insert warranties, claims and assessments.

Pool: warranty_faults (what a customer says is wrong; a short sentence each).
"""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_product
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import later_day, some_staff
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

# Trades whose goods nobody would have under a warranty.
NO_WARRANTIES = ("moving_company", "plant_nursery", "wine_merchant")
_FAULTS = (
    *("A part has come loose", "It does not work any more", "The surface peels off"),
    *("It is cracked along the edge", "It makes a loud noise", "The fastening broke off"),
)


def rows(maker: Maker) -> None:
    """A warranty in force with an accepted claim, and one that has ended."""
    warranty = new_warranty(maker, new_customer(maker), some_product(maker), bought=150)
    claim = new_claim(maker, warranty, cause="defect", days=40)
    decide(maker, claim)
    new_warranty(maker, new_customer(maker), some_product(maker), bought=500, ends=-30)


def faults(maker: Maker, count: int) -> list[str]:
    """Return so many different faults, in the trade's words."""
    found = [maker.say(text) for text in maker.pool("warranty_faults", *_FAULTS)]
    return maker.rng.sample(found, k=count)


def new_warranty(
    maker: Maker,
    customer: Row,
    product: Row,
    *,
    bought: int = 200,
    ends: int | None = None,
    extended: int = 0,
) -> Row:
    """Insert a warranty for what was bought so many days ago; it ends in so many days."""
    last = maker.rng.randrange(90, 500) if ends is None else ends
    return maker.insert(
        "warranties",
        number=new_code(maker, "warranties", "number", "WA"),
        customer_id=customer["id"],
        product_id=product["id"],
        bought_on=maker.day(-bought),
        ends_on=maker.day(last),
        extended=extended,
    )


def new_claim(
    maker: Maker,
    warranty: Row,
    *,
    fault: str | None = None,
    days: int = 8,
    cause: str | None = None,
    cents: int | None = None,
    assessor: Row | None = None,
) -> Row:
    """Insert an open claim of so many days ago; with an assessment if a cause is given."""
    claim = maker.insert(
        "claims",
        warranty_id=warranty["id"],
        fault=fault or faults(maker, 1)[0],
        reported_on=maker.day(-days),
    )
    if cause is not None:
        maker.insert(
            "assessments",
            claim_id=claim["id"],
            assessor_id=(assessor or some_staff(maker))["id"],
            cause=cause,
            estimate_cents=maker.cents(1_000, 4_500) if cents is None else cents,
            made_on=later_day(claim["reported_on"], min(days, 2)),
        )
    return claim


def decide(maker: Maker, claim: Row) -> None:
    """Let an assessed claim be accepted when it is a defect, and rejected otherwise."""
    found = maker.rows("assessments", claim_id=claim["id"])[0]
    is_defect = found["cause"] == "defect"
    deciders = maker.rows("employees", lambda row: row["id"] != found["assessor_id"], active=1)
    claim["status"] = "accepted" if is_defect else "rejected"
    claim["amount_cents"] = found["estimate_cents"] if is_defect else 0
    claim["decided_by"] = maker.rng.choice(deciders)["id"]
