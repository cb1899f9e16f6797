"""Seed rows of the refunds, and helpers that insert refunds and find their reasons."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.event_times import days_since, later, some_staff
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment

# Title, and the least and most of its share in per cent.
_REASONS = (
    ("Paid twice", 100, 100),
    ("Late by our fault", 40, 60),
    ("Not as described", 70, 80),
    ("Goodwill", 10, 30),
    ("Change of mind", 82, 95),
)


def rows(maker: Maker) -> None:
    """The reasons with their shares; a refund that was approved and one that is open."""
    for title, least, most in _REASONS:
        share = maker.rng.randrange(least, most + 1, 5) if least < most else least
        maker.insert("refund_reasons", title=title, share_percent=share)
    for title, status in (("Goodwill", "approved"), ("Not as described", "open")):
        customer = new_customer(maker)
        product = maker.rng.choice(maker.rows("products", status="active"))
        payment = new_payment(
            maker, customer, new_method(maker, customer), product, status="settled", created=12
        )
        new_refund(maker, payment, title, status=status, opened=6)


def refund_reason(maker: Maker, title: str) -> Row:
    """Return the reason with this title: Paid twice (all of it), Late by our fault, Not as
    described, Goodwill, Change of mind."""
    return maker.rows("refund_reasons", title=title)[0]


def share_of(maker: Maker, payment: Row, title: str) -> int:
    """Return what a reason allows of a payment, in cents."""
    return int(payment["amount_cents"] * refund_reason(maker, title)["share_percent"] // 100)


def new_refund(
    maker: Maker,
    payment: Row,
    title: str,
    cents: int | None = None,
    *,
    status: str = "open",
    opened: int = 2,
    opener: Row | None = None,
    note: str | None = None,
) -> Row:
    """Insert a refund, opened so many days ago; `cents`: all that the reason allows where None is
    given; `opener`: some colleague where None is given; `note`: what the opener wrote on it."""
    by = opener or some_staff(maker)
    at = maker.ago(min(opened, days_since(maker, payment["settled_at"])), 1)
    is_decided = status in ("approved", "rejected", "cancelled")
    refund = maker.insert(
        "refunds",
        payment_id=payment["id"],
        reason_id=refund_reason(maker, title)["id"],
        amount_cents=share_of(maker, payment, title) if cents is None else cents,
        status=status,
        opened_by=by["id"],
        opened_at=at,
        decided_by=some_staff(maker)["id"] if is_decided else None,
        decided_at=later(maker, at, 20) if is_decided else None,
    )
    if note is not None:
        maker.insert(
            "refund_notes",
            refund_id=refund["id"],
            author_id=by["id"],
            body=maker.say(note),
            written_at=at,
        )
    return refund
