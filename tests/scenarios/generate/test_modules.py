"""The business modules of generated worlds: what each must have, alone and beside all others."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from rehearsal_room.scenarios.generate.plan.business_modules import BASE, module, module_names
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names
from tests.support.budgets import repeats
from tests.support.generated_worlds import gated, made_with

NAMES = module_names()
OPTIONAL = [name for name in NAMES if name not in BASE]
TRADES = ("pharmacy_wholesale", "law_office", "hotel")[: repeats(short=1, long=3)]
_ABOUT = re.compile(r"^- \[([a-z_, ]+)\] ", re.MULTILINE)


def twice(items: Iterable[str]) -> list[str]:
    return [item for item, times in Counter(items).items() if times > 1]


def test_names_are_unique() -> None:
    """No two modules share a table, a name in tools.py, a parameter or a word."""
    every = [module(name) for name in NAMES]
    tables = [table for one in every for table in one.tables]
    pieces = [piece.name for one in every for piece in one.code.pieces]
    parameters = [name for one in every for name in one.head.parameters]
    words = [word for one in every for pair in one.head.words.items() for word in pair]
    assert (twice(tables), twice(pieces), twice(parameters), twice(words)) == ([], [], [], [])


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_constants_that_the_policy_names(name: str) -> None:
    """Every parameter of a module is a constant of its tools and is named in its policy."""
    one = module(name)
    constants = {piece.name for piece in one.code.pieces if not piece.is_block}
    named = {parameter for parameter in one.head.parameters if f"{{{parameter}}}" in one.policy}
    assert (set(one.head.parameters) - constants, named) == (set(), set(one.head.parameters))


@pytest.mark.parametrize("name", NAMES)
def test_rules_name_tools_that_exist(name: str) -> None:
    """The tools with which a bullet of the policy begins are tools of some module; every line of
    the policy is a bullet."""
    every = {tool for one in NAMES for tool in module(one).tools}
    policy = module(name).policy
    named = {tool.strip() for found in _ABOUT.findall(policy) for tool in found.split(",")}
    assert named - every == set()
    assert [line for line in policy.splitlines() if not line.startswith("- ")] == []


@pytest.mark.parametrize("name", OPTIONAL)
def test_sizes(name: str) -> None:
    """A module has two to four tables and five tools or more."""
    one = module(name)
    assert (2 <= len(one.tables) <= 4, len(one.tools) >= 5) == (True, True)


@pytest.mark.parametrize("name", OPTIONAL[:: repeats(short=6, long=1)])
def test_a_world_of_a_module_passes_the_gate(name: str, tmp_path: Path) -> None:
    """Beside the base alone every check passes, and at least 99 of 100 mutants are caught. (`just
    test` tries every sixth module, `just test-long` all of them.)"""
    trades = [one for one in trade_names() if name in trade(one).modules]
    report = gated(made_with([name], count=1, seed=11, trades=trades[:3]), tmp_path)
    assert report.failures == ()
    assert report.mutants_caught >= 0.99 * report.mutants > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", TRADES)
def test_a_trade_can_have_all_of_its_modules(name: str, tmp_path: Path) -> None:
    """In the words of very different trades, the modules pass every check together."""
    knobs = Knobs(tables=60, rows=300, tools=120, tasks=20)
    worlds = made_with(trade(name).modules, count=1, seed=2, trades=[name], knobs=knobs)
    report = gated(worlds, tmp_path)
    assert report.failures == ()
    assert report.mutants_caught >= 0.99 * report.mutants > 0


def test_modules_can_make_many_rows() -> None:
    """A module can make ten times the usual number of rows."""
    names = trade("outdoor_shop").modules[:6]
    knobs = Knobs(rows=2_000, tables=30)
    [made] = made_with(names, count=1, seed=2, trades=["outdoor_shop"], knobs=knobs)
    assert made.rows > 1_000
