"""Business modules, and the pieces of their code; people of all locales."""

import re
from random import Random

import pytest

from rehearsal_room.scenarios.generate.plan.business_modules import (
    BASE,
    Column,
    code_of,
    module,
    module_names,
    needed_pieces,
    shared_code,
    with_needs,
)
from rehearsal_room.scenarios.generate.vocabulary.people import People, pools_of, respellings
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names

TOOLS = '''\
"""Tools."""

import re
from typing import Literal

from rehearsal_room.scenarios.generate.modules.common import Id

MOST_DAYS = 3  # of a stay
_SIZES = ("s", "m")


# Looks a thing up.
def _thing(db: Db) -> str:
    return re.escape(_SIZES[0])


def get_thing(db: Db, thing_id: Id) -> str:
    """One thing."""
    return _thing(db)


def count_days(db: Db, kind: Literal["a"]) -> int:
    """Days."""
    return MOST_DAYS
'''


def test_code_is_cut_into_statements_with_their_comments() -> None:
    """Imports are known by the name that they bind, without those of scenarios.generate; each
    statement keeps the comment above it, and public functions are tools."""
    code = code_of(TOOLS)
    assert code.imports == {"re": ("", "re"), "Literal": ("typing", "Literal")}
    assert [(piece.name, piece.is_tool, piece.is_block) for piece in code.pieces] == [
        ("MOST_DAYS", False, False),
        ("_SIZES", False, False),
        ("_thing", False, True),
        ("get_thing", True, True),
        ("count_days", True, True),
    ]
    assert code.pieces[2].text.startswith("# Looks a thing up.\ndef _thing(")


def test_a_tool_needs_the_pieces_that_it_mentions() -> None:
    """Only helpers and constants that a tool mentions, directly or not, come with it."""
    assert needed_pieces(code_of(TOOLS).pieces, ["get_thing"]) == {"get_thing", "_thing", "_SIZES"}


def test_tables_have_defaults_and_references() -> None:
    """A module's tables are read from the schema by SQLite."""
    assert module("orders").tables["orders"].columns["status"] == Column("status", "open", None)
    assert module("orders").tables["order_lines"].columns["order_id"].refers == "orders"


def test_needs_come_first() -> None:
    """The modules that a module needs come before it, and the base comes first."""
    assert with_needs(["orders"]) == (*BASE, "orders")
    for name in module_names():
        order = with_needs([name])
        assert all(set(module(one).needs) <= set(order[: order.index(one)]) for one in order)


def _defined(name: str) -> set[str]:
    one = module(name)
    pieces = {piece.name for piece in one.code.pieces}
    return pieces | set(one.tables) | set(one.head.words) | set(one.head.parameters)


def test_modules_do_not_conflict() -> None:
    """No two modules define a table, function, constant, parameter or word of the same name."""
    owners: dict[str, list[str]] = {}
    for name in module_names():
        for defined in sorted(_defined(name)):
            owners.setdefault(defined, []).append(name)
    assert {defined: names for defined, names in owners.items() if len(names) > 1} == {}


@pytest.mark.parametrize("name", module_names())
def test_modules_are_complete(name: str) -> None:
    """A module has its tables, tools, rules, and constants for its parameters, and defines no name
    of the shared code."""
    one = module(name)
    constants = {piece.name for piece in one.code.pieces}
    assert 2 <= len(one.tables) <= 4
    assert len(one.tools) >= 5
    assert one.policy.startswith("- ")
    assert set(one.head.parameters) <= constants
    assert not constants & {piece.name for piece in shared_code().pieces}


@pytest.mark.parametrize("locale", sorted({trade(name).locale for name in trade_names()}))
def test_every_locale_has_enough_people(locale: str) -> None:
    """A world can draw its people from any trade's locale."""
    pools = pools_of(locale)
    assert len(pools.firsts) * len(pools.lasts) > 10_000
    assert len(pools.cities) > 20
    assert len(pools.companies) > 40


@pytest.mark.parametrize("locale", sorted({trade(name).locale for name in trade_names()}))
def test_a_lookalike_shares_a_name_and_the_country(locale: str) -> None:
    """A lookalike has the same first or last name and a phone number of the same country; no
    letter of the last name occurs three times in a row."""
    people = People(locale, Random(5))
    for _ in range(60):
        one = people.person()
        other = people.like(one)
        assert one.first == other.first or one.last == other.last
        assert one.phone.split()[0] == other.phone.split()[0]
        assert not re.search(r"(.)\1\1", other.last.casefold())


@pytest.mark.parametrize(
    ("name", "respelt"),
    [
        ("Griffin", ["Gryffin", "Griffyn", "Grifin"]),
        ("Andersen", ["Anderson"]),
        ("Blackburn", ["Blakburn"]),
        ("Wu", []),
    ],
)
def test_a_surname_has_other_spellings(name: str, respelt: list[str]) -> None:
    """Sounds are spelt differently; a name without such a sound has no other spelling."""
    assert respellings(name) == respelt
