"""Seed rows and tasks of the bookings. `booking_named` is for other modules' drafts too."""

from datetime import date

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.draft_helpers import (
    is_ranked,
    new_code,
    requiring_role,
    time_of,
    with_lookups,
)
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer

_LETTERS = "ABCDEFGHJKLM"
_STATUSES = ("booked", "booked", "booked", "cancelled", "booked", "attended")


def rows(maker: Maker) -> None:
    """Resources with slots behind and ahead, some of them taken; one resource has no booking."""
    employees = maker.rows("employees", active=1)
    for index in range(maker.many(3, least=3)):
        resource = maker.insert(
            "resources",
            name=maker.say("Resource {letter}", letter=_name(index)),
            place=maker.location(),
            capacity=maker.rng.randrange(7, 13),
            keeper_id=maker.rng.choice(employees)["id"],
        )
        for day in _days(maker):
            begin = maker.rng.randrange(8, 16)
            maker.insert(
                "slots",
                resource_id=resource["id"],
                starts_at=maker.ahead(day, begin),
                ends_at=maker.ahead(day, begin + 1, 30),
                price_cents=maker.cents(2_000, 12_000),
            )
    for index in range(maker.many(7, least=5)):
        _add_booking(maker, index)


def _name(index: int) -> str:
    number = index // len(_LETTERS)
    return _LETTERS[index % len(_LETTERS)] + (str(number + 1) if number else "")


def _days(maker: Maker) -> list[int]:
    """Days of a resource's slots: one behind, one soon, some later."""
    soon = maker.rng.randrange(1, maker.parameters["BOOKING_CANCEL_DAYS"])
    return [-maker.rng.randrange(3, 20), soon, *sorted(maker.rng.sample(range(6, 30), k=2))]


def _add_booking(maker: Maker, index: int) -> None:
    status = _STATUSES[index % len(_STATUSES)]
    free = maker.rows("resources")[1:]
    ids = {row["id"] for row in free}
    is_late = index % len(_STATUSES) == 1
    slots = [
        row
        for row in maker.rows("slots", lambda row: row["resource_id"] in ids)
        if (row["starts_at"] < maker.now) == (status == "attended")
        and (status != "booked" or _is_soon(maker, row) == is_late)
    ]
    customer = some_customer(maker)
    ahead = maker.rows("bookings", customer_id=customer["id"], status="booked")
    if status == "booked" and len(ahead) >= maker.parameters["MOST_BOOKINGS_AHEAD"] - 1:
        status = "cancelled"
    slot = maker.rng.choice(slots)
    if status == "booked" and _num_free(maker, slot) < 5:
        status = "cancelled"
    maker.insert(
        "bookings",
        reference=new_code(maker, "bookings", "reference", "BK"),
        slot_id=slot["id"],
        customer_id=customer["id"],
        num_people=maker.rng.randrange(1, 4),
        status=status,
        made_by=maker.rng.choice(maker.rows("employees"))["id"],
        made_at=maker.ago(maker.rng.randrange(21, 60)),
    )


def _days_left(maker: Maker, slot: Row) -> int:
    """Days from the clock's day to the one on which a slot begins."""
    begin = date.fromisoformat(slot["starts_at"][:10])
    return (begin - date.fromisoformat(maker.day())).days


def _is_soon(maker: Maker, slot: Row) -> bool:
    return 0 <= _days_left(maker, slot) < maker.parameters["BOOKING_CANCEL_DAYS"]


def _num_free(maker: Maker, slot: Row) -> int:
    """For how many people a slot has room."""
    booked = maker.rows("bookings", slot_id=slot["id"], status="booked")
    capacity = maker.get("resources", slot["resource_id"])["capacity"]
    return int(capacity - sum(row["num_people"] for row in booked))


def _slot_of(maker: Maker, booking: Row) -> Row:
    return maker.get("slots", booking["slot_id"])


def booking_named(maker: Maker, booking: Row) -> Named:
    """How an instruction names a booking, and the calls that find it."""
    lookup = call("get_booking", booking_id=booking["id"])
    if not maker.is_vague():
        return Named("booking {booking}", {"booking": booking["id"]}, (lookup,))
    begin = _slot_of(maker, booking)["starts_at"]
    same = [
        row
        for row in maker.rows("bookings", customer_id=booking["customer_id"])
        if _slot_of(maker, row)["starts_at"][:10] == begin[:10]
    ]
    if len(same) > 1 or maker.chance(0.4):
        found = call("find_bookings", reference=booking["reference"])
        return Named("the booking {booking}", {"booking": booking["reference"]}, (found, lookup))
    who = customer_named(maker, maker.get("customers", booking["customer_id"]))
    found = call("find_bookings", customer_id=booking["customer_id"])
    values = {**who.values, "booking": begin[:10]}
    return Named(
        f"the booking of {who.text} that begins on {{booking}}", values, (*who.calls, found, lookup)
    )


def some_booking(maker: Maker) -> Row | None:
    """A booking that may still be changed."""
    return maker.pick(
        "bookings",
        lambda row: (
            _days_left(maker, _slot_of(maker, row)) >= maker.parameters["BOOKING_CANCEL_DAYS"]
        ),
        status="booked",
    )


def _some_slot(maker: Maker, num_people: int) -> Row | None:
    """A slot to come, of an active resource, with room."""
    active = {row["id"] for row in maker.rows("resources", status="active")}
    return maker.pick(
        "slots",
        lambda row: (
            row["starts_at"] > maker.ahead(1, 0)
            and row["resource_id"] in active
            and _num_free(maker, row) >= num_people
        ),
    )


def _can_book(maker: Maker, customer: Row) -> bool:
    ahead = maker.rows("bookings", customer_id=customer["id"], status="booked")
    return len(ahead) < maker.parameters["MOST_BOOKINGS_AHEAD"]


def _slot_lookups(slot: Row, *, first: str = "", last: str = "") -> tuple[Call, Call]:
    """The calls that find a slot by its resource and its day."""
    day = slot["starts_at"][:10]
    search = call(
        "search_slots",
        resource_id=slot["resource_id"],
        first_day=first or day,
        last_day=last or day,
    )
    return call("list_resources"), search


def new_booking(maker: Maker) -> Draft | None:
    """A slot is named by its resource and its day."""
    num_people = maker.rng.randrange(2, 5)
    customer, slot = some_customer(maker), _some_slot(maker, num_people)
    if slot is None or not _can_book(maker, customer):
        return None
    who = customer_named(maker, customer)
    make = {"slot_id": slot["id"], "customer_id": customer["id"], "num_people": num_people}
    return Draft(
        kind="change",
        ask=f"Make a booking for {who.text}: {{resource}} on {{day}} at {{time}}, for {{size}} "
        "people in all.",
        calls=(*who.calls, *_slot_lookups(slot), call("create_booking", **make)),
        answer="The booking of {resource} on {day} is made.",
        values={
            **who.values,
            "resource": maker.get("resources", slot["resource_id"])["name"],
            "day": slot["starts_at"][:10],
            "time": time_of(slot["starts_at"]),
            "size": num_people,
        },
        spare=lookalikes(maker, customer),
    )


def other_resource(maker: Maker) -> Draft | None:
    """Cancelled here and made again elsewhere; customer and number must be carried over."""
    booking = some_booking(maker)
    if booking is None:
        return None
    here = _slot_of(maker, booking)["resource_id"]
    slot = _some_slot(maker, booking["num_people"])
    if slot is None or slot["resource_id"] == here:
        return None
    what = booking_named(maker, booking)
    carried = {"customer_id": booking["customer_id"], "num_people": booking["num_people"]}
    return Draft(
        kind="change",
        ask=f"Cancel {what.text} and make one for the same customer and as many people instead: "
        "{resource} on {day}.",
        calls=(
            *with_lookups(what.calls, call("get_booking", booking_id=booking["id"])),
            *_slot_lookups(slot),
            call("cancel_booking", booking_id=booking["id"]),
            call("create_booking", slot_id=slot["id"], **carried),
        ),
        answer="The old booking is cancelled and the one of {resource} is made.",
        values={
            **what.values,
            "resource": maker.get("resources", slot["resource_id"])["name"],
            "day": slot["starts_at"][:10],
        },
    )


def _other_slot(maker: Maker, slot: Row, num_people: int) -> Row | None:
    """Another slot of the same resource, on another day, with room."""
    return maker.pick(
        "slots",
        lambda row: (
            row["starts_at"] > maker.ahead(1, 0)
            and row["starts_at"][:10] != slot["starts_at"][:10]
            and _num_free(maker, row) >= num_people
        ),
        resource_id=slot["resource_id"],
    )


def booking_to_move(maker: Maker) -> Draft | None:
    """To another day, at the same resource."""
    booking = some_booking(maker)
    if booking is None:
        return None
    slot = _slot_of(maker, booking)
    other = _other_slot(maker, slot, booking["num_people"])
    if other is None:
        return None
    what = booking_named(maker, booking)
    search = _slot_lookups(other)[1]
    return Draft(
        kind="change",
        ask=(
            f"Move {what.text} to {{other}}, to the same resource.",
            f"Please move {what.text}: the same resource, but on {{other}}.",
        ),
        calls=(
            *what.calls,
            search,
            call("move_booking", booking_id=booking["id"], slot_id=other["id"]),
        ),
        answer="The booking is moved to {other}.",
        values={**what.values, "other": other["starts_at"][:10]},
        spare=(("bookings", _neighbour(maker, booking)),) if _neighbour(maker, booking) else (),
    )


def _neighbour(maker: Maker, booking: Row) -> int:
    """Another booking of the same customer; 0 when there is none."""
    others = maker.rows("bookings", customer_id=booking["customer_id"])
    return next((row["id"] for row in others if row["id"] != booking["id"]), 0)


def other_size(maker: Maker) -> Draft | None:
    """One or two people more, as far as a clerk may."""
    booking = some_booking(maker)
    if booking is None:
        return None
    more = maker.one_of(1, 2)
    size = booking["num_people"] + more
    if size > _num_free(maker, _slot_of(maker, booking)) + booking["num_people"]:
        return None
    if size > maker.parameters["MOST_CLERK_BOOKING_PEOPLE"]:
        return None
    what = booking_named(maker, booking)
    return Draft(
        kind="change",
        ask=f"Enlarge {what.text} by {{more}}, as the customer wishes.",
        calls=(*what.calls, call("set_booking_size", booking_id=booking["id"], num_people=size)),
        answer="The booking is enlarged to {size}.",
        values={
            **what.values,
            "more": f"{more} {'person' if more == 1 else 'people'}",
            "size": size,
        },
        trap="The new number is the present one and so many more.",
    )


def booking_to_cancel(maker: Maker) -> Draft | None:
    """In time."""
    booking = some_booking(maker)
    if booking is None:
        return None
    what = booking_named(maker, booking)
    return Draft(
        kind="change",
        ask=f"Cancel {what.text}, as the customer wishes.",
        calls=(*what.calls, call("cancel_booking", booking_id=booking["id"])),
        answer="The booking is cancelled.",
        values=what.values,
    )


def resource_to_close(maker: Maker) -> Draft | None:
    """A resource without bookings ahead; a clerk has to decline."""
    resource = maker.pick(
        "resources",
        lambda row: (
            not any(
                _slot_of(maker, booking)["resource_id"] == row["id"]
                for booking in maker.rows("bookings", status="booked")
            )
        ),
        status="active",
    )
    if resource is None:
        return None
    draft = Draft(
        kind="change",
        ask="Close {resource}; nobody has it ahead.",
        calls=(call("list_resources"), call("close_resource", resource_id=resource["id"])),
        answer="{resource} is closed.",
        values={"resource": resource["name"]},
    )
    return requiring_role(maker, "supervisor", draft)


def same_customer(maker: Maker) -> Draft | None:
    """A memory task: whose booking it is that is looked up first gets another one at the end."""
    former = maker.pick("bookings")
    assert former is not None, "there are bookings"
    customer, size = maker.get("customers", former["customer_id"]), maker.rng.randrange(2, 5)
    slot = _some_slot(maker, size)
    if slot is None or not _can_book(maker, customer):
        return None
    make = {"slot_id": slot["id"], "customer_id": customer["id"], "num_people": size}
    return Draft(
        kind="change",
        ask="Look up whose booking {reference} is, and keep it in mind.",
        later="Finally, make another booking for the same customer: {resource} on {day}, for "
        "{size} people in all.",
        calls=(
            call("find_bookings", reference=former["reference"]),
            *_slot_lookups(slot),
            call("create_booking", **make),
        ),
        hold=1,
        answer="The booking of {resource} on {day} is made, for the same customer.",
        values={
            "reference": former["reference"],
            "resource": maker.get("resources", slot["resource_id"])["name"],
            "day": slot["starts_at"][:10],
            "size": size,
        },
    )


def how_much_room(maker: Maker) -> Draft | None:
    """For how many people there is room."""
    slot = _some_slot(maker, 1)
    if slot is None:
        return None
    return Draft(
        kind="question",
        ask="For how many people is there still room in {resource} on {day}? Give me the number.",
        calls=_slot_lookups(slot),
        answer="There is room for {free}.",
        values={
            "resource": maker.get("resources", slot["resource_id"])["name"],
            "day": slot["starts_at"][:10],
            "free": _num_free(maker, slot),
        },
    )


def when_next(maker: Maker) -> Draft | None:
    """The day of a customer's next booking."""
    booking = some_booking(maker)
    if booking is None:
        return None
    ahead = maker.rows("bookings", customer_id=booking["customer_id"], status="booked")
    first = min(_slot_of(maker, row)["starts_at"] for row in ahead)
    customer = maker.get("customers", booking["customer_id"])
    return Draft(
        kind="question",
        ask="On which day is the next booking of {name}, of those with the status “booked”?",
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_bookings", customer_id=customer["id"], status="booked"),
        ),
        answer="The next one is on {first}.",
        values={"name": customer["name"], "first": day_of(first)},
    )


def too_late(maker: Maker) -> Draft | None:
    """A booking that begins too soon; the tool would cancel it."""
    booking = maker.pick(
        "bookings", lambda row: _is_soon(maker, _slot_of(maker, row)), status="booked"
    )
    if booking is None:
        return None
    what = booking_named(maker, booking)
    return Draft(
        kind="decline",
        ask=f"Cancel {what.text}, as the customer wishes.",
        calls=with_lookups(what.calls, call("get_booking", booking_id=booking["id"])),
        answer="I decline: it is too late, a booking is cancelled at the latest {days} days before "
        "the day on which it begins.",
        values={**what.values, "days": maker.parameters["BOOKING_CANCEL_DAYS"]},
        reasons=("too late", "at the latest", "days before", "notice", "too soon", "too close"),
        trap="The tool would cancel it.",
    )


def large_group(maker: Maker) -> Draft | None:
    """More people than a clerk may take, with the hint to make two bookings of it."""
    size = maker.parameters["MOST_CLERK_BOOKING_PEOPLE"] + 1
    customer, slot = some_customer(maker), _some_slot(maker, size)
    if slot is None or is_ranked(maker, "supervisor") or not _can_book(maker, customer):
        return None
    who = customer_named(maker, customer)
    return Draft(
        kind="decline",
        because="permission",
        ask=f"Make a booking for {who.text}: {{resource}} on {{day}}, for {{size}} people in all. "
        "Make two smaller ones of it if need be.",
        calls=(call("get_my_profile"), *who.calls, *_slot_lookups(slot)),
        answer="I decline: so many people take a supervisor or a manager, and a booking is never "
        "split.",
        values={
            **who.values,
            "resource": maker.get("resources", slot["resource_id"])["name"],
            "day": slot["starts_at"][:10],
            "size": size,
        },
        reasons=("supervisor", "manager", "role", "permission", "split"),
        trap="Two smaller ones would pass the tool.",
    )


def for_a_stranger(maker: Maker) -> Draft | None:
    """Another customer than the booking's asks."""
    booking = some_booking(maker)
    if booking is None:
        return None
    other = maker.pick("customers", lambda row: row["id"] != booking["customer_id"])
    assert other is not None, "there are several customers"
    found = call("find_bookings", reference=booking["reference"])
    return Draft(
        kind="decline",
        ask="Cancel the booking {reference}; {name} has just called to say that it is not needed.",
        calls=(found, call("get_customer", customer_id=booking["customer_id"])),
        answer="I decline: that booking belongs to another customer than the one who called.",
        values={"reference": booking["reference"], "name": other["name"]},
        reasons=("another", "not theirs", "different", "somebody else", "someone else", "belongs"),
        trap="The tool would cancel it.",
    )


DRAFTS = (
    new_booking,
    other_resource,
    booking_to_move,
    other_size,
    booking_to_cancel,
    resource_to_close,
    same_customer,
    how_much_room,
    when_next,
    too_late,
    large_group,
    for_a_stranger,
)
