"""What customers say of products, and what we answer."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _product
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Text
from rehearsal_room.scenarios.generate.modules.parties.tools import _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

MOST_REPLY_LETTERS = 400
LEAST_CLERK_RATING = 3
REVIEW_REPLY_DAYS = 60
ReviewStatus = Literal["pending", "published", "hidden"]
ReviewFlag = Literal["insult", "spam", "personal_data", "other_business"]


def _review(db: Db, review_id: int) -> Row:
    review = db.one("SELECT * FROM reviews WHERE id = ?", review_id)
    if review is None:
        raise ToolError(f"There is no review {review_id}.")
    return review


def _num_flags(db: Db, review_id: int) -> int:
    return int(db.value("SELECT count(*) FROM review_flags WHERE review_id = ?", review_id))


def _check_reply(db: Db, review: Row, body: str) -> None:
    if review["status"] != "published":
        raise ToolError(f"Review {review['id']} is {review['status']}, not published.")
    if len(body) > MOST_REPLY_LETTERS:
        raise ToolError(f"A reply has {MOST_REPLY_LETTERS} characters at most, not {len(body)}.")
    if review["rating"] < LEAST_CLERK_RATING:
        _require(db, "supervisor")


def find_reviews(
    db: Db,
    product_id: Id | None = None,
    customer_id: Id | None = None,
    status: ReviewStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find reviews by product, by customer, by status, or by any of these together. Without any of
    them all reviews are listed. The latest comes first."""
    if product_id is not None:
        _product(db, product_id)
    if customer_id is not None:
        _customer(db, customer_id)
    return db.all(
        "SELECT id, customer_id, product_id, rating, status, written_on FROM reviews WHERE (?1 IS "
        "NULL OR product_id = ?1) AND (?2 IS NULL OR customer_id = ?2) AND (?3 IS NULL OR status = "
        "?3) ORDER BY written_on DESC, id LIMIT ?4",
        product_id,
        customer_id,
        status,
        limit,
    )


def get_review(db: Db, review_id: Id) -> Row:
    """Show one review with its text, its flags and our reply, if there is one."""
    review = _review(db, review_id)
    review["flags"] = db.all(
        "SELECT id, reason, flagged_by, flagged_at FROM review_flags WHERE review_id = ? ORDER BY "
        "id",
        review_id,
    )
    review["reply"] = db.one("SELECT * FROM replies WHERE review_id = ?", review_id)
    return review


def get_rating(db: Db, product_id: Id) -> Row:
    """Show how many published reviews a product has and the sum of their ratings (1 to 5 each)."""
    _product(db, product_id)
    row = db.one(
        "SELECT count(*) AS num_published, coalesce(sum(rating), 0) AS sum_of_ratings FROM reviews "
        "WHERE product_id = ? AND status = 'published'",
        product_id,
    )
    assert row is not None, "an aggregate has a row"
    return {"product_id": product_id, **row}


def publish_review(db: Db, review_id: Id) -> Row:
    """Publish a review that is pending or hidden. Only supervisors and managers publish a flagged
    one."""
    if _review(db, review_id)["status"] == "published":
        raise ToolError(f"Review {review_id} is published already.")
    if _num_flags(db, review_id):
        _require(db, "supervisor")
    db.run("UPDATE reviews SET status = 'published' WHERE id = ?", review_id)
    return _review(db, review_id)


def flag_review(db: Db, review_id: Id, reason: ReviewFlag) -> Row:
    """Flag a review in your own name, for one reason."""
    _review(db, review_id)
    known = db.value(
        "SELECT id FROM review_flags WHERE review_id = ? AND reason = ?", review_id, reason
    )
    if known is not None:
        raise ToolError(f"Review {review_id} is flagged for this reason already.")
    flag_id = db.insert(
        "review_flags",
        review_id=review_id,
        reason=reason,
        flagged_by=_me(db)["id"],
        flagged_at=db.now,
    )
    return {"flag_id": flag_id, "review_id": review_id, "reason": reason, "flagged_at": db.now}


def hide_review(db: Db, review_id: Id) -> Row:
    """Hide a flagged review that is pending or published."""
    if _review(db, review_id)["status"] == "hidden":
        raise ToolError(f"Review {review_id} is hidden already.")
    if not _num_flags(db, review_id):
        raise ToolError(f"Review {review_id} is not flagged.")
    db.run("UPDATE reviews SET status = 'hidden' WHERE id = ?", review_id)
    return _review(db, review_id)


def post_reply(db: Db, review_id: Id, body: Text) -> Row:
    """Reply to a published review that has no reply yet. Only supervisors and managers reply to low
    ratings."""
    _check_reply(db, _review(db, review_id), body)
    known = db.value("SELECT id FROM replies WHERE review_id = ?", review_id)
    if known is not None:
        raise ToolError(f"Review {review_id} has reply {known} already.")
    reply_id = db.insert(
        "replies", review_id=review_id, author_id=_me(db)["id"], body=body, written_at=db.now
    )
    return {"reply_id": reply_id, "review_id": review_id, "body": body, "written_at": db.now}


def delete_reply(db: Db, reply_id: Id) -> Row:
    """Delete a reply of your own; supervisors and managers may delete any."""
    reply = db.one("SELECT * FROM replies WHERE id = ?", reply_id)
    if reply is None:
        raise ToolError(f"There is no reply {reply_id}.")
    if reply["author_id"] != _me(db)["id"]:
        _require(db, "supervisor")
    db.run("DELETE FROM replies WHERE id = ?", reply_id)
    return reply
