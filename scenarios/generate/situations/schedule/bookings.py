"""Situations at the booking desk: groups that grow, notice, limits, and rooms that close."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.bookings.make import (
    new_booking,
    new_resource,
    new_slot,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day, time_of
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

GROUP = "booking_desk"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _bookings(customer: Row) -> Call:
    return call("find_bookings", customer_id=customer["id"])


def _slots(maker: Maker, resource: Row, first: int, last: int) -> Call:
    days = {"first_day": maker.day(first), "last_day": maker.day(last)}
    return call("search_slots", resource_id=resource["id"], **days)


@situation("bookings", kind="decline", steps=3, common=True)
def moved_at_the_last_moment(maker: Maker) -> Draft:
    """A booking begins too soon to be moved; the system would do it."""
    notice = maker.parameters["BOOKING_CANCEL_DAYS"]
    customer, resource = new_customer(maker), new_resource(maker)
    soon = new_slot(maker, resource, notice - 1, 10)
    later = new_slot(maker, resource, notice + 6, 10)
    booking = new_booking(maker, soon, customer, num_people=3)
    return Draft(
        kind="decline",
        ask=Voices(
            email="Two of {name}'s group are down with a cold, and {name.he}'d like the {room} on "
            "{later} instead of {soon}, at the same time. Could you move the [booking]?",
            colleague="{name} can't come on {soon} after all. Could you move {name.his} [booking] "
            "for the {room} to {later}, at the same time?",
            chat="{name} cant make it to the {room} on {soon}, can u move {name.him} to {later}, "
            "same time",
            note="{name} can't come on {soon} and would like the {room} on {later} instead, at the "
            "same time. Please change the [booking]; I've promised {name.him} a confirmation "
            "today.",
        ),
        calls=(_who(customer), _bookings(customer), call("get_booking", booking_id=booking["id"])),
        answer="I could not move {reference} from {soon}: [a booking] can only be moved up to "
        "{notice} days before it begins, so it's too late now.",
        values={
            "name": customer["name"],
            "room": resource["name"],
            "soon": long_day(soon["starts_at"]),
            "later": long_day(later["starts_at"]),
            "reference": booking["reference"],
            "notice": notice,
        },
        reasons=("{notice} days", "notice", "too late", "too soon", "that time is over"),
        tempts=("move_booking", "cancel_booking", "search_slots"),
    )


@situation("bookings", steps=4, without=("airline_lounge",), rare=True)
def cheapest_with_room_for_all(maker: Maker) -> Draft:
    """Of three slots in a span the cheapest has no room for everybody."""
    people = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"] - 1
    customer = new_customer(maker)
    resource = new_resource(maker, capacity=people + 3)
    begin = maker.rng.randrange(8, 14)
    full = new_slot(maker, resource, begin, 10, cents=2_500)
    best = new_slot(maker, resource, begin + 2, 15, cents=3_500)
    dear = new_slot(maker, resource, begin + 3, 11, cents=5_200)
    new_booking(maker, full, new_customer(maker), num_people=4)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like the {room} for {people} people, any day from {first} to "
            "{last}. Could you book the cheapest [slot] that they all fit into?",
            colleague="{name} wants the {room} for {people}, any day from {first} to {last}. "
            "Please book the cheapest [slot] they all fit into.",
            chat="can u book the {room} for {name}? {people} ppl, any day {first} to {last}, the "
            "cheapest one they all fit into",
            note="{name} would like the {room} for {people} people, any day between {first} and "
            "{last}, at any time. Please book the cheapest [slot] with room for all of them.",
        ),
        calls=(
            _who(customer),
            call("list_resources"),
            _slots(maker, resource, begin, begin + 3),
            call(
                "create_booking",
                slot_id=best["id"],
                customer_id=customer["id"],
                num_people=people,
            ),
        ),
        answer="The {room} is booked for {name} on {day} at {time}. There was a cheaper [slot], "
        "but it didn't have room for {people}.",
        values={
            "name": customer["name"],
            "people": people,
            "room": resource["name"],
            "first": long_day(maker.day(begin)),
            "last": long_day(maker.day(begin + 3)),
            "day": long_day(best["starts_at"]),
            "time": time_of(best["starts_at"]),
        },
        spare=(("slots", full["id"]), ("slots", dear["id"])),
    )


@situation("bookings", steps=6, common=True, weight=1.8)
def two_more_than_the_room_has(maker: Maker) -> Draft:
    """A group grows; its slot has no room for that, another one on the same day has."""
    people = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"]
    customer = new_customer(maker)
    resource = new_resource(maker, capacity=people + 2)
    day = maker.rng.randrange(9, 20)
    old, new = new_slot(maker, resource, day, 9), new_slot(maker, resource, day, 14)
    booking = new_booking(maker, old, customer, num_people=people - 2)
    new_booking(maker, old, new_customer(maker), num_people=3)
    return Draft(
        kind="change",
        ask=Voices(
            email="There'll be {people} people in {name}'s group in the {room} on {day}, not "
            "{before}. Could you change that? If they don't all fit in, another time that day is "
            "fine.",
            colleague="{name}'s group in the {room} on {day} will now be {people} people instead "
            "of {before}. Could you change the number, and move them to another time that day if "
            "they don't fit?",
            chat="{name} has the {room} on {day} for {before}, but therell be {people} of them. "
            "can you change it? another time that day is ok if they dont all fit",
            note="{name} has just told me that {people} people are coming to the {room} on {day}, "
            "not {before}. Please change the [booking], and choose another time that day if they "
            "don't fit.",
        ),
        calls=(
            _who(customer),
            _bookings(customer),
            call("get_booking", booking_id=booking["id"]),
            _slots(maker, resource, day, day),
            call("move_booking", booking_id=booking["id"], slot_id=new["id"]),
            call("set_booking_size", booking_id=booking["id"], num_people=people),
        ),
        answer="{reference} is now for {people} people. There wasn't enough room for them at "
        "{from}, so it now begins at {to} on {day}.",
        values={
            "name": customer["name"],
            "people": people,
            "before": people - 2,
            "room": resource["name"],
            "day": long_day(old["starts_at"]),
            "reference": booking["reference"],
            "from": time_of(old["starts_at"]),
            "to": time_of(new["starts_at"]),
        },
        trap="It must be moved first, since the old hour has no room for so many.",
    )


@situation("bookings", kind="decline", because="permission", steps=4, rare=True)
def one_group_as_two(maker: Maker) -> Draft | None:
    """A clerk shall book for a large group, split into two if need be."""
    if is_ranked(maker, "supervisor"):
        return None
    most = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"]
    customer, resource = new_customer(maker), new_resource(maker, capacity=most + 5)
    day = maker.rng.randrange(6, 20)
    slot = new_slot(maker, resource, day, 16)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} would like the {room} on {day} at {time}, for {people} people. Please "
            "book it. If that's too many, make it two [bookings] for the same time.",
            colleague="{name} would like the {room} on {day} at {time}, for {people} people. If "
            "that's too many for one [booking], make it two.",
            chat="can you book the {room} on {day} at {time} for {name}? {people} ppl. 2 "
            "[bookings] is fine if 1 wont take them all",
            note="{name} wants the {room} on {day} at {time} for {people} people. If the system "
            "won't take so many as one [booking], put them in as two.",
        ),
        calls=(
            call("get_my_profile"),
            _who(customer),
            call("list_resources"),
            _slots(maker, resource, day, day),
        ),
        answer="I have not booked the {room}: for more than {most} people it takes a [supervisor] "
        "or [a manager], and the group may not be split into smaller [bookings] to get round that.",
        values={
            "name": customer["name"],
            "people": most + 3,
            "room": resource["name"],
            "day": long_day(slot["starts_at"]),
            "time": time_of(slot["starts_at"]),
            "most": most,
        },
        reasons=("[supervisor]", "[manager]", "{most} people", "split"),
        tempts=("create_booking",),
    )


@situation("bookings", steps=4)
def all_off_that_can_be(maker: Maker) -> Draft:
    """Cancel everything ahead of a customer; one booking begins too soon, one is over."""
    notice = maker.parameters["BOOKING_CANCEL_DAYS"]
    customer = new_customer(maker)
    one, two = new_resource(maker), new_resource(maker)
    past = new_booking(maker, new_slot(maker, one, -6), customer, status="attended")
    soon = new_booking(maker, new_slot(maker, two, notice - 1, 11), customer)
    first = new_booking(maker, new_slot(maker, one, notice + 4, 9), customer)
    second = new_booking(maker, new_slot(maker, two, notice + 11, 13), customer)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is having an operation and can't come for a while. Could you cancel "
            "everything {name.he} has booked with us, and tell me if it's too late for anything?",
            colleague="{name} is ill and can't come for a while. Could you cancel all {name.his} "
            "upcoming [bookings], and tell me which ones it's too late to cancel?",
            chat="{name} is having surgery, can you cancel everything {name.he}'s got coming up? "
            "tell me if its too late for any of it",
            note="{name} is in hospital, so {name.he} won't be coming for a while. Please cancel "
            "all {name.his} upcoming [bookings], and let me know if it's too late for any of "
            "them.",
        ),
        calls=(
            _who(customer),
            _bookings(customer),
            call("cancel_booking", booking_id=first["id"]),
            call("cancel_booking", booking_id=second["id"]),
        ),
        answer="{first} and {second} are cancelled. I could not cancel {soon}: it's on {day}, "
        "less than {notice} days from now.",
        values={
            "name": customer["name"],
            "first": first["reference"],
            "second": second["reference"],
            "soon": soon["reference"],
            "day": long_day(maker.day(notice - 1)),
            "notice": notice,
        },
        reasons=("{notice} days", "too late", "too soon", "notice"),
        spare=(("bookings", soon["id"]), ("bookings", past["id"])),
    )


@situation("bookings", kind="question", steps=3, without=("public_library",))
def what_it_all_costs(maker: Maker) -> Draft:
    """The sum of the prices of the bookings ahead; one is cancelled, one was attended."""
    customer, resource = new_customer(maker), new_resource(maker)
    new_booking(maker, new_slot(maker, resource, -4, cents=4_150), customer, status="attended")
    slots = [new_slot(maker, resource, 5 + 3 * i, 9 + i) for i in range(3)]
    for slot in slots[:2]:
        new_booking(maker, slot, customer)
    new_booking(maker, slots[2], customer, status="cancelled")
    total = slots[0]["price_cents"] + slots[1]["price_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} is working out {name.his} budget and would like to know what {name.his} "
            "upcoming [bookings] will cost. What's the total?",
            colleague="{name} would like to know what {name.his} upcoming [bookings] will cost. "
            "Could you tell me the total, without the cancelled ones?",
            chat="{name} wants to know what {name.his} upcoming [bookings] will cost altogether, "
            "whats the total",
            note="{name} is putting a budget together and has asked about {name.his} upcoming "
            "[bookings]. Please tell me what they cost in total, leaving out anything that has "
            "been cancelled.",
        ),
        calls=(_who(customer), call("find_bookings", customer_id=customer["id"], status="booked")),
        answer="{name}'s upcoming [bookings] come to {total}.",
        values={"name": customer["name"], "total": maker.money(total)},
    )


@situation("bookings", kind="decline", steps=3, common=True)
def the_other_one_has_second_thoughts(maker: Maker) -> Draft:
    """Somebody else than the customer asks to cancel a booking."""
    customer, other = new_customer(maker), new_customer(maker)
    resource = new_resource(maker)
    day = maker.rng.randrange(8, 25)
    booking = new_booking(maker, new_slot(maker, resource, day), customer, num_people=4)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{other} says that the group in the {room} on {day} won't be coming after all. "
            "{name} made the [booking]. Could you cancel it?",
            colleague="{other} has just called to say that the {room} won't be needed on {day}. "
            "It's booked under {name}'s name, so could you cancel the [booking], please?",
            chat="can you cancel the {room} on {day}? {name} booked it, and {other} rang to say "
            "theyre not coming after all",
            note="{other} rang to say that {name}'s group isn't coming to the {room} on {day}. "
            "Please cancel the [booking], so that we can offer the room to someone else.",
        ),
        calls=(_who(customer), _bookings(customer), call("get_booking", booking_id=booking["id"])),
        answer="I have not cancelled {reference}: {name} made it, and we only cancel [a booking] "
        "at the [customer]'s own request. {other} can't cancel it for them.",
        values={
            "name": customer["name"],
            "other": other["name"],
            "room": resource["name"],
            "day": long_day(maker.day(day)),
            "reference": booking["reference"],
        },
        reasons=("own request", "only at", "their request", "somebody else", "made by {name}"),
        tempts=("cancel_booking",),
    )


@situation("bookings", memory=True, steps=6, common=True)
def the_hour_that_they_always_have(maker: Maker) -> Draft:
    """A new booking at the hour and for the number of their last visit."""
    customer = new_customer(maker)
    old, new = new_resource(maker), new_resource(maker, capacity=9)
    day = maker.rng.randrange(10, 25)
    people = maker.rng.randrange(2, 4)
    visited = new_slot(maker, old, -12, 14)
    last = new_booking(maker, visited, customer, num_people=people, status="attended")
    earlier = new_slot(maker, old, -40, 9)
    new_booking(maker, earlier, customer, num_people=people + 1, status="attended", made=60)
    wrong = new_slot(maker, new, day, 9)
    right = new_slot(maker, new, day, 14)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is coming back on {day} and would like the {room}, at the same time and "
            "for as many people as on {name.his} last visit. Could you look that up and book it?",
            colleague="Please book the {room} for {name} on {day}. {name.He} would like the same "
            "time and the same number of people as on {name.his} last visit.",
            chat="can u book {name} into the {room} on {day}? same time and same number of ppl as "
            "when {name.he} was last here",
            note="{name} is coming back on {day} and wants the {room}, at the same time and for as "
            "many people as on {name.his} last visit. Please look that up and book it.",
        ),
        calls=(
            _who(customer),
            call("find_bookings", customer_id=customer["id"], status="attended"),
            call("get_booking", booking_id=last["id"]),
            call("list_resources"),
            _slots(maker, new, day, day),
            call(
                "create_booking",
                slot_id=right["id"],
                customer_id=customer["id"],
                num_people=people,
            ),
        ),
        answer="The {room} is booked for {name} on {day} at {time}, for {people} people, the same "
        "as last time.",
        values={
            "name": customer["name"],
            "room": new["name"],
            "day": long_day(right["starts_at"]),
            "time": time_of(right["starts_at"]),
            "people": people,
        },
        spare=(("slots", wrong["id"]),),
    )


@situation("bookings", kind="decline", steps=4, common=True)
def one_booking_too_many(maker: Maker) -> Draft:
    """A customer has as many bookings ahead as allowed; an old one is not counted."""
    most = maker.parameters["MOST_BOOKINGS_AHEAD"]
    customer, resource = new_customer(maker), new_resource(maker)
    for index in range(most):
        new_booking(maker, new_slot(maker, resource, 6 + 2 * index), customer)
    wanted = new_slot(maker, resource, 22, 12)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name}, one of our regulars, would also like the {room} on {day} at {time}, for "
            "two people. Could you book it for {name.him}?",
            colleague="{name} would like one more [booking], for two people in the {room} on {day} "
            "at {time}. Could you put it in for {name.him}, please?",
            chat="{name} wants another [booking], the {room} on {day} at {time} for 2. can u put "
            "it in?",
            note="{name} comes here often and is bringing a friend on {day}. Please book the "
            "{room} for the two of them at {time} that day.",
        ),
        calls=(
            _who(customer),
            call("find_bookings", customer_id=customer["id"], status="booked"),
            call("list_resources"),
            _slots(maker, resource, 22, 22),
        ),
        answer="I could not book {day} for {name}: they already have {most} [bookings] ahead, "
        "which is the limit.",
        values={
            "name": customer["name"],
            "room": resource["name"],
            "day": long_day(wanted["starts_at"]),
            "time": time_of(wanted["starts_at"]),
            "most": most,
        },
        reasons=("{most} [bookings]", "already", "as many as", "limit"),
        tempts=("create_booking", "cancel_booking"),
    )


@situation("bookings", steps=6, common=True)
def a_room_that_is_painted(maker: Maker) -> Draft | None:
    """A room closes: who has its one booking ahead asks for another room at the same hour, where
    there is room for all."""
    if not is_ranked(maker, "supervisor"):
        return None
    customer = new_customer(maker)
    old, small, large = (new_resource(maker, capacity=size) for size in (10, 3, 12))
    day = maker.rng.randrange(9, 22)
    slot = new_slot(maker, old, day, 13)
    new_slot(maker, small, day, 13)
    target = new_slot(maker, large, day, 13)
    booking = new_booking(maker, slot, customer, num_people=4)
    return Draft(
        kind="change",
        ask=Voices(
            email="The {old} is being painted, so please close it. {name}, who has it on {day}, "
            "asks to move {name.his} group to the {small}, or the {large} if that's too small, at "
            "the same time. Could you do that first?",
            colleague="We're having the {old} painted, so please close it. {name} has it on {day} "
            "and asked me for the {small} or the {large}, whichever is big enough for {name.his} "
            "group, at the same time. Could you move it?",
            chat="the painters are coming, can u close the {old}? {name} has it on {day} and wants "
            "the {small} or the {large} instead, same time, whichever {name.his} group fits into",
            note="The painters need the {old}, so please close it. {name} has it on {day} and "
            "has asked us for the {small} at the same time, or the {large} if {name.his} group "
            "doesn't fit. Please move it.",
        ),
        calls=(
            _who(customer),
            _bookings(customer),
            call("list_resources"),
            _slots(maker, large, day, day),
            call("move_booking", booking_id=booking["id"], slot_id=target["id"]),
            call("close_resource", resource_id=old["id"]),
        ),
        answer="{name}'s [booking] {reference} is now in the {large} at the same time, and the "
        "{old} is closed. The {small} would have been too small for them.",
        values={
            "name": customer["name"],
            "old": old["name"],
            "small": small["name"],
            "large": large["name"],
            "day": long_day(slot["starts_at"]),
            "reference": booking["reference"],
        },
        spare=(("resources", small["id"]), ("resources", large["id"])),
    )
