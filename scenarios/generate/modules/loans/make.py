"""Seed rows of the loans, and helpers that insert items, loans and reservations.

Pools: item_titles (what is lent: a thing such as "Tool case", or a work such as "The Long Road").
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer

_TITLES = (
    *("Projector", "Folding table", "Tool case", "Extension ladder", "Party tent", "Hand cart"),
    *("Loudspeaker pair", "Steam cleaner", "Transport box", "Measuring set"),
)


def rows(maker: Maker) -> None:
    """A few items in and out."""
    for index in range(maker.many(3, least=1)):
        item = new_item(maker, condition=maker.one_of("good", "worn"))
        if index % 2:
            new_loan(maker, item, some_customer(maker), due=maker.rng.randrange(2, 12))
        else:
            new_loan(maker, item, some_customer(maker), due=-20, back=22)


def item_titles(maker: Maker, count: int = 1) -> list[str]:
    """Return this many different things that are lent."""
    pool = maker.pool("item_titles", *_TITLES)
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *_TITLES)))
    return maker.rng.sample(texts, k=count)


def new_item(maker: Maker, title: str | None = None, **columns: Any) -> Row:
    """Insert an item that is in and in good condition."""
    return maker.insert(
        "items",
        code=new_code(maker, "items", "code", "IT"),
        title=title or item_titles(maker)[0],
        **({"condition": "good", "status": "in"} | columns),
    )


def new_loan(
    maker: Maker,
    item: Row,
    customer: Row,
    *,
    due: int = 5,
    renewals: int = 0,
    back: int | None = None,
) -> Row:
    """Insert a loan that is due in so many days (negative: overdue); it lends the item out, unless
    the item came back `back` days ago."""
    if back is None:
        item["status"] = "lent"
    length = maker.parameters["LOAN_DAYS"]
    return maker.insert(
        "loans",
        item_id=item["id"],
        customer_id=customer["id"],
        lent_on=maker.day(due - length * (renewals + 1)),
        due_on=maker.day(due),
        returned_on=None if back is None else maker.day(-back),
        num_renewals=renewals,
    )


def lent_item(
    maker: Maker, customer: Row, title: str | None = None, *, due: int = 5, renewals: int = 0
) -> tuple[Row, Row]:
    """Insert an item that a customer has, and its loan; return both."""
    item = new_item(maker, title)
    return item, new_loan(maker, item, customer, due=due, renewals=renewals)


def new_reservation(maker: Maker, item: Row, customer: Row, days: int = 3) -> Row:
    """Insert that a customer has waited for an item for so many days."""
    return maker.insert(
        "reservations",
        item_id=item["id"],
        customer_id=customer["id"],
        made_on=maker.day(-days),
    )


def item_phrase(title: str) -> str:
    """Return what is lent as prose says it: works (with a
    second capital letter) by their title, other things with an article.

    Example: item_phrase("Folding table") -> "the folding table"
    """
    if any(word[0].isupper() for word in title.split()[1:]):
        return f"‘{title}’"
    return f"the {title[0].lower()}{title[1:]}"
