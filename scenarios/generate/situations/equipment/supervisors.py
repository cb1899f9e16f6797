"""Situations for supervisors and managers: what they may do, and what not even they may."""

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
from rehearsal_room.scenarios.generate.modules.calendars.make import new_appointment
from rehearsal_room.scenarios.generate.modules.devices.make import (
    NO_DEVICES,
    device_models,
    new_device,
    new_visit,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day
from rehearsal_room.scenarios.generate.modules.fleet.make import new_trip, new_vehicle
from rehearsal_room.scenarios.generate.modules.inspections.make import (
    new_finding,
    new_followup,
    new_inspection,
)
from rehearsal_room.scenarios.generate.modules.loans.make import item_phrase, item_titles, new_item
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.shifts.make import new_post, new_shift, new_swap
from rehearsal_room.scenarios.generate.modules.staff.make import new_employee
from rehearsal_room.scenarios.generate.modules.training.make import (
    new_course,
    new_enrolment,
    new_session,
)
from rehearsal_room.scenarios.generate.situations.equipment.inspections import grave_and_small

GROUP = "supervisor_desk"  # first part of the ids of these situations


def _who(customer: Row) -> Call:
    return call("search_customers", query=customer["name"])


def _leads(maker: Maker) -> bool:
    return is_ranked(maker, "supervisor")


@situation("training", steps=4)
def a_seat_for_all_who_wait(maker: Maker) -> Draft | None:
    """A session gets as many seats as are needed for those who wait."""
    seats = 3
    if not _leads(maker):
        return None
    course = new_course(maker)
    session = new_session(maker, course, maker.rng.randrange(10, 40), seats=seats)
    new_session(maker, course, 45, seats=8)
    for index, status in enumerate(("enrolled",) * 3 + ("waiting",) * 2 + ("cancelled",)):
        new_enrolment(maker, session, new_customer(maker), status, days=30 - index)
    return Draft(
        kind="change",
        ask=Voices(
            email="There's a waiting list for “{course}” on {day}, and the room is big enough for "
            "everybody. Could you add as many seats as there are people waiting?",
            colleague="There are some people on the waiting list for “{course}” on {day}. Could "
            "you add exactly as many seats as there are people waiting?",
            chat="can you add seats to “{course}” on {day} so that nobody has to wait? just enough "
            "for the waiting list, no spare ones",
            note="We can get the larger room for “{course}” on {day}. Please add just enough seats "
            "for everyone on the waiting list, and no more.",
        ),
        calls=(
            call("list_courses"),
            call("list_sessions", course_id=course["id"]),
            call("get_session", session_id=session["id"]),
            call("set_session_seats", session_id=session["id"], seats=seats + 2),
        ),
        answer="“{course}” on {day} has {seats} seats now, and nobody is waiting any more.",
        values={
            "course": course["title"],
            "day": long_day(session["held_on"]),
            "seats": seats + 2,
        },
    )


@situation("inspections", steps=4, rare=True)
def small_things_can_go(maker: Maker) -> Draft | None:
    """The minor findings without a followup are waived; the critical one must stay."""
    if not _leads(maker):
        return None
    inspection = new_inspection(maker, day=-12)
    grave, small = grave_and_small(maker, 3)
    titles = [small[0], grave[0], small[1], small[2]]
    kinds = ("minor", "critical", "minor", "minor")
    one, serious, seen, two = (
        new_finding(maker, inspection, kind, title=title)
        for kind, title in zip(kinds, titles, strict=True)
    )
    new_followup(maker, seen, day=5)
    return Draft(
        kind="change",
        ask=Voices(
            email="After [inspection] {reference}, only what's been assigned to somebody gets "
            "repaired. Please waive the other open [findings], and let me know if there are any "
            "we can't.",
            colleague="What hasn't been assigned to anybody from [inspection] {reference} isn't "
            "going to be repaired. Please waive those [findings], and tell me which ones we can't.",
            chat="the owner isnt doing any more about [inspection] {reference}. can you waive "
            "whats still open and not assigned to anyone? if theres one we can't waive "
            "tell me which",
            note="Please waive what's still open from [inspection] {reference} and isn't assigned "
            "to anybody. If our rules are against it for one, tell me which.",
        ),
        calls=(
            call("search_inspections", query=inspection["reference"]),
            call("get_inspection", inspection_id=inspection["id"]),
            call("waive_finding", finding_id=one["id"]),
            call("waive_finding", finding_id=two["id"]),
        ),
        answer="I've waived “{one}” and “{two}”. I couldn't waive “{serious}”, because it's "
        "critical.",
        values={
            "reference": inspection["reference"],
            "one": titles[0],
            "two": titles[3],
            "serious": titles[1],
        },
        reasons=("critical",),
        spare=(("findings", serious["id"]), ("findings", seen["id"])),
    )


@situation("fleet", steps=4, rare=True)
def the_one_without_plans(maker: Maker) -> Draft | None:
    """Of two vehicles the one is sold that has no planned trips."""
    if not _leads(maker):
        return None
    planned, idle = new_vehicle(maker), new_vehicle(maker)
    new_trip(maker, planned, new_employee(maker), 12)
    new_trip(maker, idle, new_employee(maker), 8, status="cancelled")
    one, two = sorted((planned, idle), key=lambda row: str(row["plate"]))
    return Draft(
        kind="change",
        ask=Voices(
            email="A dealer will take either {one} or {two}. Could you mark the one that has no "
            "[trip] planned as sold?",
            colleague="We're selling {one} or {two}. Please mark whichever has no [trips] "
            "planned as sold.",
            chat="the dealer is taking one of {one} / {two}. can you mark the one as sold that "
            "has no [trip] planned",
            note="The dealer would take either {one} or {two}. Please mark the one that has no "
            "[trips] planned as sold, and leave the other. It'll be picked up on Friday.",
        ),
        calls=(
            call("search_vehicles", query=one["plate"]),
            call("get_vehicle", vehicle_id=one["id"]),
            call("search_vehicles", query=two["plate"]),
            call("get_vehicle", vehicle_id=two["id"]),
            call("sell_vehicle", vehicle_id=idle["id"]),
        ),
        answer="{idle} is marked as sold. {planned} has [a trip] planned.",
        values={
            "one": one["plate"],
            "two": two["plate"],
            "idle": idle["plate"],
            "planned": planned["plate"],
        },
        spare=(("vehicles", planned["id"]),),
    )


@situation("loans", steps=2, common=True)
def clear_the_shelf(maker: Maker) -> Draft | None:
    """The worn one of two of a name is withdrawn; the good one stays."""
    if not _leads(maker):
        return None
    title = f"{item_titles(maker)[0]}, old series"
    worn, good = new_item(maker, title, condition="worn"), new_item(maker, title)
    return Draft(
        kind="change",
        ask=Voices(
            email="Somebody has complained that {phrase} is falling apart. We have two of these, "
            "and only one is worn. Please withdraw the worn one and keep the other.",
            colleague="We have {phrase} twice, and one of the two is worn. Could you withdraw the "
            "worn one, please?",
            chat="we have {phrase} twice, can you take the worn one out of lending",
            note="I checked the shelves this morning, and we have {phrase} twice, one good and one "
            "worn. Please withdraw the worn one; I've ordered a replacement.",
        ),
        calls=(
            call("search_items", query=title),
            call("withdraw_item", item_id=worn["id"]),
        ),
        answer="I've withdrawn {code}, the worn one.",
        values={"title": title, "code": worn["code"], "phrase": item_phrase(title)},
        spare=(("items", good["id"]),),
    )


@situation("devices", steps=3, without=NO_DEVICES, rare=True)
def what_stands_still_goes(maker: Maker) -> Draft | None:
    """A customer's stopped device is retired; the running one has a visit to come."""
    if not _leads(maker):
        return None
    customer, worker = new_customer(maker), new_employee(maker)
    models = device_models(maker, 2)
    running = new_device(maker, customer, models[0])
    stopped = new_device(maker, customer, models[1], status="stopped")
    new_visit(maker, running, worker, 15)
    new_visit(maker, stopped, worker, 9, purpose="repair")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} doesn't want the broken one of {name.his} two [devices] repaired. Could "
            "you retire the one that has stopped?",
            colleague="One of {name}'s [devices] has stopped for good. Please retire it.",
            chat="{name} doesnt want the one thats stopped repaired any more, can you retire it",
            note="{name} isn't having the broken one repaired. Please retire it, the one that has "
            "stopped; the other is still in use.",
        ),
        calls=(
            call("search_devices", query=customer["name"]),
            call("get_device", device_id=stopped["id"]),
            call("retire_device", device_id=stopped["id"]),
        ),
        answer="The {model} of {name}, {serial}, is retired, and its repair on {day} is cancelled.",
        values={
            "name": customer["name"],
            "model": f"{models[1][0].lower()}{models[1][1:]}",
            "serial": stopped["serial"],
            "day": long_day(maker.day(9)),
        },
        spare=(("devices", running["id"]),),
    )


@situation("shifts", steps=5, rare=True)
def closed_on_that_day(maker: Maker) -> Draft | None:
    """The shifts of a post on a day are deleted, except one about which a swap was asked."""
    if not _leads(maker):
        return None
    post, other = new_post(maker), new_post(maker)
    day = maker.rng.randrange(8, 25)
    one, two, three = (new_employee(maker) for _ in range(3))
    first = new_shift(maker, post, one, day, "early")
    second = new_shift(maker, post, two, day, "late")
    asked = new_shift(maker, post, three, day, "night")
    new_swap(maker, asked, new_employee(maker))
    new_shift(maker, other, new_employee(maker), day, "early")
    return Draft(
        kind="change",
        ask=Voices(
            email="There's no power at “{post}” on {day}, so nobody can work there. Could you "
            "take everybody off the rota? If there's anyone you can't take off, tell me who.",
            colleague="“{post}” is closed on {day}. Please take everybody off the rota there, and "
            "tell me if a [swap] keeps you from taking somebody off.",
            chat="no power on {day} so nobody works at “{post}”. can you take them all off the "
            "rota there? tell me who you cant take off",
            note="“{post}” stays closed on {day}. Please take everybody off the rota there. If "
            "somebody can't be taken off yet, tell me who, and I'll talk to them.",
        ),
        calls=(
            call("list_posts"),
            call(
                "search_shifts",
                first_day=maker.day(day),
                last_day=maker.day(day),
                post_id=post["id"],
            ),
            call("list_swaps", employee_id=three["id"]),
            call("drop_shift", shift_id=first["id"]),
            call("drop_shift", shift_id=second["id"]),
        ),
        answer="I've deleted the [shifts] of {one} and {two} at {post} on {day}. I couldn't "
        "delete {three}'s, because there's [a swap] for it.",
        values={
            "post": post["name"],
            "day": long_day(maker.day(day)),
            "one": one["name"],
            "two": two["name"],
            "three": three["name"],
        },
        reasons=("[swap]",),
        spare=(("shifts", asked["id"]),),
    )


@situation("bookings", steps=6, common=True, weight=1.6)
def the_whole_choir(maker: Maker) -> Draft | None:
    """A supervisor enlarges a booking to a large group, in the larger of two rooms."""
    if not _leads(maker):
        return None
    people = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"] + 3
    customer = new_customer(maker)
    small, large = new_resource(maker, capacity=people - 1), new_resource(maker, capacity=people)
    day = maker.parameters["BOOKING_CANCEL_DAYS"] + maker.rng.randrange(5, 18)
    booking = new_booking(maker, new_slot(maker, small, day, 15), customer, num_people=3)
    target = new_slot(maker, large, day, 15)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name}'s group on {day} has grown to {people} people. Could you change the "
            "[booking] for the {small}? If that's too small, move them to the {large}, at the "
            "same time.",
            colleague="{name}'s group on {day} will be {people} people. Could you change the "
            "[booking], please? If the {small} is too small, move them to the {large} at the same "
            "time.",
            chat="{name} is bringing {people} ppl on {day} now. can you change that? if the "
            "{small} is too small move them to the {large}, same time",
            note="{name} is bringing {people} people on {day}, many more than {name.he} had booked "
            "for. Please change the number. If the {small} is too small, move them to the {large} "
            "at the same time.",
        ),
        calls=(
            _who(customer),
            call("find_bookings", customer_id=customer["id"]),
            call("list_resources"),
            call(
                "search_slots",
                resource_id=large["id"],
                first_day=maker.day(day),
                last_day=maker.day(day),
            ),
            call("move_booking", booking_id=booking["id"], slot_id=target["id"]),
            call("set_booking_size", booking_id=booking["id"], num_people=people),
        ),
        answer="{name} now has the {large} on {day} at the same time, for {people} people. The "
        "{small} isn't big enough.",
        values={
            "name": customer["name"],
            "people": people,
            "small": small["name"],
            "large": large["name"],
            "day": long_day(maker.day(day)),
        },
    )


@situation("calendars", steps=4, common=True)
def in_somebody_elses_place(maker: Maker) -> Draft | None:
    """A supervisor cancels the later of two appointments of an ill organiser with one customer."""
    if not _leads(maker):
        return None
    customer, ill, mate = new_customer(maker), new_employee(maker), new_employee(maker)
    soon = new_appointment(maker, customer, mate, 6, 9, invites=(ill,))
    later = new_appointment(maker, customer, ill, 17, 9, invites=(mate,))
    return Draft(
        kind="change",
        ask=Voices(
            email="{ill} is off sick. Please cancel {ill.his} [appointment] with {name}. The "
            "other one, which {mate} set up, goes ahead.",
            colleague="{ill} is off sick, so could you cancel the [appointment] that {ill.he} set "
            "up with {name}? The other one, which {mate} organises, goes ahead.",
            chat="{ill} is off sick, can you cancel the [appointment] {ill.he} set up with {name}? "
            "the one {mate} set up stays",
            note="{ill} has been signed off for a month. Please cancel {ill.his} own [appointment] "
            "with {name}, but leave the one that {mate} set up as it is.",
        ),
        calls=(
            _who(customer),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=soon["id"]),
            call("get_appointment", appointment_id=later["id"]),
            call("search_employees", query=ill["name"]),
            call("cancel_appointment", appointment_id=later["id"]),
        ),
        answer="“{subject}” with {name} on {day}, which {ill} organised, is cancelled.",
        values={
            "name": customer["name"],
            "ill": ill["name"],
            "mate": mate["name"],
            "subject": later["subject"],
            "day": long_day(maker.day(17)),
        },
        spare=(("appointments", soon["id"]),),
    )


@situation("bookings", kind="decline", steps=4, common=True)
def closed_over_their_heads(maker: Maker) -> Draft | None:
    """Not even a supervisor may cancel a booking just to close a room."""
    if not _leads(maker):
        return None
    customer, resource = new_customer(maker), new_resource(maker)
    day = maker.rng.randrange(9, 25)
    booking = new_booking(maker, new_slot(maker, resource, day), customer, num_people=3)
    return Draft(
        kind="decline",
        ask=Voices(
            email="The floor in the {room} can be done tomorrow, so please close the room. {name} "
            "has booked it on {day}; please cancel that, {name.he}'ll understand.",
            colleague="We need to close the {room}, but {name} has booked it on {day}. Could you "
            "cancel the [booking] and close the room, please?",
            chat="can you close the {room}? {name} has it on {day}, just cancel that [booking] so "
            "it works",
            note="The {room} needs a new floor, and the builders can start tomorrow. Please cancel "
            "{name}'s [booking] on {day} and close the room; I'll write to {name.him} myself.",
        ),
        calls=(
            call("list_resources"),
            _who(customer),
            call("find_bookings", customer_id=customer["id"]),
        ),
        answer="I haven't closed the {room}: {name}'s {reference} is still ahead, and no "
        "[booking] is cancelled just for that.",
        values={
            "room": resource["name"],
            "name": customer["name"],
            "day": long_day(maker.day(day)),
            "reference": booking["reference"],
        },
        reasons=("ahead", "just for"),
        tempts=("close_resource", "cancel_booking"),
    )


@situation("fleet", kind="decline", steps=3, rare=True)
def sold_under_the_driver(maker: Maker) -> Draft | None:
    """Not even a supervisor may cancel a trip just to sell a vehicle."""
    if not _leads(maker):
        return None
    vehicle, driver = new_vehicle(maker), new_employee(maker)
    trip = new_trip(maker, vehicle, driver, 11)
    return Draft(
        kind="decline",
        ask=Voices(
            email="I've got a good offer for {plate}, but only until tonight. Please cancel what "
            "{driver} has planned with it and mark it as sold.",
            colleague="{plate} is sold. Please cancel {driver}'s [trip] with it and mark it as "
            "sold.",
            chat="{plate} is sold as of today, can you cancel {driver}'s [trip] with it and mark "
            "it sold",
            note="We're selling {plate} today. {driver} has [a trip] planned with it; please "
            "cancel that and mark {plate} as sold.",
        ),
        calls=(
            call("search_vehicles", query=vehicle["plate"]),
            call("get_vehicle", vehicle_id=vehicle["id"]),
        ),
        answer="I haven't marked it as sold: {driver} goes to {city} with {plate} on {day}, and "
        "no [trip] is cancelled just for a sale.",
        values={
            "plate": vehicle["plate"],
            "driver": driver["name"],
            "city": trip["destination"],
            "day": long_day(trip["goes_on"]),
        },
        reasons=("just for", "planned", "goes to"),
        tempts=("sell_vehicle", "cancel_trip"),
    )
