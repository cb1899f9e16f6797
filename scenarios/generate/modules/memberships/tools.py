"""The memberships: tiers, freezes, beginning and end."""

from datetime import timedelta

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Day,
    Id,
    Limit,
    Text,
    _day,
    _like,
    _next_number,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

MOST_FREEZE_DAYS = 40
LEAST_FREEZE_DAYS = 5
MEMBERSHIP_NOTICE_DAYS = 21
MEMBERSHIP_BOUND_DAYS = 120


def _membership(db: Db, membership_id: int) -> Row:
    membership = db.one("SELECT * FROM memberships WHERE id = ?", membership_id)
    if membership is None:
        raise ToolError(f"There is no membership {membership_id}.")
    return membership


def _running_membership(db: Db, membership_id: int) -> Row:
    membership = _membership(db, membership_id)
    if membership["last_day"] is not None and membership["last_day"] < db.now[:10]:
        raise ToolError(f"Membership {membership_id} is over since {membership['last_day']}.")
    return membership


def _offered_tier(db: Db, tier_id: int) -> Row:
    tier = db.one("SELECT * FROM tiers WHERE id = ?", tier_id)
    if tier is None:
        raise ToolError(f"There is no tier {tier_id}.")
    if not tier["is_offered"]:
        raise ToolError(f"Tier {tier_id} is not offered any more.")
    return tier


def list_tiers(db: Db) -> list[Row]:
    """List all tiers with their price a month in hundredths, the number of free guests and whether
    they are offered."""
    return db.all("SELECT * FROM tiers ORDER BY month_cents, id")


def find_memberships(
    db: Db, customer_id: Id | None = None, card: Text | None = None, limit: Limit = 20
) -> list[Row]:
    """Find memberships by customer, by a part of the card number, or by both. Without either all
    memberships are listed. The latest comes first."""
    if customer_id is not None:
        _customer(db, customer_id)
    return db.all(
        "SELECT id, card, customer_id, tier_id, first_day, last_day FROM memberships WHERE (?1 IS "
        "NULL OR customer_id = ?1) AND (?2 IS NULL OR card LIKE ?2 ESCAPE '\\') ORDER BY first_day "
        "DESC, id LIMIT ?3",
        customer_id,
        None if card is None else _like(card),
        limit,
    )


def get_membership(db: Db, membership_id: Id) -> Row:
    """Show one membership with its tier and its freezes."""
    membership = _membership(db, membership_id)
    membership["tier"] = db.value("SELECT name FROM tiers WHERE id = ?", membership["tier_id"])
    membership["freezes"] = db.all(
        "SELECT id, first_day, last_day, entered_by FROM freezes WHERE membership_id = ? ORDER BY "
        "first_day",
        membership_id,
    )
    return membership


def start_membership(db: Db, customer_id: Id, tier_id: Id, first_day: Day) -> Row:
    """Start a membership of an active customer, today or later."""
    _active_customer(db, customer_id)
    _offered_tier(db, tier_id)
    begin = _day(first_day).isoformat()
    if begin < db.now[:10]:
        raise ToolError("A membership begins today or later.")
    running = db.value(
        "SELECT id FROM memberships WHERE customer_id = ? AND (last_day IS NULL OR last_day >= ?) "
        "ORDER BY id",
        customer_id,
        begin,
    )
    if running is not None:
        raise ToolError(f"The customer has membership {running} at that time.")
    number = _next_number(db, "memberships")
    membership_id = db.insert(
        "memberships",
        card=f"M-{number:07d}",
        customer_id=customer_id,
        tier_id=tier_id,
        first_day=begin,
    )
    row = _membership(db, membership_id)
    return {"membership_id": row.pop("id"), **row}


def change_tier(db: Db, membership_id: Id, tier_id: Id) -> Row:
    """Move a running membership to another tier that is offered."""
    membership = _running_membership(db, membership_id)
    _offered_tier(db, tier_id)
    if membership["tier_id"] == tier_id:
        raise ToolError(f"Membership {membership_id} is in tier {tier_id} already.")
    db.run("UPDATE memberships SET tier_id = ? WHERE id = ?", tier_id, membership_id)
    return _membership(db, membership_id)


def add_freeze(db: Db, membership_id: Id, first_day: Day, last_day: Day) -> Row:
    """Freeze a running membership from the first to the last day, both included."""
    _running_membership(db, membership_id)
    begin, end = _day(first_day), _day(last_day)
    length = (end - begin).days + 1
    if begin.isoformat() <= db.now[:10]:
        raise ToolError("A freeze begins after today.")
    if not LEAST_FREEZE_DAYS <= length <= MOST_FREEZE_DAYS:
        raise ToolError(
            f"A freeze has {LEAST_FREEZE_DAYS} to {MOST_FREEZE_DAYS} days, not {length}."
        )
    other = db.value(
        "SELECT id FROM freezes WHERE membership_id = ? AND first_day <= ? AND last_day >= ? ORDER "
        "BY id",
        membership_id,
        end.isoformat(),
        begin.isoformat(),
    )
    if other is not None:
        raise ToolError(f"Freeze {other} of this membership overlaps.")
    freeze_id = db.insert(
        "freezes",
        membership_id=membership_id,
        first_day=begin.isoformat(),
        last_day=end.isoformat(),
        entered_by=_me(db)["id"],
    )
    return {
        "freeze_id": freeze_id,
        "membership_id": membership_id,
        "first_day": begin.isoformat(),
        "last_day": end.isoformat(),
        "num_days": length,
    }


def cancel_freeze(db: Db, freeze_id: Id) -> Row:
    """Cancel a freeze that has not begun."""
    freeze = db.one("SELECT * FROM freezes WHERE id = ?", freeze_id)
    if freeze is None:
        raise ToolError(f"There is no freeze {freeze_id}.")
    if freeze["first_day"] <= db.now[:10]:
        raise ToolError(f"Freeze {freeze_id} has begun on {freeze['first_day']}.")
    db.run("DELETE FROM freezes WHERE id = ?", freeze_id)
    return freeze


def end_membership(db: Db, membership_id: Id, last_day: Day) -> Row:
    """End a membership by setting its last day. Only managers may set one without the full
    notice."""
    membership = _running_membership(db, membership_id)
    end = _day(last_day)
    if membership["last_day"] is not None:
        raise ToolError(f"Membership {membership_id} ends on {membership['last_day']} already.")
    if end.isoformat() < max(db.now[:10], membership["first_day"]):
        raise ToolError("The last day lies before today or before the first one.")
    if end < _day(db.now[:10]) + timedelta(days=MEMBERSHIP_NOTICE_DAYS):
        _require(db, "manager")
    db.run("UPDATE memberships SET last_day = ? WHERE id = ?", end.isoformat(), membership_id)
    return _membership(db, membership_id)
