"""Campaigns, the coupons that they give out, and what is redeemed."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.catalogue.tools import _active_product
from rehearsal_room.scenarios.generate.modules.common import (
    Cents,
    Day,
    Id,
    Limit,
    Text,
    _day,
    _money,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

MOST_OPEN_COUPONS = 2
MOST_EXTENDED_DAYS = 28
LEAST_PRICE_CENTS = 1_000
CouponStatus = Literal["open", "redeemed", "void"]


def _campaign(db: Db, campaign_id: int) -> Row:
    """The campaign, with what it has given so far."""
    campaign = db.one("SELECT * FROM campaigns WHERE id = ?", campaign_id)
    if campaign is None:
        raise ToolError(f"There is no campaign {campaign_id}.")
    campaign["spent_cents"] = db.value(
        "SELECT coalesce(sum(r.saved_cents), 0) FROM redemptions r"
        " JOIN coupons c ON c.id = r.coupon_id WHERE c.campaign_id = ?",
        campaign_id,
    )
    return campaign


def _running_campaign(db: Db, campaign_id: int) -> Row:
    campaign = _campaign(db, campaign_id)
    if campaign["status"] != "running" or campaign["ends_on"] < db.now[:10]:
        raise ToolError(f"Campaign {campaign_id} does not run any more.")
    return campaign


def _open_coupon(db: Db, coupon_id: int) -> Row:
    coupon = db.one("SELECT * FROM coupons WHERE id = ?", coupon_id)
    if coupon is None:
        raise ToolError(f"There is no coupon {coupon_id}.")
    if coupon["status"] != "open":
        raise ToolError(f"Coupon {coupon_id} is {coupon['status']}.")
    return coupon


def list_campaigns(db: Db) -> list[Row]:
    """All campaigns with their share off, budget in hundredths, last day and number of coupons."""
    return db.all(
        "SELECT a.id, a.name, a.percent_off, a.budget_cents, a.ends_on, a.status,"
        " (SELECT count(*) FROM coupons c WHERE c.campaign_id = a.id) AS num_given"
        " FROM campaigns a ORDER BY a.name"
    )


def get_campaign(db: Db, campaign_id: Id) -> Row:
    """One campaign with its budget and what it has given so far, in hundredths."""
    return _campaign(db, campaign_id)


def find_coupons(
    db: Db, customer_id: Id, status: CouponStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """The coupons of a customer with their campaigns, of one status if given."""
    _customer(db, customer_id)
    return db.all(
        "SELECT c.id, c.code, c.campaign_id, a.name AS campaign, a.percent_off, c.status,"
        " c.expires_on FROM coupons c JOIN campaigns a ON a.id = c.campaign_id"
        " WHERE c.customer_id = ?1 AND (?2 IS NULL OR c.status = ?2) ORDER BY c.id LIMIT ?3",
        customer_id,
        status,
        limit,
    )


def find_coupon_by_code(db: Db, code: Text) -> Row:
    """The coupon with this exact code, with its campaign, and its redemption if it has one."""
    coupon = db.one("SELECT * FROM coupons WHERE code = ?", code.strip().upper())
    if coupon is None:
        raise ToolError(f"There is no coupon with the code {code!r}.")
    coupon["campaign"] = _campaign(db, coupon["campaign_id"])["name"]
    coupon["redemption"] = db.one(
        "SELECT product_id, saved_cents, redeemed_at FROM redemptions WHERE coupon_id = ?",
        coupon["id"],
    )
    return coupon


def issue_coupon(db: Db, campaign_id: Id, customer_id: Id) -> Row:
    """Give an active customer a coupon of a running campaign, valid until the campaign ends."""
    campaign = _running_campaign(db, campaign_id)
    _active_customer(db, customer_id)
    known = db.all("SELECT campaign_id, status FROM coupons WHERE customer_id = ?", customer_id)
    if any(coupon["campaign_id"] == campaign_id for coupon in known):
        raise ToolError("The customer has had a coupon of this campaign.")
    if sum(coupon["status"] == "open" for coupon in known) >= MOST_OPEN_COUPONS:
        raise ToolError(f"The customer has {MOST_OPEN_COUPONS} open coupons already.")
    number = 1 + int(
        db.value("SELECT coalesce(max(CAST(substr(code, 4) AS INTEGER)), 0) FROM coupons")
    )
    coupon_id = db.insert(
        "coupons",
        code=f"CP-{number:05d}",
        campaign_id=campaign_id,
        customer_id=customer_id,
        expires_on=campaign["ends_on"],
    )
    return {"coupon_id": coupon_id, **_open_coupon(db, coupon_id)}


def redeem_coupon(db: Db, coupon_id: Id, product_id: Id) -> Row:
    """Redeem an open coupon for one active product; gives what is saved, in hundredths."""
    coupon = _open_coupon(db, coupon_id)
    _active_customer(db, coupon["customer_id"])
    product = _active_product(db, product_id)
    if coupon["expires_on"] < db.now[:10]:
        raise ToolError(f"Coupon {coupon_id} expired on {coupon['expires_on']}.")
    if product["price_cents"] < LEAST_PRICE_CENTS:
        raise ToolError(f"The product costs less than {_money(LEAST_PRICE_CENTS)}.")
    campaign = _campaign(db, coupon["campaign_id"])
    saved = product["price_cents"] * campaign["percent_off"] // 100
    left = campaign["budget_cents"] - campaign["spent_cents"]
    if not 0 < saved <= left:
        raise ToolError(f"It would save {_money(saved)}; the campaign has {_money(left)} left.")
    db.run("UPDATE coupons SET status = 'redeemed' WHERE id = ?", coupon_id)
    redemption_id = db.insert(
        "redemptions",
        coupon_id=coupon_id,
        product_id=product_id,
        saved_cents=saved,
        employee_id=_me(db)["id"],
        redeemed_at=db.now,
    )
    return {
        "redemption_id": redemption_id,
        "code": coupon["code"],
        "status": "redeemed",
        "saved_cents": saved,
    }


def extend_coupon(db: Db, coupon_id: Id, expires_on: Day) -> Row:
    """Give an open coupon a later last day, not too far from today."""
    coupon = _open_coupon(db, coupon_id)
    ahead = (_day(expires_on) - _day(db.now[:10])).days
    if expires_on <= coupon["expires_on"]:
        raise ToolError(f"It is valid until {coupon['expires_on']} already.")
    if not 0 <= ahead <= MOST_EXTENDED_DAYS:
        raise ToolError(f"The new day must lie within {MOST_EXTENDED_DAYS} days from today.")
    db.run("UPDATE coupons SET expires_on = ? WHERE id = ?", expires_on, coupon_id)
    return _open_coupon(db, coupon_id)


def void_coupon(db: Db, coupon_id: Id) -> Row:
    """Make an open coupon void."""
    coupon = _open_coupon(db, coupon_id)
    db.run("UPDATE coupons SET status = 'void' WHERE id = ?", coupon_id)
    return {"coupon_id": coupon_id, "code": coupon["code"], "status": "void"}


def set_campaign_budget(db: Db, campaign_id: Id, budget_cents: Cents) -> Row:
    """Give a running campaign another budget, not below what it has given. For supervisors and
    managers."""
    _require(db, "supervisor")
    campaign = _running_campaign(db, campaign_id)
    if budget_cents == campaign["budget_cents"]:
        raise ToolError("The campaign has this budget already.")
    if budget_cents < campaign["spent_cents"]:
        raise ToolError(f"The campaign has given {_money(campaign['spent_cents'])} already.")
    db.run("UPDATE campaigns SET budget_cents = ? WHERE id = ?", budget_cents, campaign_id)
    return _campaign(db, campaign_id)


def stop_campaign(db: Db, campaign_id: Id) -> Row:
    """Stop a running campaign; its coupons stay valid. For supervisors and managers."""
    _require(db, "supervisor")
    _running_campaign(db, campaign_id)
    db.run("UPDATE campaigns SET status = 'stopped' WHERE id = ?", campaign_id)
    return _campaign(db, campaign_id)
