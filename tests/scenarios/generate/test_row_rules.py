"""Rules of generated worlds that are data, too."""

import msgspec
import pytest

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.scenarios.format import RowRule
from rehearsal_room.scenarios.generate.compose import generate
from rehearsal_room.scenarios.generate.plan.business_modules import module, module_names
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds

SMALL = Knobs(tasks=2, rows=60)


def test_a_world_states_its_limits_as_data() -> None:
    """The words are those of the policy, the query has the world's own words and limit."""
    [plan] = plan_worlds(1, 7, SMALL, trades=["hotel"], modules=["orders"], among=())
    package = generate(plan, host_in_process).package
    [rule] = [one for one in package.row_rules if "open" in one.rule]
    assert f"- {rule.rule}\n" in f"{package.policy}\n"
    limit = next(word for word in rule.rule.split() if word.isdecimal())
    assert rule.broken_by.endswith(f"HAVING count(*) > {limit}")
    assert package.broken_rules() == []
    text = package.texts()["scenario.toml"]
    assert text.count("[[row_rules]]") == len(package.row_rules)


def test_rows_that_break_a_rule_are_found() -> None:
    """So that the world is drawn again."""
    [plan] = plan_worlds(1, 7, SMALL, modules=["orders"], among=())
    package = generate(plan, host_in_process).package
    everybody = RowRule("Nobody works here.", "SELECT id FROM employees")
    broken = msgspec.structs.replace(package, row_rules=(everybody,))
    assert broken.broken_rules() == ["Nobody works here."]


@pytest.mark.slow  # thirteen draws of a world
def test_a_world_that_no_situations_suit_is_another_one() -> None:
    """In its first draw, one employee of three has seven unsolved tickets, of four at most."""
    plan = plan_worlds(5, 5150)[-1]
    assert generate(plan, host_in_process).package.broken_rules() == []


def test_rules_as_data_are_about_parameters() -> None:
    """Each belongs to a parameter of its module, which the policy names."""
    for name in module_names():
        one = module(name)
        assert set(one.head.row_rules) <= set(one.head.parameters), name
        assert all(f"{{{each}}}" in one.policy for each in one.head.row_rules), name
