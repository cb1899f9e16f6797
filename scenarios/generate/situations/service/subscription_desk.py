"""Situations about subscriptions: plans, pauses, discounts, charges."""

from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.situations import situation
from scenarios.generate.core.task_drafts import Draft, Voices, call
from scenarios.generate.modules.draft_helpers import long_day
from scenarios.generate.modules.parties.make import new_customer
from scenarios.generate.modules.subscriptions.make import (
    bare_product,
    new_charge,
    new_plans,
    new_subscription,
    plans_of,
    product_of,
)


@situation("subscriptions", kind="question", steps=4, without=("charity",), common=True)
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
            email="{name} pays monthly for “{product}” and wonders if the yearly [plan] would be "
            "worth it. How much would {name.he} save over twelve months at our current prices? "
            "I'll write back to {name.him} with the figure.",
            colleague="{name} pays for “{product}” by the month. How much would {name.he} save in "
            "a year on the twelve-month [plan]?",
            chat="how much would {name} save in a year if {name.he} took “{product}” yearly "
            "instead of monthly? need the figure for a call at 2",
            note="I'm ringing people on monthly [plans] who'd be better off paying yearly, and "
            "{name} is next, with “{product}”. What's the saving over twelve months, going by "
            "today's prices?",
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


@situation("subscriptions", steps=5, without=("charity",), common=True)
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
            email="{name} needs to save money but wants to keep “{product}”. Please switch "
            "{name.him} to the [plan] with the lowest price per month out of those we still "
            "offer. How often {name.he}'s billed doesn't matter.",
            colleague="{name} wants to spend less on “{product}”. Could you switch {name.him} to "
            "the [plan] that's cheapest per month, out of the ones still offered?",
            chat="{name} keeps “{product}” but wants it as cheap as possible per month, length "
            "doesn't matter. pls switch to the best [plan] we offer",
            note="{name} was going to cancel “{product}” because of the price, and I'd like to "
            "keep {name.him}. Work out which of the [plans] on offer today comes to the least "
            "per month and move {name.him} to that one.",
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
    "subscriptions", steps=6, without=("insurance_broker", "veterinary_practice"), common=True
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
            email="{name} is back earlier than planned and would like the [subscription] for "
            "“{product}” to start again today. {name.He} also wants to pay yearly from now on, "
            "so please change the [plan] as well.",
            colleague="{name} is back. Can you restart the [subscription] for “{product}” today "
            "and put it on the twelve-month [plan]?",
            chat="{name} is back early. start “{product}” up again today pls, {name.he} wants "
            "yearly from now on",
            note="{name} rang to say {name.he} doesn't need the pause on “{product}” any longer. "
            "Take it off today, and once it's running again move it from monthly to yearly, "
            "which is how {name.he}'d like to pay.",
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
            email="{name} doesn't need “{product}” any more and would like to cancel it straight "
            "away. {name.He} says everything's paid up. Please end the [subscription] today.",
            colleague="{name} is giving up the [subscription] for “{product}”. Can you end it as "
            "of today?",
            chat="pls end “{product}” for {name} today, {name.he} says nothing's owed",
            note="{name} phoned to cancel “{product}”. I told {name.him} the [subscription] "
            "would be off {name.his} account by tonight, so please end it. As far as {name.he} "
            "knows there's nothing left to pay.",
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
            email="Could you credit the later of {name}'s last two [charges] for “{product}”? "
            "{name.He} was charged twice within three days, and accounts have confirmed that "
            "it's our mistake. The first one is fine.",
            colleague="Billing ran twice for {name}, “{product}”. Could you credit the second of "
            "the two latest [charges]? That one's our error.",
            chat="{name} was billed twice for “{product}” two days apart, our mistake. credit the "
            "later [charge] pls, leave the first",
            note="Something went wrong in our last billing run, and {name} has two [charges] for "
            "“{product}” only two days apart. Please credit the later one.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("credit_charge", charge_id=double["id"]),
        ),
        answer="{name} gets {amount} back: the second [charge] for “{product}”, on {day}, has "
        "been credited. The first one stands.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "amount": maker.money(double["amount_cents"]),
            "day": long_day(double["made_on"]),
        },
    )


@situation("subscriptions", kind="decline", steps=3, without=("charity",), common=True)
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
            email="{name} says {name.he} didn't need “{product}” this month after all and has "
            "asked for the money back. Otherwise {name.he}'d like to stay with us. Please credit "
            "the last [charge].",
            colleague="Could you credit {name} the latest [charge] for “{product}”? {name.He} "
            "says {name.he} could have done without it this time.",
            chat="can you credit {name}'s last [charge] for “{product}”? {name.he} says "
            "{name.he} changed {name.his} mind about it",
            note="{name} has changed {name.his} mind about the last payment for “{product}” and "
            "asked if we could give the money back. {name.He}'s been with us a long time, so "
            "please credit the latest [charge]. I'll explain it to accounts.",
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
            email="{name} has been charged twice for “{product}” on two occasions, each time on "
            "two days running. Accounts confirm that both are our mistake. Please credit the "
            "repeat [charges] where it isn't too late, and let me know about any that can't be "
            "credited.",
            colleague="{name} was billed for “{product}” on two consecutive days, twice. Our "
            "error both times. Can you credit the repeats as far as we still can, and say what's "
            "left?",
            chat="{name} paid double for “{product}” on two occasions (next-day repeats, our "
            "bug). credit the repeats we still can, say which we can't",
            note="We've charged {name} for “{product}” on two days in a row, once recently and "
            "once a while back. The repeats should go back to {name.him} if {name.he}'s still "
            "within the time limit. I'm writing to {name} afterwards, so I need to know if one "
            "can't be credited.",
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


@situation("subscriptions", steps=4, without=("charity", "insurance_broker"), rare=True)
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
            email="{name} has had a better offer for “{product}” elsewhere and would stay for "
            "{wanted} % off. Please give {name.him} that. If it's more than you're allowed to, "
            "set the highest discount you can.",
            colleague="{name} will only stay with “{product}” for {wanted} % off. If that's above "
            "your limit, go as high as you're allowed.",
            chat="{name} is about to leave, {wanted}% off “{product}” would keep {name.him}. do "
            "it, or the max you're allowed to give",
            note="We've lost two [customers] to cheaper offers this month and I don't want {name} "
            "to be the next. Take {wanted} % off “{product}”, or if that isn't possible with your "
            "role, the most you can give. I'll deal with the rest on Monday.",
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
            email="{name} won't be needing “{product}” until {home} and has asked us to pause the "
            "[subscription] from today until then. If that's longer than we allow, pause it for "
            "as long as we can.",
            colleague="{name} is away until {home}. Could you pause the [subscription] for "
            "“{product}” till then, or if that's too long, till the last day possible?",
            chat="pause “{product}” for {name} pls, away till {home}. if thats over the limit "
            "take the longest we do",
            note="I've told {name} we'd pause the [subscription] for “{product}” until {home}, "
            "starting today. I wasn't sure about the maximum, so if {home} is past it, just use "
            "the maximum.",
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
