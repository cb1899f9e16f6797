"""Business modules of generated worlds: stock, payments, refunds, returns, shipments, invoices,
suppliers, coupons."""

from functools import cache
from pathlib import Path

import pytest

from scenarios.generate.compose import GeneratedWorld
from scenarios.generate.plan.business_modules import module
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.vocabulary.trades import trade
from tests.support.generated_worlds import drafts_of, drafts_used, gated, made_with

MODULES = (
    *("stock", "payments", "refunds", "returns", "shipments", "invoices", "suppliers", "coupons"),
)
MANY = Knobs(tasks=60, steps=2, forbidden=0.35, memory=0.2)  # so that every draft gets its turn


@cache
def worlds_of(name: str) -> tuple[GeneratedWorld, ...]:
    """A few worlds with only the module, the modules that it needs and the base."""
    return tuple(made_with([name], count=5, seed=3, knobs=MANY, until=drafts_of(name)))


@pytest.mark.parametrize("name", MODULES)
def test_every_draft_is_used_and_valid(name: str) -> None:
    """With only the base, all drafts of a module become parts of tasks within a few worlds, and
    none of them fails by itself."""
    worlds = worlds_of(name)
    assert drafts_of(name) - drafts_used(worlds).keys() == set()
    faults = [why for world in worlds for why in world.dropped if why.startswith(f"{name}.")]
    assert [why for why in faults if ": together:" not in why and "came between" not in why] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_enough_tables_tools_and_kinds(name: str) -> None:
    """Every module has two to four tables, five tools or more, and begins tasks of every kind."""
    one = module(name)
    tasks = [task for world in worlds_of(name) for task in world.tasks]
    kinds = {task.kind for task in tasks if task.drafts[0].startswith(f"{name}.")}
    assert (2 <= len(one.tables) <= 4, len(one.tools) >= 5) == (True, True)
    assert kinds == {"change", "question", "decline"}


@pytest.mark.parametrize("name", MODULES)
def test_a_world_of_a_module_passes_the_gate(name: str, tmp_path: Path) -> None:
    """Every check passes, and at least 99 of 100 mutants are caught."""
    report = gated(made_with([name], count=1, seed=11), tmp_path)
    assert report.failures == ()
    assert report.mutants_caught / report.mutants >= 0.99


def test_all_modules_can_be_combined(tmp_path: Path) -> None:
    """A world with all eight modules passes every check, and no mutant completes a task."""
    worlds = made_with(MODULES, count=1, seed=5, knobs=Knobs(tables=60, rows=300, tasks=20))
    report = gated(worlds, tmp_path)
    assert (report.failures, report.mutants_caught) == ((), report.mutants)


@pytest.mark.parametrize("name", ("hotel", "pharmacy_wholesale", "law_office"))
def test_a_trade_can_have_all_modules_that_it_does_not_exclude(name: str, tmp_path: Path) -> None:
    """Dressed in the words of very different trades, the modules still pass every check."""
    modules = [one for one in MODULES if one not in trade(name).without]
    knobs = Knobs(tables=60, rows=200)
    report = gated(made_with(modules, count=1, seed=2, trades=[name], knobs=knobs), tmp_path)
    assert report.failures == ()
