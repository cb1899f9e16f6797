"""Situations across two desks: courses and calendar, rooms and memberships, trips and messages."""

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
from rehearsal_room.scenarios.generate.modules.calendars.make import (
    appointment_subjects,
    free_day,
    new_appointment,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.fleet.make import new_trip, new_vehicle
from rehearsal_room.scenarios.generate.modules.loans.make import item_phrase, lent_item
from rehearsal_room.scenarios.generate.modules.memberships.make import new_membership, tiers
from rehearsal_room.scenarios.generate.modules.messaging.make import new_message, new_thread
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.shifts.make import new_post, new_shift
from rehearsal_room.scenarios.generate.modules.staff.make import new_employee
from rehearsal_room.scenarios.generate.modules.training.make import (
    new_course,
    new_enrolment,
    new_session,
)

GROUP = "mixed_desks"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _staff(employee: Row) -> Call:
    return call("search_employees", query=employee["name"])


@situation("training", "calendars", memory=True, steps=5, rare=True)
def talk_after_the_course(maker: Maker) -> Draft:
    """An own appointment moves to the day after the customer's course, which must be looked up."""
    customer, course, other = new_customer(maker), new_course(maker), new_course(maker)
    day = free_day(maker, maker.me, least=12, most=40)
    new_enrolment(maker, new_session(maker, course, day - 1), customer)
    new_enrolment(maker, new_session(maker, other, day + 5), customer)
    new_enrolment(maker, new_session(maker, course, day + 9), customer, "cancelled", days=30)
    soon = maker.parameters["APPOINTMENT_NOTICE_DAYS"] + 2
    talk = new_appointment(maker, customer, maker.me, soon, 8, minutes=25)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to do “{course}” first and have the "
            "{subject.meeting} the day after, at 10:00. Could you move it?",
            colleague="{name} would like to do “{course}” first. Please move the "
            "{subject.meeting} with {name.him} to 10:00 on the day after.",
            chat="can you push the {subject.meeting} with {name} to 10:00 on the "
            "day after {name.he}'s done “{course}”",
            note="{name} rang about the {subject.meeting} and would like to do "
            "“{course}” first. Please move it to 10:00 on the following day. It doesn't matter to "
            "{name.him} if that's at the weekend.",
        ),
        calls=(
            _who(customer),
            call("list_enrolments", customer_id=customer["id"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=talk["id"]),
            call("move_appointment", appointment_id=talk["id"], starts_at=maker.ahead(day, 10)),
        ),
        answer="“{subject}” with {name} is now on {day} at 10:00, the day after “{course}”.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "subject": talk["subject"],
            "day": long_day(maker.day(day)),
        },
    )


@situation("bookings", "training", steps=5, common=True)
def room_or_course(maker: Maker) -> Draft:
    """Of several bookings the one goes that lies on the day of the customer's course."""
    notice = maker.parameters["BOOKING_CANCEL_DAYS"]
    customer, course, resource = new_customer(maker), new_course(maker), new_resource(maker)
    day = notice + maker.rng.randrange(6, 14)
    new_enrolment(maker, new_session(maker, course, day), customer)
    bookings = [
        new_booking(maker, new_slot(maker, resource, day + offset, 10 + offset), customer)
        for offset in (-3, 0, 4)
    ]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has booked the {room} for the same day as “{course}” and can't do both. "
            "Could you cancel the room for that day? {name.He}'s keeping {name.his} other dates.",
            colleague="{name} has booked the {room} on the same day as “{course}” and can't do "
            "both. Could you cancel the [booking] for that day, please?",
            chat="{name} has the {room} and “{course}” on the same day. can you cancel the room "
            "for that day, nothing else",
            note="{name} can't use the {room} on the day of “{course}”. Please cancel {name.his} "
            "[booking] for that day only; {name.he} still needs the room on the other days.",
        ),
        calls=(
            _who(customer),
            call("list_enrolments", customer_id=customer["id"]),
            call("find_bookings", customer_id=customer["id"], status="booked"),
            call("get_booking", booking_id=bookings[1]["id"]),
            call("cancel_booking", booking_id=bookings[1]["id"]),
        ),
        answer="{reference} on {day}, the day of “{course}”, is cancelled.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "room": resource["name"],
            "reference": bookings[1]["reference"],
            "day": long_day(maker.day(day)),
        },
        spare=(("bookings", bookings[0]["id"]), ("bookings", bookings[2]["id"])),
    )


@situation("bookings", "memberships", steps=7, without=("hotel", "public_library"))
def with_as_many_guests_as_they_may(maker: Maker) -> Draft | None:
    """A room for a customer and as many companions as their membership allows."""
    most = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"]
    fit = [row for row in tiers(maker) if 1 <= row["num_guests"] < most]
    if not fit:
        return None
    customer, tier = new_customer(maker), maker.rng.choice(fit)
    membership = new_membership(maker, customer, tier=tier, age=90)
    resource, day = new_resource(maker, capacity=most + 2), maker.rng.randrange(6, 25)
    slot = new_slot(maker, resource, day, 14)
    new_slot(maker, resource, day, 9)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like the {room} on {day} at 14:00 and is bringing all the guests "
            "{name.his} [membership] lets {name.him} bring for free. Could you book it for that "
            "many?",
            colleague="{name} would like the {room} on {day} at 14:00 for {name.him} and all the "
            "free guests {name.his} [membership] includes. Could you book it for that many "
            "people, please?",
            chat="{name} wants the {room} on {day} at 14:00 and is bringing all the free guests "
            "from {name.his} [membership]. can you look up how many and book it for all of them",
            note="{name} is coming to the {room} on {day} at 14:00 with as many guests as "
            "{name.his} [membership] lets {name.him} bring for free. Please book it for all of "
            "them.",
        ),
        calls=(
            _who(customer),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("list_tiers"),
            call("list_resources"),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=maker.day(day),
                last_day=maker.day(day),
            ),
            call(
                "create_booking",
                slot_id=slot["id"],
                customer_id=customer["id"],
                num_people=tier["num_guests"] + 1,
            ),
        ),
        answer="The {room} is booked for {name} on {day} at 14:00, for {people} people in all.",
        values={
            "name": customer["name"],
            "room": resource["name"],
            "day": long_day(slot["starts_at"]),
            "people": tier["num_guests"] + 1,
        },
    )


@situation("loans", "calendars", steps=5, rare=True)
def come_for_it_on_the_day(maker: Maker) -> Draft | None:
    """An appointment on the day on which an item is due."""
    customer = new_customer(maker)
    due = free_day(maker, maker.me, least=4, most=12)
    item, _ = lent_item(maker, customer, due=due)
    new_loan_day = due + 6
    lent_item(maker, customer, due=new_loan_day)
    subject, place = appointment_subjects(maker, 1)[0], maker.location()
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is bringing back {title} on the day it's due and would like to talk "
            "to you while {name.he}'s here. Could you put in the [appointment] "
            "“{subject}” for 16:00 that day, 30 minutes, “{place}”?",
            colleague="{name} would like to talk to you when {name.he} brings back {title}. Please "
            "put in “{subject}” for the day it's due, 16:00, half an hour, “{place}”.",
            chat="{name} brings {title} back on its due date and wants to talk to you then. "
            "can you put in “{subject}” for that day 16:00, 30 min, “{place}”",
            note="{name} rang: {name.he}'d like half an hour with you when {name.he} comes to "
            "return {title}. Please put in the [appointment] “{subject}” for the day "
            "it's due, at 16:00, “{place}”. Coffee is on me.",
        ),
        calls=(
            _who(customer),
            call("list_loans", customer_id=customer["id"]),
            call(
                "create_appointment",
                customer_id=customer["id"],
                subject=subject,
                place=place,
                starts_at=maker.ahead(due, 16),
                minutes=30,
            ),
        ),
        answer="“{subject}” with {name} is on {day} at 16:00, the day {title} is due.",
        values={
            "name": customer["name"],
            "title": item_phrase(item["title"]),
            "subject": subject,
            "place": place,
            "day": long_day(maker.day(due)),
        },
    )


@situation("messaging", "fleet", steps=6, rare=True, without=("charity",))
def who_is_coming_with_what(maker: Maker) -> Draft:
    """A customer asks who comes and with which plate; the reply names the plate."""
    customer, driver = new_customer(maker), new_employee(maker)
    vehicle, other = new_vehicle(maker), new_vehicle(maker)
    day = maker.rng.randrange(3, 12)
    trip = new_trip(maker, vehicle, driver, day)
    new_trip(maker, other, driver, day + 4)
    when = long_day(trip["goes_on"])
    thread = new_thread(maker, customer, handler=maker.me)
    new_message(
        maker,
        thread,
        f"Our gate reads number plates. Which one will {driver['name']} have on {when}?",
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} needs our number plate for {name.his} gate and has told us in a message "
            "for which day. {driver} is driving there. Please look up which [vehicle] that's with "
            "and reply in the [thread] with the plate.",
            colleague="{name} needs a number plate for {name.his} gate, the [thread] says which "
            "day. {driver} is driving. Please reply with the plate.",
            chat="{name} needs the plate {driver} is coming with, day is in {name.his} [thread]. "
            "reply there pls",
            note="{name} has to register our number plate at {name.his} gate. {name.His} message "
            "says which day it's for, and {driver} is the one driving there. Please look up the "
            "[vehicle] and send {name} its plate in the [thread].",
        ),
        calls=(
            _who(customer),
            call("find_threads", customer_id=customer["id"]),
            call("get_thread", thread_id=thread["id"]),
            _staff(driver),
            call("list_driver_trips", driver_id=driver["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"{driver['name']} is coming with {vehicle['plate']}.",
            ),
        ),
        answer="I've told {name} in the [thread] that {driver} is coming with {plate} on {when}.",
        values={
            "name": customer["name"],
            "driver": driver["name"],
            "plate": vehicle["plate"],
            "when": when,
        },
        free={"messages.body": (vehicle["plate"],)},
    )


@situation("bookings", "shifts", kind="question", steps=4, rare=True)
def a_name_for_the_door(maker: Maker) -> Draft:
    """Who works at a post on the day of a booking in a part of the day."""
    customer, resource, post = new_customer(maker), new_resource(maker), new_post(maker)
    early, late = new_employee(maker), new_employee(maker)
    day = maker.rng.randrange(5, 20)
    new_booking(maker, new_slot(maker, resource, day, 16), customer)
    new_booking(maker, new_slot(maker, resource, day + 7, 16), customer, status="cancelled")
    new_shift(maker, post, early, day, "early")
    new_shift(maker, post, late, day, "late")
    new_shift(maker, post, early, day + 7, "late")
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} is coming for the {room} and would like to know who to ask for. It'll "
            "be during the late [shift]. Who's on “{post}” then?",
            colleague="Who's got the late [shift] on “{post}” on the day {name} is in the {room}?",
            chat="{name} wants to know whos on “{post}” late on the day of {name.his} {room} "
            "[booking]",
            note="{name} is coming for the {room} and would like to know who to ask for. Who has "
            "the late [shift] on “{post}” that day? One of {name.his} [bookings] was cancelled, "
            "so please go by the other.",
        ),
        calls=(
            _who(customer),
            call("find_bookings", customer_id=customer["id"], status="booked"),
            call("list_posts"),
            call(
                "search_shifts",
                first_day=maker.day(day),
                last_day=maker.day(day),
                post_id=post["id"],
            ),
        ),
        answer="That's {late}, on {day}.",
        values={
            "name": customer["name"],
            "room": resource["name"],
            "post": post["name"],
            "late": late["name"],
            "day": long_day(maker.day(day)),
        },
    )
