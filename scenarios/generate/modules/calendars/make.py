"""Seed rows and tasks of the calendar."""

from collections.abc import Callable
from datetime import date

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, ResultField, call, day_of
from scenarios.generate.modules.draft_helpers import is_ranked, time_of, with_lookups
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer
from scenarios.generate.modules.staff.make import colleague

_SUBJECTS = (
    "First talk",
    "Yearly talk",
    "Handover",
    "Walk round the site",
    "Price talk",
    "Complaint",
    "Planning",
    "Farewell",
)
_FULL_HOURS = range(8, 17)


def rows(maker: Maker) -> None:
    """Appointments behind, soon and later, on a day of their own each; every third one is the
    acting employee's."""
    employees = maker.rows("employees", active=1)
    for index in range(maker.many(7, least=6)):
        organiser = maker.me if index % 3 == 0 else maker.rng.choice(employees)
        customer = some_customer(maker)
        used = {row["subject"] for row in maker.rows("appointments", customer_id=customer["id"])}
        subjects = [text for text in _SUBJECTS if text not in used]
        if not subjects:
            continue
        day, hour = _day_of(maker, index), maker.rng.choice(_FULL_HOURS)
        appointment = maker.insert(
            "appointments",
            organiser_id=organiser["id"],
            customer_id=customer["id"],
            subject=maker.rng.choice(subjects),
            place=maker.location(),
            starts_at=maker.ahead(day, hour),
            ends_at=maker.ahead(day, hour, 45),
            status="held" if day < 0 else "cancelled" if index == 5 else "planned",
        )
        others = [row for row in employees if row["id"] != organiser["id"]]
        for nth, employee in enumerate(maker.rng.sample(others, k=min(2, len(others)))):
            if nth == 0 or maker.chance(0.4):
                maker.insert(
                    "participants",
                    appointment_id=appointment["id"],
                    employee_id=employee["id"],
                    presence="optional" if nth else "required",
                )


def _day_of(maker: Maker, index: int) -> int:
    """The first is soon, the second behind; the others come later, each on another day."""
    if index == 0:
        return maker.rng.randrange(1, maker.parameters["APPOINTMENT_NOTICE_DAYS"])
    if index == 1:
        return -maker.rng.randrange(3, 30)
    return 5 + (3 * index) % 36 + maker.rng.randrange(3)


def _days_left(maker: Maker, appointment: Row) -> int:
    begin = date.fromisoformat(appointment["starts_at"][:10])
    return (begin - date.fromisoformat(maker.day())).days


def appointment_named(maker: Maker, appointment: Row) -> Named:
    """How an instruction names an appointment, and the calls that find it."""
    lookup = call("get_appointment", appointment_id=appointment["id"])
    if not maker.is_vague():
        text = "appointment {appointment}"
        return Named(text, {"appointment": appointment["id"]}, (lookup,))
    who = customer_named(maker, maker.get("customers", appointment["customer_id"]))
    find = call("find_appointments", customer_id=appointment["customer_id"])
    values = {**who.values, "appointment": appointment["subject"]}
    text = f"the appointment “{{appointment}}” with {who.text}"
    return Named(text, values, (*who.calls, find, lookup))


def _some_appointment(maker: Maker, where: Callable[[Row], bool] | None = None) -> Row | None:
    """A planned appointment that may still be moved."""
    notice = maker.parameters["APPOINTMENT_NOTICE_DAYS"]
    return maker.pick(
        "appointments",
        lambda row: _days_left(maker, row) >= notice and (where is None or where(row)),
        status="planned",
    )


def _is_mine(maker: Maker, appointment: Row) -> bool:
    """Whether the acting employee may move and cancel it."""
    return is_ranked(maker, "supervisor") or appointment["organiser_id"] == maker.me["id"]


def _new_begin(maker: Maker) -> str:
    """A begin on a day on which no one has an appointment."""
    return maker.ahead(maker.rng.randrange(44, 58), maker.rng.choice(_FULL_HOURS), 30)


def _begin(starts_at: str) -> dict[str, str]:
    return {"day": starts_at[:10], "time": time_of(starts_at)}


def new_appointment(maker: Maker) -> Draft:
    """With a colleague, by the id that the first call gives."""
    customer = some_customer(maker)
    who = customer_named(maker, customer)
    employee = maker.pick("employees", lambda row: row["id"] != maker.me["id"], active=1)
    assert employee is not None, "there are several employees"
    whom = colleague(maker, employee)
    starts_at, minutes = _new_begin(maker), maker.one_of(30, 45, 90)
    subject, place = maker.rng.choice(_SUBJECTS), maker.location()
    found = (*who.calls, *whom.calls)
    make = {"customer_id": customer["id"], "subject": subject, "place": place}
    return Draft(
        kind="change",
        ask=f"Plan an appointment with {who.text} on {{day}} at {{time}} UTC, {{minutes}} minutes "
        f"long, with the subject “{{subject}}” and the place “{{place}}”. {whom.text[:1].upper()}"
        f"{whom.text[1:]} is to take part, too, as a required participant.",
        calls=(
            *found,
            call("create_appointment", **make, starts_at=starts_at, minutes=minutes),
            call(
                "add_participant",
                appointment_id=ResultField(len(found), "appointment_id"),
                employee_id=employee["id"],
                presence="required",
            ),
        ),
        answer="The appointment on {day} is planned.",
        values={
            **who.values,
            **whom.values,
            **_begin(starts_at),
            "minutes": minutes,
            "subject": subject,
            "place": place,
        },
        spare=lookalikes(maker, customer),
    )


def one_more(maker: Maker) -> Draft | None:
    """A colleague joins, who need not be there."""
    appointment = _some_appointment(maker)
    if appointment is None:
        return None
    there = {row["employee_id"] for row in _participants(maker, appointment)}
    employee = maker.pick(
        "employees", lambda row: row["id"] not in there | {appointment["organiser_id"]}, active=1
    )
    if employee is None or len(there) >= maker.parameters["MOST_PARTICIPANTS"]:
        return None
    what, whom = appointment_named(maker, appointment), colleague(maker, employee)
    presence = maker.one_of("required", "optional")
    add = {"appointment_id": appointment["id"], "employee_id": employee["id"]}
    return Draft(
        kind="change",
        ask=f"Let {whom.text} take part in {what.text}, as {{presence}}.",
        calls=(*what.calls, *whom.calls, call("add_participant", **add, presence=presence)),
        answer="It is done: there is one more participant.",
        values={
            **what.values,
            **whom.values,
            "presence": "one who is required" if presence == "required" else "an optional one",
        },
    )


def _participants(maker: Maker, appointment: Row) -> list[Row]:
    return maker.rows("participants", appointment_id=appointment["id"])


def optional_out(maker: Maker) -> Draft | None:
    """The optional participant of an appointment is taken out."""
    optional = {row["appointment_id"] for row in maker.rows("participants", presence="optional")}
    appointment = _some_appointment(maker, lambda row: row["id"] in optional)
    if appointment is None:
        return None
    out = maker.pick("participants", appointment_id=appointment["id"], presence="optional")
    assert out is not None, "it was chosen for that"
    what = appointment_named(maker, appointment)
    lookup = call("get_appointment", appointment_id=appointment["id"])
    remove = {"appointment_id": appointment["id"], "employee_id": out["employee_id"]}
    return Draft(
        kind="change",
        ask=f"Take the optional participant out of {what.text}; the required one stays.",
        calls=(*with_lookups(what.calls, lookup), call("remove_participant", **remove)),
        answer="The optional participant is taken out.",
        values=what.values,
    )


def to_another_time(maker: Maker) -> Draft | None:
    """Moved by its organiser, in time."""
    appointment = _some_appointment(maker, lambda row: _is_mine(maker, row))
    if appointment is None:
        return None
    what = appointment_named(maker, appointment)
    starts_at = _new_begin(maker)
    move = call("move_appointment", appointment_id=appointment["id"], starts_at=starts_at)
    return Draft(
        kind="change",
        ask=f"Move {what.text} to {{day}} at {{time}} UTC.",
        calls=(*_with_rights(maker, appointment), *what.calls, move),
        answer="It begins on {day} at {time} now.",
        values={**what.values, **_begin(starts_at)},
    )


def _with_rights(maker: Maker, appointment: Row) -> tuple[Call, ...]:
    """The look-up of the own record, where it matters who the organiser is."""
    return () if maker.me["id"] != appointment["organiser_id"] else (call("get_my_profile"),)


def later_that_day(maker: Maker) -> Draft | None:
    """One hour later on the same day; the begin must be looked up."""
    appointment = _some_appointment(
        maker, lambda row: _is_mine(maker, row) and row["starts_at"][11:13] < "16"
    )
    if appointment is None:
        return None
    what = appointment_named(maker, appointment)
    lookup = call("get_appointment", appointment_id=appointment["id"])
    begin = appointment["starts_at"]
    later = f"{begin[:11]}{int(begin[11:13]) + 1:02d}{begin[13:]}"
    if any(begin[:10] == row["starts_at"][:10] for row in _others(maker, appointment)):
        return None
    move = call("move_appointment", appointment_id=appointment["id"], starts_at=later)
    return Draft(
        kind="change",
        ask=f"Let {what.text} begin one hour later, on the same day.",
        calls=(*with_lookups(what.calls, lookup), move),
        answer="It begins at {later} now.",
        values={**what.values, "later": time_of(later)},
    )


def _others(maker: Maker, appointment: Row) -> list[Row]:
    return maker.rows("appointments", lambda row: row["id"] != appointment["id"])


def appointment_to_cancel(maker: Maker) -> Draft | None:
    """Cancelled; a clerk who is not its organiser has to decline."""
    appointment = _some_appointment(maker)
    if appointment is None:
        return None
    what = appointment_named(maker, appointment)
    lookup = call("get_appointment", appointment_id=appointment["id"])
    found = with_lookups(what.calls, lookup, call("get_my_profile"))
    ask = f"Cancel {what.text}."
    if not _is_mine(maker, appointment):
        return Draft(
            kind="decline",
            because="permission",
            ask=ask,
            calls=found,
            answer="I decline: only its organiser, a supervisor or a manager may cancel it.",
            values=what.values,
            reasons=("organiser", "organizer", "supervisor", "manager", "role", "permission"),
        )
    return Draft(
        kind="change",
        ask=ask,
        calls=(*found, call("cancel_appointment", appointment_id=appointment["id"])),
        answer="The appointment is cancelled.",
        values=what.values,
    )


def same_place(maker: Maker) -> Draft | None:
    """A memory task: the place of one appointment is that of a new one."""
    former = maker.pick("appointments", lambda row: row["status"] != "cancelled")
    assert former is not None, "there are appointments"
    one, other = maker.get("customers", former["customer_id"]), some_customer(maker)
    if one["id"] == other["id"]:
        return None
    starts_at, subject = _new_begin(maker), maker.rng.choice(_SUBJECTS)
    make = {"customer_id": other["id"], "subject": subject, "place": former["place"]}
    return Draft(
        kind="change",
        ask="Look up the place of the appointment “{appointment}” with {one}, and keep it in mind.",
        later="Finally, plan an appointment with {other} at the same place, on {day} at {time} "
        "UTC, {minutes} minutes long, with the subject “{subject}”.",
        calls=(
            call("search_customers", query=one["name"]),
            call("find_appointments", customer_id=one["id"]),
            call("search_customers", query=other["name"]),
            call("create_appointment", **make, starts_at=starts_at, minutes=30),
        ),
        hold=2,
        answer="The appointment on {day} is planned, at the same place.",
        values={
            "appointment": former["subject"],
            "one": one["name"],
            "other": other["name"],
            "subject": subject,
            "minutes": 30,
            **_begin(starts_at),
        },
    )


def which_day(maker: Maker) -> Draft:
    """The day of an appointment, named by its subject."""
    appointment = maker.pick("appointments", lambda row: row["status"] != "cancelled")
    assert appointment is not None, "there are appointments"
    customer = maker.get("customers", appointment["customer_id"])
    return Draft(
        kind="question",
        ask="On which day is or was the appointment “{subject}” with {name}?",
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_appointments", customer_id=customer["id"]),
        ),
        answer="It is that of {day}.",
        values={
            "subject": appointment["subject"],
            "name": customer["name"],
            "day": day_of(appointment["starts_at"]),
        },
    )


def how_many_days(maker: Maker) -> Draft | None:
    """How many appointments someone has in a span: a count."""
    employee = maker.pick("employees", active=1)
    assert employee is not None, "there are active employees"
    first, last = maker.day(1), maker.day(30)
    booked = [
        row
        for row in maker.rows("appointments", status="planned")
        if first <= row["starts_at"][:10] <= last
        and (
            row["organiser_id"] == employee["id"]
            or any(p["employee_id"] == employee["id"] for p in _participants(maker, row))
        )
    ]
    if not booked or len(booked) == 30:
        return None
    span = {"employee_id": employee["id"], "first_day": first, "last_day": last}
    return Draft(
        kind="question",
        ask="How many planned appointments does {name} have from {first} to {last}, as organiser "
        "or participant?",
        calls=(
            call("search_employees", query=employee["name"]),
            call("list_appointments", **span),
        ),
        answer="There are {count}.",
        values={"name": employee["name"], "first": first, "last": last, "count": len(booked)},
    )


def too_short_notice(maker: Maker) -> Draft | None:
    """An appointment that begins too soon; the tool would move it."""
    notice = maker.parameters["APPOINTMENT_NOTICE_DAYS"]
    appointment = maker.pick(
        "appointments",
        lambda row: 0 < _days_left(maker, row) < notice and _is_mine(maker, row),
        status="planned",
    )
    if appointment is None:
        return None
    what = appointment_named(maker, appointment)
    lookup = call("get_appointment", appointment_id=appointment["id"])
    return Draft(
        kind="decline",
        ask=f"Move {what.text} to {{day}} at {{time}} UTC.",
        calls=with_lookups(what.calls, lookup),
        answer="I decline: it begins in less than {notice} days, which is too short a notice to "
        "move it.",
        values={**what.values, **_begin(_new_begin(maker)), "notice": notice},
        reasons=("less than", "notice", "too soon", "too late", "too short", "too close"),
        trap="The tool would move it.",
    )


def nobody_left(maker: Maker) -> Draft | None:
    """The last required participant shall leave; the tool would let them go."""
    alone = {
        row["id"]
        for row in maker.rows("appointments")
        if sum(p["presence"] == "required" for p in _participants(maker, row)) == 1
    }
    appointment = _some_appointment(maker, lambda row: row["id"] in alone)
    if appointment is None:
        return None
    needed = maker.pick("participants", appointment_id=appointment["id"], presence="required")
    assert needed is not None, "it was chosen for that"
    what = appointment_named(maker, appointment)
    lookup = call("get_appointment", appointment_id=appointment["id"])
    employee = maker.get("employees", needed["employee_id"])
    return Draft(
        kind="decline",
        ask=f"Take {{name}} out of {what.text}; they would rather do something else.",
        calls=with_lookups(what.calls, lookup),
        answer="I decline: the last required participant is never removed.",
        values={**what.values, "name": employee["name"]},
        reasons=("last required", "only required", "required"),
        trap="The tool would remove them.",
    )


DRAFTS = (
    new_appointment,
    one_more,
    optional_out,
    to_another_time,
    later_that_day,
    appointment_to_cancel,
    same_place,
    which_day,
    how_many_days,
    too_short_notice,
    nobody_left,
)
