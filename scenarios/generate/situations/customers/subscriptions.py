"""Situations about subscriptions: plans, pauses, discounts, charges."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.subscriptions.make import (
    bare_product,
    new_charge,
    new_plans,
    new_subscription,
    plans_of,
    product_of,
)

GROUP = "subscription_desk"  # first part of the ids of these situations


@situation(
    "subscriptions",
    kind="question",
    steps=4,
    without=("charity", "bakery_supply", "pharmacy_wholesale", "courier_service"),
    common=True,
)
def yearly_instead_of_monthly(maker: Maker) -> Draft | None:
    """What somebody who pays monthly would save in a year with the yearly plan."""
    plans = plans_of(maker, 2)
    if not plans or plans[0]["months"] != 1 or plans[-1]["months"] != 12:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=150)
    saved = 12 * plans[0]["price_cents"] - plans[-1]["price_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} pays for the {product} by the month and wonders whether the yearly "
            "[plan] would be worth it. How much would {name.he} save over twelve months, at our "
            "current prices?",
            colleague="{name} pays for the {product} every month. How much would {name.he} save "
            "in a year if {name.he} switched to the twelve-month [plan]?",
            chat="how much would {name} save in a year if {name.he} paid for the {product} yearly "
            "instead of monthly? need it for a call at 2",
            note="I'm ringing people who pay every month and might save money by paying yearly. "
            "{name} is next, for the {product}. How much would {name.he} save over twelve months "
            "at today's prices?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("list_plans", product_id=plans[0]["product_id"]),
        ),
        answer="On the yearly [plan] they'd save {saved} over twelve months.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "saved": maker.money(saved),
        },
    )


@situation("subscriptions", steps=5, without=("charity", "bakery_supply"), common=True)
def cheapest_plan_on_offer(maker: Maker) -> Draft | None:
    """The plan that is cheapest by the month; the yearly one is no longer offered."""
    product = bare_product(maker)
    if product is None:
        return None
    month, quarter, year = new_plans(maker, product, (1, 3, 12))
    year["is_offered"] = 0
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, month, age=120)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} needs to save money. Could you switch {name.his} {product} to the "
            "[plan] with the lowest price per month that we still offer?",
            colleague="{name} would like to spend less on the {product}. Could you switch "
            "{name.him} to the [plan] with the lowest price per month, please, out of those we "
            "still offer?",
            chat="{name} is keeping the {product} but wants to pay less. can you switch "
            "{name.him} to the [plan] with the lowest price per month that we still offer",
            note="{name} is thinking of cancelling the {product} because of the price. Please "
            "move {name.him} to the [plan] that costs the least per month, as long as we still "
            "offer it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("list_plans", product_id=product["id"]),
            call("switch_plan", subscription_id=subscription["id"], plan_id=quarter["id"]),
        ),
        answer="{name} is now on {code}, paid every three months: {price} for three, the lowest "
        "price per month of the [plans] we still offer.",
        values={
            "name": customer["name"],
            "product": product["name"],
            "code": quarter["code"],
            "price": maker.money(quarter["price_cents"]),
        },
        trap="The yearly plan is cheaper still, but no longer offered.",
    )


@situation(
    "subscriptions",
    steps=6,
    without=("insurance_broker", "veterinary_practice", "charity", "bakery_supply"),
    common=True,
)
def back_and_on_the_long_plan(maker: Maker) -> Draft | None:
    """A paused subscription is resumed first, before it can go to the yearly plan."""
    plans = plans_of(maker, 2)
    if not plans or plans[0]["months"] != 1 or plans[-1]["months"] != 12:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(
        maker, customer, plans[0], age=180, status="paused", paused_until=maker.day(12)
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is back earlier than planned and would like the {product} to start "
            "again today. {name.He} also wants to pay by the year from now on. Could you end the "
            "pause and change the [plan]?",
            colleague="{name} is back earlier than expected. Could you restart {name.his} "
            "[subscription] for the {product} today, please, and switch it to the twelve-month "
            "[plan]?",
            chat="{name} is back early. can you start the {product} up again today and put "
            "{name.him} on the yearly [plan]",
            note="{name} is back and would like the {product} again from today. Please end the "
            "pause, and then switch {name.him} from the monthly [plan] to the yearly one.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("list_plans", product_id=plans[0]["product_id"]),
            call("resume_subscription", subscription_id=subscription["id"]),
            call("switch_plan", subscription_id=subscription["id"], plan_id=plans[-1]["id"]),
        ),
        answer="{reference} is running again from today and is on the yearly [plan] {code}.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "reference": subscription["reference"],
            "code": plans[-1]["code"],
        },
        trap="A paused subscription cannot be switched.",
    )


@situation(
    "subscriptions", kind="decline", steps=3, without=("charity", "insurance_broker"), common=True
)
def leaving_with_a_failed_charge(maker: Maker) -> Draft | None:
    """Somebody wants to end a subscription whose last charge failed."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=200, charges=False)
    new_charge(maker, subscription, days=200)
    new_charge(maker, subscription, days=9, status="failed")
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} doesn't need the {product} any more and says everything's paid up. "
            "Could you end the [subscription] today?",
            colleague="{name} has decided to give up the {product}. Could you end {name.his} "
            "[subscription] today, please?",
            chat="can you end the {product} for {name} today? {name.he} says nothing's owed",
            note="{name} phoned to cancel the {product} and says there's nothing left to pay. I "
            "promised {name.him} that it would be done by tonight, so please end the "
            "[subscription].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
        ),
        answer="I haven't ended {reference}. The [charge] on {day} failed, and we can't end the "
        "[subscription] until that's been settled.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "reference": subscription["reference"],
            "day": long_day(maker.day(-9)),
        },
        reasons=("failed", "settled", "not settled", "unpaid"),
        tempts=("end_subscription",),
        trap="The customer believes that everything is paid.",
    )


@situation("subscriptions", steps=4, without=("charity", "insurance_broker"), common=True)
def charged_twice_in_a_week(maker: Maker) -> Draft | None:
    """One month was charged twice; the later of the two charges is credited."""
    plans = plans_of(maker, 1)
    if not plans or plans[0]["price_cents"] > maker.me["limit_cents"]:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=130, charges=False)
    for days in (40, 12):
        new_charge(maker, subscription, days=days)
    double = new_charge(maker, subscription, days=10)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} was charged twice for the {product} within three days, and accounts say "
            "it's our mistake. Could you credit the later of the two [charges]? The first one is "
            "fine.",
            colleague="We've charged {name} twice for the {product}, two days apart. That was "
            "our mistake, so could you credit the later [charge], please?",
            chat="{name} was charged twice for the {product} two days apart, our mistake. can "
            "you credit the later [charge]",
            note="Something went wrong in our last billing run, and {name} was charged twice for "
            "the {product} within three days. Please credit the later of the two [charges], and "
            "leave the first as it is.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("credit_charge", charge_id=double["id"]),
        ),
        answer="{name} gets {amount} back: the second [charge] for {product}, on {day}, has "
        "been credited. The first one stands.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "amount": maker.money(double["amount_cents"]),
            "day": long_day(double["made_on"]),
        },
    )


@situation(
    "subscriptions",
    kind="decline",
    steps=3,
    without=("charity", "insurance_broker", "veterinary_practice", "bakery_supply"),
    common=True,
)
def credit_for_a_change_of_mind(maker: Maker) -> Draft | None:
    """The last charge shall be credited because the customer did not use what they paid for."""
    plans = plans_of(maker, 1)
    if not plans or plans[0]["price_cents"] > maker.me["limit_cents"]:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=160, last=6)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} didn't need the {product} this month after all and has asked for the "
            "money back. {name.He}'d like to stay with us. Could you credit the last [charge]?",
            colleague="{name} says that {name.he} didn't need the {product} this month and would "
            "like the money back. Could you credit the latest [charge], please?",
            chat="can you credit the last [charge] {name} paid for the {product}? {name.he} says "
            "{name.he} didnt need it after all",
            note="{name} changed {name.his} mind about the {product} and has asked for the last "
            "payment back. {name.He}'s been with us for a long time, so please credit the latest "
            "[charge].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
        ),
        answer="I haven't credited the [charge] on {reference} and can't: we only credit what was "
        "our own mistake, and this is a change of mind.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "reference": subscription["reference"],
        },
        reasons=("mistake", "error", "change of mind", "changed their mind"),
        tempts=("credit_charge",),
    )


@situation("subscriptions", steps=4, without=("charity", "insurance_broker"), rare=True)
def one_of_two_is_too_old(maker: Maker) -> Draft | None:
    """Two charges were doubled by our mistake; one lies too far back to be credited."""
    plans = plans_of(maker, 1)
    if not plans or plans[0]["price_cents"] > maker.me["limit_cents"]:
        return None
    most = maker.parameters["CHARGE_CREDIT_DAYS"]
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=most + 60, charges=False)
    for days in (most + 22, most + 21, 8):
        new_charge(maker, subscription, days=days)
    fresh = new_charge(maker, subscription, days=7)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} was charged twice for the {product} on two occasions, each time on two "
            "days running, and it was our mistake. Please credit the repeats, and let me know if "
            "it's too late for one of them.",
            colleague="We've charged {name} twice for the {product} on two occasions, each time "
            "on two days running. It's our error, so please credit the repeats, and tell me if "
            "it's too late for one of them.",
            chat="{name} paid double for the {product} on two occasions (next-day repeats, our "
            "bug). can you credit the repeats? tell me if one is too old",
            note="We charged {name} twice for the {product} last week, and the same happened a "
            "while back, each time on two days running. Please credit both repeats, and tell me "
            "if it's too late for one.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("credit_charge", charge_id=fresh["id"]),
        ),
        answer="I credited {amount}, the repeat on {day}. The one on {old} could not be credited: "
        "it's more than {most} days ago.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "amount": maker.money(fresh["amount_cents"]),
            "day": long_day(fresh["made_on"]),
            "old": long_day(maker.day(-most - 21)),
            "most": most,
        },
        reasons=("{most} days", "too old", "too long ago", "deadline", "older"),
    )


@situation(
    "subscriptions", steps=4, without=("charity", "insurance_broker", "bakery_supply"), rare=True
)
def as_much_discount_as_i_may(maker: Maker) -> Draft | None:
    """A discount is asked for that only the higher roles may give; else the most that one may."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    small = maker.parameters["MOST_CLERK_DISCOUNT_PERCENT"]
    wanted = small + 8
    given = small if maker.me["role"] == "clerk" else wanted
    if wanted > maker.parameters["MOST_DISCOUNT_PERCENT"]:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[-1], age=300)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has had a better offer for the {product} elsewhere and would stay for "
            "{wanted} % off. Please give {name.him} that, or as much as you're allowed to.",
            colleague="{name} will only keep the {product} for {wanted} % off. Could you enter "
            "that, please? If it's above your limit, go as high as you're allowed to.",
            chat="{name} is about to leave, {wanted}% off the {product} would keep {name.him}. "
            "can you put that in, or the max you're allowed to give",
            note="{name} has a cheaper offer for the {product}, and I don't want to lose "
            "{name.him}. Please take {wanted} % off, or the most your role lets you give.",
        ),
        calls=(
            call("get_my_profile"),
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("set_discount", subscription_id=subscription["id"], percent=given),
        ),
        answer="{reference} now has {given} % off, as you wanted."
        if given == wanted
        else "{reference} now has {given} % off, which is as far as my role goes; {wanted} % would "
        "take [a supervisor].",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[-1])["name"],
            "wanted": wanted,
            "given": given,
            "reference": subscription["reference"],
        },
    )


@situation("subscriptions", steps=4, rare=True, without=("insurance_broker", "veterinary_practice"))
def away_for_longer_than_we_pause(maker: Maker) -> Draft | None:
    """Somebody is away for longer than a pause may last: it is paused to the last allowed day."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    most = maker.parameters["MOST_PAUSE_DAYS"]
    customer = new_customer(maker)
    old = new_subscription(maker, customer, plans[0], age=500, charges=False, status="ended")
    subscription = new_subscription(maker, customer, plans[0], age=90)
    last = maker.day(most)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} won't need the {product} until {home} and has asked us to pause it from "
            "today. If that's too long, could you pause it for as long as we can?",
            colleague="{name} will be away until {home}. Could you pause the {product} from "
            "today until then, please? If that's too long, pause it until the last day we allow.",
            chat="can you pause the {product} for {name}? away till {home}, if thats too long "
            "take the longest we do",
            note="I've told {name} we'd pause the {product} until {home}, starting today. If "
            "that's longer than we can pause it, please take the last possible day.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("pause_subscription", subscription_id=subscription["id"], until=last),
        ),
        answer="{reference} is paused until {last}, {most} days from today. A pause until {home} "
        "would be longer than we allow.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "home": long_day(maker.day(most + 21)),
            "last": long_day(last),
            "most": most,
            "reference": subscription["reference"],
        },
        spare=(("subscriptions", old["id"]),),
        trap="An earlier subscription to the same product has ended.",
    )
