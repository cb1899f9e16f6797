"""How instructions name records that have a reference or a title; whom else a draft speaks of.

What is named here has two tools in the same words: `get_case(case_id)`, and `search_cases(query)`,
which looks into references, titles and names of customers.
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
    """How an instruction names a row of a table, and the calls that find it.

    `word` is the noun, whose plural (empty: the regular one) names the search; `code` and `title`
    are columns whose values no other row has. A row with a customer is also named by them, if it
    is their only one.

    Example: Named("the case {case}", {"case": "CA-4071"}, (search_cases, get_case))
    """
    look = call(f"get_{word}", **{f"{word}_id": row["id"]})
    if not maker.is_vague():
        return Named(f"{word} {{{word}}}", {word: row["id"]}, (look,))
    ways = [(f"the {word} {{{word}}}", row[code])]
    if title:
        ways.append((f"the {word} “{{{word}}}”", row[title]))
    customer = row.get("customer_id")
    if customer is not None and len(maker.rows(table, customer_id=customer)) == 1:
        name = maker.get("customers", customer)["name"]
        ways.append((f"the only {word} of {{{word}}}", name))
    text, value = maker.rng.choice(ways)
    return Named(text, {word: value}, (call(f"search_{plural or word + 's'}", query=value), look))


def new_title(maker: Maker, table: str, column: str, text: str) -> str:
    """The text, numbered when a row of the table has it already: such rows look alike.

    Example: "Refit of the North depot" -> "Refit of the North depot, part 2"
    """
    title, number = text, 1
    while maker.rows(table, **{column: title}):
        number += 1
        title = f"{text}, part {number}"
    return title


def known_text(maker: Maker, table: str, column: str) -> str:
    """What some row of a table says in a column: a request that must be declined names what is
    there, for no call brings it into the world."""
    row = maker.pick(table)
    assert row is not None, f"there are {table}"
    return str(row[column])


def some_colleague(maker: Maker, *without: int) -> Row | None:
    """An active employee, neither the acting one nor one of these."""
    barred = (maker.me["id"], *without)
    return maker.pick("employees", lambda row: row["id"] not in barred, active=1)
