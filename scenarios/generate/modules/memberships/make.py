"""Seed rows and tasks of the memberships. `membership_named` is for other modules' drafts too."""

from collections.abc import Callable
from datetime import date, timedelta

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.draft_helpers import is_ranked, new_code, with_lookups
from scenarios.generate.modules.parties.make import customer_named, lookalikes

_TIERS = ("Bronze", "Silver", "Gold", "Platinum", "Founders")


def rows(maker: Maker) -> None:
    """Tiers of rising price, the last not offered any more; memberships young, old and over."""
    cents = maker.cents(1_500, 3_000)
    for index, name in enumerate(_TIERS):
        maker.insert(
            "tiers",
            name=name,
            month_cents=cents,
            num_guests=index,
            is_offered=int(index < len(_TIERS) - 1),
        )
        cents += maker.cents(500, 2_500)
    tiers = maker.rows("tiers")
    customers = maker.rows("customers", status="active")
    num_members = min(maker.many(7, least=6), max(3, len(customers) - 2))
    for index, customer in enumerate(
        maker.rng.sample(customers, k=min(num_members, len(customers)))
    ):
        bound = maker.parameters["MEMBERSHIP_BOUND_DAYS"]
        is_over = index % 7 == 3
        is_young = index % 3 == 0
        age = maker.rng.randrange(20, bound - 10) if is_young else bound + maker.rng.randrange(300)
        membership = maker.insert(
            "memberships",
            card=new_code(maker, "memberships", "card", "M", 7),
            customer_id=customer["id"],
            tier_id=maker.rng.choice(tiers[1:] if is_young else tiers)["id"],
            first_day=maker.day(-age),
            last_day=maker.day(-maker.rng.randrange(2, 15)) if is_over else None,
        )
        if not is_over and (index < 2 or maker.chance(0.6)):
            _add_freeze(maker, membership, maker.rng.randrange(4, 20))


def _add_freeze(maker: Maker, membership: Row, offset: int) -> None:
    length = maker.parameters["LEAST_FREEZE_DAYS"] + maker.rng.randrange(8)
    maker.insert(
        "freezes",
        membership_id=membership["id"],
        first_day=maker.day(offset),
        last_day=maker.day(offset + length - 1),
        entered_by=maker.rng.choice(maker.rows("employees"))["id"],
    )


def membership_named(maker: Maker, membership: Row) -> Named:
    """How an instruction names a membership, and the calls that find it."""
    lookup = call("get_membership", membership_id=membership["id"])
    if not maker.is_vague():
        return Named("membership {membership}", {"membership": membership["id"]}, (lookup,))
    if maker.chance(0.4):
        found = call("find_memberships", card=membership["card"])
        text = "the membership with the card {membership}"
        return Named(text, {"membership": membership["card"]}, (found, lookup))
    who = customer_named(maker, maker.get("customers", membership["customer_id"]))
    found = call("find_memberships", customer_id=membership["customer_id"])
    return Named(f"the membership of {who.text}", who.values, (*who.calls, found, lookup))


def _some_membership(maker: Maker, where: Callable[[Row], bool] | None = None) -> Row | None:
    """A membership without a last day."""
    return maker.pick(
        "memberships", lambda row: row["last_day"] is None and (where is None or where(row))
    )


def _freezes(maker: Maker, membership: Row) -> list[Row]:
    return maker.rows("freezes", membership_id=membership["id"])


def _is_bound(maker: Maker, membership: Row) -> bool:
    """Whether it is too young for a cheaper tier."""
    age = date.fromisoformat(maker.day()) - date.fromisoformat(membership["first_day"])
    return age.days < maker.parameters["MEMBERSHIP_BOUND_DAYS"]


def _other_tier(maker: Maker, membership: Row, *, dearer: bool) -> Row | None:
    cents = maker.get("tiers", membership["tier_id"])["month_cents"]
    return maker.pick(
        "tiers",
        lambda row: (row["month_cents"] > cents) == dearer and row["id"] != membership["tier_id"],
        is_offered=1,
    )


def dearer_tier(maker: Maker) -> Draft | None:
    """To a dearer tier, which goes at any time."""
    membership = _some_membership(maker)
    tier = None if membership is None else _other_tier(maker, membership, dearer=True)
    if membership is None or tier is None:
        return None
    what = membership_named(maker, membership)
    change = call("change_tier", membership_id=membership["id"], tier_id=tier["id"])
    return Draft(
        kind="change",
        ask=f"Put {what.text} into the tier {{tier}}.",
        calls=(*what.calls, call("list_tiers"), change),
        answer="It is in the tier {tier} now.",
        values={**what.values, "tier": tier["name"]},
        spare=lookalikes(maker, maker.get("customers", membership["customer_id"])),
    )


def next_cheaper_tier(maker: Maker) -> Draft | None:
    """To the next cheaper tier, which must be looked up; the membership is old enough."""
    membership = _some_membership(maker, lambda row: not _is_bound(maker, row))
    if membership is None:
        return None
    cents = maker.get("tiers", membership["tier_id"])["month_cents"]
    cheaper = maker.rows("tiers", lambda row: row["month_cents"] < cents, is_offered=1)
    if not cheaper:
        return None
    tier = max(cheaper, key=lambda row: int(row["month_cents"]))
    what = membership_named(maker, membership)
    lookup = call("get_membership", membership_id=membership["id"])
    change = call("change_tier", membership_id=membership["id"], tier_id=tier["id"])
    return Draft(
        kind="change",
        ask=f"Put {what.text} into the tier that costs less and is next to its present one.",
        calls=(*with_lookups(what.calls, lookup), call("list_tiers"), change),
        answer="It is in the tier {tier} now.",
        values={**what.values, "tier": tier["name"]},
        trap="The customer must have been a member for long enough.",
    )


def new_freeze(maker: Maker) -> Draft | None:
    """A freeze, given by its length."""
    membership = _some_membership(maker)
    if membership is None:
        return None
    what = membership_named(maker, membership)
    begin = maker.rng.randrange(60, 90)
    length = maker.rng.randrange(
        maker.parameters["LEAST_FREEZE_DAYS"], maker.parameters["MOST_FREEZE_DAYS"] - 2
    )
    days = {"first_day": maker.day(begin), "last_day": maker.day(begin + length - 1)}
    return Draft(
        kind="change",
        ask=f"Enter a freeze for {what.text}: {{length}} days from {{first}} on, the first day "
        "counted.",
        calls=(*what.calls, call("add_freeze", membership_id=membership["id"], **days)),
        answer="The freeze lasts until {last}.",
        values={
            **what.values,
            "length": length,
            "first": days["first_day"],
            "last": days["last_day"],
        },
    )


def freeze_to_move(maker: Maker) -> Draft | None:
    """A freeze begins later and stays as long as it is: it is deleted and entered again."""
    membership = _some_membership(maker, lambda row: len(_freezes(maker, row)) == 1)
    if membership is None:
        return None
    freeze = _freezes(maker, membership)[0]
    what = membership_named(maker, membership)
    lookup = call("get_membership", membership_id=membership["id"])
    begin = maker.rng.randrange(45, 80)
    span = date.fromisoformat(freeze["last_day"]) - date.fromisoformat(freeze["first_day"])
    first = date.fromisoformat(maker.day(begin))
    days = {"first_day": first.isoformat(), "last_day": (first + span).isoformat()}
    return Draft(
        kind="change",
        ask=f"Let the freeze of {what.text} begin on {{first}} instead and be as long as it is: "
        "delete it and enter it anew.",
        calls=(
            *with_lookups(what.calls, lookup),
            call("cancel_freeze", freeze_id=freeze["id"]),
            call("add_freeze", membership_id=membership["id"], **days),
        ),
        answer="The freeze begins on {first} and lasts until {last}.",
        values={**what.values, "first": days["first_day"], "last": days["last_day"]},
    )


def freeze_to_cancel(maker: Maker) -> Draft | None:
    """A freeze that has not begun."""
    freeze = maker.pick("freezes")
    if freeze is None:
        return None
    membership = maker.get("memberships", freeze["membership_id"])
    what = membership_named(maker, membership)
    lookup = call("get_membership", membership_id=membership["id"])
    cancel = call("cancel_freeze", freeze_id=freeze["id"])
    return Draft(
        kind="change",
        ask=f"Delete the freeze of {what.text} that begins on {{first}}.",
        calls=(*with_lookups(what.calls, lookup), cancel),
        answer="The freeze from {first} is deleted.",
        values={**what.values, "first": freeze["first_day"]},
    )


def in_time(maker: Maker) -> Draft | None:
    """An end that keeps the notice."""
    membership = _some_membership(maker)
    if membership is None:
        return None
    what = membership_named(maker, membership)
    notice = maker.parameters["MEMBERSHIP_NOTICE_DAYS"]
    begin = date.fromisoformat(maker.day())
    last = (begin + timedelta(days=notice + maker.rng.randrange(1, 30))).isoformat()
    end = call("end_membership", membership_id=membership["id"], last_day=last)
    return Draft(
        kind="change",
        ask=f"Let {what.text} end, with {{last}} as its last day.",
        calls=(*what.calls, end),
        answer="The last day is {last}.",
        values={**what.values, "last": last},
    )


def new_member(maker: Maker) -> Draft | None:
    """Someone without a membership gets one."""
    members = {row["customer_id"] for row in maker.rows("memberships")}
    customer = maker.pick("customers", lambda row: row["id"] not in members, status="active")
    tier = maker.pick("tiers", is_offered=1)
    if customer is None or tier is None:
        return None
    who = customer_named(maker, customer)
    first = maker.day(maker.rng.randrange(1, 30))
    start = {"customer_id": customer["id"], "tier_id": tier["id"], "first_day": first}
    return Draft(
        kind="change",
        ask=f"Let a membership of the tier {{tier}} begin on {{first}} for {who.text}.",
        calls=(*who.calls, call("list_tiers"), call("start_membership", **start)),
        answer="The membership begins on {first}.",
        values={**who.values, "tier": tier["name"], "first": first},
        spare=lookalikes(maker, customer),
    )


def same_tier(maker: Maker) -> Draft | None:
    """A memory task: the tier of one member is that of a new one."""
    membership = _some_membership(
        maker, lambda row: maker.get("tiers", row["tier_id"])["is_offered"] == 1
    )
    members = {row["customer_id"] for row in maker.rows("memberships")}
    other = maker.pick("customers", lambda row: row["id"] not in members, status="active")
    if membership is None or other is None:
        return None
    first = maker.day(maker.rng.randrange(1, 30))
    start = {"customer_id": other["id"], "tier_id": membership["tier_id"], "first_day": first}
    return Draft(
        kind="change",
        ask="Look up the tier of the membership with the card {card}, and remember it.",
        later="Finally, let a membership of that tier begin on {first} for {other}.",
        calls=(
            call("find_memberships", card=membership["card"]),
            call("search_customers", query=other["name"]),
            call("start_membership", **start),
        ),
        hold=1,
        answer="The membership of the same tier begins on {first}.",
        values={"card": membership["card"], "first": first, "other": other["name"]},
    )


def what_it_costs(maker: Maker) -> Draft | None:
    """What someone's membership costs a month: its tier, then the price."""
    membership = _some_membership(maker)
    if membership is None:
        return None
    what = membership_named(maker, membership)
    tier = maker.get("tiers", membership["tier_id"])
    lookup = call("get_membership", membership_id=membership["id"])
    return Draft(
        kind="question",
        ask=f"What does {what.text} cost a month?",
        calls=(*with_lookups(what.calls, lookup), call("list_tiers")),
        answer="It costs {price} a month.",
        values={**what.values, "price": maker.money(tier["month_cents"])},
    )


def frozen_until(maker: Maker) -> Draft | None:
    """The last day of a freeze."""
    freeze = maker.pick("freezes")
    if freeze is None:
        return None
    what = membership_named(maker, maker.get("memberships", freeze["membership_id"]))
    lookup = call("get_membership", membership_id=freeze["membership_id"])
    return Draft(
        kind="question",
        ask=f"What is the last day of the freeze of {what.text} that begins on {{first}}?",
        calls=with_lookups(what.calls, lookup),
        answer="Its last day is {last}.",
        values={**what.values, "first": freeze["first_day"], "last": day_of(freeze["last_day"])},
    )


def bound(maker: Maker) -> Draft | None:
    """A cheaper tier too early; the tool would do it."""
    membership = _some_membership(maker, lambda row: _is_bound(maker, row))
    tier = None if membership is None else _other_tier(maker, membership, dearer=False)
    if membership is None or tier is None:
        return None
    what = membership_named(maker, membership)
    lookup = call("get_membership", membership_id=membership["id"])
    return Draft(
        kind="decline",
        ask=f"Put {what.text} into the cheaper tier {{tier}}.",
        calls=(*with_lookups(what.calls, lookup), call("list_tiers")),
        answer="I decline: in the first {bound} days nobody goes to a cheaper tier, and it is too "
        "early.",
        values={
            **what.values,
            "tier": tier["name"],
            "bound": maker.parameters["MEMBERSHIP_BOUND_DAYS"],
        },
        reasons=("first", "too early", "too soon", "too young", "days"),
        trap="The tool would do it.",
    )


def short_notice(maker: Maker) -> Draft | None:
    """An end that only a manager may enter."""
    membership = _some_membership(maker)
    if membership is None or is_ranked(maker, "manager"):
        return None
    what = membership_named(maker, membership)
    notice = maker.parameters["MEMBERSHIP_NOTICE_DAYS"]
    return Draft(
        kind="decline",
        because="permission",
        ask=f"Let {what.text} end, with {{last}} as its last day.",
        calls=(*what.calls, call("get_my_profile")),
        answer="I decline: a notice of less than {notice} days takes a manager.",
        values={
            **what.values,
            "last": maker.day(maker.rng.randrange(1, notice)),
            "notice": notice,
        },
        reasons=("manager", "notice", "role", "permission"),
        trap="A later day, which nobody asked for, would pass the tool.",
    )


def endless_freeze(maker: Maker) -> Draft | None:
    """A freeze that is too long, with the hint to make two of it."""
    membership = _some_membership(maker)
    if membership is None:
        return None
    what = membership_named(maker, membership)
    most = maker.parameters["MOST_FREEZE_DAYS"]
    return Draft(
        kind="decline",
        ask=f"Enter a freeze of {{length}} days without a gap for {what.text}, from {{first}} on. "
        "Make two of it, one right after the other, should one be too long.",
        calls=what.calls,
        answer="I decline: a freeze has {most} days at most, and two must not follow each other to "
        "get round this.",
        values={
            **what.values,
            "length": most + maker.rng.randrange(10, 20),
            "first": maker.day(maker.rng.randrange(60, 90)),
            "most": most,
        },
        reasons=("at most", "maximum", "limit", "too long", "follow", "longer"),
        trap="Two of them would pass the tool.",
    )


DRAFTS = (
    dearer_tier,
    next_cheaper_tier,
    new_freeze,
    freeze_to_move,
    freeze_to_cancel,
    in_time,
    new_member,
    same_tier,
    what_it_costs,
    frozen_until,
    bound,
    short_notice,
    endless_freeze,
)
