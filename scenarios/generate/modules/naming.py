"""Naming records that have a reference or a title in instructions, and other texts of drafts.

Such a record has two tools with its word: `get_case(case_id)`, and `search_cases(query)`, which
searches references, titles and names of customers.
"""

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Named, call


def record_named(
    maker: Maker,
    table: str,
    row: Row,
    word: str,
    *,
    plural: str = "",
    code: str = "reference",
    title: str = "",
) -> Named:
    """Return how an instruction names a row of a table, and the calls that find the row.

    `word` is the noun, whose plural (empty: the regular one) names the search; `code` and `title`
    are columns whose values no other row has. A row with a customer may also be named by the
    customer, if it is their only row.

    Example: Named("the case {case}", {"case": "CA-4071"}, (search_cases, get_case))
    """
    lookup = call(f"get_{word}", **{f"{word}_id": row["id"]})
    if not maker.is_vague():
        return Named(f"{word} {{{word}}}", {word: row["id"]}, (lookup,))
    ways = [(f"the {word} {{{word}}}", row[code])]
    if title:
        ways.append((f"the {word} “{{{word}}}”", row[title]))
    customer = row.get("customer_id")
    if customer is not None and len(maker.rows(table, customer_id=customer)) == 1:
        name = maker.get("customers", customer)["name"]
        ways.append((f"the only {word} of {{{word}}}", name))
    text, value = maker.rng.choice(ways)
    return Named(text, {word: value}, (call(f"search_{plural or word + 's'}", query=value), lookup))


def new_title(maker: Maker, table: str, column: str, text: str) -> str:
    """Return the text, with a number when a row of the table has it already: lookalikes.

    Example: "Refit of the North depot" -> "Refit of the North depot, part 2"
    """
    title, number = text, 1
    while maker.rows(table, **{column: title}):
        number += 1
        title = f"{text}, part {number}"
    return title


def known_text(maker: Maker, table: str, column: str) -> str:
    """Return the value of a column in any row of a table.

    A request that must be declined names an existing value, since no call adds one to the world.
    """
    row = maker.pick(table)
    assert row is not None, f"there are {table}"
    return str(row[column])


def some_colleague(maker: Maker, *without: int) -> Row | None:
    """Return an active employee, neither the acting one nor one of these."""
    barred = (maker.me["id"], *without)
    return maker.pick("employees", lambda row: row["id"] not in barred, active=1)
