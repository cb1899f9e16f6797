"""Situations in the calendar: who is free when, who may move what, and who takes part."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, ResultField, Voices, call
from rehearsal_room.scenarios.generate.modules.calendars.make import (
    appointment_subjects,
    free_day,
    new_appointment,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day, time_of
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence, new_employee

GROUP = "appointment_desk"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _found(customer: Row) -> Call:
    return call("find_appointments", customer_id=customer["id"])


def _shown(appointment: Row) -> Call:
    return call("get_appointment", appointment_id=appointment["id"])


def _day_of(maker: Maker, employee: Row, first: int, last: int | None = None) -> Call:
    end = first if last is None else last
    return call(
        "list_appointments",
        employee_id=employee["id"],
        first_day=maker.day(first),
        last_day=maker.day(end),
    )


@situation("calendars", kind="decline", steps=3, common=True)
def tomorrow_is_too_near(maker: Maker) -> Draft:
    """An own appointment begins too soon to be moved; the system would do it."""
    notice = maker.parameters["APPOINTMENT_NOTICE_DAYS"]
    customer, helper = new_customer(maker), new_employee(maker)
    soon = new_appointment(maker, customer, maker.me, notice - 1, 8, minutes=30, invites=(helper,))
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has mixed up {name.his} dates and can't come to the {subject.meeting} on "
            "{soon}. Could you move it to {later}, at the same time?",
            colleague="{name} has to work on {soon} and can't come to {name.his} "
            "{subject.meeting}. Could you move it to {later} at the same time, please?",
            chat="{name} can't make the {subject.meeting} on {soon}, can you move it to {later}, "
            "same time",
            note="{name} rang to say {name.he} can't come to the {subject.meeting} on {soon}. I "
            "told {name.him} that {later} at the same time would be fine, so please move it.",
        ),
        calls=(_who(customer), _found(customer), _shown(soon)),
        answer="I could not move “{subject}”: it begins in less than {notice} days, which is too "
        "late to move [an appointment].",
        values={
            "name": customer["name"],
            "subject": soon["subject"],
            "soon": long_day(soon["starts_at"]),
            "later": long_day(maker.day(notice + 12)),
            "notice": notice,
        },
        reasons=("{notice} days", "too near", "so near", "too late", "notice"),
        tempts=("move_appointment", "cancel_appointment", "create_appointment"),
    )


@situation("calendars", kind="decline", because="permission", steps=4)
def not_mine_to_move(maker: Maker) -> Draft | None:
    """A clerk shall cancel the appointment of another organiser."""
    if is_ranked(maker, "supervisor"):
        return None
    customer, owner = new_customer(maker), new_employee(maker)
    appointment = new_appointment(maker, customer, owner, 14, 10, invites=(maker.me,))
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} no longer needs the {subject.meeting} on {day}. {owner} set it up but "
            "is out today. Could you cancel it?",
            colleague="{name} has called off the {subject.meeting} on {day}. {owner} set it up, "
            "but I can't reach {owner.him} today, so could you cancel it, please?",
            chat="{name} cant make the {subject.meeting} on {day}, can you cancel it? {owner} set "
            "it up but is out all day",
            note="{name} no longer wants the {subject.meeting} on {day}. {owner} set it up and is "
            "away this week, so please cancel it on {owner.his} behalf.",
        ),
        calls=(_who(customer), _found(customer), _shown(appointment), call("get_my_profile")),
        answer="I may not cancel “{subject}”: only its organiser, {owner}, or a [supervisor] or [a "
        "manager] can do that.",
        values={
            "name": customer["name"],
            "owner": owner["name"],
            "subject": appointment["subject"],
            "day": long_day(appointment["starts_at"]),
        },
        reasons=("organiser", "[supervisor]", "[manager]"),
        tempts=("cancel_appointment", "move_appointment"),
    )


@situation("calendars", steps=7, common=True, weight=0.9)
def ten_or_else_three(maker: Maker) -> Draft:
    """An own appointment moves to ten or, as one of those who take part is busy then, to three."""
    customer, other = new_customer(maker), new_customer(maker)
    first, second = new_employee(maker), new_employee(maker)
    day = free_day(maker, maker.me, least=10, most=25)
    new = free_day(maker, maker.me, least=26, most=45)
    moved = new_appointment(maker, customer, maker.me, day, 9, minutes=60, invites=(first, second))
    new_appointment(maker, other, second, new, 10, minutes=90)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is travelling on the day of the {subject.meeting} and would like {new} "
            "instead. Could you make it 10:00, or 15:00 if someone on our side is busy then?",
            colleague="{name} can't come on the day of the {subject.meeting} and would like {new} "
            "instead. Please move it to 10:00 if everyone on our side is free then, and otherwise "
            "to 15:00.",
            chat="{name} has to work on the day of the {subject.meeting}, can you move it to "
            "{new}? 10:00 if everyones free, otherwise 15:00",
            note="{name} has asked to have the {subject.meeting} on {new} instead. Please move it, "
            "to 10:00 if everyone on our side can make it, and otherwise to 15:00.",
        ),
        calls=(
            _who(customer),
            _found(customer),
            _shown(moved),
            *(_day_of(maker, one, new) for one in (maker.me, first, second)),
            call("move_appointment", appointment_id=moved["id"], starts_at=maker.ahead(new, 15)),
        ),
        answer="“{subject}” with {name} is now on {new} at 15:00. {busy} has another [appointment] "
        "at ten.",
        values={
            "name": customer["name"],
            "subject": moved["subject"],
            "new": long_day(maker.day(new)),
            "busy": second["name"],
        },
    )


@situation(
    "calendars",
    steps=7,
    without=("veterinary_practice", "dental_clinic", "bike_workshop", "gym"),
    common=True,
)
def whichever_of_them_is_free(maker: Maker) -> Draft:
    """One of two colleagues joins an appointment: the one who has nothing else then."""
    customer, host = new_customer(maker), new_employee(maker)
    busy, free = new_employee(maker), new_employee(maker)
    day = maker.rng.randrange(8, 40)
    target = new_appointment(maker, customer, host, day, 11, minutes=60)
    new_appointment(maker, new_customer(maker), host, day, 15, invites=(busy, free))
    new_appointment(maker, new_customer(maker), busy, day, 10, minutes=120)
    return Draft(
        kind="change",
        ask=Voices(
            email="{host} hasn't met {name} before and would rather not do the {subject.meeting} "
            "alone. Could you add {busy}, or {free} if {busy} already has something then?",
            colleague="{name} has a lot of questions for the {subject.meeting}, and {host} would "
            "like some help. Could you add {busy}, or {free} if {busy} already has [an "
            "appointment] at that time?",
            chat="{host} doesnt want to do the {subject.meeting} with {name} alone. can you add "
            "{busy}, or {free} if {busy} already has something on",
            note="{host} is still new and would like another colleague at the {subject.meeting} "
            "with {name}. Please add {busy}, or {free} if {busy} isn't free at that time.",
        ),
        calls=(
            _who(customer),
            _found(customer),
            call("search_employees", query=busy["name"]),
            call("search_employees", query=free["name"]),
            _day_of(maker, busy, day),
            _day_of(maker, free, day),
            call("add_participant", appointment_id=target["id"], employee_id=free["id"]),
        ),
        answer="I added {free} to “{subject}” as required. {busy} has another [appointment] at "
        "that time.",
        values={
            "name": customer["name"],
            "subject": target["subject"],
            "busy": busy["name"],
            "free": free["name"],
            "host": host["name"],
        },
    )


@situation("calendars", steps=7, common=True, weight=0.9)
def out_for_two_weeks(maker: Maker) -> Draft:
    """A colleague leaves all appointments of some days, except where nobody else is required."""
    away, host, other = new_employee(maker), new_employee(maker), new_employee(maker)
    begin = maker.rng.randrange(10, 30)
    subjects = appointment_subjects(maker, 3)
    first = new_appointment(
        maker, new_customer(maker), host, begin + 1, 9, subject=subjects[0], invites=(away, other)
    )
    second = new_appointment(
        maker, new_customer(maker), host, begin + 3, 9, subject=subjects[1], invites=(away,)
    )
    third = new_appointment(
        maker,
        new_customer(maker),
        host,
        begin + 5,
        9,
        subject=subjects[2],
        invites=(other,),
        optional=(away,),
    )
    new_appointment(maker, new_customer(maker), host, begin + 12, 9, invites=(away, other))
    return Draft(
        kind="change",
        ask=Voices(
            email="{away} is in hospital from {first} to {last}. Could you take {away.him} off all "
            "{away.his} [appointments] in that time? If there are any you can't take {away.him} "
            "off, tell me which.",
            colleague="{away} is off sick from {first} to {last}. Could you take {away.him} off "
            "all {away.his} [appointments] in that time, and let me know about any you can't take "
            "{away.him} off?",
            chat="{away} wont be in from {first} to {last}, can you take {away.him} off all "
            "{away.his} [appointments] then? let me know if theres any you cant take {away.him} "
            "off",
            note="{away} is having a knee operation and will be away from {first} to {last}. "
            "Please take {away.him} off {away.his} [appointments] during that time, and let me "
            "know which ones you couldn't change.",
        ),
        calls=(
            call("search_employees", query=away["name"]),
            _day_of(maker, away, begin, begin + 7),
            *(_shown(one) for one in (first, second, third)),
            *(
                call("remove_participant", appointment_id=one["id"], employee_id=away["id"])
                for one in (first, third)
            ),
        ),
        answer="{away} is off “{one}” and “{three}”, but still on “{two}”: I could not remove the "
        "last required attendee.",
        values={
            "away": away["name"],
            "first": long_day(maker.day(begin)),
            "last": long_day(maker.day(begin + 7)),
            "one": subjects[0],
            "two": subjects[1],
            "three": subjects[2],
        },
        reasons=("last", "only", "nobody else"),
    )


@situation(
    "calendars", kind="question", steps=4, without=("bike_workshop", "veterinary_practice", "gym")
)
def first_hour_for_both(maker: Maker) -> Draft:
    """The first hour of a day at which two colleagues are free."""
    one, two = new_employee(maker), new_employee(maker)
    day = free_day(maker, one, two, least=5, most=40)
    new_appointment(maker, new_customer(maker), one, day, 8, minutes=120)
    new_appointment(maker, new_customer(maker), two, day, 10, minutes=90)
    new_appointment(maker, new_customer(maker), one, day, 12, minutes=60)
    new_appointment(maker, new_customer(maker), two, day, 14, minutes=60, invites=(one,))
    return Draft(
        kind="question",
        ask=Voices(
            email="Someone would like to talk to {one} and {two} for an hour on {day}. What's the "
            "earliest time they're both free, from 8:00 on?",
            colleague="Could you find the first hour on {day} when both {one} and {two} are free, "
            "starting at 8:00?",
            chat="whens the earliest {one} and {two} are both free for an hour on {day}? not "
            "before 8 pls",
            note="I need {one} and {two} together for an hour on {day}. Please find the earliest "
            "time when both of them are free, but not before 8:00.",
        ),
        calls=(
            call("search_employees", query=one["name"]),
            call("search_employees", query=two["name"]),
            _day_of(maker, one, day),
            _day_of(maker, two, day),
        ),
        answer="{one} and {two} are both free for an hour from {time}.",
        values={
            "one": one["name"],
            "two": two["name"],
            "day": long_day(maker.day(day)),
            "time": "13:00",
        },
    )


@situation("calendars", memory=True, steps=7, rare=True)
def like_the_last_talk(maker: Maker) -> Draft:
    """A new appointment as long as the last one that was held, at the same place, with the same
    colleague."""
    customer, mate = new_customer(maker), new_employee(maker)
    subjects = appointment_subjects(maker, 2)
    places = maker.rng.sample(list(maker.trade.locations), k=2)
    day = free_day(maker, maker.me, mate, least=12, most=40)
    held = new_appointment(
        maker,
        customer,
        mate,
        -9,
        14,
        minutes=90,
        subject=subjects[0],
        place=places[0],
    )
    new_appointment(maker, customer, mate, -3, 9, minutes=30, place=places[1], status="cancelled")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is coming in again on {day} at 09:00. Could you put that in as "
            "“{subject}”, same place and length as {name.his} last visit, and add {mate}?",
            colleague="Please set up “{subject}” with {name} on {day} at 09:00, same place and "
            "same length as when {name.he} was last here. {mate} has to be there as well.",
            chat="can you set up “{subject}” with {name} on {day} at 09:00? same place and "
            "length as when {name.he} last came, and {mate} needs to be there",
            note="Please plan “{subject}” with {name} for {day} at 09:00, same place and length "
            "as the last time {name.he} actually came. {mate} has to be there, too.",
        ),
        calls=(
            _who(customer),
            _found(customer),
            _shown(held),
            call("search_employees", query=mate["name"]),
            _day_of(maker, mate, day),
            call(
                "create_appointment",
                customer_id=customer["id"],
                subject=subjects[1],
                place=held["place"],
                starts_at=maker.ahead(day, 9),
                minutes=90,
            ),
            call(
                "add_participant",
                appointment_id=_new_id(5),
                employee_id=mate["id"],
            ),
        ),
        answer="“{subject}” with {name} is planned for {day} at 09:00, {place}, 90 minutes like "
        "the last one, and {mate} is attending.",
        values={
            "name": customer["name"],
            "mate": mate["name"],
            "subject": subjects[1],
            "day": long_day(maker.day(day)),
            "place": held["place"],
        },
    )


def _new_id(index: int) -> ResultField:
    return ResultField(index, "appointment_id")


@situation("calendars", steps=5)
def entered_twice(maker: Maker) -> Draft:
    """A colleague entered an appointment twice; the one goes at which the required is missing."""
    customer, expert = new_customer(maker), new_employee(maker)
    subject = appointment_subjects(maker, 1)[0]
    day = free_day(maker, maker.me, expert, least=8, most=40)
    right = new_appointment(maker, customer, maker.me, day, 16, subject=subject, invites=(expert,))
    wrong = new_appointment(maker, customer, maker.me, day, 8, subject=subject)
    return Draft(
        kind="change",
        ask=Voices(
            email="I've put the {subject.meeting} with {name} in the calendar twice on {day}, "
            "sorry! Could you cancel the one without {expert}?",
            colleague="The {subject.meeting} with {name} on {day} is in the calendar twice. Could "
            "you cancel the [appointment] that {expert} isn't part of, please?",
            chat="oops, i put the {subject.meeting} with {name} on {day} in twice. "
            "can you cancel the one {expert} isnt in",
            note="{name} has had two confirmations for {day}, because the {subject.meeting} is in "
            "the calendar twice. The [appointment] with {expert} is right, so please cancel the "
            "other one.",
        ),
        calls=(
            _who(customer),
            _found(customer),
            _shown(wrong),
            _shown(right),
            call("cancel_appointment", appointment_id=wrong["id"]),
        ),
        answer="I cancelled the one at {time}; “{subject}” with {name} and {expert} on {day} "
        "stays.",
        values={
            "name": customer["name"],
            "subject": subject,
            "day": long_day(right["starts_at"]),
            "expert": expert["name"],
            "time": time_of(wrong["starts_at"]),
        },
        spare=(("appointments", right["id"]),),
    )


@situation("calendars", kind="question", steps=4, rare=True)
def who_sat_at_the_table(maker: Maker) -> Draft:
    """Who met a customer the last time, as the organiser and besides; later ones were cancelled."""
    customer, host, guest = new_customer(maker), new_employee(maker), new_employee(maker)
    held = new_appointment(maker, customer, host, -12, 10, invites=(guest,))
    new_appointment(maker, customer, guest, -4, 10, status="cancelled", invites=(maker.me,))
    new_appointment(maker, customer, guest, 9, 10, status="cancelled")
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} was promised a brochure at our last meeting and can't remember by whom. "
            "Who organised the last one that took place, and who else from us was there?",
            colleague="Who organised our last meeting with {name}, and who else was there? The "
            "cancelled ones don't count.",
            chat="who from us was at the last meeting with {name} that actually happened? who "
            "organised it and who else was there",
            note="{name} says we promised to send something when we last met, and nothing has "
            "come. Who organised that meeting, and who else from us was there? I'll ask "
            "them what was agreed.",
        ),
        calls=(
            _who(customer),
            _found(customer),
            _shown(held),
            call("get_employee", employee_id=host["id"]),
        ),
        answer="The last one that took place was organised by {host}, and {guest} attended.",
        values={"name": customer["name"], "host": host["name"], "guest": guest["name"]},
    )


@situation("calendars", steps=5, rare=True)
def as_soon_as_they_are_back(maker: Maker) -> Draft | None:
    """An own appointment falls into an absence; it moves to the first day after, same hour."""
    customer, away = new_customer(maker), new_employee(maker)
    begin, hour = maker.rng.randrange(9, 20), maker.rng.randrange(8, 17)
    if maker.rows("appointments", starts_at=maker.ahead(begin + 6, hour)):
        return None
    new_absence(maker, away, begin, 6)
    new_absence(maker, away, begin + 30, 3, "travel")
    target = new_appointment(
        maker, customer, maker.me, begin + 2, hour, minutes=20, invites=(away,)
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{away} is on leave on the day of the {subject.meeting}, and {name} would "
            "rather wait for {away.him}. Could you move it to the first day after that leave, "
            "same time? Weekends are fine.",
            colleague="{away} is on leave on the day of the {subject.meeting} with {name}. Please "
            "move it to the first day after that, same time; a weekend is fine.",
            chat="{away} is on leave the day of the {subject.meeting} with {name}. can you move "
            "it to the day right after that leave? same time, weekends are ok",
            note="{name} would like {away} at the {subject.meeting}, but {away.he}'s on leave "
            "that day. Please move it to the first day after {away.his} leave, same time, even if "
            "it's a weekend.",
        ),
        calls=(
            _who(customer),
            _found(customer),
            _shown(target),
            call("get_employee", employee_id=away["id"]),
            call(
                "move_appointment",
                appointment_id=target["id"],
                starts_at=maker.ahead(begin + 6, hour),
            ),
        ),
        answer="“{subject}” with {name} is now on {new}, at the same time: {away} is away until "
        "the day before.",
        values={
            "name": customer["name"],
            "away": away["name"],
            "subject": target["subject"],
            "new": long_day(maker.day(begin + 6)),
        },
    )
