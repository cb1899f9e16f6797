"""Seed rows of the calendar, and helpers that insert appointments and participants.

Pools: appointment_subjects (what an appointment with a customer is about, a short title).
"""

from datetime import date
from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_SUBJECTS = (
    *("First meeting", "Yearly review", "Contract talk", "Progress report", "Handover"),
    *("Talk about a complaint", "Planning talk", "Question about the bill"),
    *("Renewal of the contract", "Closing talk"),
)


def rows(maker: Maker) -> None:
    """A few appointments of colleagues, behind and ahead."""
    employees = maker.rows("employees", active=1)
    for index in range(maker.many(3, least=1)):
        organiser = maker.rng.choice(employees)
        day = -maker.rng.randrange(3, 30) if index % 2 else maker.rng.randrange(30, 50) + index
        new_appointment(maker, some_customer(maker), organiser, day, invites=_other(maker))


def _other(maker: Maker) -> tuple[Row, ...]:
    return (maker.rng.choice(maker.rows("employees", active=1)),)


def appointment_subjects(maker: Maker, count: int) -> list[str]:
    """Return this many different subjects of appointments."""
    pool = maker.pool("appointment_subjects", *_SUBJECTS)
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *_SUBJECTS)))
    return maker.rng.sample(texts, k=count)


def new_appointment(
    maker: Maker,
    customer: Row,
    organiser: Row,
    day: int,
    hour: int = 9,
    *,
    minutes: int = 45,
    subject: str | None = None,
    invites: tuple[Row, ...] = (),
    optional: tuple[Row, ...] = (),
    **columns: Any,
) -> Row:
    """Insert an appointment so many days ahead (negative: ago), with its participants."""
    end_hour, end_minute = hour + minutes // 60, minutes % 60
    given = {"place": maker.location(), "status": "held" if day < 0 else "planned"} | columns
    appointment = maker.insert(
        "appointments",
        organiser_id=organiser["id"],
        customer_id=customer["id"],
        subject=subject or appointment_subjects(maker, 1)[0],
        starts_at=maker.ahead(day, hour),
        ends_at=maker.ahead(day, end_hour, end_minute),
        **given,
    )
    for people, presence in ((invites, "required"), (optional, "optional")):
        for employee in people:
            if employee["id"] != organiser["id"]:
                new_participant(maker, appointment, employee, presence)
    return appointment


def new_participant(
    maker: Maker, appointment: Row, employee: Row, presence: str = "required"
) -> Row:
    """Insert that an employee takes part in an appointment."""
    return maker.insert(
        "participants",
        appointment_id=appointment["id"],
        employee_id=employee["id"],
        presence=presence,
    )


def free_day(maker: Maker, *employees: Row, least: int = 12, most: int = 50) -> int:
    """Return the offset of a working day on which none of these employees has an appointment."""
    ids = {row["id"] for row in employees}
    for _ in range(200):
        offset = maker.rng.randrange(least, most)
        day = maker.day(offset)
        busy = any(
            row["starts_at"][:10] == day
            and (row["organiser_id"] in ids or _takes_part(maker, row, ids))
            for row in maker.rows("appointments")
        )
        if not busy and date.fromisoformat(day).weekday() < 5:
            return offset
    return most


def _takes_part(maker: Maker, appointment: Row, ids: set[int]) -> bool:
    found = maker.rows("participants", appointment_id=appointment["id"])
    return any(row["employee_id"] in ids for row in found)
