"""Naming records that have a reference or a title in instructions, and other texts of drafts.

Such a record has two tools with its word: `get_case(case_id)`, and `search_cases(query)`, which
searches references, titles and names of customers.
"""

from itertools import chain, count

from rehearsal_room.scenarios.generate.content.world_maker import Maker


def new_title(
    maker: Maker,
    table: str,
    column: str,
    text: str,
    *,
    again: str = ", part {}",
    first: tuple[str, ...] = (),
) -> str:
    """Return the text, with an ending when a row of the table has it already: lookalikes.

    The endings are `first`, then numbers; `again` is how a number follows.

    Example: "Refit of the North depot" -> "Refit of the North depot, part 2"
    """
    numbered = (again.format(number) for number in count(2))
    for ending in chain(("",), first, numbered):
        if not maker.rows(table, **{column: text + ending}):
            return text + ending
    raise AssertionError("numbers do not end")


def known_text(maker: Maker, table: str, column: str) -> str:
    """Return the value of a column in any row of a table.

    A request that must be declined names an existing value, since no call adds one to the world.
    """
    row = maker.pick(table)
    assert row is not None, f"there are {table}"
    return str(row[column])
