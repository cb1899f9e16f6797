"""Situations in which a letter, a ticket or a review leads to somebody's membership or
subscription."""

from datetime import date, timedelta

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import (
    full_day,
    long_day,
    some_employee,
)
from rehearsal_room.scenarios.generate.modules.feedback.make import new_review
from rehearsal_room.scenarios.generate.modules.memberships.make import new_membership, tiers
from rehearsal_room.scenarios.generate.modules.messaging.make import new_message, new_thread
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer, new_note
from rehearsal_room.scenarios.generate.modules.subscriptions.make import (
    bare_product,
    new_charge,
    new_plans,
    new_subscription,
    plans_of,
    product_of,
)
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, ticket_subjects

GROUP = "member_letters"  # first part of the ids of these situations


@situation("memberships", "messaging", steps=6, common=True, weight=1.5)
def notice_given_in_a_thread(maker: Maker) -> Draft:
    """A member gives notice in a thread; the end follows the rules, and the day is confirmed."""
    notice = maker.parameters["MEMBERSHIP_NOTICE_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(maker, customer, age=480)
    thread = new_thread(maker, customer, subject="Notice", handler=maker.me, age=0)
    new_message(
        maker, thread, "I hereby give notice as of the end of this week. Please confirm.", days=0
    )
    last = maker.day(notice)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has written that {name.he} wants to leave this week, which is too soon. "
            "Could you end {name.his} [membership] with the normal notice from today, and "
            "reply with the date?",
            colleague="{name} has written to us because {name.he} wants to leave. Could you end "
            "{name.his} [membership] with the normal notice from today, please, and send "
            "{name.him} the date in a reply?",
            chat="{name} wrote to give notice. can you end {name.his} [membership] with the "
            "normal notice from today and reply with the date",
            note="{name} has written that {name.he}'d like to leave at once, but we need the "
            "full notice from today. Please end {name.his} [membership] on the first possible "
            "day, and write back to {name.him} with the date.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_threads", customer_id=customer["id"], status="open"),
            call("get_thread", thread_id=thread["id"]),
            call("find_memberships", customer_id=customer["id"]),
            call("end_membership", membership_id=membership["id"], last_day=last),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"We confirm your notice. With the period agreed, your last day is {last}.",
            ),
        ),
        answer="{name}'s [membership] {card} ends on {last}, {notice} days from today, and I've "
        "confirmed that in {reference}.",
        values={
            "name": customer["name"],
            "card": membership["card"],
            "last": long_day(last),
            "notice": notice,
            "reference": thread["reference"],
        },
        free={"messages.body": (last,)},
        trap="The member wants to leave at the end of this week.",
    )


@situation("memberships", "tickets", steps=7)
def claims_a_dearer_tier(maker: Maker) -> Draft | None:
    """A member complains to be shut out although in a high tier; the record says otherwise."""
    offered = tiers(maker)
    if len(offered) < 3:
        return None
    customer = new_customer(maker)
    subject = maker.one_of("Wrong level on my card", "Benefits missing", "Not my usual level")
    membership = new_membership(maker, customer, tier=offered[0], age=150)
    past = new_membership(maker, customer, tier=offered[-1], age=900, last_day=maker.day(-160))
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} says in {name.his} [ticket] that {name.he} isn't getting everything "
            "the {high} [membership] includes. I don't think {name.he} has that one. Could you "
            "check, reply with the actual [tier], and close the [ticket]?",
            colleague="{name} says in {name.his} [ticket] that {name.he} has the {high} "
            "[membership]. Could you look up which [tier] {name.he} really has, please, tell "
            "{name.him} in a reply, and close the [ticket]?",
            chat="{name} thinks {name.he} has the {high} [membership], im not so sure. can you "
            "check, tell {name.him} the real [tier] on {name.his} [ticket] and close it",
            note="{name} is convinced that {name.he} has the {high} [membership] and has opened "
            "[a ticket] about it. Please find out which [tier] {name.he}'s in now, let "
            "{name.him} know in a friendly reply, and close the [ticket].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have checked it: your present membership is {offered[0]['name']}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="{name} is in {low} now; {high} was an earlier [membership]. I told them so on "
        "{reference} and solved it.",
        values={
            "name": customer["name"],
            "subject": subject,
            "high": offered[-1]["name"],
            "low": offered[0]["name"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (offered[0]["name"],)},
        spare=(("memberships", membership["id"]), ("memberships", past["id"])),
        tempts=("change_tier",),
    )


@situation(
    "memberships",
    "messaging",
    steps=7,
    memory=True,
    without=(
        "car_rental",
        "airline_lounge",
        "museum",
        "outdoor_shop",
        "wine_merchant",
        "public_library",
    ),
)
def freeze_by_message_with_a_limit(maker: Maker) -> Draft:
    """A member asks for a freeze that is longer than allowed; the longest one is entered."""
    most = maker.parameters["MOST_FREEZE_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(maker, customer, age=380)
    first = maker.day(4)
    last = (date.fromisoformat(first) + timedelta(days=most - 1)).isoformat()
    wished = (date.fromisoformat(first) + timedelta(days=most + 19)).isoformat()
    thread = new_thread(maker, customer, subject="Long holiday", handler=maker.me, age=1)
    new_message(
        maker,
        thread,
        f"I shall be away from {first} to {wished}. Please freeze everything, or what you can.",
        days=1,
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is going on a long holiday and has sent us the dates. Could you freeze "
            "{name.his} [membership] from the first day for as long as we allow, and reply with "
            "the last day?",
            colleague="{name} has written to ask us for [a freeze]. Please enter it from the "
            "first day that {name.he} mentions, for as long as our rules allow, and reply with "
            "the last day.",
            chat="{name} wants to freeze {name.his} [membership], the dates are in {name.his} "
            "[thread]. can you start it on the first day {name.he} gives (our maximum if its too "
            "long) and reply with the last day",
            note="{name} has written to us about a long holiday. Please freeze {name.his} "
            "[membership] from the day {name.he} leaves, but only up to our maximum, and write "
            "back to {name.him} with the last day.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_threads", customer_id=customer["id"], status="open"),
            call("get_thread", thread_id=thread["id"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("add_freeze", membership_id=membership["id"], first_day=first, last_day=last),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"We have frozen it for as long as we may, up to and including {last}.",
            ),
        ),
        answer="{name}'s [freeze] runs from {first} to {last}, {most} days, which is the longest "
        "we allow. I've confirmed it in {reference}.",
        values={
            "name": customer["name"],
            "first": long_day(first),
            "last": long_day(last),
            "most": most,
            "reference": thread["reference"],
        },
        free={"messages.body": (last,)},
    )


@situation("subscriptions", "messaging", kind="decline", steps=3, without=("charity",), rare=True)
def what_the_friend_pays(maker: Maker) -> Draft | None:
    """A customer asks in a thread which discount a friend has."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    customer, friend = new_customer(maker), new_customer(maker)
    new_subscription(maker, customer, plans[0], age=100)
    new_subscription(maker, friend, plans[0], age=300, discount_percent=5)
    thread = new_thread(maker, customer, subject="A question of fairness", age=1)
    new_message(maker, thread, f"Does {friend['name']} pay less than I do? And how much?", days=1)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has asked us in a [thread] whether {friend} pays less for the "
            "{product}. Could you reply with what {friend} pays?",
            colleague="{name} would like to know what {friend} pays for the {product}, because "
            "they're friends. Could you answer {name.him} in {name.his} open [thread], please?",
            chat="{name} asks what {friend} pays for the {product}, can you answer in the "
            "[thread] with the amount",
            note="{name} thinks {friend} gets the {product} for less and has written to us about "
            "it. They're friends, so please reply in the open [thread] with what {friend} is "
            "charged.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_threads", customer_id=customer["id"], status="open"),
            call("get_thread", thread_id=thread["id"]),
        ),
        answer="I haven't answered that and can't: we don't tell anybody anything about another "
        "[customer].",
        values={
            "name": customer["name"],
            "friend": friend["name"],
            "product": product_of(maker, plans[0])["name"],
        },
        reasons=("another [customer]", "other [customers]", "confidential", "privacy"),
        tempts=("send_message", "find_subscriptions", "get_subscription"),
    )


@situation("subscriptions", steps=5, rare=True, without=("bakery_supply",))
def one_subscription_too_many(maker: Maker) -> Draft | None:
    """Of two running subscriptions the one that costs more a month ends."""
    plans, bare = plans_of(maker, 1), bare_product(maker)
    if not plans or bare is None:
        return None
    month = plans[0]["price_cents"] // plans[0]["months"]
    other = new_plans(maker, bare, (1,), month_cents=month + 700)
    customer = new_customer(maker)
    cheap = new_subscription(maker, customer, plans[0], age=210)
    dear = new_subscription(maker, customer, other[0], age=140)
    rest = new_subscription(maker, new_customer(maker, like=customer), other[0], age=170)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} can't afford both of {name.his} [subscriptions] any more and is keeping "
            "the one that costs less a month. Could you end the other one today, unless a "
            "[charge] on it has failed?",
            colleague="{name} can't afford two [subscriptions] any more and is keeping the one "
            "that's cheaper per month. Could you end the other one today, please, as long as no "
            "[charge] on it has failed?",
            chat="{name} can only afford one of {name.his} 2 [subscriptions] and keeps the one "
            "thats cheaper per month. can you end the other one? check first that no [charge] on "
            "it failed",
            note="{name} has to save money and is keeping only the [subscription] that costs "
            "less per month. Please end {name.his} other one today, unless one of the [charges] "
            "on it has failed.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=cheap["id"]),
            call("get_subscription", subscription_id=dear["id"]),
            call("end_subscription", subscription_id=dear["id"]),
        ),
        answer="{dear} for {product} has ended today. The cheaper one, {cheap}, carries on.",
        values={
            "name": customer["name"],
            "dear": dear["reference"],
            "product": bare["name"],
            "cheap": cheap["reference"],
        },
        spare=(("subscriptions", cheap["id"]), ("subscriptions", rest["id"])),
    )


@situation(
    "subscriptions",
    "tickets",
    steps=7,
    without=("charity", "insurance_broker"),
    common=True,
    weight=1.6,
)
def the_complaint_was_right(maker: Maker) -> Draft | None:
    """A ticket says that a charge was doubled; it was, so it is credited, told and solved."""
    plans = plans_of(maker, 1)
    if not plans or plans[0]["price_cents"] > maker.me["limit_cents"]:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=100, charges=False)
    rows = [new_charge(maker, subscription, days=days) for days in (35, 6, 5)]
    subjects = ticket_subjects(maker, 2)
    ticket = new_ticket(maker, customer, subject="Charged twice", assignee=maker.me, age=2)
    other = new_ticket(maker, customer, subject=subjects[0], assignee=maker.me, age=3)
    amount = maker.money(plans[0]["price_cents"])
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has opened [a ticket] about being charged twice for the {product}. If "
            "that's true, it's our mistake. Could you credit the later [charge], tell {name.him} "
            "the amount on the [ticket] and close it?",
            colleague="{name} says in [a ticket] that we've charged {name.him} twice for the "
            "{product}. If that's true, it's our error, so please credit the second [charge], "
            "reply with the amount, and close the [ticket].",
            chat="{name} says in [a ticket] that we charged {name.him} twice for the {product}. "
            "if its true its our fault, can you credit the 2nd [charge], reply with the amount "
            "and close the [ticket]",
            note="We've had a few double [charges] lately, and {name} reports one for the "
            "{product} in [a ticket]. If {name.he}'s right, it's our fault. Please credit the "
            "later [charge], reply on the [ticket] with the amount, and close it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=subscription["id"]),
            call("credit_charge", charge_id=rows[2]["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"You were right, and we are sorry. {amount} go back to you.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="The second [charge], {amount}, is credited. I told {name} on {reference} and "
        "solved it.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "amount": amount,
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (f"{plans[0]['price_cents'] / 100:.2f}",)},
        spare=(("tickets", other["id"]),),
    )


@situation("subscriptions", "feedback", steps=5, without=("charity", "insurance_broker"), rare=True)
def thanks_to_a_loyal_reviewer(maker: Maker) -> Draft | None:
    """Somebody who gave five stars to what they subscribe to gets the discount promised for it."""
    plans, bare = plans_of(maker, 1), bare_product(maker)
    if not plans or bare is None:
        return None
    more = new_plans(maker, bare, (1, 12))
    customer = new_customer(maker)
    liked = new_subscription(maker, customer, more[0], age=230)
    other = new_subscription(maker, customer, plans[0], age=340)
    good = new_review(maker, customer, bare, rating=5, age=9)
    new_review(maker, customer, product_of(maker, plans[0]), rating=3, age=30)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} says {name.he} gave the {product} five stars and would like the 3 % off "
            "that we promised for that. Could you check, and put it on that [subscription]?",
            colleague="We're giving 3 % off for a five-star [review]. {name} says {name.he} wrote "
            "one about the {product}. If that's right, please put the discount on {name.his} "
            "[subscription] for it.",
            chat="{name} wants the 3% for five stars, {name.he} says {name.he} reviewed the "
            "{product}. can you check and put it on that [subscription]",
            note="We promised three per cent off for a five-star [review], and {name} has asked "
            "for it on the {product}. Please check that {name.he} really gave it five stars, and "
            "enter the discount for {name.him}.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_reviews", customer_id=customer["id"]),
            call("get_product", product_id=bare["id"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("set_discount", subscription_id=liked["id"], percent=3),
        ),
        answer="{name} has given five stars, so {reference} for the {product} now has 3 % off.",
        values={
            "name": customer["name"],
            "reference": liked["reference"],
            "product": bare["name"],
        },
        spare=(("subscriptions", other["id"]), ("reviews", good["id"])),
    )


@situation("memberships", steps=5, weight=0.35)
def upgrade_promised_in_a_note(maker: Maker) -> Draft | None:
    """A note promises a dearer tier after so many years; the customer claims a still dearer."""
    offered = tiers(maker)
    author = some_employee(maker, role="manager") or some_employee(maker, role="supervisor")
    if len(offered) < 4 or author is None:
        return None
    customer = new_customer(maker)
    membership = new_membership(maker, customer, tier=offered[0], age=760)
    new_note(
        maker,
        customer,
        f"Agreed: goes to {offered[2]['name']} once two years are over.",
        author=author,
        days=200,
    )
    new_note(maker, customer, "Prefers the morning hours.", days=30)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} says {author} promised {name.him} the {best} [membership] after two "
            "years. Could you check {author}'s note and, if the two years are over, give "
            "{name.him} the [tier] that it mentions?",
            colleague="{name} tells me that {author} promised {name.him} the {best} [membership] "
            "after two years, but I'm not sure. Please look up {author}'s note, and if the two "
            "years are over, give {name.him} the [tier] that was promised.",
            chat="{name} wants the {best} [membership] and says {author} promised it after 2 "
            "years. can you look up what {author} noted and give {name.him} that, if the 2 years "
            "are over",
            note="{name} has asked for the {best} [membership], because {author} is said to have "
            "promised it to {name.him} after two years. Please find {author}'s note, and if the "
            "two years are over, switch {name.him} to the [tier] named in the note.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("list_customer_notes", customer_id=customer["id"]),
            call("find_memberships", customer_id=customer["id"]),
            call("list_tiers"),
            call("change_tier", membership_id=membership["id"], tier_id=offered[2]["id"]),
        ),
        answer="The note from {author} says {tier}, not {best}. {name} joined on {day}, more than "
        "two years ago, and is now in {tier}.",
        values={
            "name": customer["name"],
            "author": author["name"],
            "best": offered[3]["name"],
            "tier": offered[2]["name"],
            "day": full_day(membership["first_day"]),
        },
    )
