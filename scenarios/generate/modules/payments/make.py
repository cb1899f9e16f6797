"""Seed rows of the payments, and helpers that insert methods and payments with their history."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import later, some_staff
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_KINDS = ("card", "debit", "wallet")
_STATUSES = ("pending", "settled", "failed")


def rows(maker: Maker) -> None:
    """A few payments of the customers of the background, one of each usual status."""
    for index in range(maker.many(3, least=1)):
        customer = some_customer(maker)
        known = maker.rows("payment_methods", customer_id=customer["id"])
        product = maker.rng.choice(maker.rows("products", status="active"))
        new_payment(
            maker,
            customer,
            known[0] if known else new_method(maker, customer),
            product,
            status=_STATUSES[index % len(_STATUSES)],
            created=maker.rng.randrange(3, 40),
        )


def new_method(
    maker: Maker,
    customer: Row,
    kind: str | None = None,
    *,
    expires: int | None = None,
    status: str = "active",
) -> Row:
    """Insert a method of a customer. `expires`: in so many days, negative: so many days ago."""
    return maker.insert(
        "payment_methods",
        customer_id=customer["id"],
        kind=kind or maker.rng.choice(_KINDS),
        last_four=new_digits(maker),
        expires_on=maker.day(maker.rng.randrange(200, 900) if expires is None else expires),
        status=status,
    )


def new_digits(maker: Maker) -> str:
    """Four digits, none of them a leading zero, with which no method ends."""
    digits = f"{maker.rng.randrange(1_000, 10_000)}"
    while maker.rows("payment_methods", last_four=digits):
        digits = f"{maker.rng.randrange(1_000, 10_000)}"
    return digits


def new_payment(
    maker: Maker,
    customer: Row,
    method: Row,
    product: Row,
    cents: int | None = None,
    *,
    status: str = "pending",
    created: int = 3,
    hours: int | None = None,
) -> Row:
    """Insert a payment for a product, made so many days ago, with its history. `cents`: at the
    product's price where None is given."""
    at = maker.ago(created, hours)
    done = later(maker, at, 3)
    payment = maker.insert(
        "payments",
        reference=new_code(maker, "payments", "reference", "PY", 5),
        customer_id=customer["id"],
        method_id=method["id"],
        product_id=product["id"],
        amount_cents=product["price_cents"] if cents is None else cents,
        status=status,
        created_at=at,
        settled_at=done if status == "settled" else None,
    )
    maker.insert("payment_events", payment_id=payment["id"], kind="created", at=at)
    kinds = {"settled": ("settled",), "failed": ("failed",), "void": ("failed", "void")}
    for index, kind in enumerate(kinds.get(status, ())):
        maker.insert(
            "payment_events",
            payment_id=payment["id"],
            kind=kind,
            employee_id=some_staff(maker)["id"] if kind == "void" else None,
            at=later(maker, done, 20 * index),
        )
    return payment
