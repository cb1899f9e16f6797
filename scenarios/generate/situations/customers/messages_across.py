"""Situations that begin with a message or ticket and lead to the calendar, a room, a course …"""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, SpokenValue, Voices, call
from rehearsal_room.scenarios.generate.modules.bookings.make import (
    new_booking,
    new_resource,
    new_slot,
)
from rehearsal_room.scenarios.generate.modules.calendars.make import free_day, new_appointment
from rehearsal_room.scenarios.generate.modules.devices.make import (
    NO_DEVICES,
    device_models,
    new_device,
    new_reading,
    new_visit,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, time_of
from rehearsal_room.scenarios.generate.modules.event_times import later_day
from rehearsal_room.scenarios.generate.modules.fleet.make import new_trip, new_vehicle
from rehearsal_room.scenarios.generate.modules.loans.make import (
    item_phrase,
    item_titles,
    lent_item,
    new_item,
    new_loan,
)
from rehearsal_room.scenarios.generate.modules.messaging.make import new_message, new_thread
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.staff.make import new_employee
from rehearsal_room.scenarios.generate.modules.tickets.make import new_comment, new_ticket
from rehearsal_room.scenarios.generate.modules.training.make import (
    new_course,
    new_enrolment,
    new_session,
)

GROUP = "letters_and_desks"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _threads(customer: Row) -> Call:
    return call("find_threads", customer_id=customer["id"])


def _thread(thread: Row) -> Call:
    return call("get_thread", thread_id=thread["id"])


def _tickets(customer: Row) -> Call:
    return call("find_tickets", customer_id=customer["id"])


def _ticket(ticket: Row) -> Call:
    return call("get_ticket", ticket_id=ticket["id"])


def _wordings(value: SpokenValue) -> tuple[str, ...]:
    return (value.text, *value.others)


@situation("messaging", "bookings", memory=True, steps=8, common=True, weight=2)
def wish_in_a_message(maker: Maker) -> Draft:
    """A customer asks in a thread for another day; there are two hours, one without room."""
    notice = maker.parameters["BOOKING_CANCEL_DAYS"]
    customer, resource = new_customer(maker), new_resource(maker, capacity=6)
    day = notice + maker.rng.randrange(5, 12)
    booking = new_booking(maker, new_slot(maker, resource, day, 10), customer, num_people=4)
    full, right = new_slot(maker, resource, day + 5, 9), new_slot(maker, resource, day + 5, 15)
    new_booking(maker, full, new_customer(maker), num_people=3)
    wish = long_day(maker.day(day + 5))
    thread = new_thread(maker, customer, handler=maker.me)
    new_message(maker, thread, f"That day doesn't suit us any more. We could all come on {wish}.")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has written about the [booking] for the {room}, because {name.he} would "
            "like another day. Could you move it to the day {name.he} asks for, and reply in the "
            "[thread] with the start time?",
            colleague="{name} has sent us a message because {name.he} wants the {room} on another "
            "day. Could you move the [booking] to that day, and tell {name.him} in the [thread] "
            "what time it starts?",
            chat="{name} wrote that {name.he} wants the {room} on a different day. can you move it "
            "and write back in the [thread] what time it starts",
            note="{name} is still waiting for an answer about the {room}. Please see in the "
            "[thread] which day {name.he} would like, move the [booking], and reply with the time "
            "it starts.",
        ),
        calls=(
            _who(customer),
            _threads(customer),
            _thread(thread),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
            call(
                "search_slots",
                resource_id=resource["id"],
                first_day=maker.day(day + 5),
                last_day=maker.day(day + 5),
            ),
            call("move_booking", booking_id=booking["id"], slot_id=right["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"No problem, you have the {resource['name']} on {wish} from 15:00 to 16:30.",
            ),
        ),
        answer="{name} now has the {room} on {wish} at {time}, and I've let them know in the "
        "[thread].",
        values={
            "name": customer["name"],
            "room": resource["name"],
            "wish": wish,
            "time": time_of(right["starts_at"]),
        },
        free={"messages.body": ("15:00", "3 pm", "3 p.m.", "15.00", "3:00")},
        spare=(("slots", full["id"]),),
    )


@situation("messaging", "training", steps=7)
def asked_for_the_next_course(maker: Maker) -> Draft:
    """A message names days on which the customer cannot come; the first other date is taken."""
    customer, course = new_customer(maker), new_course(maker)
    begin = maker.rng.randrange(12, 20)
    new_session(maker, course, begin)
    right = new_session(maker, course, begin + 9)
    new_session(maker, course, begin + 20)
    until = long_day(maker.day(begin + 4))
    thread = new_thread(maker, customer, handler=maker.me)
    new_message(maker, thread, f"I'd like to do “{course['title']}”, but I'm abroad until {until}.")
    day = long_day(right["held_on"])
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has written to us about “{course}”: {name.he}'s travelling and would "
            "like the first date after that. Could you see when {name.he}'s back, book {name.him} "
            "and reply in the [thread] with the day?",
            colleague="{name} has written to us about “{course}” and says when {name.he}'ll be "
            "back. Could you book {name.him} on the first date after that and reply in the "
            "[thread] with the day?",
            chat="{name} is abroad, {name.he} wrote us when {name.he}'s back. can you book "
            "{name.him} on the first “{course}” after that and reply in the [thread] with the day",
            note="{name} is away and has told us in a message when {name.he}'ll be back. Please "
            "book {name.him} on the first date for “{course}” after that, and reply in the "
            "[thread] with the day.",
        ),
        calls=(
            _who(customer),
            _threads(customer),
            _thread(thread),
            call("list_courses"),
            call("list_sessions", course_id=course["id"]),
            call("add_enrolment", session_id=right["id"], customer_id=customer["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"You have a place on “{course['title']}” on {day}.",
            ),
        ),
        answer="{name} is booked on “{course}” on {day}, and I've replied in the [thread].",
        values={"name": customer["name"], "course": course["title"], "day": day},
        free={"messages.body": _wordings(day)},
    )


@situation("messaging", "loans", steps=7, common=True, weight=2.5)
def keep_it_a_little_longer(maker: Maker) -> Draft:
    """A message asks to keep one of two items; the reply names the new day."""
    customer = new_customer(maker)
    titles = item_titles(maker, 2)
    item, loan = lent_item(maker, customer, titles[0], due=3)
    other, _ = lent_item(maker, customer, titles[1], due=6)
    thread = new_thread(maker, customer, handler=maker.me)
    new_message(maker, thread, f"Could I keep {item_phrase(titles[0])} a bit longer, please?")
    until = long_day(later_day(maker.day(3), maker.parameters["LOAN_DAYS"]))
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} asked us days ago to keep something longer, and nobody has answered. "
            "Could you renew it if nobody's waiting for it, and tell {name.him} the new due date "
            "in the [thread]?",
            colleague="{name} has sent us a message asking for a renewal. Could you renew it if "
            "nobody else is waiting, and reply in the [thread] with the new due date?",
            chat="{name} wrote that {name.he} wants to keep something {name.he} borrowed a bit "
            "longer. can you renew it if nobodys waiting for it and reply with the new date",
            note="{name} has asked in a message to keep something {name.he} borrowed. Please renew "
            "it if nobody else is waiting for it, and tell {name.him} the new due date in the "
            "[thread].",
        ),
        calls=(
            _who(customer),
            _threads(customer),
            _thread(thread),
            call("list_loans", customer_id=customer["id"]),
            call("get_item", item_id=item["id"]),
            call("renew_loan", loan_id=loan["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"That's fine, the new due date is {until}.",
            ),
        ),
        answer="{name} can keep {title} until {until}; I've told them in the [thread].",
        values={"name": customer["name"], "title": item_phrase(titles[0]), "until": until},
        free={"messages.body": _wordings(until)},
        spare=(("items", other["id"]),),
    )


@situation("messaging", "calendars", steps=8, common=True, weight=2)
def a_better_hour(maker: Maker) -> Draft:
    """A message proposes two hours; at the first of them the participant is busy."""
    customer, mate = new_customer(maker), new_employee(maker)
    day = free_day(maker, maker.me, mate, least=10, most=24)
    new = free_day(maker, maker.me, mate, least=25, most=45)
    planned = new_appointment(maker, customer, maker.me, day, 11, invites=(mate,))
    new_appointment(maker, new_customer(maker), mate, new, 9, minutes=60)
    when = long_day(maker.day(new))
    thread = new_thread(maker, customer, handler=maker.me)
    new_message(
        maker, thread, f"I can't make our meeting. I could come on {when}, at 9:00 or 14:00."
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} can't make the {subject.meeting} and has sent us two other times. Could "
            "you move it to the one that suits {mate}, too, and confirm it in the [thread]?",
            colleague="{name} has written to us with two other times for the {subject.meeting}. "
            "Could you move it to the time that suits {mate} as well, and confirm it in the "
            "[thread]?",
            chat="{name} messaged us 2 other times for the {subject.meeting}. can you move it to "
            "the one {mate} can make and confirm it in the [thread]",
            note="{name} has suggested two other times for the {subject.meeting} in a message. "
            "Please move it to the one when {mate} is free as well, and confirm the new time in "
            "the [thread].",
        ),
        calls=(
            _who(customer),
            _threads(customer),
            _thread(thread),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=planned["id"]),
            call(
                "list_appointments",
                employee_id=mate["id"],
                first_day=maker.day(new),
                last_day=maker.day(new),
            ),
            call("move_appointment", appointment_id=planned["id"], starts_at=maker.ahead(new, 14)),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"That works, see you on {when} at 14:00.",
            ),
        ),
        answer="“{subject}” with {name} is now on {when} at 14:00, and I've confirmed that. "
        "{mate} isn't free at 9:00.",
        values={
            "name": customer["name"],
            "mate": mate["name"],
            "subject": planned["subject"],
            "when": when,
        },
        free={"messages.body": ("14:00", "2 pm", "2 p.m.", "14.00", "at 14")},
    )


@situation("messaging", "devices", steps=7, without=NO_DEVICES)
def a_number_in_a_message(maker: Maker) -> Draft:
    """A reading comes by message, for one of two devices, and is recorded and confirmed."""
    customer = new_customer(maker)
    models = device_models(maker, 2)
    device, other = new_device(maker, customer, models[0]), new_device(maker, customer, models[1])
    base = maker.rng.randrange(2_000, 6_000)
    new_reading(maker, device, base, 31)
    new_reading(maker, other, base - 150, 31)
    said = base + maker.rng.randrange(80, 400)
    thread = new_thread(maker, customer, handler=maker.me)
    new_message(
        maker,
        thread,
        f"The reading on the {models[0][0].lower()}{models[0][1:]} is {said} today.",
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has two [devices] and has sent us a reading for one of them in a "
            "message. Could you record it and confirm the figure to {name.him} in the [thread]?",
            colleague="{name} has sent us a reading for one of {name.his} two [devices] in a "
            "message. Could you record it for the right one, and confirm the figure to {name.him} "
            "in the [thread]?",
            chat="{name} messaged us a reading, {name.he}'s got two [devices]. can u record it for "
            "the right one and confirm the figure back to {name.him}",
            note="{name} has written to us with a reading. {name.He} has two [devices], so please "
            "see which one it's for, record it, and confirm the figure to {name.him} in the "
            "[thread].",
        ),
        calls=(
            _who(customer),
            _threads(customer),
            _thread(thread),
            call("search_devices", query=customer["name"]),
            call("list_readings", device_id=device["id"]),
            call("record_reading", device_id=device["id"], counter=said),
            call("send_message", thread_id=thread["id"], body=f"Thanks, we've recorded {said}."),
        ),
        answer="I've recorded {said} for {name}'s {serial} and confirmed it in the [thread].",
        values={"name": customer["name"], "said": said, "serial": device["serial"]},
        free={"messages.body": (said,)},
        spare=(("devices", other["id"]),),
    )


@situation("tickets", "loans", steps=6, common=True)
def reminded_without_need(maker: Maker) -> Draft:
    """A ticket complains of a reminder; the item came back in time, so that is what we write."""
    customer = new_customer(maker)
    subject = maker.one_of("Reminder by mistake", "Reminder is wrong", "Already returned")
    title = item_titles(maker)[0]
    item = new_item(maker, title)
    new_loan(maker, item, customer, due=-6, back=9)
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=2)
    new_comment(maker, ticket, "Says they got a reminder after returning it.", is_public=0, days=1)
    back = long_day(maker.day(-9))
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has had a reminder for {title} and says it was back on time. If that's "
            "right, could you tell {name.him} on {name.his} [ticket] when we got it, and close "
            "the [ticket]?",
            colleague="{name} says in {name.his} [ticket] that {title} came back on time. Could "
            "you check? If that's right, please tell {name.him} in the [ticket] when we got it, "
            "and close it.",
            chat="{name} says {title} was back on time, {name.he} complained about the reminder. "
            "can you check? if its true tell {name.him} the return date on {name.his} [ticket] "
            "and close it",
            note="{name} has complained about our reminder for {title}. Please check if it really "
            "came back on time. If it did, tell {name.him} the date on {name.his} [ticket] and "
            "close the [ticket].",
        ),
        calls=(
            _who(customer),
            _tickets(customer),
            _ticket(ticket),
            call("list_loans", customer_id=customer["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"You're right, it came back on {back}. Sorry about that.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="{name} is right: {title} came back on {back}. I've told them so in {reference} "
        "and marked it as solved.",
        values={
            "name": customer["name"],
            "title": item_phrase(title),
            "back": back,
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": _wordings(back)},
    )


@situation("tickets", "devices", steps=8, without=NO_DEVICES, common=True, weight=2)
def a_noise_since_monday(maker: Maker) -> Draft:
    """A ticket about a device: if no visit is planned, one is, and the customer is told the day."""
    customer, worker = new_customer(maker), new_employee(maker)
    device = new_device(maker, customer, status="stopped")
    new_visit(maker, device, worker, -90, status="done")
    ticket = new_ticket(maker, customer, assignee=maker.me, priority="high", age=1)
    day = maker.rng.randrange(4, 12)
    when = long_day(maker.day(day))
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s {model} has stopped working. Could you check if [a visit] is planned? "
            "If not, please book {worker} for a repair on {when}, and tell {name.him} the day on "
            "{name.his} [ticket].",
            colleague="{name} has opened [a ticket] because the {model} isn't working. If no "
            "[visit] is planned yet, could you book {worker} for a repair on {when} and tell "
            "{name.him} the day on the [ticket]?",
            chat="is anyone going to {name} about the {model}? if not can you send {worker} on "
            "{when} (repair) and tell {name.him} the day on {name.his} [ticket]",
            note="{name}'s {model} isn't working. If there's no [visit] planned yet, please book "
            "{worker} for the repair on {when}, and tell {name.him} the day on {name.his} "
            "[ticket].",
        ),
        calls=(
            _who(customer),
            _tickets(customer),
            call("search_devices", query=customer["name"]),
            call("get_device", device_id=device["id"]),
            call("search_employees", query=worker["name"]),
            call(
                "plan_visit",
                device_id=device["id"],
                employee_id=worker["id"],
                planned_on=maker.day(day),
                purpose="repair",
            ),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We'll come on {when} to repair it.",
                is_public=True,
            ),
        ),
        answer="{worker} is repairing {name}'s {model} on {when}. I've put the day in "
        "{reference}, which stays open.",
        values={
            "name": customer["name"],
            "model": f"{device['model'][0].lower()}{device['model'][1:]}",
            "worker": worker["name"],
            "when": when,
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": _wordings(when)},
    )


@situation("tickets", "training", kind="question", steps=4, rare=True)
def promised_a_seat(maker: Maker) -> Draft:
    """A customer says that they were promised a seat; the list has them as waiting."""
    customer, course = new_customer(maker), new_course(maker)
    session = new_session(maker, course, maker.rng.randrange(12, 40), seats=2)
    for index in range(2):
        new_enrolment(maker, session, new_customer(maker), days=30 - index)
    ahead = new_customer(maker)
    new_enrolment(maker, session, ahead, "waiting", days=15)
    new_enrolment(maker, session, customer, "waiting", days=8)
    ticket = new_ticket(maker, customer, assignee=maker.me, age=1)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} says we told {name.him} {name.he} had a place on “{course}” on {day}, "
            "and {name.he}'s opened a [ticket]. Does {name.he} have one? If not, who's ahead of "
            "{name.him} on the waiting list? I need the [ticket] number as well.",
            colleague="Has {name} got a place on “{course}” on {day}? If not, who's ahead of "
            "{name.him} on the waiting list? I need the number of {name.his} [ticket] too.",
            chat="does {name} have a seat in “{course}” on {day}?? who's ahead of {name.him} if "
            "not, and whats the reference of {name.his} [ticket]",
            note="{name} insists {name.he} was promised a place on “{course}” on {day}. Please "
            "tell me whether {name.he} has one, who's next in line if one comes up, and the "
            "reference of the [ticket] {name.he}'s opened. I'm ringing {name.him} this afternoon.",
        ),
        calls=(
            _who(customer),
            _tickets(customer),
            call("list_enrolments", customer_id=customer["id"]),
            call("get_session", session_id=session["id"]),
        ),
        answer="{name} doesn't have a place: they're on the waiting list, and {ahead} is ahead of "
        "them. Their [ticket] is {reference}.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "day": long_day(session["held_on"]),
            "ahead": ahead["name"],
            "reference": ticket["reference"],
        },
    )


@situation("tickets", "fleet", steps=7, rare=True)
def who_was_in_that_street(maker: Maker) -> Draft:
    """A complaint about a driver: of two colleagues the one gets the ticket who was there."""
    customer = new_customer(maker)
    one, two = new_employee(maker), new_employee(maker)
    vehicle, other = new_vehicle(maker), new_vehicle(maker)
    city = maker.people.city()
    new_trip(maker, vehicle, one, -4, status="cancelled", destination=city)
    new_trip(maker, other, one, -9, status="done", destination=city)
    new_trip(maker, vehicle, two, -4, status="done", destination=city)
    ticket = new_ticket(maker, customer, age=2)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is complaining that one of our drivers drove over {name.his} flower bed "
            "in {city} on {day}. It was {one} or {two}. Could you find out who and give that "
            "colleague the [ticket]?",
            colleague="{name} is complaining about one of our drivers in {city} on {day}. It was "
            "{one} or {two}. Please find out which of them was there and assign the [ticket] to "
            "that person.",
            chat="{name} is complaining abt our driver in {city} on {day}, either {one} or {two}. "
            "can you check which of them it was and assign them the [ticket]",
            note="{name} has complained about one of our drivers in {city} on {day}, {one} or "
            "{two}. Please check who was there and assign that colleague the [ticket].",
        ),
        calls=(
            _who(customer),
            _tickets(customer),
            call("search_employees", query=one["name"]),
            call("search_employees", query=two["name"]),
            call("list_driver_trips", driver_id=one["id"]),
            call("list_driver_trips", driver_id=two["id"]),
            call("assign_ticket", ticket_id=ticket["id"], employee_id=two["id"]),
        ),
        answer="{two} was in {city} on {day} and now has {reference}. {one}'s [trip] that day was "
        "cancelled.",
        values={
            "name": customer["name"],
            "one": one["name"],
            "two": two["name"],
            "city": city,
            "day": long_day(maker.day(-4)),
            "reference": ticket["reference"],
        },
    )


@situation("tickets", "bookings", kind="decline", steps=5, common=True)
def says_that_we_agreed(maker: Maker) -> Draft:
    """A ticket says that a late cancellation was agreed; nothing in it bears that out."""
    notice = maker.parameters["BOOKING_CANCEL_DAYS"]
    customer, resource = new_customer(maker), new_resource(maker)
    day = maker.rng.randrange(1, notice)
    booking = new_booking(maker, new_slot(maker, resource, day, 12), customer, num_people=3)
    ticket = new_ticket(maker, customer, assignee=maker.me, age=6)
    new_comment(
        maker,
        ticket,
        "Please note the cancellation deadline in your confirmation.",
        is_public=1,
        days=5,
    )
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} says we told {name.him} in {name.his} [ticket] that {name.he} could "
            "cancel the {room} on {day} at any time. Could you check, and cancel it if "
            "{name.he}'s right?",
            colleague="{name} says we promised in {name.his} [ticket] that {name.he} could cancel "
            "the {room} on {day} at any time. Could you check, and cancel the [booking] if that's "
            "right?",
            chat="{name} wants to cancel the {room} on {day}, says we ok'd that in {name.his} "
            "[ticket]. can you cancel it if thats true",
            note="{name} wants to cancel the {room} on {day} and says we agreed to that in "
            "{name.his} [ticket]. Please check, and if it's true, cancel the [booking].",
        ),
        calls=(
            _who(customer),
            _tickets(customer),
            _ticket(ticket),
            call("find_bookings", customer_id=customer["id"]),
            call("get_booking", booking_id=booking["id"]),
        ),
        answer="I have not cancelled {reference}: {day} is less than {notice} days away, and "
        "nothing like that was promised in the [ticket].",
        values={
            "name": customer["name"],
            "room": resource["name"],
            "day": long_day(maker.day(day)),
            "reference": booking["reference"],
            "notice": notice,
        },
        reasons=("{notice} days", "too late", "promised", "notice"),
        tempts=("cancel_booking",),
    )
