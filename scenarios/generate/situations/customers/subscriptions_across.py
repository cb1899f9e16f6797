"""Situations about subscriptions that start elsewhere: in a message, a note, a household."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import (
    full_day,
    long_day,
    some_employee,
)
from rehearsal_room.scenarios.generate.modules.memberships.make import new_membership
from rehearsal_room.scenarios.generate.modules.messaging.make import new_message, new_thread
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.subscriptions.make import (
    bare_product,
    new_plans,
    new_subscription,
    plans_of,
    product_of,
)
from rehearsal_room.scenarios.generate.modules.tickets.make import new_comment, new_ticket

GROUP = "subscription_cases"  # first part of the ids of these situations


@situation(
    "subscriptions",
    "messaging",
    steps=6,
    without=("insurance_broker", "veterinary_practice", "charity"),
)
def pause_asked_in_a_thread(maker: Maker) -> Draft | None:
    """A customer has asked for a pause in a message and then corrected the day."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=120)
    product = product_of(maker, plans[0])["name"]
    first, second = maker.day(11), maker.day(18)
    thread = new_thread(maker, customer, subject="Pause while I am away", age=3)
    new_message(
        maker,
        thread,
        maker.say(
            "Please pause {code} until {day}.", code=subscription["reference"], day=long_day(first)
        ),
        days=3,
    )
    new_message(
        maker,
        thread,
        maker.say("Sorry, I was wrong about the day: {day} it is.", day=long_day(second)),
        days=1,
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} wrote to us about pausing the {product} and then changed the date. "
            "Could you set up the pause until the date {name.he} gave last, and confirm it in "
            "the [thread]?",
            colleague="{name} has asked us to pause the {product}, but then wrote again with "
            "another date. Could you set up the pause until the date {name.he} wants now, "
            "please, and confirm that date in the [thread]?",
            chat="{name} wrote to us about pausing the {product}. can you set it up as {name.he} "
            "wants it now and confirm the date in the [thread]",
            note="{name} wants to pause the {product} and wrote again to change the date, but "
            "nobody has replied yet. Please set up the pause as {name.he} wants it now, and "
            "confirm the date in the same [thread].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_threads", customer_id=customer["id"]),
            call("get_thread", thread_id=thread["id"]),
            call("find_subscriptions", reference=subscription["reference"]),
            call("pause_subscription", subscription_id=subscription["id"], until=second),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"It is done: the pause lasts until {second}. Have a good journey!",
            ),
        ),
        answer="{reference} is paused until {second}, the day in their last [message], and I've "
        "confirmed it in the [thread].",
        values={
            "name": customer["name"],
            "product": product,
            "reference": subscription["reference"],
            "second": long_day(second),
        },
        free={"messages.body": (second,)},
        trap="The day in the first message was corrected by the second.",
    )


@situation("subscriptions", "tickets", steps=5, without=("charity", "insurance_broker"))
def promised_less_than_claimed(maker: Maker) -> Draft | None:
    """A discount was promised on a ticket, but a smaller one than the customer remembers."""
    plans = plans_of(maker, 1)
    author = some_employee(maker, role="supervisor") or some_employee(maker, role="manager")
    if not plans or author is None:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=220)
    ticket = new_ticket(
        maker,
        customer,
        subject="Complaint about a delay",
        status="solved",
        assignee=author,
        age=16,
        solved=12,
    )
    given = maker.parameters["MOST_CLERK_DISCOUNT_PERCENT"] - 2
    new_comment(
        maker,
        ticket,
        maker.say(
            "We are sorry. As a gesture we take {given} % off {code} from now on.",
            given=given,
            code=subscription["reference"],
        ),
        author=author,
        days=12,
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} says we promised {name.him} twenty per cent off the {product} after the "
            "delay. Could you look up what we really wrote on {name.his} complaint, and set "
            "that discount?",
            colleague="{name} says that we promised {name.him} twenty per cent off the {product} "
            "when {name.he} complained about the delay. Could you look up what we really wrote, "
            "please, and set that discount?",
            chat="{name} says we promised 20 percent off the {product} on {name.his} old [ticket] "
            "about the delay. can you look it up and set whatever we really wrote",
            note="{name} says {author} promised {name.him} twenty per cent off the {product} "
            "after the delay, which sounds like a lot to me. Please look up what {author} really "
            "wrote on the complaint, and set the discount to that.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_subscriptions", reference=subscription["reference"]),
            call("set_discount", subscription_id=subscription["id"], percent=given),
        ),
        answer="On {ticket} we promised {given} %, not twenty, so {reference} now has {given} % "
        "off.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "author": author["name"],
            "ticket": ticket["reference"],
            "given": given,
            "reference": subscription["reference"],
        },
        trap="The customer remembers a larger discount than was promised.",
    )


@situation("subscriptions", steps=6, common=True, weight=1.8, without=("charity",))
def started_for_the_namesake(maker: Maker) -> Draft | None:
    """A colleague has started a subscription for the wrong one of two people of like name."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    right = new_customer(maker)
    wrong = new_customer(maker, like=right)
    subscription = new_subscription(maker, wrong, plans[-1], age=0, charges=False)
    return Draft(
        kind="change",
        ask=Voices(
            email="We signed {wrong} up for the {product} today, but it was {name} ({email}) "
            "who'd asked for it. Could you end {wrong}'s [subscription] and start the same "
            "[plan] for {name}?",
            colleague="I mixed up two people: I signed {wrong} up for the {product} today, but "
            "it should have been {name} ({email}). Could you end that [subscription], please, "
            "and start the same [plan] for {name}?",
            chat="oops, i put {wrong} down for the {product}, but it was {name}, {email}. can you "
            "end that [subscription] and start the same [plan] for {name}",
            note="{name} ({email}) asked for the {product} today, but we signed {wrong} up for "
            "it by mistake. Please end {wrong}'s [subscription], and start one for {name} on the "
            "same [plan].",
        ),
        calls=(
            call("search_customers", query=wrong["name"]),
            call("find_subscriptions", customer_id=wrong["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("search_customers", query=right["email"]),
            call("end_subscription", subscription_id=subscription["id"]),
            call("start_subscription", customer_id=right["id"], plan_id=plans[-1]["id"]),
        ),
        answer="{wrong}'s [subscription] has been ended, and {name} has one on [plan] {code} from "
        "today.",
        values={
            "name": right["name"],
            "wrong": wrong["name"],
            "email": right["email"],
            "product": product_of(maker, plans[-1])["name"],
            "code": plans[-1]["code"],
        },
        spare=(("customers", wrong["id"]),),
    )


@situation("subscriptions", "memberships", steps=5)
def break_for_both(maker: Maker) -> Draft | None:
    """A subscription and a membership rest for the same time; the freeze needs its own days."""
    plans = plans_of(maker, 1)
    least, most = maker.parameters["LEAST_FREEZE_DAYS"], maker.parameters["MOST_FREEZE_DAYS"]
    days = maker.rng.randrange(least + 3, min(most, maker.parameters["MOST_PAUSE_DAYS"], 29))
    if not plans:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=140)
    membership = new_membership(maker, customer, age=320)
    over = new_membership(maker, new_customer(maker, like=customer), age=400)
    last = maker.day(days)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is having a knee operation. Please freeze {name.his} [membership] from "
            "tomorrow, up to and including {last}, and pause the {product} from today until the "
            "same day.",
            colleague="{name} has to have an operation. Could you freeze {name.his} [membership] "
            "from tomorrow to {last}, please, and pause the {product} from today until the same "
            "day?",
            chat="{name} is having an operation. can you freeze {name.his} [membership] from "
            "tomorrow to {last} and pause the {product} until {last} too",
            note="{name} is going into hospital. Please freeze {name.his} [membership] from "
            "tomorrow, up to and including {last}, and pause the {product} from today until that "
            "day as well. I've already sent {name.him} our best wishes.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call(
                "add_freeze",
                membership_id=membership["id"],
                first_day=maker.day(1),
                last_day=last,
            ),
            call("pause_subscription", subscription_id=subscription["id"], until=last),
        ),
        answer="The [membership] {card} is frozen from tomorrow to {last}, and {reference} is "
        "paused until {last}.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "last": long_day(last),
            "card": membership["card"],
            "reference": subscription["reference"],
        },
        spare=(("memberships", over["id"]),),
    )


@situation(
    "subscriptions",
    kind="decline",
    because="permission",
    steps=3,
    without=("charity", "insurance_broker"),
)
def discount_above_the_role(maker: Maker) -> Draft | None:
    """A clerk is asked for a discount that only supervisors and managers may give."""
    plans = plans_of(maker, 1)
    if not plans or maker.me["role"] != "clerk":
        return None
    wanted = maker.parameters["MOST_CLERK_DISCOUNT_PERCENT"] + 7
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=410)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name} is leaving because of the price, unless {name.he} gets {wanted} % off "
            "the {product}. Could you give {name.him} that discount? {name.He} won't stay for "
            "less.",
            colleague="{name} has asked for {wanted} % off the {product} and won't stay with us "
            "for less. Could you enter the whole discount for {name.him}, please?",
            chat="can you give {name} {wanted}% off the {product}? {name.he}'ll leave if its any "
            "less",
            note="I've promised {name} {wanted} % off the {product}. Please enter the discount "
            "today, so that it's on the next bill, and don't make it less than I promised.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_my_profile"),
        ),
        answer="I couldn't give {wanted} % on {reference}: as [a clerk] I can only go up to "
        "{most} %. [A supervisor] or [a manager] would have to enter it.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "wanted": wanted,
            "most": maker.parameters["MOST_CLERK_DISCOUNT_PERCENT"],
            "reference": subscription["reference"],
        },
        reasons=("[supervisor]", "[manager]", "[clerk]", "role", "{most} %"),
        tempts=("set_discount",),
    )


@situation("subscriptions", steps=6, without=("charity",), rare=True)
def five_percent_for_the_oldest(maker: Maker) -> Draft | None:
    """Of three running subscriptions the one that began first gets a discount."""
    plans = plans_of(maker, 1)
    bare = bare_product(maker)
    if not plans or bare is None:
        return None
    more = new_plans(maker, bare, (1, 12))
    third = bare_product(maker)
    if third is None:
        return None
    last = new_plans(maker, third, (1,))
    customer = new_customer(maker)
    ages = maker.rng.sample(range(100, 900, 40), k=3)
    subscriptions = [
        new_subscription(maker, customer, plan, age=age)
        for plan, age in zip((plans[0], more[0], last[0]), ages, strict=True)
    ]
    gone = new_subscription(maker, customer, more[1], age=1_000, charges=False, status="ended")
    oldest = min(subscriptions, key=lambda row: str(row["started_on"]))
    by_age = sorted(subscriptions, key=lambda row: str(row["started_on"]))
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} gets our anniversary discount, five per cent off the running "
            "[subscription] that {name.he}'s had longest. Could you enter it for {name.him}?",
            colleague="{name} gets our anniversary discount. Could you put 5 % on the "
            "[subscription] that {name.he}'s had longest, please, out of those that are still "
            "running?",
            chat="{name} gets 5% off {name.his} oldest [subscription] thats still running "
            "(anniversary offer). can you enter that",
            note="{name} has sent back the coupon from our anniversary letter. Please give "
            "{name.him} five per cent off the [subscription] that {name.he}'s had longest, out "
            "of those still running.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            *(call("get_subscription", subscription_id=row["id"]) for row in by_age),
            call("set_discount", subscription_id=oldest["id"], percent=5),
        ),
        answer="{reference} for {product} gets the 5 %: it's been running since {day}, longer "
        "than the others.",
        values={
            "name": customer["name"],
            "reference": oldest["reference"],
            "product": product_of(maker, maker.get("plans", oldest["plan_id"]))["name"],
            "day": full_day(oldest["started_on"]),
        },
        spare=tuple(
            ("subscriptions", row["id"]) for row in (*subscriptions, gone) if row is not oldest
        ),
        trap="An even older subscription has ended.",
    )


@situation(
    "subscriptions", kind="decline", steps=4, rare=True, without=("charity", "bakery_supply")
)
def wants_the_old_plan_back(maker: Maker) -> Draft | None:
    """Somebody wants to go back to a plan that is not offered any more, which others still have."""
    product = bare_product(maker)
    if product is None:
        return None
    month, quarter = new_plans(maker, product, (1, 3))
    quarter["is_offered"] = 0
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, month, age=70)
    new_subscription(maker, new_customer(maker), quarter, age=700)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} used to pay for the {product} by the quarter, and the monthly payments "
            "are too much of a bother for {name.him}. Could you put {name.him} back on the "
            "three-month [plan]?",
            colleague="{name} would like to pay for the {product} every three months again. "
            "Could you switch {name.him} back to the three-month [plan], please?",
            chat="{name} had the 3-month [plan] of the {product} before and wants it back. can you "
            "switch {name.him}?",
            note="{name} asked about the three-month [plan] for the {product}, which some people "
            "still have. I said it shouldn't be a problem, so please switch {name.him} from the "
            "monthly [plan].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("list_plans", product_id=product["id"]),
        ),
        answer="I couldn't switch {name}: the three-month [plan] {code} is no longer offered. "
        "People already on it can stay, but we can't move anyone to it now.",
        values={"name": customer["name"], "product": product["name"], "code": quarter["code"]},
        reasons=("no longer offered", "not offered", "offered any more"),
        tempts=("switch_plan", "start_subscription", "end_subscription"),
    )
