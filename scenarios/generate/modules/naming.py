"""Naming records that have a reference or a title in instructions, and other texts of drafts.

Such a record has two tools with its word: `get_case(case_id)`, and `search_cases(query)`, which
searches references, titles and names of customers.
"""

from scenarios.generate.content.world_maker import Maker


def new_title(maker: Maker, table: str, column: str, text: str, *, again: str = ", part {}") -> str:
    """Return the text, with a number when a row of the table has it already: lookalikes. `again` is
    how the number follows.

    Example: "Refit of the North depot" -> "Refit of the North depot, part 2"
    """
    title, number = text, 1
    while maker.rows(table, **{column: title}):
        number += 1
        title = text + again.format(number)
    return title


def known_text(maker: Maker, table: str, column: str) -> str:
    """Return the value of a column in any row of a table.

    A request that must be declined names an existing value, since no call adds one to the world.
    """
    row = maker.pick(table)
    assert row is not None, f"there are {table}"
    return str(row[column])
