"""Rows of loans, bookings, calendars, shifts and training that the crossing situations plant."""

from typing import Literal

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.bookings.make import new_resource
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.loans.make import item_titles, new_item, new_loan
from rehearsal_room.scenarios.generate.modules.naming import new_title
from rehearsal_room.scenarios.generate.modules.staff.make import new_employee, new_team


def lendable(maker: Maker, count: int) -> list[Row]:
    """Return so many different things that are lent, each with a name that no item has yet; [] when
    there are too few."""
    known = {row["title"] for row in maker.rows("items")}
    names = sorted(item_titles(maker, 10), key=known.__contains__)  # new ones first
    return [
        {"name": new_title(maker, "items", "title", name, again=" {}") if name in known else name}
        for name in names[:count]
    ]


def plant_item(maker: Maker, thing: Row) -> Row:
    """Insert an item that is in."""
    return new_item(maker, thing["name"])


def plant_loan(
    maker: Maker,
    customer: Row,
    thing: Row,
    *,
    due: int,
    renewals: int = 0,
    back: int | None = None,
) -> tuple[Row, Row]:
    """Insert an item and its loan, due in so many days; `back`: returned so many days ago."""
    item = plant_item(maker, thing)
    return item, new_loan(maker, item, customer, due=due, renewals=renewals, back=back)


def plant_wait(maker: Maker, item: Row, customer: Row, days: int) -> Row:
    """Insert that a customer has waited for an item for so many days."""
    return maker.insert(
        "reservations", item_id=item["id"], customer_id=customer["id"], made_on=maker.day(-days)
    )


def plant_resource(maker: Maker, *, capacity: int = 8) -> Row:
    """Insert an active resource."""
    return new_resource(maker, capacity=capacity)


def plant_slot(
    maker: Maker, resource: Row, day: int, hour: int = 10, *, cents: int | None = None
) -> Row:
    """Insert a slot of two hours of a resource, in so many days."""
    return maker.insert(
        "slots",
        resource_id=resource["id"],
        starts_at=maker.ahead(day, hour),
        ends_at=maker.ahead(day, hour + 2),
        price_cents=maker.cents(2_000, 12_000, 100) if cents is None else cents,
    )


def plant_booking(
    maker: Maker, customer: Row, slot: Row, people: int = 2, status: str = "booked"
) -> Row:
    """Insert a booking of a slot, made a while ago."""
    return maker.insert(
        "bookings",
        reference=new_code(maker, "bookings", "reference", "BK"),
        slot_id=slot["id"],
        customer_id=customer["id"],
        num_people=people,
        status=status,
        made_by=maker.rng.choice(maker.rows("employees", active=1))["id"],
        made_at=maker.ago(maker.rng.randrange(61, 80)),
    )


def plant_appointment(
    maker: Maker,
    customer: Row,
    organiser: Row,
    *,
    subject: str,
    day: int,
    hour: int = 10,
    others: tuple[Row, ...] = (),
    minutes: Literal[30, 60, 90] = 60,
) -> Row:
    """Insert an appointment in so many days (negative: held), with others who must be there."""
    end = hour * 60 + minutes
    appointment = maker.insert(
        "appointments",
        organiser_id=organiser["id"],
        customer_id=customer["id"],
        subject=subject,
        place=maker.location(),
        starts_at=maker.ahead(day, hour),
        ends_at=maker.ahead(day, end // 60, end % 60),
        status="held" if day < 0 else "planned",
    )
    for employee in others:
        maker.insert("participants", appointment_id=appointment["id"], employee_id=employee["id"])
    return appointment


def clear_day(maker: Maker, least: int, most: int) -> int:
    """In how many days is a day on which nobody has an appointment, a shift, a session or leave."""

    def is_clear(days: int) -> bool:
        day = maker.day(days)
        return not (
            maker.rows("appointments", lambda row: row["starts_at"][:10] == day)
            or maker.rows("shifts", worked_on=day)
            or maker.rows("course_sessions", held_on=day)
            or maker.rows("absences", lambda row: row["first_day"] <= day <= row["last_day"])
        )

    days = list(range(least, most + 1))
    maker.rng.shuffle(days)
    return next((one for one in days if is_clear(one)), days[0])


def plant_team(maker: Maker, *roles: str) -> tuple[Row, list[Row]]:
    """Insert a team of new employees with these roles, ordered by name."""
    team = new_team(maker)
    return team, [new_employee(maker, role, team_id=team["id"]) for role in roles]
