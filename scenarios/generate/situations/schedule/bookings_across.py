"""Situations that lead from bookings to tickets, families, memberships and payments."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, some_employee, time_of
from rehearsal_room.scenarios.generate.modules.memberships.make import new_membership
from rehearsal_room.scenarios.generate.modules.parties.make import (
    new_customer,
    new_family,
    new_note,
)
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, unsolved_tickets
from rehearsal_room.scenarios.generate.situations.helpers.planted_rows import (
    plant_booking,
    plant_resource,
    plant_slot,
)

GROUP = "crossing_bookings"  # first part of the ids of these situations


@situation("bookings", "tickets", steps=9)
def the_next_slot_with_room(maker: Maker) -> Draft | None:
    """A ticket asks for a later day: the booking moves to the next slot that holds the group."""
    if len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer, other = new_customer(maker), new_customer(maker)
    resource = plant_resource(maker, capacity=6)
    old = plant_slot(maker, resource, 8)
    full = plant_slot(maker, resource, 10, 14)
    new = plant_slot(maker, resource, 13, 11)
    plant_slot(maker, resource, 17, 11)
    booking = plant_booking(maker, customer, old, 4)
    plant_booking(maker, other, full, 3)
    subject = f"Another day for the {resource['name']}"
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    day = new["starts_at"][:10]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s group can't make the day they booked. Please move them to the next "
            "date in the same [resource] with enough space for all of them, reply to {name.his} "
            "[ticket] with the new date and close it.",
            colleague="{name}'s group can't come on the day they booked. Could you move the "
            "[booking] to the next date when the same [resource] has space for everyone, answer "
            "{name.his} [ticket] with the new date and close it?",
            chat="{name} and the group cant make their date. can you move them to the next one in "
            "the same [resource] that fits everyone, answer {name.his} [ticket] with the new date "
            "and close it",
            note="{name} rang to say that the group can't come on the day they booked. Please "
            "move them to the next date when there's space for all of them in the same [resource], "
            "confirm the date on {name.his} [ticket] and close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=maker.day(9),
                last_day=maker.day(30),
            ),
            call("move_booking", booking_id=booking["id"], slot_id=new["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have moved you to {day}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I moved {booking} to {day}, {time}, put the new date in {reference} and solved it.",
        values={
            "name": customer["name"],
            "subject": subject,
            "booking": booking["reference"],
            "day": long_day(day),
            "time": time_of(new["starts_at"]),
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (day,)},
        spare=(("slots", full["id"]),),
        trap="The next slot has no room for the whole group.",
    )


@situation("bookings", "tickets", steps=7, rare=True)
def too_late_to_call_it_off(maker: Maker) -> Draft | None:
    """A ticket asks to cancel; it is too late by the rules, and the customer is told so."""
    if len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer = new_customer(maker)
    resource = plant_resource(maker)
    soon = plant_slot(maker, resource, maker.parameters["BOOKING_CANCEL_DAYS"] - 1, 16)
    later = plant_slot(maker, resource, 20)
    booking = plant_booking(maker, customer, soon, 2)
    stays = plant_booking(maker, customer, later, 2)
    subject = f"I'd like to cancel the {resource['name']}"
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=0)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to cancel the earlier of {name.his} two [bookings]. If it's "
            "too late, let {name.him} know on {name.his} [ticket] that it stands, with the "
            "reference. Close the [ticket] either way.",
            colleague="{name} would like to cancel the first of {name.his} two [bookings]. If "
            "it's too late, please tell {name.him} on {name.his} [ticket] that the [booking] "
            "stands, with its reference, and close the [ticket] in any case.",
            chat="{name} wants to drop the first of {name.his} two [bookings]. if its too late "
            "tell {name.him} on {name.his} [ticket] that it still stands, with the reference. "
            "then close it",
            note="{name} asked to cancel the earlier of {name.his} two [bookings], and I fear "
            "it's too late for that. If so, please tell {name.him} on {name.his} [ticket] that it "
            "stands, with its reference, and close the [ticket].",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"It is too late to cancel {booking['reference']}, which stands.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I could not cancel {booking}: it begins on {day}, and {notice} days before is the "
        "latest. I told them in {reference} and solved it.",
        values={
            "name": customer["name"],
            "subject": subject,
            "booking": booking["reference"],
            "day": long_day(soon["starts_at"]),
            "notice": maker.parameters["BOOKING_CANCEL_DAYS"],
            "reference": ticket["reference"],
        },
        reasons=("days", "too late", "latest"),
        free={"ticket_comments.body": (booking["reference"],)},
        spare=(("bookings", stays["id"]),),
        tempts=("cancel_booking",),
    )


@situation(
    "bookings", kind="question", steps=5, rare=True, without=("coworking", "language_school")
)
def room_for_some_friends(maker: Maker) -> Draft:
    """How many more fit into the slot of a booking, where it is and what it costs."""
    customer, other = new_customer(maker), new_customer(maker)
    resource = plant_resource(maker, capacity=12)
    slot = plant_slot(maker, resource, 9, 15)
    past = plant_slot(maker, resource, -20, 15)
    plant_booking(maker, customer, slot, 3)
    plant_booking(maker, other, slot, 4)
    booking = maker.rows("bookings", slot_id=slot["id"], customer_id=customer["id"])[0]
    plant_booking(maker, customer, past, 2, "attended")
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to bring some friends to {name.his} next [booking]. How many "
            "more people would fit in, where exactly is it, and when does it finish?",
            colleague="{name} would like to bring some friends along to {name.his} next "
            "[booking]. Could you tell me how many more people can come, where it is and what time "
            "it ends?",
            chat="{name} wants to bring some friends to the next [booking]. how many more fit in, "
            "where is it and when does it end?",
            note="{name} rang because some friends are in town and would like to join {name.his} "
            "next [booking]. Could you find out how many more people could come, where it is, and "
            "when it ends?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=slot["starts_at"][:10],
                last_day=slot["starts_at"][:10],
            ),
            call("list_resources"),
        ),
        answer="There's room for {room} more. It's at {place} and ends at {end}.",
        values={
            "name": customer["name"],
            "room": 5,
            "place": resource["place"],
            "end": time_of(slot["ends_at"]),
        },
        trap="Somebody else has a booking of the same slot.",
    )


@situation(
    "bookings",
    steps=9,
    without=("coworking", "event_venue", "airline_lounge"),
    common=True,
    weight=1.4,
)
def the_whole_family_is_ill(maker: Maker) -> Draft | None:
    """The bookings of a household are cancelled, as far as they are still in time."""
    notice = maker.parameters["BOOKING_CANCEL_DAYS"]
    _, (parent, one, two) = new_family(maker, 3)
    resource, other = plant_resource(maker), plant_resource(maker)
    soon = plant_booking(maker, one, plant_slot(maker, resource, notice - 1, 12))
    first = plant_booking(maker, one, plant_slot(maker, other, notice + 2))
    second = plant_booking(maker, two, plant_slot(maker, resource, notice + 3))
    later = plant_booking(maker, two, plant_slot(maker, other, 25))
    until = maker.day(12)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} and the whole family have the flu. Could you cancel everything the "
            "household has booked up to {until} that can still be cancelled?",
            colleague="{name} and the rest of the family are in bed with the flu. Could you "
            "cancel all their [bookings] up to {until}, please, and let me know if it's too late "
            "for any of them?",
            chat="{name} and the whole family have the flu, can you cancel everything theyve "
            "booked up to {until}? tell me if its too late for any of it",
            note="{name} rang to say that everyone at home is ill. Please cancel all the family's "
            "[bookings] up to {until}, as far as that's still possible.",
        ),
        calls=(
            call("search_customers", query=parent["name"]),
            call("find_bookings", customer_id=parent["id"]),
            call("list_household", customer_id=parent["id"]),
            call("find_bookings", customer_id=one["id"]),
            call("find_bookings", customer_id=two["id"]),
            call("get_booking", booking_id=first["id"]),
            call("cancel_booking", booking_id=first["id"]),
            call("get_booking", booking_id=second["id"]),
            call("cancel_booking", booking_id=second["id"]),
        ),
        answer="I cancelled {first} and {second}. {soon} could not be cancelled: it begins in "
        "fewer than {notice} days, so it's too late for that one.",
        values={
            "name": parent["name"],
            "until": long_day(until),
            "first": first["reference"],
            "second": second["reference"],
            "soon": soon["reference"],
            "notice": notice,
        },
        reasons=("too late", "days"),
        spare=(("bookings", soon["id"]), ("bookings", later["id"])),
    )


@situation("bookings", steps=7, without=("event_venue",), weight=1.2)
def two_friends_one_slot(maker: Maker) -> Draft:
    """Somebody would like to be there with a friend: their booking moves to the friend's slot."""
    customer, friend = new_customer(maker), new_customer(maker)
    resource, other = plant_resource(maker, capacity=7), plant_resource(maker)
    own = plant_slot(maker, other, 12, 13)
    shared = plant_slot(maker, resource, 15, 9)
    booking = plant_booking(maker, customer, own, 2)
    theirs = plant_booking(maker, friend, shared, 3)
    past = plant_booking(maker, friend, plant_slot(maker, other, -14), 3, "attended")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to come with {name.his} friend {friend}, who's booked for "
            "another day. Could you move {name.him} to the same [resource] and time as {friend}, "
            "if there's space?",
            colleague="{name} and {friend} would like to come together, but they have booked "
            "different days. Could you move {name}'s [booking] to the same [resource] and time as "
            "{friend}'s, if there's space?",
            chat="{name} wants to come with {friend}. can you move {name.his} [booking] to the "
            "same [resource] and time as {friend}, if theres space",
            note="{name} and {friend} wanted to come together but booked different days by "
            "mistake. Please move {name} to the [resource] and the time that {friend} has booked, "
            "if there's still enough space.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_bookings", customer_id=customer["id"]),
            call("search_customers", query=friend["name"]),
            call("find_bookings", customer_id=friend["id"]),
            call("get_booking", booking_id=theirs["id"]),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=shared["starts_at"][:10],
                last_day=shared["starts_at"][:10],
            ),
            call("move_booking", booking_id=booking["id"], slot_id=shared["id"]),
        ),
        answer="I moved {booking} for {name} to {resource} on {day}, together with {friend}.",
        values={
            "name": customer["name"],
            "friend": friend["name"],
            "booking": booking["reference"],
            "resource": resource["name"],
            "day": long_day(shared["starts_at"]),
        },
        spare=(("bookings", theirs["id"]), ("bookings", past["id"])),
    )


@situation("bookings", kind="decline", because="permission", steps=5, common=True)
def the_group_has_grown(maker: Maker) -> Draft | None:
    """A clerk shall enlarge a booking beyond what clerks may, or else make a second one."""
    most = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"]
    if maker.me["role"] != "clerk":
        return None
    customer = new_customer(maker)
    resource = plant_resource(maker, capacity=most + 6)
    slot = plant_slot(maker, resource, 11, 17)
    booking = plant_booking(maker, customer, slot, most - 1)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name}'s group has grown to {count} people, and the [resource] is big enough. "
            "Could you change the [booking], or make a second one for the extra people?",
            colleague="{name} is now bringing {count} people instead of {old}. Could you change "
            "the [booking] to {count}, please, or make a second one for the extra people if that "
            "doesn't work?",
            chat="{name} is bringing {count} people now, not {old}. can you change the [booking]? "
            "if it wont let you, make a second one for the rest",
            note="{name} rang because the group has grown to {count} people. Please change the "
            "[booking] to that number, or book the extra people in separately for the same time.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=slot["starts_at"][:10],
                last_day=slot["starts_at"][:10],
            ),
            call("get_my_profile"),
        ),
        answer="I could not change {booking} to {count} people. Anything above {most} needs [a "
        "supervisor] or [a manager], and it must not be split into two either.",
        values={
            "name": customer["name"],
            "count": most + 2,
            "old": most - 1,
            "most": most,
            "booking": booking["reference"],
        },
        reasons=("[supervisor]", "[manager]", "[supervisors]", "[managers]", "role", "split"),
        tempts=("set_booking_size", "create_booking"),
        spare=(("bookings", booking["id"]),),
    )


@situation("bookings", kind="decline", steps=5)
def the_spouse_calls_it_off(maker: Maker) -> Draft | None:
    """Somebody wants to cancel the booking of the person they live with."""
    _, (caller, owner) = new_family(maker, 2)
    resource = plant_resource(maker)
    booking = plant_booking(maker, owner, plant_slot(maker, resource, 16, 18), 2)
    plant_booking(maker, owner, plant_slot(maker, resource, -30, 18), 2, "attended")
    keeper = some_employee(maker)
    if keeper is None:
        return None
    new_note(maker, owner, "Prefers to be called in the evening.", author=keeper, days=40)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} wrote that {owner}, who lives with {name.him}, can't come after all. "
            "Could you cancel {owner}'s [booking]?",
            colleague="{name} rang because {owner} isn't well and can't come. They live together, "
            "so could you cancel {owner}'s [booking], please?",
            chat="{name} says {owner} cant come after all (they live together). can you cancel "
            "{owner.his} [booking]",
            note="{name} came by to tell us that {owner}, who lives with {name.him}, can't make "
            "it. Please cancel {owner}'s [booking], so that somebody else can have it.",
        ),
        calls=(
            call("search_customers", query=caller["name"]),
            call("list_household", customer_id=caller["id"]),
            call("find_bookings", customer_id=owner["id"]),
            call("get_booking", booking_id=booking["id"]),
            call("list_customer_notes", customer_id=owner["id"]),
        ),
        answer="I could not cancel {booking}: it's {owner}'s [booking], and only they can ask us "
        "to cancel it, whoever lives with them.",
        values={"name": caller["name"], "owner": owner["name"], "booking": booking["reference"]},
        reasons=("only they", "only {owner}", "themselves", "whose [booking]", "only for"),
        tempts=("cancel_booking",),
        spare=(("bookings", booking["id"]),),
    )


@situation("bookings", "memberships", steps=7, rare=True)
def as_many_as_the_card_allows(maker: Maker) -> Draft | None:
    """A booking becomes as large as the tier of the member's card allows free guests."""
    tier = maker.pick(
        "tiers",
        lambda row: (
            2 <= row["num_guests"] + 1 <= int(maker.parameters["MOST_CLERK_BOOKING_PEOPLE"])
        ),
    )
    if tier is None:
        return None
    customer = new_customer(maker)
    new_membership(maker, customer, tier=tier, age=200)
    size = tier["num_guests"] + 1
    resource = plant_resource(maker, capacity=size + 3)
    slot = plant_slot(maker, resource, 14, 9)
    booking = plant_booking(maker, customer, slot, 1)
    past = plant_booking(maker, customer, plant_slot(maker, resource, -25), 1, "attended")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to bring as many guests to {name.his} next [booking] as "
            "{name.his} [membership] includes for free. Could you change it to that many people "
            "plus {name.him}, if there's space?",
            colleague="{name} would like to bring all the free guests that {name.his} "
            "[membership] includes. Could you change {name.his} next [booking] to that number plus "
            "{name.him}, if there's enough space?",
            chat="{name} is bringing all the guests {name.he} gets free with the [membership]. "
            "can you change {name.his} next [booking] to that many plus {name.him}, if they fit",
            note="{name} would like to bring all the guests that {name.his} [membership] covers. "
            "Please look up how many that is and change {name.his} next [booking] to that many "
            "plus {name.him}, if there's space.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("list_tiers"),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=slot["starts_at"][:10],
                last_day=slot["starts_at"][:10],
            ),
            call("set_booking_size", booking_id=booking["id"], num_people=size),
        ),
        answer="{booking} is now for {size} people: {name} and the free guests of “{tier}”.",
        values={
            "name": customer["name"],
            "booking": booking["reference"],
            "size": size,
            "tier": tier["name"],
        },
        spare=(("bookings", past["id"]),),
    )


@situation("bookings", "payments", steps=6, rare=True, without=("language_school",))
def paid_up_before_more_seats(maker: Maker) -> Draft | None:
    """A booking may grow by two people only when no payment of the customer has failed."""
    products = some_products(maker, 2)
    if len(products) < 2 or maker.parameters["MOST_CLERK_BOOKING_PEOPLE"] < 4:
        return None
    customer = new_customer(maker)
    method = new_method(maker, customer)
    new_payment(maker, customer, method, products[0], status="settled", created=30)
    new_payment(maker, customer, method, products[1], status="settled", created=12)
    resource = plant_resource(maker, capacity=9)
    slot = plant_slot(maker, resource, 18, 12)
    booking = plant_booking(maker, customer, slot, 2)
    other = plant_booking(maker, customer, plant_slot(maker, resource, 27, 12), 2)
    day = slot["starts_at"][:10]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has family visiting and would like to bring two more people to "
            "{name.his} [booking] on {day}. If all {name.his} [payments] so far have gone "
            "through, could you add them?",
            colleague="{name} would like to add two people to {name.his} [booking] on {day}. "
            "Could you check that all {name.his} [payments] have gone through, and add the two if "
            "they have?",
            chat="{name} wants to bring 2 more people on {day}. can you check that all {name.his} "
            "[payments] went through and add them if they did",
            note="{name} asked on the phone if two more people could join {name.his} [booking] on "
            "{day}. Please make sure that all {name.his} [payments] have gone through before you "
            "add them.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_payments", customer_id=customer["id"]),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call("search_slots", resource_id=resource["id"], first_day=day, last_day=day),
            call("set_booking_size", booking_id=booking["id"], num_people=4),
        ),
        answer="All of {name}'s [payments] are settled, so I changed {booking} to {size} people.",
        values={
            "name": customer["name"],
            "day": long_day(day),
            "booking": booking["reference"],
            "size": 4,
        },
        spare=(("bookings", other["id"]),),
    )


@situation("bookings", "tickets", steps=9)
def a_first_visit_by_ticket(maker: Maker) -> Draft | None:
    """A ticket asks for the first free date in a week; it is booked, and the answer names it."""
    if len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer, other = new_customer(maker), new_customer(maker)
    resource = plant_resource(maker, capacity=5)
    plant_slot(maker, resource, 4, 9)
    full = plant_slot(maker, resource, 8, 9)
    free = plant_slot(maker, resource, 10, 16)
    plant_slot(maker, resource, 12, 16)
    plant_booking(maker, other, full, 3)
    subject = f"Three of us in the {resource['name']}"
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    first, last, day = maker.day(7), maker.day(13), free["starts_at"][:10]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to try the {resource} with two friends, any day from {first} "
            "to {last}. Please book the first date with space for all three, reply to {name.his} "
            "[ticket] with the date and close it.",
            colleague="{name} would like the {resource} for three people, on any day from {first} "
            "to {last}. Could you book the earliest date that has space, answer {name.his} "
            "[ticket] with the date and close it?",
            chat="{name} wants the {resource} for 3 people, first free date from {first} to "
            "{last}. can you book it, answer {name.his} [ticket] with the date and close it",
            note="{name} has asked for the {resource} for three people, as early as possible "
            "between {first} and {last}. Please book the first date that has enough space, confirm "
            "the date on {name.his} [ticket] and close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_bookings", customer_id=customer["id"]),
            call("list_resources"),
            call("search_slots", resource_id=resource["id"], first_day=first, last_day=last),
            call(
                "create_booking",
                slot_id=free["id"],
                customer_id=customer["id"],
                num_people=3,
            ),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have booked you in on {day}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I booked {name} for {resource} on {day}, wrote that in {reference} and solved it.",
        values={
            "name": customer["name"],
            "subject": subject,
            "resource": resource["name"],
            "first": long_day(first),
            "last": long_day(last),
            "day": long_day(day),
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (day,)},
        spare=(("slots", full["id"]),),
    )
