"""The modules about work and things: projects, cases, devices, loans, inspections, training,
warranties, documents, shifts, fleet."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.generate.content.drawn_world import draw_world
from scenarios.generate.plan.business_modules import BASE, module, module_names
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.world_plans import plan_worlds
from tests.support.generated_worlds import drafts_of, drafts_used, gated, made_with

NAMES = (
    *("projects", "cases", "devices", "loans", "inspections"),
    *("training", "warranties", "documents", "shifts", "fleet"),
)
LONG = Knobs(tasks=40, steps=4, forbidden=0.35, memory=0.2)  # many parts of every kind
CONFLICT = "together: "  # in the reasons why drafts that are valid alone cannot be combined


def twice(items: Sequence[str]) -> list[str]:
    return [item for item, times in Counter(items).items() if times > 1]


def drafts_by_kind(name: str) -> dict[str, set[str]]:
    """The functions of a module that draft tasks of each kind."""
    found: dict[str, set[str]] = {"change": set(), "question": set(), "decline": set()}
    for plan in plan_worlds(4, 11, modules=[name], among=()):
        world = draw_world(plan)
        world.maker.start_module(name, world.dressers[name])
        for function in module(name).drafts * 4:
            draft = function(world.maker)
            if draft is not None:
                found[draft.kind].add(function.__name__)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_module_works_with_the_base_alone(name: str, tmp_path: Path) -> None:
    """With only the modules that every world has, a module makes worlds that pass the gate, all
    its drafts are used, and no call of a draft fails."""
    worlds = made_with([name], count=3, seed=11, knobs=LONG, until=drafts_of(name))
    report = gated(worlds[:1], tmp_path)
    assert (report.failures, report.mutants_caught) == ((), report.mutants)
    assert drafts_of(name) - set(drafts_used(worlds)) == set()
    broken = {
        why
        for made in worlds
        for why in made.dropped
        if why.startswith(f"{name}.") and CONFLICT not in why and ": call " in why
    }
    assert broken == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_tasks_of_each_kind(name: str) -> None:
    """A module drafts at least five changes, two questions and two requests to decline."""
    drafted = drafts_by_kind(name)
    few = {"change": 5, "question": 2, "decline": 2}
    assert {kind: drafted[kind] for kind, least in few.items() if len(drafted[kind]) < least} == {}


def test_the_modules_can_be_combined_with_all_others(tmp_path: Path) -> None:
    """A world with all of these modules and others passes the gate, 99 % of the mutants caught."""
    worlds = made_with(NAMES, count=1, seed=3, among=module_names(), knobs=Knobs(tables=60))
    report = gated(worlds, tmp_path)
    assert report.failures == ()
    assert report.mutants_caught >= 0.99 * report.mutants > 0


def test_names_are_unique() -> None:
    """No two modules share a table, a name in tools.py, a parameter or a word."""
    every = [module(name) for name in module_names()]
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
def test_a_module_needs_no_other(name: str) -> None:
    """These modules need only the base, and have two to four tables and five to nine tools."""
    one = module(name)
    assert one.needs == BASE
    assert (2 <= len(one.tables) <= 4, 5 <= len(one.tools) <= 9) == (True, True)


def test_modules_can_make_many_rows() -> None:
    """A module can make ten times the usual number of rows."""
    [made] = made_with(NAMES[:5], count=1, seed=2, knobs=Knobs(rows=2_000, tables=30))
    assert made.rows > 1_000
