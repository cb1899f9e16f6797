"""Seed rows of the customers, and helpers that insert customers, families and addresses.

Pools: customer_notes (what a note on a customer says; a sentence each).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.vocabulary.people import Person, ascii_of

# Trades whose customers are businesses: without households and families.
TRADE_CUSTOMERS = (
    *("pharmacy_wholesale", "bakery_supply", "machine_service", "laboratory", "event_venue"),
    *("accounting_office", "print_shop", "farm_cooperative", "film_rental", "coworking"),
)
# Trades in which no colleague looks after a customer: people walk in, or there are too many.
WALK_IN_TRADES = (
    *("airline_lounge", "bike_workshop", "car_rental", "coworking", "courier_service"),
    *("dental_clinic", "gym", "hotel", "language_school", "museum", "outdoor_shop"),
    *("permits_office", "plant_nursery", "public_library", "theatre", "veterinary_practice"),
)

_NOTES = (
    "Prefers to be called in the evening.",
    "Was very pleased with how the last matter was handled.",
    "Asks for letters in large print.",
    "Comes with a guide dog; please keep the entrance free.",
)


def rows(maker: Maker) -> None:
    """Customers, some of whose names are easily mistaken, with one or two addresses each."""
    employees = maker.rows("employees", active=1)
    customer: Row | None = None
    for index in range(maker.many(8, least=1)):
        customer = new_customer(
            maker,
            like=customer if maker.is_lookalike() else None,
            status="blocked" if index and maker.chance(0.08) else "active",
        )
        if maker.chance(0.15):
            new_address(maker, customer)
        if maker.chance(0.2):
            maker.insert(
                "customer_notes",
                customer_id=customer["id"],
                author_id=maker.rng.choice(employees)["id"],
                body=maker.rng.choice(maker.pool("customer_notes", *_NOTES)),
                written_at=maker.ago(maker.rng.randrange(5, 200)),
            )


def new_customer(
    maker: Maker,
    *,
    like: Row | None = None,
    last: str | None = None,
    city: str | None = None,
    **columns: Any,
) -> Row:
    """Insert an active customer with one address, and return the customer's row.

    `like`: a customer for whom the new one is easily mistaken by name. `last`: the last name, for
    the members of a family. `city`: the town of the address. `columns`: other columns' values.
    """
    if like is not None:
        person = maker.like(_person_of(like))
    elif last is not None:
        person = _relative(maker, last)
    else:
        person = maker.person()
    given = {
        "name": person.name,
        "email": person.email,
        "phone": person.phone,
        "status": "active",
        "since": maker.day(-maker.rng.randrange(100, 2_000)),
    } | columns
    if "owner_id" not in given:
        given["owner_id"] = maker.rng.choice(maker.rows("employees", active=1))["id"]
    customer = maker.insert("customers", **given)
    new_address(maker, customer, city=city or person.city, is_main=1)
    return customer


def new_family(maker: Maker, count: int, **columns: Any) -> tuple[str, list[Row]]:
    """Insert this many active customers of one last name that nobody else has, at one address, and
    return the last name and the customers."""
    last = maker.people.last()
    while _bearers(maker, last):
        last = maker.people.last()
    first = new_customer(maker, last=last, **columns)
    home = main_address(maker, first)
    family = [first]
    for _ in range(count - 1):
        member = new_customer(maker, last=last, **columns)
        main_address(maker, member).update(
            {name: home[name] for name in ("street", "city", "postcode")}
        )
        family.append(member)
    return last, family


def new_note(
    maker: Maker, customer: Row, body: str, *, author: Row | None = None, days: int = 5
) -> Row:
    """Insert a note on a customer, by the owner of the record unless an author is given."""
    return maker.insert(
        "customer_notes",
        customer_id=customer["id"],
        author_id=customer["owner_id"] if author is None else author["id"],
        body=body,
        written_at=maker.ago(days),
    )


def is_only_family(maker: Maker, last: str, family: list[Row]) -> bool:
    """Whether a search for the last name finds this family alone. Call it late."""
    return len(_bearers(maker, last)) == len(family)


def _bearers(maker: Maker, last: str) -> list[Row]:
    low = last.casefold()
    return maker.rows(
        "customers", lambda row: low in row["name"].casefold() or low in row["email"].casefold()
    )


def new_address(maker: Maker, customer: Row, **columns: Any) -> Row:
    """Insert an address of a customer, not the main one unless `is_main=1` is given."""
    given = {
        "street": maker.people.street(),
        "city": maker.people.city(),
        "postcode": f"{maker.rng.randrange(10_000, 99_999)}",
        "is_main": 0,
    } | columns
    return maker.insert("addresses", customer_id=customer["id"], **given)


def main_address(maker: Maker, customer: Row) -> Row:
    """Return the main address of a customer."""
    return maker.rows("addresses", customer_id=customer["id"], is_main=1)[0]


def _person_of(customer: Row) -> Person:
    first, _, last = customer["name"].partition(" ")
    return Person(first, last or first, customer["email"], customer["phone"], "", "", "")


def _relative(maker: Maker, last: str) -> Person:
    """A new person with this last name."""
    known = {row[column] for row in maker.rows("customers") for column in ("name", "email")}
    person = maker.person()
    while True:
        first = maker.people.first()
        host = person.email.partition("@")[2]
        email = f"{ascii_of(first)}.{ascii_of(last)}@{host}"
        if f"{first} {last}" not in known and email not in known:
            return maker.people.renamed(person, first, last, email)


def some_customer(maker: Maker) -> Row:
    """An active customer."""
    customer = maker.pick("customers", status="active")
    assert customer is not None, "the first customer is active"
    return customer


def lookalikes(maker: Maker, customer: Row) -> tuple[tuple[str, int], ...]:
    """Customers that share a first or a last name with this one."""
    names = set(customer["name"].split())
    near = maker.rows("customers", lambda row: row["id"] != customer["id"])
    return tuple(("customers", row["id"]) for row in near if names & set(row["name"].split()))
