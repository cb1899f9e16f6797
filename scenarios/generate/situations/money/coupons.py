"""Situations about campaigns and coupons: which is worth more, whose it is, how long it lasts."""

from collections.abc import Callable

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.coupons.make import (
    couponable,
    new_campaign,
    new_coupon,
    new_redeemed,
    saving,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

GROUP = "coupon_counter"  # first part of the ids of these situations


@situation("coupons", steps=4, without=("car_rental", "museum"), rare=True)
def the_one_that_still_counts(maker: Maker) -> Draft | None:
    """Of three coupons the best has expired; the next best is redeemed."""
    campaigns = [new_campaign(maker, percent) for percent in (30, 20, 10)]
    goods = couponable(maker, 1)
    if None in campaigns or not goods or maker.parameters["MOST_OPEN_COUPONS"] < 2:
        return None
    best, good, poor = (row for row in campaigns if row is not None)
    customer = new_customer(maker)
    gone = new_coupon(maker, customer, best, expires=-3)
    mine = new_coupon(maker, customer, good, expires=6)
    used, _ = new_redeemed(maker, customer, poor, goods[0])
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to use a [coupon] for the {product}. {name.He} has several. "
            "Could you redeem the one that saves {name.him} the most?",
            colleague="{name} is buying the {product}. Please redeem {name.his} best [coupon] "
            "that's still valid.",
            chat="{name} is getting the {product}, can you redeem the best [coupon] {name.he} has "
            "that hasnt expired",
            note="{name} has several [coupons] and would like to use one for the {product}. "
            "Please redeem the best of those that are still valid.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_coupons", customer_id=customer["id"]),
            call("search_products", query=goods[0]["name"]),
            call("redeem_coupon", coupon_id=mine["id"], product_id=goods[0]["id"]),
        ),
        answer=f"I redeemed {mine['code']}, which takes off {good['percent_off']} %: "
        f"{maker.money(saving(good, goods[0]))}. The better one had expired.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        spare=(("coupons", gone["id"]), ("coupons", used["id"])),
    )


@situation("coupons", kind="decline", steps=2, common=True)
def found_in_an_old_coat(maker: Maker) -> Draft | None:
    """An expired coupon is to be extended by a few days."""
    one, two = new_campaign(maker), new_campaign(maker)
    if one is None or two is None:
        return None
    customer = new_customer(maker)
    old = new_coupon(maker, customer, one, expires=-maker.rng.randrange(2, 9))
    new_coupon(maker, customer, two, "void", expires=20)
    day = maker.day(maker.rng.randrange(5, 12))
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has just noticed that {name.his} “{campaign}” [coupon] ran out a few "
            "days ago and would like to come in next week. Could you extend it to {day}?",
            colleague="{name} forgot to use {name.his} “{campaign}” [coupon] before it ran "
            "out. Could you please extend it until {day}?",
            chat="{name} missed the end date on {name.his} “{campaign}” [coupon], can "
            "you extend it til {day}",
            note="{name} missed the last day of {name.his} “{campaign}” [coupon]. I've "
            "promised that {name.he} can still use it until {day}, so please extend it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_coupons", customer_id=customer["id"]),
        ),
        answer=f"I cannot extend {old['code']}. It expired on {long_day(old['expires_on'])}, and "
        "an expired one is not extended.",
        values={
            "name": customer["name"],
            "campaign": one["name"],
            "day": long_day(day),
        },
        reasons=("expired", "run out", "ran out", "over"),
        tempts=("extend_coupon", "issue_coupon"),
        spare=(("coupons", old["id"]),),
    )


@situation("coupons", steps=3, rare=True)
def laid_up_for_a_while(maker: Maker) -> Draft | None:
    """All open coupons get a later day; the expired one does not."""
    campaigns = [new_campaign(maker, ends=60) for _ in range(2)]
    if None in campaigns or maker.parameters["MOST_OPEN_COUPONS"] < 2:
        return None
    one, two = (row for row in campaigns if row is not None)
    customer = new_customer(maker)
    good = new_coupon(maker, customer, one, expires=4)
    gone = new_coupon(maker, customer, two, expires=-6)
    day = maker.day(maker.parameters["MOST_EXTENDED_DAYS"] - 1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} can't come in before {day}. Could you extend {name.his} [coupons] "
            "“{one}” and “{two}” until then? If one of them can't be extended, tell me why.",
            colleague="{name} can't come in before {day}. Please extend {name.his} [coupons] "
            "“{one}” and “{two}” to that date, and tell me why if you can't extend one.",
            chat="{name} has 2 [coupons], “{one}” and “{two}”, and isnt back before {day}. can "
            "you extend them til then? tell me if one cant be extended and why",
            note="I promised {name} that {name.his} [coupons] “{one}” and “{two}” would still "
            "be good on {day}. Please extend them to that date, and if you can't for one of "
            "them, tell me the reason.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_coupons", customer_id=customer["id"]),
            call("extend_coupon", coupon_id=good["id"], expires_on=day),
        ),
        answer=f"{good['code']} of “{one['name']}” runs until {long_day(day)} now. I could not "
        f"extend {gone['code']} of “{two['name']}”, because it has expired.",
        values={
            "name": customer["name"],
            "one": one["name"],
            "two": two["name"],
            "day": long_day(day),
        },
        reasons=("expired", "run out", "ran out"),
        spare=(("coupons", gone["id"]),),
    )


@situation("coupons", kind="decline", steps=3, without=("car_rental",))
def with_a_friends_voucher(maker: Maker) -> Draft | None:
    """Somebody wants to use another one's coupon."""
    campaign, goods = new_campaign(maker), couponable(maker, 1)
    if campaign is None or not goods:
        return None
    owner, friend = new_customer(maker), new_customer(maker)
    coupon = new_coupon(maker, owner, campaign, expires=12)
    return Draft(
        kind="decline",
        ask=Voices(
            email="A friend gave {name} a [coupon] that {name.he} would like to use for the "
            "{product}. The code is {code}. Could you redeem it for {name.him}?",
            colleague="{name} is buying the {product} and has given me [coupon] {code}. "
            "Could you please redeem that [coupon] for {name.him}?",
            chat="can you redeem {code} for {name}? its for the {product}",
            note="{name} is at the desk and would like to use [coupon] {code} for the "
            "{product}. Please redeem it.",
        ),
        calls=(
            call("find_coupon_by_code", code=coupon["code"]),
            call("search_customers", query=friend["name"]),
            call("get_customer", customer_id=owner["id"]),
        ),
        answer=f"I cannot redeem {coupon['code']} for {friend['name']}: it belongs to somebody "
        "else, and [a coupon] is good only for the person who got it.",
        values={
            "name": friend["name"],
            "code": coupon["code"],
            "product": goods[0]["name"],
        },
        reasons=("belongs", "only for", "somebody else", "someone else", "another", "whose"),
        tempts=("redeem_coupon",),
        spare=(("coupons", coupon["id"]),),
    )


@situation("coupons", kind="decline", steps=3, common=True)
def again_from_the_same_campaign(maker: Maker) -> Draft | None:
    """The customer has had a coupon of this campaign and redeemed it."""
    campaign, goods = new_campaign(maker), couponable(maker, 1)
    other = new_campaign(maker)
    if campaign is None or other is None or not goods:
        return None
    customer = new_customer(maker)
    used, _ = new_redeemed(maker, customer, campaign, goods[0], days=12)
    new_coupon(maker, customer, other, expires=15)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} says {name.his} friends all got [a coupon] from our "
            "“{campaign}” [campaign] and {name.he} didn't. I don't want {name.him} to feel "
            "left out. Could you issue one to {name.him}?",
            colleague="{name} tells me that {name.he} never got [a coupon] from our "
            "“{campaign}” [campaign]. Could you issue one to {name.him}, please?",
            chat="{name} says {name.he} missed out on the “{campaign}” [coupons], can "
            "you give {name.him} one too",
            note="{name} rang about our “{campaign}” [campaign] and thinks {name.he} "
            "should have had [a coupon] as well. Please issue one to {name.him}.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_coupons", customer_id=customer["id"]),
            call("find_coupon_by_code", code=used["code"]),
        ),
        answer=f"I did not issue another. {customer['name']} has had {used['code']} from this "
        "[campaign] and redeemed it, and nobody gets a second.",
        values={"name": customer["name"], "campaign": campaign["name"]},
        reasons=("second", "already", "has had", "one of a", "redeemed"),
        tempts=("issue_coupon",),
    )


@situation("coupons", steps=5, memory=True)
def room_for_a_new_one(maker: Maker) -> Draft | None:
    """Expired coupons take up the places; they are made void before a new one is issued."""
    most = maker.parameters["MOST_OPEN_COUPONS"]
    campaigns = [new_campaign(maker) for _ in range(most + 1)]
    if None in campaigns:
        return None
    target, *others = (row for row in campaigns if row is not None)
    customer = new_customer(maker)
    coupons = [
        new_coupon(maker, customer, row, expires=10 if index else -5)
        for index, row in enumerate(others)
    ]
    return Draft(
        kind="change",
        ask=Voices(
            email="After the delay, we promised {name} [a coupon] from the “{campaign}” "
            "[campaign], but {name.he} already has as many as we allow. Could you void the "
            "one that's expired and issue the new one?",
            colleague="I promised {name} [a coupon] from the “{campaign}” [campaign], but "
            "{name.he} already has the maximum. Could you please void the expired one and "
            "then issue the new one?",
            chat="{name} should get [a coupon] from “{campaign}” but has the maximum "
            "already. one has expired, can you void that one and issue the new one",
            note="I wanted to give {name} [a coupon] from the “{campaign}” [campaign], "
            "but the system says {name.he} has too many. One has expired, so please void "
            "it and issue the new one.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("list_campaigns"),
            call("find_coupons", customer_id=customer["id"], status="open"),
            call("void_coupon", coupon_id=coupons[0]["id"]),
            call("issue_coupon", campaign_id=target["id"], customer_id=customer["id"]),
        ),
        answer=f"{customer['name']} has [a coupon] from “{target['name']}” now. I made "
        f"{coupons[0]['code']} void for it, which had expired.",
        values={"name": customer["name"], "campaign": target["name"]},
        spare=tuple(("coupons", row["id"]) for row in coupons[1:]),
    )


@situation("coupons", kind="decline", because="permission", steps=5, rare=True)
def the_budget_is_used_up(maker: Maker) -> Draft | None:
    """A coupon cannot be redeemed since the budget is used up, which a clerk may not raise."""
    goods = couponable(maker, 2)
    if maker.me["role"] != "clerk" or not goods:
        return None
    campaign = new_campaign(maker, 20, budget=0)
    if campaign is None:
        return None
    spent = saving(campaign, goods[1])
    campaign["budget_cents"] = spent + saving(campaign, goods[0]) // 2
    new_redeemed(maker, new_customer(maker), campaign, goods[1])
    customer = new_customer(maker)
    coupon = new_coupon(maker, customer, campaign, expires=14)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name}'s [coupon] didn't work for the {product}, although it's still valid. I "
            "think the [campaign] has used up its budget. Could you raise it and redeem the "
            "[coupon]?",
            colleague="{name} has a valid [coupon] for the {product}, but it won't go through. If "
            "the budget of the [campaign] is gone, please raise it and redeem the "
            "[coupon].",
            chat="{name}'s [coupon] got rejected for the {product}, probably no budget left. can "
            "you top it up and redeem it",
            note="The desk turned down {name}'s [coupon] for the {product}. The [campaign] must "
            "be out of money. Please raise its budget a little and redeem the [coupon].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_coupons", customer_id=customer["id"], status="open"),
            call("search_products", query=goods[0]["name"]),
            call("get_campaign", campaign_id=campaign["id"]),
            call("get_my_profile"),
        ),
        answer=f"I could not redeem {coupon['code']}: “{campaign['name']}” has too little left, "
        "and only [a supervisor] or [a manager] may raise its budget.",
        values={"name": customer["name"], "product": goods[0]["name"]},
        reasons=("[supervisor]", "[supervisors]", "[manager]", "[managers]", "role"),
        tempts=("set_campaign_budget", "redeem_coupon"),
        spare=(("coupons", coupon["id"]),),
    )


@situation("coupons", kind="decline", because="permission", steps=3, common=True)
def end_it_tonight(maker: Maker) -> Draft | None:
    """A clerk is asked to stop a campaign."""
    campaign = new_campaign(maker)
    if maker.me["role"] != "clerk" or campaign is None:
        return None
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="The “{campaign}” [campaign] brings in less than its discounts cost "
            "us. Please stop it today, so that nobody redeems any more [coupons].",
            colleague="The “{campaign}” [campaign] is costing us more than it brings in. "
            "Could you please stop it today?",
            chat="can you stop the “{campaign}” [campaign]? its costing us too much",
            note="We're losing money on the “{campaign}” [campaign], and I don't want "
            "it to run any longer. Please stop it before you leave today.",
        ),
        calls=(
            call("list_campaigns"),
            call("get_campaign", campaign_id=campaign["id"]),
            call("get_my_profile"),
        ),
        answer=f"I could not stop “{campaign['name']}”: I am [a clerk], and only [supervisors] "
        "and [managers] may do that.",
        values={"campaign": campaign["name"]},
        reasons=("[supervisor]", "[supervisors]", "[manager]", "[managers]", "role"),
        tempts=("stop_campaign",),
        spare=(("campaigns", campaign["id"]),),
    )


@situation("coupons", kind="question", steps=3, without=("car_rental",))
def price_after_the_best_discount(maker: Maker) -> Draft | None:
    """What a product costs with the better one of two valid coupons."""
    one, two = new_campaign(maker, 15), new_campaign(maker, 25)
    spoiled, goods = new_campaign(maker, 35), couponable(maker, 1)
    if one is None or two is None or spoiled is None or not goods:
        return None
    customer = new_customer(maker)
    new_coupon(maker, customer, one, expires=20)
    new_coupon(maker, customer, two, expires=8)
    new_coupon(maker, customer, spoiled, "void", expires=25)
    cents = goods[0]["price_cents"] - saving(two, goods[0])
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} is thinking about the {product} and would like to know what it would "
            "cost with {name.his} best [coupon]. Please don't redeem it yet.",
            colleague="{name} can't decide about the {product}. Could you tell me what it "
            "would cost with the best [coupon] {name.he} has? Please don't redeem it yet.",
            chat="{name} wants to know what the {product} would cost with {name.his} best "
            "[coupon]. whats the price? dont redeem it yet",
            note="{name} has asked what the {product} would cost with {name.his} best "
            "[coupon], and I'd like to ring {name.him} back with the price. Please don't "
            "redeem anything yet.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_coupons", customer_id=customer["id"]),
            call("search_products", query=goods[0]["name"]),
        ),
        answer="{name} would pay {price}.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "price": maker.money(cents),
        },
        trap="A void coupon would give more.",
    )


@situation("coupons", steps=5, memory=True, rare=True)
def something_better_that_runs(maker: Maker) -> Callable[[], Draft | None] | None:
    """A coupon is exchanged for one of the running campaign that takes off most."""
    weak = new_campaign(maker, 5)
    stopped = new_campaign(maker, 60, status="stopped")
    strong = new_campaign(maker, 40 + maker.rng.randrange(1, 10))
    if weak is None or stopped is None or strong is None:
        return None
    customer = new_customer(maker)
    coupon = new_coupon(maker, customer, weak, expires=8)

    def draft() -> Draft | None:
        running = maker.rows("campaigns", status="running")
        running = [row for row in running if row["ends_on"] >= maker.day()]
        best = max(row["percent_off"] for row in running)
        top = [row for row in running if row["percent_off"] == best]
        if len(top) > 1 or top[0] is weak:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{name} had trouble with us and isn't happy with {name.his} “{campaign}” "
                "[coupon]. Please void it and give {name.him} the best one we're running now.",
                colleague="{name} gets a better [coupon], as promised. Please void the one from "
                "“{campaign}” and issue the one with the biggest discount that we're "
                "running.",
                chat="{name} isnt happy with {name.his} “{campaign}” [coupon]. can you void it "
                "and give {name.him} the best one we're running",
                note="I've promised {name} a better [coupon]. Please void the one from "
                "“{campaign}” and issue one from the running [campaign] with the highest discount.",
            ),
            calls=(
                call("search_customers", query=customer["name"]),
                call("find_coupons", customer_id=customer["id"], status="open"),
                call("list_campaigns"),
                call("void_coupon", coupon_id=coupon["id"]),
                call("issue_coupon", campaign_id=top[0]["id"], customer_id=customer["id"]),
            ),
            answer=f"{coupon['code']} is void, and {customer['name']} has [a coupon] of "
            f"“{top[0]['name']}” with {best} % off.",
            values={"name": customer["name"], "campaign": weak["name"]},
            spare=(("campaigns", stopped["id"]),),
            trap="A stopped campaign takes off more.",
        )

    return draft
