"""Seed rows and tasks of the campaigns and their coupons."""

from datetime import date

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.catalogue.make import product_named
from scenarios.generate.modules.draft_helpers import new_code, requiring_role
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer

_NAMES = (
    *("Spring greetings", "Autumn thanks", "Welcome back", "Tenth anniversary", "Early birds"),
    *("Rainy days", "Good neighbours", "Long weekend"),
)
# What the coupons in the seed rows are like, one after the other.
_STATES = ("open", "expired", "redeemed", "open", "redeemed", "open", "expired", "void")


def rows(maker: Maker) -> None:
    """Four campaigns, the last of them stopped; coupons that are open, expired, redeemed, void."""
    for index, name in enumerate(maker.rng.sample(_NAMES, k=4)):
        maker.insert(
            "campaigns",
            name=name,
            percent_off=maker.rng.randrange(5, 35, 5),
            budget_cents=maker.cents(60_000, 400_000, 5_000),
            ends_on=maker.day(maker.rng.randrange(20, 120)),
            status="stopped" if index == 3 else "running",
        )
    for index in range(maker.many(8, least=7)):
        _add_coupon(maker, _STATES[index % len(_STATES)])


def _add_coupon(maker: Maker, state: str) -> None:
    customer, campaign = some_customer(maker), maker.rng.choice(maker.rows("campaigns"))
    num_open = len(maker.rows("coupons", customer_id=customer["id"], status="open"))
    has_one = maker.rows("coupons", customer_id=customer["id"], campaign_id=campaign["id"])
    if has_one or num_open >= maker.parameters["MOST_OPEN_COUPONS"] - 1:
        return
    day = maker.rng.randrange(2, 10)
    coupon = maker.insert(
        "coupons",
        code=new_code(maker, "coupons", "code", "CP", 5),
        campaign_id=campaign["id"],
        customer_id=customer["id"],
        status="open" if state == "expired" else state,
        expires_on=maker.day(-day if state == "expired" else day),
    )
    product = _dear_product(maker)
    if state != "redeemed" or product is None:
        coupon["status"] = "void" if state == "redeemed" else coupon["status"]
        return
    maker.insert(
        "redemptions",
        coupon_id=coupon["id"],
        product_id=product["id"],
        saved_cents=_saved(campaign, product),
        employee_id=maker.rng.choice(maker.rows("employees", active=1))["id"],
        redeemed_at=maker.ago(maker.rng.randrange(1, 30)),
    )
    campaign["budget_cents"] += _saved(campaign, product) // 50 * 50


def _dear_product(maker: Maker) -> Row | None:
    """An active product that costs enough for a coupon."""
    least = maker.parameters["LEAST_PRICE_CENTS"]
    return maker.pick("products", lambda row: row["price_cents"] >= least, status="active")


def _saved(campaign: Row, product: Row) -> int:
    return int(product["price_cents"] * campaign["percent_off"] // 100)


def _spent(maker: Maker, campaign: Row) -> int:
    ids = {row["id"] for row in maker.rows("coupons", campaign_id=campaign["id"])}
    given = maker.rows("redemptions", lambda row: row["coupon_id"] in ids)
    return sum(row["saved_cents"] for row in given)


def _campaign_of(maker: Maker, coupon: Row) -> Row:
    return maker.get("campaigns", coupon["campaign_id"])


def coupon_named(maker: Maker, coupon: Row) -> Named:
    """How an instruction names a coupon, and the calls that find it."""
    if not maker.is_vague() or maker.chance(0.3):
        found = call("find_coupon_by_code", code=coupon["code"])
        return Named("the coupon {coupon}", {"coupon": coupon["code"]}, (found,))
    who = customer_named(maker, maker.get("customers", coupon["customer_id"]))
    find = call("find_coupons", customer_id=coupon["customer_id"])
    text = f"the coupon of the campaign “{{coupon}}” that {who.text} has"
    values = {**who.values, "coupon": _campaign_of(maker, coupon)["name"]}
    return Named(text, values, (*who.calls, find))


def _open_coupon(maker: Maker, *, is_expired: bool) -> Row | None:
    """An open coupon of an active customer that has, or has not, expired."""
    active = {row["id"] for row in maker.rows("customers", status="active")}
    return maker.pick(
        "coupons",
        lambda row: (
            row["customer_id"] in active and (row["expires_on"] < maker.day()) == is_expired
        ),
        status="open",
    )


def _may_get(maker: Maker, customer: Row, campaign: Row) -> bool:
    known = maker.rows("coupons", customer_id=customer["id"])
    num_open = sum(row["status"] == "open" for row in known)
    return num_open < maker.parameters["MOST_OPEN_COUPONS"] and all(
        row["campaign_id"] != campaign["id"] for row in known
    )


def coupon_to_issue(maker: Maker) -> Draft | None:
    """Someone gets a coupon of a campaign, which is named by its name."""
    customer, campaign = some_customer(maker), maker.pick("campaigns", status="running")
    if campaign is None or not _may_get(maker, customer, campaign):
        return None
    who = customer_named(maker, customer)
    issue = call("issue_coupon", campaign_id=campaign["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=f"Give {who.text} a coupon of the campaign “{{campaign}}”.",
        calls=(*who.calls, call("list_campaigns"), issue),
        answer="The coupon is given out.",
        values={**who.values, "campaign": campaign["name"]},
        spare=lookalikes(maker, customer),
    )


def coupon_to_redeem(maker: Maker) -> Draft | None:
    """An open one, for something that costs enough and fits into the budget."""
    coupon, product = _open_coupon(maker, is_expired=False), _dear_product(maker)
    if coupon is None or product is None:
        return None
    campaign = _campaign_of(maker, coupon)
    saved = _saved(campaign, product)
    if not 0 < saved <= campaign["budget_cents"] - _spent(maker, campaign):
        return None
    what, goods = coupon_named(maker, coupon), product_named(maker, product)
    redeem = call("redeem_coupon", coupon_id=coupon["id"], product_id=product["id"])
    return Draft(
        kind="change",
        ask=f"Redeem {what.text} for {goods.text}.",
        calls=(*what.calls, *goods.calls, redeem),
        answer="It is redeemed and saves {saved}.",
        values={**what.values, **goods.values, "saved": maker.money(saved)},
    )


def coupon_to_extend(maker: Maker) -> Draft | None:
    """Some days longer; the day must be worked out."""
    coupon = _open_coupon(maker, is_expired=False)
    if coupon is None:
        return None
    days = maker.rng.randrange(2, 12)
    ahead = (date.fromisoformat(coupon["expires_on"]) - date.fromisoformat(maker.day())).days
    if ahead + days > maker.parameters["MOST_EXTENDED_DAYS"]:
        return None
    what, day = coupon_named(maker, coupon), maker.day(ahead + days)
    return Draft(
        kind="change",
        ask=f"Extend {what.text} by {{days}} days from the day until which it is valid now.",
        calls=(*what.calls, call("extend_coupon", coupon_id=coupon["id"], expires_on=day)),
        answer="It is valid until {day}.",
        values={**what.values, "days": days, "day": day},
    )


def coupon_to_void(maker: Maker) -> Draft | None:
    """Given out by mistake."""
    coupon = maker.pick("coupons", status="open")
    if coupon is None:
        return None
    what = coupon_named(maker, coupon)
    return Draft(
        kind="change",
        ask=f"Make {what.text} void; it was given out by mistake.",
        calls=(*what.calls, call("void_coupon", coupon_id=coupon["id"])),
        answer="The coupon is void.",
        values=what.values,
    )


def coupon_to_exchange(maker: Maker) -> Draft | None:
    """One is made void, and its customer gets one of another campaign."""
    coupon = _open_coupon(maker, is_expired=False)
    campaign = maker.pick("campaigns", status="running")
    if coupon is None or campaign is None:
        return None
    customer = maker.get("customers", coupon["customer_id"])
    known = maker.rows("coupons", customer_id=customer["id"])
    if any(row["campaign_id"] == campaign["id"] for row in known):
        return None
    what = coupon_named(maker, coupon)
    issue = call("issue_coupon", campaign_id=campaign["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=f"Make {what.text} void, and give the same customer one of the campaign “{{new}}” "
        "instead.",
        calls=(
            *what.calls,
            call("list_campaigns"),
            call("void_coupon", coupon_id=coupon["id"]),
            issue,
        ),
        answer="The coupon is exchanged.",
        values={**what.values, "new": campaign["name"]},
        trap="The new one may be given only after the old one is void.",
    )


def budget_to_raise(maker: Maker) -> Draft | None:
    """By a share of what it is; a clerk has to decline."""
    campaign = maker.pick("campaigns", status="running")
    assert campaign is not None, "three campaigns run"
    percent = maker.rng.randrange(10, 60, 10)
    cents = campaign["budget_cents"] + campaign["budget_cents"] * percent // 100
    draft = Draft(
        kind="change",
        ask="Raise the budget of the campaign “{campaign}” by {percent} percent of what it is now.",
        calls=(
            call("list_campaigns"),
            call("set_campaign_budget", campaign_id=campaign["id"], budget_cents=cents),
        ),
        answer="The budget is {budget} now.",
        values={
            "campaign": campaign["name"],
            "percent": percent,
            "budget": maker.money(cents),
        },
    )
    return requiring_role(maker, "supervisor", draft)


def campaign_to_stop(maker: Maker) -> Draft | None:
    """Before its end; a clerk has to decline."""
    campaign = maker.pick("campaigns", status="running")
    assert campaign is not None, "three campaigns run"
    draft = Draft(
        kind="change",
        ask="Stop the campaign “{campaign}” as of today.",
        calls=(call("list_campaigns"), call("stop_campaign", campaign_id=campaign["id"])),
        answer="The campaign is stopped.",
        values={"campaign": campaign["name"]},
    )
    return requiring_role(maker, "supervisor", draft)


def same_last_day(maker: Maker) -> Draft | None:
    """A memory task: one coupon shall be valid as long as another one."""
    one, other = maker.pick("coupons"), _open_coupon(maker, is_expired=False)
    if one is None or other is None or one["expires_on"] <= other["expires_on"]:
        return None
    if one["expires_on"] > maker.day(maker.parameters["MOST_EXTENDED_DAYS"]):
        return None
    return Draft(
        kind="change",
        ask="Look up until which day the coupon {one} is valid, and keep that day in mind.",
        later="Finally, extend the coupon {other} to that same day.",
        calls=(
            call("find_coupon_by_code", code=one["code"]),
            call("find_coupon_by_code", code=other["code"]),
            call("extend_coupon", coupon_id=other["id"], expires_on=one["expires_on"]),
        ),
        hold=1,
        answer="Both are valid until the same day.",
        values={"one": one["code"], "other": other["code"]},
    )


def what_was_saved(maker: Maker) -> Draft | None:
    """What a coupon has saved."""
    redemption = maker.pick("redemptions")
    if redemption is None:
        return None
    coupon = maker.get("coupons", redemption["coupon_id"])
    return Draft(
        kind="question",
        ask="How much has the coupon {code} saved?",
        calls=(call("find_coupon_by_code", code=coupon["code"]),),
        answer="It has saved {saved}.",
        values={"code": coupon["code"], "saved": maker.money(redemption["saved_cents"])},
    )


def budget_left(maker: Maker) -> Draft | None:
    """What a campaign may still give: a difference."""
    campaign = maker.pick("campaigns")
    assert campaign is not None, "there are campaigns"
    left = campaign["budget_cents"] - _spent(maker, campaign)
    return Draft(
        kind="question",
        ask="How much of the budget of the campaign “{campaign}” is left?",
        calls=(call("list_campaigns"), call("get_campaign", campaign_id=campaign["id"])),
        answer="It has {left} left.",
        values={"campaign": campaign["name"], "left": maker.money(left)},
    )


def valid_until(maker: Maker) -> Draft | None:
    """The last day of a coupon."""
    coupon = maker.pick("coupons")
    if coupon is None:
        return None
    what = coupon_named(maker, coupon)
    return Draft(
        kind="question",
        ask=f"What is the last day of {what.text}?",
        calls=what.calls,
        answer="The last day is {day}.",
        values={**what.values, "day": day_of(coupon["expires_on"])},
    )


def expired_to_extend(maker: Maker) -> Draft | None:
    """It has expired; the tool would extend it."""
    coupon = _open_coupon(maker, is_expired=True)
    if coupon is None:
        return None
    what = coupon_named(maker, coupon)
    return Draft(
        kind="decline",
        ask=f"Extend {what.text} to {{day}}.",
        calls=what.calls,
        answer="I decline: it has expired, and what has expired is not extended.",
        values={**what.values, "day": maker.day(maker.rng.randrange(2, 12))},
        reasons=("expired", "over", "no longer valid", "not valid any more"),
        trap="It is open, so the tool would extend it.",
    )


def coupon_for_another(maker: Maker) -> Draft | None:
    """Another person wants to use it."""
    coupon, product = _open_coupon(maker, is_expired=False), _dear_product(maker)
    if coupon is None or product is None:
        return None
    other = maker.pick("customers", lambda row: row["id"] != coupon["customer_id"])
    assert other is not None
    goods = product_named(maker, product)
    return Draft(
        kind="decline",
        ask=f"Redeem the coupon {{code}} for {goods.text}; {{other}} has found it and wants to use "
        "it.",
        calls=(
            call("find_coupon_by_code", code=coupon["code"]),
            call("get_customer", customer_id=coupon["customer_id"]),
            *goods.calls,
        ),
        answer="I decline: the coupon belongs to another customer than the one who wants to use "
        "it.",
        values={**goods.values, "code": coupon["code"], "other": other["name"]},
        reasons=("another", "belongs", "not theirs", "different", "somebody else", "someone else"),
        trap="The coupon is open, so the tool would redeem it.",
    )


DRAFTS = (
    coupon_to_issue,
    coupon_to_redeem,
    coupon_to_extend,
    coupon_to_void,
    coupon_to_exchange,
    budget_to_raise,
    campaign_to_stop,
    same_last_day,
    what_was_saved,
    budget_left,
    valid_until,
    expired_to_extend,
    coupon_for_another,
)
