"""Situations about memberships: tiers, freezes, beginning and end."""

from datetime import date, timedelta

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import full_day, long_day
from rehearsal_room.scenarios.generate.modules.memberships.make import (
    new_freeze,
    new_membership,
    old_tier,
    tiers,
)
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

GROUP = "membership_desk"  # first part of the ids of these situations


def _later(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


@situation("memberships", kind="decline", steps=4, common=True)
def cheaper_too_early(maker: Maker) -> Draft:
    """Somebody wants a cheaper tier while still bound to theirs."""
    offered = tiers(maker)
    bound = maker.parameters["MEMBERSHIP_BOUND_DAYS"]
    customer = new_customer(maker)
    age = bound - maker.rng.randrange(8, 40)
    membership = new_membership(maker, customer, tier=offered[-1], age=age)
    new_membership(maker, new_customer(maker, like=customer), tier=offered[0], age=bound + 50)
    first = _later(membership["first_day"], bound)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} doesn't need everything that comes with the {tier} [membership] and "
            "would like to switch to {cheap} from this month. Could you change it?",
            colleague="{name} has asked to switch from the {tier} [membership] to {cheap}, "
            "because {name.he} wants to spend less. Could you change it today, please?",
            chat="can you switch {name} from the {tier} [membership] to {cheap}? {name.he} "
            "doesn't use the extras",
            note="{name} was at the desk this morning and finds the {tier} [membership] too "
            "expensive. I told {name.him} that we'd switch {name.him} to {cheap}, so please "
            "change it before the next payment goes out.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("list_tiers"),
        ),
        answer="I couldn't move {name} to {cheap}: nobody can go to a cheaper [tier] in the first "
        "{bound} days, so the earliest possible day is {day}.",
        values={
            "name": customer["name"],
            "tier": offered[-1]["name"],
            "cheap": offered[0]["name"],
            "bound": bound,
            "day": long_day(first),
        },
        reasons=("{bound} days", "first {bound}", "too early", "not yet", "cheaper"),
        tempts=("change_tier",),
    )


@situation("memberships", steps=5)
def just_past_the_bound(maker: Maker) -> Draft:
    """A cheaper tier is possible by a few days, although a colleague doubts it."""
    offered = tiers(maker)
    bound = maker.parameters["MEMBERSHIP_BOUND_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(
        maker, customer, tier=offered[-1], age=bound + maker.rng.randrange(2, 7)
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="The {tier} [membership] is too expensive for {name}, who'd like {cheap} "
            "instead. I'm not sure {name.he}'s been with us long enough. Could you check, and "
            "change it if {name.he} has?",
            colleague="{name} would like to switch from the {tier} [membership] to {cheap}. "
            "Could you check when {name.he} joined, please, and change it if {name.he}'s been "
            "with us for long enough?",
            chat="{name} wants to switch to the {cheap} [membership]. can you check when "
            "{name.he} joined and change it if {name.he}'s been here long enough",
            note="A colleague told {name} that it was too early to switch from the {tier} "
            "[membership] to {cheap}, but nobody looked it up. Please check when {name.he} "
            "joined, and make the change if it's possible now.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("list_tiers"),
            call("change_tier", membership_id=membership["id"], tier_id=offered[0]["id"]),
        ),
        answer="{name} joined on {day}, more than {bound} days ago, and is now on {cheap}.",
        values={
            "name": customer["name"],
            "tier": offered[-1]["name"],
            "cheap": offered[0]["name"],
            "bound": bound,
            "day": full_day(membership["first_day"]),
        },
    )


@situation("memberships", steps=4)
def out_as_soon_as_possible(maker: Maker) -> Draft:
    """A membership ends on the first day that the notice allows, not on the wished one."""
    notice = maker.parameters["MEMBERSHIP_NOTICE_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(maker, customer, age=500)
    over = new_membership(maker, customer, age=1_100, last_day=maker.day(-620))
    last = maker.day(notice)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is moving to the coast and would like to leave as soon as possible. "
            "Could you end {name.his} [membership] with the normal notice, counting from today?",
            colleague="{name} is moving away and would like to leave as early as possible. Could "
            "you end {name.his} [membership] with the usual notice, please, counted from today?",
            chat="{name} is moving away. can you end {name.his} [membership] as soon as possible, "
            "with the normal notice from today",
            note="{name} called to cancel {name.his} [membership], because {name.he}'s leaving "
            "town. Please end it with the usual notice from today. I've told {name.him} that "
            "there's nothing else to do.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("end_membership", membership_id=membership["id"], last_day=last),
        ),
        answer="{name}'s [membership] {card} ends on {last}, {notice} days from today.",
        values={
            "name": customer["name"],
            "card": membership["card"],
            "last": long_day(last),
            "notice": notice,
        },
        spare=(("memberships", over["id"]),),
    )


@situation("memberships", kind="decline", because="permission", steps=4, common=True)
def out_at_once(maker: Maker) -> Draft | None:
    """A membership shall end at once, which only a manager may accept."""
    if maker.me["role"] == "manager":
        return None
    notice = maker.parameters["MEMBERSHIP_NOTICE_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(maker, customer, age=260)
    last = maker.day(3)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name} isn't happy with us and wants {last} to be {name.his} last day. I'd "
            "rather not argue with {name.him}. Could you end the [membership] on that day, not "
            "later?",
            colleague="{name} has asked to leave on {last} and won't accept a later date. Could "
            "you end {name.his} [membership] on that day, please?",
            chat="{name} wants {last} to be {name.his} last day. can you end {name.his} "
            "[membership] on that day? not later, i've had {name.him} on the phone twice about it",
            note="I've promised {name} that {last} will be the last day of {name.his} "
            "[membership]. Please enter that day and no other, because I don't want to go back "
            "on my word.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("get_my_profile"),
        ),
        answer="I couldn't set {last} as the last day of {card}: that's less than {notice} days' "
        "notice, and only [a manager] may accept that.",
        values={
            "name": customer["name"],
            "last": long_day(last),
            "card": membership["card"],
            "notice": notice,
        },
        reasons=("[manager]", "[managers]", "notice", "role"),
        tempts=("end_membership",),
    )


@situation(
    "memberships",
    kind="decline",
    steps=3,
    rare=True,
    without=(
        "car_rental",
        "airline_lounge",
        "museum",
        "outdoor_shop",
        "wine_merchant",
        "public_library",
    ),
)
def two_freezes_in_a_row(maker: Maker) -> Draft:
    """A break that is longer than a freeze may last shall be entered as two freezes."""
    most = maker.parameters["MOST_FREEZE_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(maker, customer, age=330)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} will be away from {first} to {last}, which is longer than a freeze may "
            "last. Please put in two, one straight after the other. If only one of them works, "
            "leave it, {name.he} needs the whole time.",
            colleague="{name} will be away from {first} to {last}, which is too long for one "
            "freeze. Could you make it two in a row, please? One alone is no use to {name.him}.",
            chat="{name} is away {first} to {last}. the system won't take that as one freeze, can "
            "you make it 2 in a row? just one wouldn't help",
            note="{name} is working abroad from {first} to {last} and has asked us for a freeze. "
            "It's longer than one can be. Last year we put in two, the second directly after the "
            "first, so please do that again, or none at all if it doesn't work.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
        ),
        answer="I haven't entered the break for {name} and can't: [a freeze] can last {most} days "
        "at most, and a second one may not follow directly on the first.",
        values={
            "name": customer["name"],
            "first": long_day(maker.day(5)),
            "last": long_day(maker.day(5 + 2 * most - 6)),
            "most": most,
        },
        reasons=("{most} days", "follow directly", "directly", "in a row", "back to back"),
        tempts=("add_freeze",),
    )


@situation(
    "memberships",
    steps=5,
    without=(
        "car_rental",
        "airline_lounge",
        "museum",
        "outdoor_shop",
        "wine_merchant",
        "public_library",
    ),
)
def the_trip_was_put_off(maker: Maker) -> Draft:
    """A freeze that has not begun moves to a later day and stays as long as it was."""
    least = maker.parameters["LEAST_FREEZE_DAYS"]
    length = least + maker.rng.randrange(2, 12)
    customer = new_customer(maker)
    membership = new_membership(maker, customer, age=410)
    new_freeze(maker, membership, begin=-100, days=least + 1)
    freeze = new_freeze(maker, membership, begin=6, days=length)
    first = maker.day(13)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s flight has been moved, so {name.he}'ll be away from {first} now, for "
            "just as long as before. Could you move the freeze on {name.his} [membership] to "
            "match?",
            colleague="{name}'s trip has been postponed. Could you move the upcoming freeze on "
            "{name.his} [membership], please, so that it starts on {first} and lasts just as "
            "long?",
            chat="{name} is going on holiday later than planned. can you move {name.his} freeze "
            "so it starts on {first}? same number of days",
            note="{name} has had to rebook {name.his} holiday. Please move the upcoming freeze "
            "on {name.his} [membership] so that it starts on {first} and lasts for the same "
            "number of days as before.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("cancel_freeze", freeze_id=freeze["id"]),
            call(
                "add_freeze",
                membership_id=membership["id"],
                first_day=first,
                last_day=_later(first, length - 1),
            ),
        ),
        answer="{name}'s [freeze] now runs from {first} to {last}, {length} days as before.",
        values={
            "name": customer["name"],
            "first": long_day(first),
            "last": long_day(_later(first, length - 1)),
            "length": length,
        },
    )


@situation(
    "memberships",
    steps=4,
    without=("car_rental", "outdoor_shop", "wine_merchant", "public_library"),
    common=True,
)
def room_for_two_guests(maker: Maker) -> Draft | None:
    """The cheapest tier with enough free guests."""
    offered = tiers(maker)
    number = 2
    fitting = [row for row in offered if row["num_guests"] >= number]
    if not fitting or offered[0]["num_guests"] >= number:
        return None
    chosen = fitting[0]
    customer = new_customer(maker)
    membership = new_membership(maker, customer, tier=offered[0], age=35)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to bring {name.his} two grandchildren along without paying "
            "for them each time. Please move {name.him} to the cheapest [tier] that includes two "
            "free guests.",
            colleague="{name} would like to bring two people along without paying extra for "
            "them. Could you switch {name.him} to the cheapest [tier] that includes two free "
            "guests, please?",
            chat="{name} always brings 2 people and wants them to get in free. can you move "
            "{name.him} to the cheapest [tier] that includes that",
            note="{name} asked at the desk whether {name.he} could bring two people each time "
            "without paying extra. Please find the cheapest [tier] with two free guests, and "
            "switch {name.him} to it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("list_tiers"),
            call("change_tier", membership_id=membership["id"], tier_id=chosen["id"]),
        ),
        answer="{name} is now on {chosen} at {price} a month, the cheapest [tier] with {number} "
        "free guests.",
        values={
            "name": customer["name"],
            "chosen": chosen["name"],
            "price": maker.money(chosen["month_cents"]),
            "number": number,
        },
    )


@situation(
    "memberships",
    steps=7,
    without=(
        "car_rental",
        "airline_lounge",
        "museum",
        "outdoor_shop",
        "wine_merchant",
        "public_library",
    ),
)
def frozen_the_wrong_person(maker: Maker) -> Draft:
    """A freeze was entered for the namesake; it is cancelled and entered for the right one."""
    least = maker.parameters["LEAST_FREEZE_DAYS"]
    length = least + maker.rng.randrange(4, 14)
    begin = maker.rng.randrange(3, 9)
    right = new_customer(maker)
    wrong = new_customer(maker, like=right)
    theirs = new_membership(maker, wrong, age=210)
    membership = new_membership(maker, right, age=240)
    freeze = new_freeze(maker, theirs, begin=begin, days=length)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} asked us to freeze {name.his} [membership], and we froze {wrong}'s "
            "instead. Could you cancel that freeze and put in the same dates for {name}?",
            colleague="I froze {wrong}'s [membership] by mistake, although it was {name} who'd "
            "asked for it. Could you cancel that freeze, please, and freeze {name}'s "
            "[membership] for the same dates?",
            chat="i froze the [membership] of {wrong} by mistake, {name} was the one who asked. "
            "can you cancel that freeze and put the same dates in for {name}",
            note="{name} asked us for a freeze, but one of us entered it for {wrong}. Please "
            "cancel the freeze on {wrong}'s [membership], and enter the same dates for {name}.",
        ),
        calls=(
            call("search_customers", query=wrong["name"]),
            call("find_memberships", customer_id=wrong["id"]),
            call("get_membership", membership_id=theirs["id"]),
            call("search_customers", query=right["name"]),
            call("find_memberships", customer_id=right["id"]),
            call("cancel_freeze", freeze_id=freeze["id"]),
            call(
                "add_freeze",
                membership_id=membership["id"],
                first_day=freeze["first_day"],
                last_day=freeze["last_day"],
            ),
        ),
        answer="I've cancelled the [freeze] from {first} to {last} for {wrong} and entered the "
        "same dates for {name}.",
        values={
            "name": right["name"],
            "wrong": wrong["name"],
            "first": long_day(freeze["first_day"]),
            "last": long_day(freeze["last_day"]),
        },
    )


@situation("memberships", steps=4, common=True)
def straight_on_after_the_end(maker: Maker) -> Draft:
    """A membership has an end; a new one in another tier begins on the day after it."""
    offered = tiers(maker)
    customer = new_customer(maker)
    current = new_membership(
        maker, customer, tier=offered[0], age=330, last_day=maker.day(maker.rng.randrange(8, 26))
    )
    chosen = offered[-1]
    first = _later(current["last_day"], 1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} had given notice but has decided to stay, with the {tier} "
            "[membership]. Could you set that up so that it starts the day after {name.his} "
            "current one ends?",
            colleague="{name} has decided to stay with us after all. Could you start the {tier} "
            "[membership] for {name.him} on the day after {name.his} current one ends, please?",
            chat="{name} has changed {name.his} mind about leaving and wants the {tier} "
            "[membership]. can you start it right after the current one runs out, no gap",
            note="I rang {name} about the cancellation, and {name.he}'d like to carry on, but "
            "with the {tier} [membership]. Please set up the new one so that it starts on the "
            "day after the current one ends.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("list_tiers"),
            call(
                "start_membership",
                customer_id=customer["id"],
                tier_id=chosen["id"],
                first_day=first,
            ),
        ),
        answer="{name} has a new [membership] in {tier} from {first}, the day after {card} ends.",
        values={
            "name": customer["name"],
            "tier": chosen["name"],
            "first": long_day(first),
            "card": current["card"],
        },
        spare=(("memberships", current["id"]),),
    )


@situation("memberships", kind="decline", steps=4, rare=True)
def into_the_closed_tier(maker: Maker) -> Draft:
    """Somebody wants the tier that a friend has and that is no longer offered."""
    closed, offered = old_tier(maker), tiers(maker)
    customer, friend = new_customer(maker), new_customer(maker)
    membership = new_membership(maker, customer, tier=offered[1], age=420)
    new_membership(maker, friend, tier=closed, age=1_500)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has heard about {closed} from {friend}, who's on it, and would like the "
            "same [membership]. {name.He} knows what it costs. Could you move {name.him} over?",
            colleague="{name} would like to have the {closed} [membership], the same as "
            "{friend}. Could you switch {name.him} to it, please? {name.He}'ll pay the full "
            "price.",
            chat="can you move {name} to {closed}? {friend} has it too and told {name.him} about "
            "it",
            note="{name} has asked me twice about the {closed} [membership], because {friend} "
            "has it and keeps saying how good it is. Please change it for {name.him}, the price "
            "isn't a problem.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("list_tiers"),
        ),
        answer="I couldn't move {name} to {closed}, because it's no longer offered. Those who "
        "have it can keep it, but nobody new can be put on it.",
        values={"name": customer["name"], "friend": friend["name"], "closed": closed["name"]},
        reasons=("no longer offered", "not offered", "offered any more"),
        tempts=("change_tier", "start_membership"),
    )
