"""Seed rows of the feedback, and helpers that insert reviews, flags and replies.

Pools: praise (what somebody writes who gives four or five stars, a sentence or two), complaints
(the same for one or two stars), lukewarm (for three).
"""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker

_PRAISE = (
    "Exactly as described, and everybody was friendly.",
    "Quick, careful and fairly priced. I will come back.",
    "Better than I had expected after reading the other opinions.",
)
_COMPLAINTS = (
    "Not what I was promised, and nobody had time to listen.",
    "Far too long a wait, and then a shrug.",
    "I had to ask three times before anything happened.",
)
_LUKEWARM = (
    "Fine, but nothing special for the price.",
    "Good in parts. The beginning was a muddle.",
)


def rows(maker: Maker) -> None:
    """A few reviews of other days."""
    customers = maker.rows("customers", status="active")
    for index in range(maker.many(4, least=1)):
        customer, product = maker.rng.choice(customers), maker.pick("products", status="active")
        if product is None or maker.rows(
            "reviews", customer_id=customer["id"], product_id=product["id"]
        ):
            continue
        review = new_review(
            maker,
            customer,
            product,
            rating=maker.one_of(5, 4, 3, 2, 5),
            status="pending" if index % 3 == 2 else "published",
            age=maker.rng.randrange(3, 120),
        )
        if review["status"] == "published" and maker.chance(0.3):
            new_reply(maker, review, maker.pick("employees", active=1), days=2)


def review_text(maker: Maker, rating: int) -> str:
    """Return what somebody writes who gives so many stars."""
    if rating > 3:
        return maker.rng.choice(maker.pool("praise", *_PRAISE))
    if rating < 3:
        return maker.rng.choice(maker.pool("complaints", *_COMPLAINTS))
    return maker.rng.choice(maker.pool("lukewarm", *_LUKEWARM))


def new_review(
    maker: Maker,
    customer: Row,
    product: Row,
    *,
    rating: int = 4,
    body: str | None = None,
    status: str = "published",
    age: int = 5,
) -> Row:
    """Insert a review that was written `age` days ago, and return it."""
    return maker.insert(
        "reviews",
        customer_id=customer["id"],
        product_id=product["id"],
        rating=rating,
        body=body or review_text(maker, rating),
        status=status,
        written_on=maker.day(-age),
    )


def new_flag(maker: Maker, review: Row, reason: str, *, by: Row, days: int = 1) -> Row:
    """Insert a flag of a review by an employee."""
    return maker.insert(
        "review_flags",
        review_id=review["id"],
        reason=reason,
        flagged_by=by["id"],
        flagged_at=maker.ago(days),
    )


def new_reply(
    maker: Maker,
    review: Row,
    by: Row | None,
    body: str | None = None,
    *,
    days: int = 1,
) -> Row:
    """Insert our reply to a review, by an employee."""
    author = by or maker.me
    return maker.insert(
        "replies",
        review_id=review["id"],
        author_id=author["id"],
        body=body or "Thank you for taking the time to write.",
        written_at=maker.ago(days),
    )
