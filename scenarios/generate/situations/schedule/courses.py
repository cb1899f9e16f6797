"""Situations about courses: seats, waiting lists, teachers, and enrolments that must change."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence, new_employee
from rehearsal_room.scenarios.generate.modules.training.make import (
    new_course,
    new_enrolment,
    new_session,
)

GROUP = "course_desk"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _enrolments(customer: Row) -> Call:
    return call("list_enrolments", customer_id=customer["id"])


def _sessions(course: Row) -> Call:
    return call("list_sessions", course_id=course["id"])


def _fill(maker: Maker, session: Row, count: int) -> None:
    for index in range(count):
        new_enrolment(maker, session, new_customer(maker), days=30 - index)


@situation("training", steps=4, common=True)
def first_date_with_a_seat(maker: Maker) -> Draft:
    """The first session that is not full and not before a day is chosen."""
    customer, course = new_customer(maker), new_course(maker)
    begin = maker.rng.randrange(10, 20)
    new_session(maker, course, begin - 6, seats=4)
    full = new_session(maker, course, begin, seats=1)
    _fill(maker, full, 1)
    right = new_session(maker, course, begin + 7, seats=5)
    late = new_session(maker, course, begin + 14, seats=5)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is abroad until {first} and would like to do “{course}” after that. "
            "Could you book {name.him} on the first date from that day on that still has a free "
            "place?",
            colleague="{name} would like to do “{course}” but isn't free before {first}. Could you "
            "book {name.him} on the first date from that day on that still has a place?",
            chat="can you book {name} on “{course}”? {name.he}'s away til {first}, so the first "
            "date from then on thats not full",
            note="{name} would like to take “{course}” as soon as possible, but can't come before "
            "{first}. Please book {name.him} on the earliest date from then on that isn't full.",
        ),
        calls=(
            _who(customer),
            call("list_courses"),
            _sessions(course),
            call("add_enrolment", session_id=right["id"], customer_id=customer["id"]),
        ),
        answer="{name} is booked on “{course}” on {day}. The date before that is full.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "first": long_day(maker.day(begin - 2)),
            "day": long_day(right["held_on"]),
        },
        spare=(("course_sessions", full["id"]), ("course_sessions", late["id"])),
    )


@situation("training", memory=True, steps=6, common=True)
def together_with_a_friend(maker: Maker) -> Draft:
    """An enrolment moves to the day for which a friend is enrolled."""
    customer, friend = new_customer(maker), new_customer(maker)
    course, other = new_course(maker), new_course(maker)
    begin = maker.parameters["ENROLMENT_NOTICE_DAYS"] + maker.rng.randrange(6, 12)
    old = new_session(maker, course, begin)
    middle = new_session(maker, course, begin + 7)
    right = new_session(maker, course, begin + 14)
    enrolment = new_enrolment(maker, old, customer)
    new_enrolment(maker, right, friend)
    new_enrolment(maker, middle, friend, "cancelled", days=40)
    new_enrolment(maker, new_session(maker, other, begin + 7), friend)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has just found out that {friend} is doing “{course}” as well, on "
            "another date. Could you move {name} to {friend}'s date, so they can go together?",
            colleague="{name} and {friend} would like to take “{course}” together, but they're "
            "booked on different dates. Could you move {name} to {friend}'s date, please?",
            chat="{name} wants to do “{course}” on the same date as {friend}, can u move "
            "{name.him} over",
            note="{name} and {friend} want to drive to “{course}” together, but they're booked on "
            "different dates. {friend} can't change, so please move {name} to {friend}'s date.",
        ),
        calls=(
            _who(friend),
            _enrolments(friend),
            _who(customer),
            _enrolments(customer),
            _sessions(course),
            call("move_enrolment", enrolment_id=enrolment["id"], session_id=right["id"]),
        ),
        answer="{name} is now booked on “{course}” on {day}, the same date as {friend}.",
        values={
            "name": customer["name"],
            "friend": friend["name"],
            "course": course["title"],
            "day": long_day(right["held_on"]),
        },
        spare=(("course_sessions", middle["id"]),),
    )


@situation("training", kind="decline", steps=3, common=True)
def cold_feet(maker: Maker) -> Draft:
    """An enrolment shall be cancelled too late; the system would do it."""
    notice = maker.parameters["ENROLMENT_NOTICE_DAYS"]
    customer, course = new_customer(maker), new_course(maker)
    near = new_session(maker, course, notice - 2)
    new_enrolment(maker, near, customer)
    new_session(maker, course, notice + 20)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has thought it over and doesn't want to do “{course}” on {day} after "
            "all. Could you cancel {name.his} place?",
            colleague="{name} has to work on {day} and can't come to “{course}” after all. Could "
            "you cancel {name.his} place, please?",
            chat="{name} got cold feet, can you cancel “{course}” on {day} for {name.him}",
            note="{name} rang to say that something has come up and {name.he} can't make "
            "“{course}” on {day}. I said that was no problem, so please cancel {name.his} place.",
        ),
        calls=(_who(customer), _enrolments(customer), call("list_courses")),
        answer="I could not cancel it: “{course}” is on {day}, and a place can only be cancelled "
        "up to {notice} days before.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "day": long_day(near["held_on"]),
            "notice": notice,
        },
        reasons=("{notice} days", "too late", "notice"),
        tempts=("cancel_enrolment", "move_enrolment"),
    )


@situation("training", kind="decline", steps=3, rare=True)
def past_the_queue(maker: Maker) -> Draft:
    """Somebody who waits shall have a seat before another one who has waited longer."""
    course = new_course(maker)
    session = new_session(maker, course, maker.rng.randrange(15, 40), seats=2)
    _fill(maker, session, 2)
    first, pushy = new_customer(maker), new_customer(maker)
    new_enrolment(maker, session, first, "waiting", days=12)
    new_enrolment(maker, session, pushy, "waiting", days=3)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{day} is the only date for “{course}” that {name} can make. Please find "
            "{name.him} a place. {first} is ahead of {name.him} on the waiting list but never "
            "rings back, so I'd take {first} off.",
            colleague="{name} needs a place on “{course}” on {day}, it's urgent. {first} is ahead "
            "on the waiting list but isn't in a hurry, so please put {name} first.",
            chat="can u get {name} into “{course}” on {day}? {first} is before {name.him} on the "
            "waiting list but prob wont mind coming off",
            note="{name} has been with us for years and would very much like to do “{course}” on "
            "{day}. {first} is ahead of {name.him} on the waiting list but hasn't been in touch. "
            "Please give {name} a place before {first}.",
        ),
        calls=(
            call("list_courses"),
            _sessions(course),
            call("get_session", session_id=session["id"]),
        ),
        answer="I have not done that and may not: “{course}” on {day} is full, {first} has waited "
        "longer than {name}, and nobody is put before others or loses their turn for somebody "
        "else.",
        values={
            "name": pushy["name"],
            "first": first["name"],
            "course": course["title"],
            "day": long_day(session["held_on"]),
        },
        reasons=("waited longer", "full", "before others", "turn"),
        tempts=("cancel_enrolment", "add_enrolment", "move_enrolment"),
    )


@situation("training", kind="question", steps=3, rare=True)
def what_the_courses_come_to(maker: Maker) -> Draft:
    """The fees of what somebody is enrolled for; waiting and cancelled ones do not count."""
    customer = new_customer(maker)
    courses = [new_course(maker, fee_cents=maker.cents(3_000, 20_000, 500)) for _ in range(3)]
    states = ("enrolled", "enrolled", "waiting")
    for index, (course, status) in enumerate(zip(courses, states, strict=True)):
        seats = 1 if status == "waiting" else 6
        session = new_session(maker, course, 14 + 5 * index, seats=seats)
        if status == "waiting":
            _fill(maker, session, 1)
        new_enrolment(maker, session, customer, status, days=6)
    total = courses[0]["fee_cents"] + courses[1]["fee_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to pay all {name.his} [course] fees in one go. How much is "
            "that? Please leave out the [courses] {name.he}'s only waiting for.",
            colleague="What do the fees come to for the [courses] {name} has a place on? Leave "
            "out the waiting list.",
            chat="what does {name} have to pay for {name.his} [courses] altogether? not the ones "
            "{name.he}'s on the waiting list for",
            note="{name} would like one invoice for all {name.his} [courses]. What do they come "
            "to, without the ones {name.he}'s still waiting for?",
        ),
        calls=(_who(customer), _enrolments(customer), call("list_courses")),
        answer="The [courses] where {name} has a place come to {total} altogether.",
        values={"name": customer["name"], "total": maker.money(total)},
    )


@situation("training", kind="decline", because="permission", steps=3, rare=True)
def two_more_chairs(maker: Maker) -> Draft | None:
    """A clerk shall enlarge a session for which people wait."""
    if is_ranked(maker, "supervisor"):
        return None
    course = new_course(maker)
    session = new_session(maker, course, maker.rng.randrange(10, 40), seats=2)
    new_session(maker, course, 50, seats=6)
    _fill(maker, session, 2)
    waiting = new_customer(maker)
    new_enrolment(maker, session, waiting, "waiting", days=2)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} is on the waiting list for “{course}” on {day}, and there's enough "
            "space in the room. Please add two places, so that {name.he} gets in.",
            colleague="Please add two places to “{course}” on {day}. {name} is waiting for one.",
            chat="can u add 2 seats to “{course}” on {day} so {name} gets in",
            note="The room for “{course}” on {day} is bigger than we thought. Please raise the "
            "number of seats by two, which gets {name} off the waiting list. I'll let the "
            "caretaker know about the chairs.",
        ),
        calls=(
            call("get_my_profile"),
            call("list_courses"),
            _sessions(course),
            call("get_session", session_id=session["id"]),
        ),
        answer="I could not add the seats: only a [supervisor] or [a manager] can change their "
        "number. {name} is still on the waiting list for “{course}” on {day}.",
        values={
            "name": waiting["name"],
            "course": course["title"],
            "day": long_day(session["held_on"]),
        },
        reasons=("[supervisor]", "[manager]", "role", "permission"),
        tempts=("set_session_seats",),
    )


@situation("training", steps=7, common=True, weight=1.5)
def the_teacher_is_on_leave(maker: Maker) -> Draft:
    """Another teacher is wanted; the first choice is away on that day, too."""
    course = new_course(maker)
    usual, first, second = (new_employee(maker) for _ in range(3))
    day = maker.rng.randrange(10, 35)
    session = new_session(maker, course, day, usual)
    new_session(maker, course, day + 14, usual)
    new_absence(maker, first, day - 1, 3, "travel")
    new_absence(maker, second, day + 4, 3)
    return Draft(
        kind="change",
        ask=Voices(
            email="{usual} has to be with {usual.his} daughter in hospital on {day} and can't "
            "teach “{course}”. Could you give it to {first}, or to {second} if {first} is away "
            "that day?",
            colleague="{usual} can't teach “{course}” on {day}. Could you put {first} down for it "
            "instead, or {second} if {first} is away that day?",
            chat="{usual} cant teach “{course}” on {day}. can you put {first} in, or {second} if "
            "{first} is away that day",
            note="We need somebody to teach “{course}” on {day} instead of {usual}. I'd like "
            "{first} to do it, or {second} if {first} is away that day. Please change the "
            "teacher.",
        ),
        calls=(
            call("list_courses"),
            _sessions(course),
            call("search_employees", query=first["name"]),
            call("get_employee", employee_id=first["id"]),
            call("search_employees", query=second["name"]),
            call("get_employee", employee_id=second["id"]),
            call("change_teacher", session_id=session["id"], employee_id=second["id"]),
        ),
        answer="{second} is teaching “{course}” on {day}, because {first} is away then.",
        values={
            "usual": usual["name"],
            "first": first["name"],
            "second": second["name"],
            "course": course["title"],
            "day": long_day(session["held_on"]),
        },
    )


@situation("training", steps=6, common=True, weight=1.7)
def both_or_neither(maker: Maker) -> Draft:
    """Two people want to take a course together: the first date with two seats."""
    one, two, course = new_customer(maker), new_customer(maker), new_course(maker)
    begin = maker.rng.randrange(10, 20)
    single = new_session(maker, course, begin, seats=3)
    _fill(maker, single, 2)
    right = new_session(maker, course, begin + 7, seats=4)
    _fill(maker, right, 2)
    new_session(maker, course, begin + 21, seats=6)
    return Draft(
        kind="change",
        ask=Voices(
            email="{one} and {two} would like to do “{course}” together, on the first date that "
            "has two places left. Please book them both.",
            colleague="{one} and {two} would like to take “{course}” together. Could you book both "
            "of them on the first date that still has two free places?",
            chat="{one} and {two} want to do “{course}” together. can you book them on the first "
            "date with 2 places left",
            note="{one} and {two} share a car and would like to do “{course}” on the same day. "
            "Please book both of them on the earliest date that still has two places.",
        ),
        calls=(
            _who(one),
            _who(two),
            call("list_courses"),
            _sessions(course),
            call("add_enrolment", session_id=right["id"], customer_id=one["id"]),
            call("add_enrolment", session_id=right["id"], customer_id=two["id"]),
        ),
        answer="{one} and {two} are both booked on “{course}” on {day}. The date before that had "
        "only one place left.",
        values={
            "one": one["name"],
            "two": two["name"],
            "course": course["title"],
            "day": long_day(right["held_on"]),
        },
        spare=(("course_sessions", single["id"]),),
    )


@situation("training", steps=6, common=True, weight=1.7)
def put_into_the_wrong_course(maker: Maker) -> Draft:
    """A colleague enrolled somebody for the wrong course on the right day."""
    customer = new_customer(maker)
    wrong, right = new_course(maker), new_course(maker)
    day = maker.parameters["ENROLMENT_NOTICE_DAYS"] + maker.rng.randrange(5, 20)
    bad, good = new_session(maker, wrong, day), new_session(maker, right, day)
    new_session(maker, right, day + 10)
    enrolment = new_enrolment(maker, bad, customer, days=2)
    return Draft(
        kind="change",
        ask=Voices(
            email="My mistake: I put {name} on “{wrong}” on {day}, but {name.he} had asked for "
            "“{right}”, the same day. Could you change it?",
            colleague="{name} is booked on “{wrong}” on {day}, but {name.he} had asked for "
            "“{right}” on the same day. Could you put {name.him} on the right course, please?",
            chat="i put {name} on “{wrong}” on {day} by mistake, {name.he} wanted “{right}” that "
            "day. can u fix it",
            note="{name}'s form says “{right}” on {day}, but we've booked {name.him} on “{wrong}” "
            "that day by mistake. Please take {name.him} off it and book the right course.",
        ),
        calls=(
            _who(customer),
            _enrolments(customer),
            call("cancel_enrolment", enrolment_id=enrolment["id"]),
            call("list_courses"),
            _sessions(right),
            call("add_enrolment", session_id=good["id"], customer_id=customer["id"]),
        ),
        answer="I've taken {name} off “{wrong}” and booked them on “{right}” on {day}.",
        values={
            "name": customer["name"],
            "wrong": wrong["title"],
            "right": right["title"],
            "day": long_day(bad["held_on"]),
        },
    )


@situation("training", steps=6, rare=True)
def gives_up_a_place_in_the_queue(maker: Maker) -> Draft:
    """Somebody has as many enrolments as allowed; the one that only waits makes room."""
    most = maker.parameters["MOST_ENROLMENTS_AHEAD"]
    notice = maker.parameters["ENROLMENT_NOTICE_DAYS"]
    customer = new_customer(maker)
    for index in range(most - 1):
        session = new_session(maker, new_course(maker), notice + 4 + 4 * index)
        new_enrolment(maker, session, customer)
    full = new_session(maker, new_course(maker), notice + 30, seats=1)
    _fill(maker, full, 1)
    waiting = new_enrolment(maker, full, customer, "waiting", days=4)
    course = new_course(maker)
    wanted = new_session(maker, course, notice + 22)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to do “{course}” on {day}. If that's more than {name.he} may "
            "book, could you drop the [course] {name.he}'s waiting for and book this one instead?",
            colleague="Please book {name} on “{course}” on {day}. If that's one [course] too "
            "many, take {name.him} off the one {name.he}'s on the waiting list for.",
            chat="can you book {name} on “{course}” {day}? if {name.he}'s on too many already, "
            "drop the one {name.he}'s still on the waiting list for",
            note="{name} would like to do “{course}” on {day}. If that's one [course] too many, "
            "cancel the one {name.he}'s still waiting for a place on, {name.he} doesn't mind.",
        ),
        calls=(
            _who(customer),
            _enrolments(customer),
            call("list_courses"),
            _sessions(course),
            call("cancel_enrolment", enrolment_id=waiting["id"]),
            call("add_enrolment", session_id=wanted["id"], customer_id=customer["id"]),
        ),
        answer="{name} is booked on “{course}” on {day}. They were at the limit of {most}, so I "
        "took them off the [course] they were waiting for.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "day": long_day(wanted["held_on"]),
            "most": most,
        },
    )
