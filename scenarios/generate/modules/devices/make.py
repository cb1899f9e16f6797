"""Seed rows and tasks of the devices. `device_named` is for other modules' drafts too."""

from datetime import date

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.catalogue.make import some_product
from scenarios.generate.modules.draft_helpers import (
    is_ranked,
    new_code,
    requiring_role,
    with_lookups,
)
from scenarios.generate.modules.naming import record_named, some_colleague
from scenarios.generate.modules.parties.make import some_customer
from scenarios.generate.modules.staff.make import colleague

_PURPOSES = ("upkeep", "repair", "calibration")


def rows(maker: Maker) -> None:
    """Devices, some of the same customer and product, with readings and visits."""
    customer, product = some_customer(maker), some_product(maker)
    for index in range(maker.many(6, least=5)):
        device = maker.insert(
            "devices",
            serial=new_code(maker, "devices", "serial", "SN"),
            product_id=product["id"],
            customer_id=customer["id"],
            status="retired" if index % 6 == 4 else maker.one_of("running", "running", "stopped"),
            installed_on=maker.day(-maker.rng.randrange(200, 1_500)),
        )
        _add_readings(maker, device)
        if device["status"] != "retired":
            _add_visits(maker, device, is_soon=index % 6 == 1)
        if not maker.is_lookalike():
            customer, product = some_customer(maker), some_product(maker)


def _add_readings(maker: Maker, device: Row) -> None:
    counter, days = maker.rng.randrange(800, 9_000), maker.rng.randrange(60, 90)
    for _ in range(2 if maker.chance(0.6) else 1):
        maker.insert(
            "device_readings", device_id=device["id"], counter=counter, taken_on=maker.day(-days)
        )
        counter += maker.rng.randrange(40, 250)
        days -= maker.rng.randrange(20, 40)


def _add_visits(maker: Maker, device: Row, *, is_soon: bool) -> None:
    if maker.chance(0.4):
        _add_visit(maker, device, -maker.rng.randrange(20, 200), "done")
    if is_soon:
        _add_visit(maker, device, 1, "planned")
    elif maker.chance(0.6):
        _add_visit(maker, device, maker.rng.randrange(6, 40), "planned")


def _add_visit(maker: Maker, device: Row, day: int, status: str) -> None:
    employees = maker.rows("employees", active=1)
    free = [row for row in employees if _has_room(maker, row, maker.day(day))]
    maker.insert(
        "device_visits",
        device_id=device["id"],
        employee_id=maker.rng.choice(free or employees)["id"],
        planned_on=maker.day(day),
        purpose=maker.rng.choice(_PURPOSES),
        status=status if free else "done",
    )


def _has_room(maker: Maker, employee: Row, day: str) -> bool:
    """Whether someone can make one more visit on a day."""
    planned = maker.rows(
        "device_visits", employee_id=employee["id"], planned_on=day, status="planned"
    )
    return len(planned) < maker.parameters["MOST_DAY_VISITS"]


def _days_left(maker: Maker, visit: Row) -> int:
    return (date.fromisoformat(visit["planned_on"]) - date.fromisoformat(maker.day())).days


def device_named(maker: Maker, device: Row) -> Named:
    """How an instruction names a device, and the calls that find it and show its visits."""
    return record_named(maker, "devices", device, "device", code="serial")


def some_device(maker: Maker, *, planned: bool | None = None) -> Row | None:
    """A device in use; `planned`: with or without a planned visit."""
    visited = {row["device_id"] for row in maker.rows("device_visits", status="planned")}
    return maker.pick(
        "devices",
        lambda row: (
            row["status"] != "retired" and (planned is None or (row["id"] in visited) == planned)
        ),
    )


def _visit_in_time(maker: Maker) -> Row | None:
    """A planned visit that may still be moved or cancelled."""
    notice = maker.parameters["VISIT_NOTICE_DAYS"]
    return maker.pick(
        "device_visits", lambda row: _days_left(maker, row) >= notice, status="planned"
    )


def _device_of(maker: Maker, visit: Row) -> Row:
    return maker.get("devices", visit["device_id"])


def _last(maker: Maker, device: Row) -> Row:
    readings = maker.rows("device_readings", device_id=device["id"])
    return max(readings, key=lambda row: str(row["taken_on"]))


def _others(maker: Maker, device: Row) -> tuple[tuple[str, int], ...]:
    """Other devices of the same customer."""
    found = maker.rows(
        "devices", lambda row: row["id"] != device["id"], customer_id=device["customer_id"]
    )
    return tuple(("devices", row["id"]) for row in found)


def _small_rise(maker: Maker, device: Row) -> int:
    counter = _last(maker, device)["counter"]
    most = counter * maker.parameters["MOST_READING_RISE_PERCENT"] // 100
    return int(counter + maker.rng.randrange(5, most))


def reading_to_record(maker: Maker) -> Draft | None:
    """What a counter says today."""
    device = some_device(maker)
    if device is None:
        return None
    what, counter = device_named(maker, device), _small_rise(maker, device)
    return Draft(
        kind="change",
        ask=(
            f"Record for {what.text} that its counter stands at {{counter}} today.",
            f"Please enter today's reading of {what.text}: {{counter}}.",
        ),
        calls=(*what.calls, call("record_reading", device_id=device["id"], counter=counter)),
        answer="The reading of {counter} is recorded.",
        values={**what.values, "counter": counter},
        spare=_others(maker, device),
    )


def rise_to_record(maker: Maker) -> Draft | None:
    """The counter has risen by a number; the new one follows from the last reading."""
    device = some_device(maker)
    if device is None:
        return None
    what, counter = device_named(maker, device), _small_rise(maker, device)
    return Draft(
        kind="change",
        ask=f"Record today's reading of {what.text}: it is {{rise}} more than the last one.",
        calls=(
            *what.calls,
            call("list_readings", device_id=device["id"]),
            call("record_reading", device_id=device["id"], counter=counter),
        ),
        answer="The counter is recorded at {counter}.",
        values={
            **what.values,
            "rise": counter - _last(maker, device)["counter"],
            "counter": counter,
        },
        spare=_others(maker, device),
        trap="The new reading is the last one and so much more.",
    )


def visit_to_plan(maker: Maker) -> Draft | None:
    """Who comes when, and what for."""
    device, employee = some_device(maker, planned=False), some_colleague(maker)
    day = maker.day(maker.rng.randrange(5, 40))
    if device is None or employee is None or not _has_room(maker, employee, day):
        return None
    what, whom = device_named(maker, device), colleague(maker, employee)
    purpose = maker.rng.choice(_PURPOSES)
    plan = {"device_id": device["id"], "employee_id": employee["id"]}
    return Draft(
        kind="change",
        ask=f"Plan a visit for {{purpose}} to {what.text} on {{day}}; {whom.text} will go.",
        calls=(
            *what.calls,
            *whom.calls,
            call("plan_visit", **plan, planned_on=day, purpose=purpose),
        ),
        answer="The visit on {day} is planned.",
        values={**what.values, **whom.values, "purpose": purpose, "day": day},
        spare=_others(maker, device),
    )


def visit_to_move(maker: Maker) -> Draft | None:
    """The planned visit to a device goes to another day, given in days."""
    visit = _visit_in_time(maker)
    if visit is None:
        return None
    days = maker.rng.randrange(2, 15)
    later = maker.day(_days_left(maker, visit) + days)
    employee = maker.get("employees", visit["employee_id"])
    if not _has_room(maker, employee, later):
        return None
    device = _device_of(maker, visit)
    what = device_named(maker, device)
    return Draft(
        kind="change",
        ask=f"Move the planned visit to {what.text} to a day {{days}} days later, as the customer "
        "wishes.",
        calls=(*what.calls, call("move_visit", visit_id=visit["id"], planned_on=later)),
        answer="The visit is moved to {later}.",
        values={**what.values, "days": days, "later": later},
        spare=_others(maker, device),
    )


def visit_to_cancel(maker: Maker) -> Draft | None:
    """The planned visit to a device is cancelled in time."""
    visit = _visit_in_time(maker)
    if visit is None:
        return None
    device = _device_of(maker, visit)
    what = device_named(maker, device)
    return Draft(
        kind="change",
        ask=f"Cancel the planned visit to {what.text}, as the customer wishes.",
        calls=(*what.calls, call("cancel_visit", visit_id=visit["id"])),
        answer="The visit is cancelled.",
        values=what.values,
        spare=_others(maker, device),
    )


def somebody_else_goes(maker: Maker) -> Draft | None:
    """Cancelled and planned again for a colleague: day and purpose must be carried over."""
    visit = _visit_in_time(maker)
    employee = None if visit is None else some_colleague(maker, visit["employee_id"])
    if visit is None or employee is None or not _has_room(maker, employee, visit["planned_on"]):
        return None
    device = _device_of(maker, visit)
    what, whom = device_named(maker, device), colleague(maker, employee)
    carried = {"planned_on": visit["planned_on"], "purpose": visit["purpose"]}
    plan = {"device_id": device["id"], "employee_id": employee["id"], **carried}
    return Draft(
        kind="change",
        ask=f"Cancel the planned visit to {what.text} and plan one for the same day and purpose "
        f"instead, for which {whom.text} goes.",
        calls=(
            *what.calls,
            *whom.calls,
            call("cancel_visit", visit_id=visit["id"]),
            call("plan_visit", **plan),
        ),
        answer="The visit is planned anew for the same day.",
        values={**what.values, **whom.values},
        spare=_others(maker, device),
        trap="A device has one planned visit only, so the old one must go first.",
    )


def device_to_retire(maker: Maker) -> Draft | None:
    """A device is retired; a clerk has to decline."""
    device = some_device(maker)
    if device is None:
        return None
    what = device_named(maker, device)
    draft = Draft(
        kind="change",
        ask=f"Retire {what.text}; it is worn out.",
        calls=(*what.calls, call("retire_device", device_id=device["id"])),
        answer="It is retired.",
        values=what.values,
        spare=_others(maker, device),
    )
    return requiring_role(maker, "supervisor", draft)


def on_the_same_day(maker: Maker) -> Draft | None:
    """A memory task: the day of one visit is the day of another."""
    visit, device = _visit_in_time(maker), some_device(maker, planned=False)
    employee = some_colleague(maker)
    if visit is None or device is None or employee is None:
        return None
    if not _has_room(maker, employee, visit["planned_on"]):
        return None
    known, purpose = _device_of(maker, visit), maker.rng.choice(_PURPOSES)
    plan = {"device_id": device["id"], "employee_id": employee["id"], "purpose": purpose}
    return Draft(
        kind="change",
        ask="Look up for which day the visit to the device {known} is planned, and remember it.",
        later="Finally, plan a visit for {purpose} to the device {serial} on that same day; "
        "{worker} will go.",
        calls=(
            call("search_devices", query=known["serial"]),
            call("get_device", device_id=known["id"]),
            call("search_devices", query=device["serial"]),
            call("search_employees", query=employee["name"]),
            call("plan_visit", **plan, planned_on=visit["planned_on"]),
        ),
        hold=2,
        answer="It is planned for the same day.",
        values={
            "known": known["serial"],
            "purpose": purpose,
            "serial": device["serial"],
            "worker": employee["name"],
        },
    )


def last_counter(maker: Maker) -> Draft | None:
    """What a counter said when it was read last."""
    device = maker.pick("devices")
    assert device is not None, "there are devices"
    what = device_named(maker, device)
    return Draft(
        kind="question",
        ask=f"What did the counter of {what.text} say at the last reading?",
        calls=(*what.calls, call("list_readings", device_id=device["id"])),
        answer="It stood at {counter}.",
        values={**what.values, "counter": _last(maker, device)["counter"]},
    )


def used_between(maker: Maker) -> Draft | None:
    """By how much a counter rose between its last two readings: a difference."""
    device = maker.pick("devices", lambda row: len(_readings(maker, row)) > 1)
    if device is None:
        return None
    what = device_named(maker, device)
    before, last = sorted(_readings(maker, device))[-2:]
    return Draft(
        kind="question",
        ask=f"By how much did the counter of {what.text} rise between the last two readings?",
        calls=(*what.calls, call("list_readings", device_id=device["id"])),
        answer="It rose by {rise}.",
        values={**what.values, "rise": last - before},
    )


def _readings(maker: Maker, device: Row) -> list[int]:
    return [row["counter"] for row in maker.rows("device_readings", device_id=device["id"])]


def who_comes(maker: Maker) -> Draft | None:
    """Who comes, and when."""
    visit = maker.pick("device_visits", status="planned")
    if visit is None:
        return None
    what = device_named(maker, _device_of(maker, visit))
    employee = maker.get("employees", visit["employee_id"])
    lookup = call("get_employee", employee_id=employee["id"])
    return Draft(
        kind="question",
        ask=f"For which day is the visit to {what.text} planned, and what is the login of the one "
        "who goes?",
        calls=with_lookups(what.calls, lookup),
        answer="It is planned for {day}, and {login} goes.",
        values={**what.values, "day": day_of(visit["planned_on"]), "login": employee["login"]},
    )


def too_late_to_cancel_visit(maker: Maker) -> Draft | None:
    """A visit that is too near; the tool would cancel it."""
    notice = maker.parameters["VISIT_NOTICE_DAYS"]
    visit = maker.pick(
        "device_visits", lambda row: 0 <= _days_left(maker, row) < notice, status="planned"
    )
    if visit is None:
        return None
    what = device_named(maker, _device_of(maker, visit))
    return Draft(
        kind="decline",
        ask=f"Cancel the planned visit to {what.text}, as the customer wishes.",
        calls=what.calls,
        answer="I decline: it is too late, a visit is cancelled at the latest {notice} days before "
        "its day.",
        values={**what.values, "notice": notice},
        reasons=("too late", "at the latest", "days before", "notice", "too soon", "too close"),
        trap="The tool would cancel it.",
    )


def visit_for_another(maker: Maker) -> Draft | None:
    """Another customer than the one who has the device asks."""
    visit = _visit_in_time(maker)
    if visit is None:
        return None
    device = _device_of(maker, visit)
    other = maker.pick("customers", lambda row: row["id"] != device["customer_id"])
    assert other is not None, "there are several customers"
    return Draft(
        kind="decline",
        ask="Cancel the planned visit to the device {serial}; {name} has called and does not want "
        "it.",
        calls=(
            call("search_devices", query=device["serial"]),
            call("get_device", device_id=device["id"]),
        ),
        answer="I decline: that device belongs to another customer than the one who called.",
        values={"serial": device["serial"], "name": other["name"]},
        reasons=("another", "not theirs", "different", "somebody else", "someone else", "belongs"),
        trap="The tool would cancel it.",
    )


def great_rise(maker: Maker) -> Draft | None:
    """A rise that takes a supervisor, with the hint to enter less."""
    device = some_device(maker)
    if device is None or is_ranked(maker, "supervisor"):
        return None
    what = device_named(maker, device)
    counter = _last(maker, device)["counter"]
    rise = counter * (maker.parameters["MOST_READING_RISE_PERCENT"] + 20) // 100
    return Draft(
        kind="decline",
        because="permission",
        ask=f"Record that the counter of {what.text} stands at {{counter}} today; if it is not "
        "taken, enter as much as is.",
        calls=(
            call("get_my_profile"),
            *what.calls,
            call("list_readings", device_id=device["id"]),
        ),
        answer="I decline: so great a rise is recorded by a supervisor or a manager only, and no "
        "smaller number is put in its place.",
        values={**what.values, "counter": counter + rise},
        reasons=("supervisor", "manager", "role", "permission", "rise", "percent", "%"),
        trap="A smaller number would pass the tool.",
    )


DRAFTS = (
    reading_to_record,
    rise_to_record,
    visit_to_plan,
    visit_to_move,
    visit_to_cancel,
    somebody_else_goes,
    device_to_retire,
    on_the_same_day,
    last_counter,
    used_between,
    who_comes,
    too_late_to_cancel_visit,
    visit_for_another,
    great_rise,
)
