"""The subscriptions: plans, pauses, discounts, charges."""

from datetime import timedelta
from typing import Annotated

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Day,
    Id,
    Limit,
    Text,
    _day,
    _like,
    _money,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

MOST_PAUSE_DAYS = 60
MOST_CLERK_DISCOUNT_PERCENT = 10
MOST_DISCOUNT_PERCENT = 30
CHARGE_CREDIT_DAYS = 40
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


def _subscription(db: Db, subscription_id: int, *statuses: str) -> Row:
    """The subscription, which must have one of these statuses if some are given."""
    subscription = db.one("SELECT * FROM subscriptions WHERE id = ?", subscription_id)
    if subscription is None:
        raise ToolError(f"There is no subscription {subscription_id}.")
    if statuses and subscription["status"] not in statuses:
        raise ToolError(f"Subscription {subscription_id} is {subscription['status']}.")
    return subscription


def _offered_plan(db: Db, plan_id: int) -> Row:
    plan = db.one("SELECT * FROM plans WHERE id = ?", plan_id)
    if plan is None:
        raise ToolError(f"There is no plan {plan_id}.")
    if not plan["is_offered"]:
        raise ToolError(f"Plan {plan_id} is not offered any more.")
    return plan


def _require_single(db: Db, customer_id: int, product_id: int, without: int = 0) -> None:
    """The customer must have no other subscription to the product."""
    other = db.value(
        "SELECT s.id FROM subscriptions s JOIN plans p ON p.id = s.plan_id WHERE s.customer_id = ? "
        "AND p.product_id = ? AND s.status <> 'ended' AND s.id <> ? ORDER BY s.id",
        customer_id,
        product_id,
        without,
    )
    if other is not None:
        raise ToolError(f"The customer has subscription {other} to this product already.")


def list_plans(db: Db, product_id: Id | None = None, limit: Limit = 50) -> list[Row]:
    """List the plans, of one product if given: how many months each runs and what those cost, in
    hundredths."""
    return db.all(
        "SELECT n.id, n.code, n.product_id, p.name AS product, n.months, n.price_cents, "
        "n.is_offered FROM plans n JOIN products p ON p.id = n.product_id WHERE ?1 IS NULL OR "
        "n.product_id = ?1 ORDER BY n.code LIMIT ?2",
        product_id,
        limit,
    )


def find_subscriptions(
    db: Db, customer_id: Id | None = None, reference: Text | None = None, limit: Limit = 20
) -> list[Row]:
    """Find subscriptions by customer, by a part of their reference, or by both. Without either all
    subscriptions are listed."""
    if customer_id is not None:
        _customer(db, customer_id)
    return db.all(
        "SELECT s.id, s.reference, s.customer_id, s.plan_id, p.name AS product, n.months, s.status "
        "FROM subscriptions s JOIN plans n ON n.id = s.plan_id JOIN products p ON p.id = "
        "n.product_id WHERE (?1 IS NULL OR s.customer_id = ?1) AND (?2 IS NULL OR s.reference LIKE "
        "?2 ESCAPE '\\') ORDER BY s.started_on, s.id LIMIT ?3",
        customer_id,
        None if reference is None else _like(reference),
        limit,
    )


def get_subscription(db: Db, subscription_id: Id) -> Row:
    """Show one subscription with its plan and its charges, the latest first."""
    subscription = _subscription(db, subscription_id)
    subscription["plan"] = db.one("SELECT * FROM plans WHERE id = ?", subscription["plan_id"])
    subscription["charges"] = db.all(
        "SELECT id, amount_cents, status, made_on FROM charges WHERE subscription_id = ? ORDER BY "
        "made_on DESC",
        subscription_id,
    )
    return subscription


def start_subscription(db: Db, customer_id: Id, plan_id: Id) -> Row:
    """Start a subscription of an active customer today. Nothing is charged yet."""
    _active_customer(db, customer_id)
    _require_single(db, customer_id, _offered_plan(db, plan_id)["product_id"])
    number = _next_number(db, "subscriptions")
    subscription_id = db.insert(
        "subscriptions",
        reference=f"SB-{number:06d}",
        customer_id=customer_id,
        plan_id=plan_id,
        started_on=db.now[:10],
    )
    row = _subscription(db, subscription_id)
    return {"subscription_id": row.pop("id"), **row}


def switch_plan(db: Db, subscription_id: Id, plan_id: Id) -> Row:
    """Move an active subscription to another plan that is offered."""
    subscription = _subscription(db, subscription_id, "active")
    plan = _offered_plan(db, plan_id)
    if subscription["plan_id"] == plan_id:
        raise ToolError(f"Subscription {subscription_id} is on plan {plan_id} already.")
    _require_single(db, subscription["customer_id"], plan["product_id"], subscription_id)
    db.run("UPDATE subscriptions SET plan_id = ? WHERE id = ?", plan_id, subscription_id)
    return _subscription(db, subscription_id)


def pause_subscription(db: Db, subscription_id: Id, until: Day) -> Row:
    """Pause an active subscription from today until a later day."""
    _subscription(db, subscription_id, "active")
    last, today = _day(until), _day(db.now[:10])
    if not today < last <= today + timedelta(days=MOST_PAUSE_DAYS):
        raise ToolError(f"It is paused for 1 to {MOST_PAUSE_DAYS} days, counted from today.")
    db.run(
        "UPDATE subscriptions SET status = 'paused', paused_until = ? WHERE id = ?",
        last.isoformat(),
        subscription_id,
    )
    return _subscription(db, subscription_id)


def resume_subscription(db: Db, subscription_id: Id) -> Row:
    """Resume a paused subscription."""
    _subscription(db, subscription_id, "paused")
    db.run(
        "UPDATE subscriptions SET status = 'active', paused_until = NULL WHERE id = ?",
        subscription_id,
    )
    return _subscription(db, subscription_id)


def set_discount(db: Db, subscription_id: Id, percent: Percent) -> Row:
    """Set the discount of an active subscription in percent; 0 takes it away. Larger discounts are
    for supervisors and managers."""
    subscription = _subscription(db, subscription_id, "active")
    if subscription["discount_percent"] == percent:
        raise ToolError(f"Subscription {subscription_id} has this discount already.")
    if percent > MOST_DISCOUNT_PERCENT:
        raise ToolError(f"A discount is {MOST_DISCOUNT_PERCENT} % at most.")
    if percent > MOST_CLERK_DISCOUNT_PERCENT:
        _require(db, "supervisor")
    db.run("UPDATE subscriptions SET discount_percent = ? WHERE id = ?", percent, subscription_id)
    return _subscription(db, subscription_id)


def credit_charge(db: Db, charge_id: Id) -> Row:
    """Credit a paid charge to the customer, up to your own limit."""
    charge = db.one("SELECT * FROM charges WHERE id = ?", charge_id)
    if charge is None:
        raise ToolError(f"There is no charge {charge_id}.")
    if charge["status"] != "paid":
        raise ToolError(f"Charge {charge_id} is {charge['status']}.")
    if _day(charge["made_on"]) + timedelta(days=CHARGE_CREDIT_DAYS) < _day(db.now[:10]):
        raise ToolError(f"Charge {charge_id} was made on {charge['made_on']}, too long ago.")
    limit_cents = _me(db)["limit_cents"]
    if charge["amount_cents"] > limit_cents:
        raise ToolError(f"{_money(charge['amount_cents'])} is above {_money(limit_cents)}.")
    db.run("UPDATE charges SET status = 'credited' WHERE id = ?", charge_id)
    return {**charge, "status": "credited"}


def end_subscription(db: Db, subscription_id: Id) -> Row:
    """End an active or paused subscription as of today."""
    _subscription(db, subscription_id, "active", "paused")
    db.run(
        "UPDATE subscriptions SET status = 'ended', paused_until = NULL WHERE id = ?",
        subscription_id,
    )
    return _subscription(db, subscription_id)
