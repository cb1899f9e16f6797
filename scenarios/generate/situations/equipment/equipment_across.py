"""Situations across shifts, courses, trips, inspections, rooms, devices and the calendar."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.calendars.make import (
    appointment_subjects,
    free_day,
    new_appointment,
)
from rehearsal_room.scenarios.generate.modules.devices.make import NO_DEVICES, new_device, new_visit
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.event_times import later_day
from rehearsal_room.scenarios.generate.modules.fleet.make import (
    defect_titles,
    new_defect,
    new_vehicle,
)
from rehearsal_room.scenarios.generate.modules.inspections.make import (
    new_finding,
    new_followup,
    new_inspection,
)
from rehearsal_room.scenarios.generate.modules.loans.make import (
    item_phrase,
    item_titles,
    lent_item,
    new_item,
)
from rehearsal_room.scenarios.generate.modules.parties.make import main_address, new_customer
from rehearsal_room.scenarios.generate.modules.shifts.make import new_post, new_shift
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence, new_employee
from rehearsal_room.scenarios.generate.modules.training.make import (
    new_course,
    new_enrolment,
    new_session,
)

GROUP = "crossing_rounds"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _staff(employee: Row) -> Call:
    return call("search_employees", query=employee["name"])


def _on(maker: Maker, day: int, **who: int) -> Call:
    return call("search_shifts", first_day=maker.day(day), last_day=maker.day(day), **who)


@situation("shifts", "training", steps=6, rare=True)
def in_two_places_at_once(maker: Maker) -> Draft:
    """Whoever teaches a course has a shift on the same day; it is asked to be taken over."""
    teacher, mate = new_employee(maker), new_employee(maker)
    course, post = new_course(maker), new_post(maker)
    day = maker.parameters["SWAP_NOTICE_DAYS"] + maker.rng.randrange(5, 20)
    session = new_session(maker, course, day, teacher)
    new_session(maker, course, day + 14, new_employee(maker))
    shift = new_shift(maker, post, teacher, day, "late")
    new_shift(maker, post, teacher, day + 1, "late")
    return Draft(
        kind="change",
        ask=Voices(
            email="Whoever is teaching “{course}” on {day} has been put on the rota for the same "
            "day. {mate} can take the [shift]. Could you request the [swap]?",
            colleague="The teacher of “{course}” on {day} also has [a shift] that day. Please "
            "request [a swap] with {mate}.",
            chat="the teacher of “{course}” on {day} is on the rota that day too. {mate} can take "
            "the [shift], can you request the [swap]",
            note="Whoever teaches “{course}” on {day} has [a shift] then as well. {mate} has "
            "agreed to cover it, so please request the [swap].",
        ),
        calls=(
            call("list_courses"),
            call("list_sessions", course_id=course["id"]),
            call("get_session", session_id=session["id"]),
            _on(maker, day, employee_id=teacher["id"]),
            _staff(mate),
            call("ask_swap", shift_id=shift["id"], taker_id=mate["id"]),
        ),
        answer="I've requested [a swap]: {mate} would take the [shift] of {teacher}, who is "
        "teaching “{course}” on {day}.",
        values={
            "mate": mate["name"],
            "teacher": teacher["name"],
            "course": course["title"],
            "day": long_day(maker.day(day)),
        },
    )


@situation("shifts", "calendars", kind="question", steps=4, rare=True)
def a_day_without_anything(maker: Maker) -> Draft:
    """The first of some days on which somebody has no shift, no appointment and no absence."""
    worker, post = new_employee(maker), new_post(maker)
    begin = maker.rng.randrange(8, 20)
    new_shift(maker, post, worker, begin, "early")
    new_absence(maker, worker, begin + 1, 2, "travel")
    new_appointment(
        maker, new_customer(maker), new_employee(maker), begin + 3, 9, invites=(worker,)
    )
    new_shift(maker, post, worker, begin + 5, "late")
    return Draft(
        kind="question",
        ask=Voices(
            email="{worker} would like a day off between {first} and {last}. What's the first day "
            "on which {worker.he} isn't on the rota, has no [appointment] and isn't away?",
            colleague="{worker} would like a day off between {first} and {last}. What's the first "
            "day with no [shift], [appointment] or absence?",
            chat="which is {worker}'s first free day between {first} and {last}? no [shift], no "
            "[appointment], not away",
            note="I need {worker} for a full day of stocktaking between {first} and {last}. "
            "What's the first day {worker.he} has no [shift], no [appointment] and isn't away?",
        ),
        calls=(
            _staff(worker),
            call("get_employee", employee_id=worker["id"]),
            call(
                "search_shifts",
                first_day=maker.day(begin),
                last_day=maker.day(begin + 6),
                employee_id=worker["id"],
            ),
            call(
                "list_appointments",
                employee_id=worker["id"],
                first_day=maker.day(begin),
                last_day=maker.day(begin + 6),
            ),
        ),
        answer="The first completely free day is {free}.",
        values={
            "worker": worker["name"],
            "first": long_day(maker.day(begin)),
            "last": long_day(maker.day(begin + 6)),
            "free": long_day(maker.day(begin + 4)),
        },
    )


@situation("fleet", "inspections", steps=6)
def the_garage_has_finished(maker: Maker) -> Draft:
    """What an inspection found of a vehicle is repaired: defect and followup are closed."""
    worker, vehicle = new_employee(maker), new_vehicle(maker)
    inspection = new_inspection(maker, day=-8)
    title = defect_titles(maker, "serious")[0]
    defect = new_defect(maker, vehicle, "serious", title=title)
    new_defect(maker, vehicle, "minor")
    finding = new_finding(maker, inspection, "major", title=f"{vehicle['plate']}: {title}")
    followup = new_followup(maker, finding, worker, day=2)
    other = new_finding(maker, inspection, "minor")
    new_followup(maker, other, worker, day=5)
    cents = maker.cents(4_000, maker.me["limit_cents"])
    return Draft(
        kind="change",
        ask=Voices(
            email="{worker} has picked up [vehicle] {plate} from the garage. Repairing the "
            "serious [defect] cost {cost}. Could you record that and close the matching "
            "[followup] from [inspection] {reference}?",
            colleague="The garage has repaired the serious [defect] on [vehicle] {plate}, and the "
            "bill was {cost}. Could you record the repair and close the [followup] for it from "
            "[inspection] {reference}?",
            chat="[vehicle] {plate} is back from the garage, the serious [defect] is fixed, "
            "{cost}. can you record it and close the [followup] for it from [inspection] "
            "{reference}",
            note="We've got [vehicle] {plate} back from the garage, and repairing the serious "
            "[defect] cost {cost}. Please record the repair, and close the matching [followup] "
            "from [inspection] {reference}.",
        ),
        calls=(
            call("search_vehicles", query=vehicle["plate"]),
            call("get_vehicle", vehicle_id=vehicle["id"]),
            call("repair_defect", defect_id=defect["id"], cost_cents=cents),
            call("search_inspections", query=inspection["reference"]),
            call("get_inspection", inspection_id=inspection["id"]),
            call("close_followup", followup_id=followup["id"]),
        ),
        answer="The repair of {plate} is recorded at {cost}, and the [followup] in {reference} is "
        "closed.",
        values={
            "plate": vehicle["plate"],
            "cost": maker.money(cents),
            "reference": inspection["reference"],
            "worker": worker["name"],
        },
        spare=(("findings", other["id"]),),
    )


@situation("fleet", "shifts", steps=7, common=True, weight=2)
def drive_when_not_on_duty(maker: Maker) -> Draft:
    """Of two drivers the one goes who has no shift on the day of the trip."""
    busy, free, vehicle = new_employee(maker), new_employee(maker), new_vehicle(maker)
    post, day = new_post(maker), maker.rng.randrange(5, 25)
    new_shift(maker, post, busy, day, "late")
    new_shift(maker, post, free, day + 1, "late")
    city = maker.people.city()
    return Draft(
        kind="change",
        ask=Voices(
            email="We have some papers to collect in {city} on {day}. Could you plan the [trip] "
            "with [vehicle] {plate}? {busy} can drive, or {free} if {busy} has [a shift] that day.",
            colleague="Somebody has to pick up some keys in {city} on {day}. Could you plan the "
            "[trip] for {busy} with [vehicle] {plate}, or for {free} if {busy} has [a shift] that "
            "day?",
            chat="someone has to take papers to {city} on {day}, can you plan it with [vehicle] "
            "{plate}? {busy} if {busy.he}'s not on the rota that day, otherwise {free}",
            note="We have a meeting in {city} on {day}. Please plan the [trip] for {busy} with "
            "[vehicle] {plate}, or for {free} if {busy} is on the rota that day.",
        ),
        calls=(
            _staff(busy),
            _on(maker, day, employee_id=busy["id"]),
            _staff(free),
            _on(maker, day, employee_id=free["id"]),
            call("search_vehicles", query=vehicle["plate"]),
            call("get_vehicle", vehicle_id=vehicle["id"]),
            call(
                "plan_trip",
                vehicle_id=vehicle["id"],
                driver_id=free["id"],
                goes_on=maker.day(day),
                destination=city,
            ),
        ),
        answer="{free} is driving {plate} to {city} on {day}, because {busy} has [a shift] that "
        "day.",
        values={
            "busy": busy["name"],
            "free": free["name"],
            "plate": vehicle["plate"],
            "city": city,
            "day": long_day(maker.day(day)),
        },
    )


@situation("devices", "fleet", memory=True, steps=8, without=NO_DEVICES, rare=True)
def how_will_they_get_there(maker: Maker) -> Draft:
    """For a planned visit to a customer's device the trip is planned: its day, its driver and the
    customer's town."""
    customer, worker = new_customer(maker), new_employee(maker)
    device = new_device(maker, customer)
    day = maker.rng.randrange(6, 25)
    new_visit(maker, device, new_employee(maker), -40, status="done")
    new_visit(maker, device, worker, day, purpose="repair")
    blocked, ready = new_vehicle(maker), new_vehicle(maker)
    new_defect(maker, blocked, "serious")
    city = main_address(maker, customer)["city"]
    return Draft(
        kind="change",
        ask=Voices(
            email="The repair [visit] at {name}'s is planned, but the [trip] isn't. Could you "
            "plan it for the same day and colleague, to {name.his} town? Take {first}, or "
            "{second} if {first} is out of service.",
            colleague="The repair for {name} still needs [a trip] to {name.his} town. Same day, "
            "same person; {first}, or {second} if {first} is out of service.",
            chat="the repair at {name}'s has no [trip] yet. can you plan one to {name.his} town "
            "for whoever's doing it, with {first}, or {second} if thats out of service",
            note="Whoever is doing the repair at {name}'s needs [a vehicle] that day. Please plan "
            "the [trip] to the town in {name.his} address: with {first} if it's roadworthy, "
            "otherwise {second}.",
        ),
        calls=(
            call("search_devices", query=customer["name"]),
            call("get_device", device_id=device["id"]),
            call("get_customer", customer_id=customer["id"]),
            call("search_vehicles", query=blocked["plate"]),
            call("search_vehicles", query=ready["plate"]),
            call("get_vehicle", vehicle_id=ready["id"]),
            call(
                "plan_trip",
                vehicle_id=ready["id"],
                driver_id=worker["id"],
                goes_on=maker.day(day),
                destination=city,
            ),
        ),
        answer="{worker} is going to {city} with {second} on {day}; {first} is blocked.",
        values={
            "name": customer["name"],
            "worker": worker["name"],
            "first": blocked["plate"],
            "second": ready["plate"],
            "city": city,
            "day": long_day(maker.day(day)),
        },
    )


@situation("inspections", "shifts", steps=5)
def inspected_by_who_is_there(maker: Maker) -> Draft:
    """An inspection goes to whoever works at a post on its day."""
    ill, early, night = (new_employee(maker) for _ in range(3))
    day, post = maker.rng.randrange(5, 25), new_post(maker)
    inspection = new_inspection(maker, day=day, inspector=ill)
    new_shift(maker, post, early, day, "early")
    new_shift(maker, post, night, day, "night")
    return Draft(
        kind="change",
        ask=Voices(
            email="{ill} has a hospital appointment and can't do [inspection] {reference}. Could "
            "you give it to whoever has the early [shift] at “{post}” that day?",
            colleague="{ill} can't do [inspection] {reference} after all. Could you give it to "
            "whoever has the early [shift] at “{post}” on the same day, please?",
            chat="{ill} cant make [inspection] {reference}, can you give it to whoever has the "
            "early [shift] at “{post}” that day",
            note="I don't want to put off [inspection] {reference}, but {ill} can't do it. Please "
            "give it to the colleague who has the early [shift] at “{post}” that day.",
        ),
        calls=(
            call("search_inspections", query=inspection["reference"]),
            call("get_inspection", inspection_id=inspection["id"]),
            call("list_posts"),
            _on(maker, day, post_id=post["id"]),
            call("change_inspector", inspection_id=inspection["id"], inspector_id=early["id"]),
        ),
        answer="{early} is doing {reference} on {day} instead of {ill}.",
        values={
            "ill": ill["name"],
            "early": early["name"],
            "post": post["name"],
            "reference": inspection["reference"],
            "day": long_day(maker.day(day)),
        },
    )


@situation("loans", "training", steps=6, rare=True)
def long_enough_for_the_course(maker: Maker) -> Draft:
    """Somebody borrows for a course, if the loan lasts until then; they waited for nothing."""
    length = maker.parameters["LOAN_DAYS"]
    customer, course = new_customer(maker), new_course(maker)
    other = new_course(maker)
    title = item_titles(maker)[0]
    item = new_item(maker, title)
    session = new_session(maker, course, length - maker.rng.randrange(2, 5))
    new_enrolment(maker, session, customer)
    new_enrolment(maker, new_session(maker, other, length + 10), customer)
    lent_item(maker, customer, due=9)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to borrow {title} ({code}) for “{course}”. Could you lend it "
            "to {name.him} today, if {name.he} can keep it until then?",
            colleague="{name} wants to borrow {title} ({code}) for “{course}”. Please lend it out "
            "today if the [loan] would last until then.",
            chat="{name} wants {title} ({code}) for “{course}”. lend it if {name.he} can keep it "
            "til then",
            note="{name} is booked on “{course}” and needs {title} for it, our {code}. Please "
            "lend it out today, unless it would be due back before then.",
        ),
        calls=(
            _who(customer),
            call("list_enrolments", customer_id=customer["id"]),
            call("list_loans", customer_id=customer["id"]),
            call("search_items", query=item["code"]),
            call("get_item", item_id=item["id"]),
            call("lend_item", item_id=item["id"], customer_id=customer["id"]),
        ),
        answer="{name} has {code} until {until}. “{course}” is on {day}, so that's long enough.",
        values={
            "name": customer["name"],
            "course": course["title"],
            "title": item_phrase(title),
            "code": item["code"],
            "until": long_day(later_day(maker.day(), length)),
            "day": long_day(session["held_on"]),
        },
    )


@situation("devices", "calendars", steps=4, without=NO_DEVICES, rare=True)
def talk_after_the_visit(maker: Maker) -> Draft:
    """An appointment is planned for the day after a visit to the customer's device."""
    customer, worker = new_customer(maker), new_employee(maker)
    day = free_day(maker, maker.me, worker, least=10, most=40)
    device = new_device(maker, customer)
    new_visit(maker, device, new_employee(maker), -30, status="done")
    new_visit(maker, device, worker, day - 1)
    subject, place = appointment_subjects(maker, 1)[0], maker.location()
    return Draft(
        kind="change",
        ask=Voices(
            email="Somebody is coming out to look at {name}'s {model} soon, and {name.he} "
            "would like to talk to you about it at 11:00 the day after. Could you put "
            "that in as “{subject}”, half an hour, at “{place}”?",
            colleague="{name} would like to talk to you the day after the [visit] for the {model}. "
            "Please put in “{subject}” for that day at 11:00, half an hour, at “{place}”.",
            chat="{name} wants a talk with you the day after the [visit] for the {model}. can "
            "you set up “{subject}” at 11:00, 30 min, “{place}”",
            note="{name} would like to go over the results of the [visit] for the {model} "
            "with you at 11:00 the day after it. Please set up 30 minutes, title "
            "“{subject}”, location “{place}”. {name.He} knows the way.",
        ),
        calls=(
            _who(customer),
            call("search_devices", query=customer["name"]),
            call("get_device", device_id=device["id"]),
            call(
                "create_appointment",
                customer_id=customer["id"],
                subject=subject,
                place=place,
                starts_at=maker.ahead(day, 11),
                minutes=30,
            ),
        ),
        answer="“{subject}” with {name} is planned for {day} at 11:00, the day after {worker} "
        "looks at the {model}.",
        values={
            "name": customer["name"],
            "worker": worker["name"],
            "model": f"{device['model'][0].lower()}{device['model'][1:]}",
            "subject": subject,
            "place": place,
            "day": long_day(maker.day(day)),
        },
    )
