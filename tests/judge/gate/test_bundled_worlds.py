"""The bundled worlds keep their promises."""

from collections import Counter
from contextlib import closing

import pytest

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.judge.gate.core.task_runner import MAX_MUTANTS, PROBES, GateSettings
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.catalogue import bundled_names, find
from tests.support.budgets import repeats

# `just gate`, which CI runs, tries all mutants; here a few of each task show that a world is sound.
SETTINGS = GateSettings(
    max_mutants=repeats(short=2, long=MAX_MUTANTS), probes=repeats(short=4, long=PROBES)
)
NAMES = ("claims_desk", "flight_desk", "shop_support")


def test_these_worlds_are_bundled() -> None:
    """The catalogue has the three worlds."""
    assert tuple(bundled_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_world_is_large(name: str) -> None:
    """It has at least 15 tables with keys, 120 rows, 28 tools and 20 tasks, with every difficulty
    and kind, and some with a trap."""
    scenario = find(name)
    with closing(HostedScenario(scenario)) as world:
        rows = {table: len(found) for table, found in world.dump(world.lease().overlay).items()}
        tables = world.template.tables.values()
        num_tools = len(world.tools)

    assert len(rows) >= 15
    assert sum(rows.values()) >= 120
    assert all(table.key for table in tables)
    assert num_tools >= 28
    assert len(scenario.tasks) >= 20
    assert min(Counter(task.difficulty for task in scenario.tasks).values()) >= 3
    assert set(Counter(task.difficulty for task in scenario.tasks)) == {"simple", "medium", "hard"}
    assert set(Counter(task.kind for task in scenario.tasks)) == {"change", "question", "decline"}
    assert sum(task.trap is not None for task in scenario.tasks) >= 4
    assert scenario.rules


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_world_passes_the_gate(name: str) -> None:
    """No check fails: every oracle completes its task, doing nothing does not, mutants are
    caught."""
    report = check_scenario(name, SETTINGS)

    assert report.failures == ()
    assert report.mutants_caught >= 0.98 * report.mutants > 0


VAGUE = (
    "I cannot do that because it is not allowed by policy.",
    "I'm sorry, I am unable to do this. The policy does not permit it, your request is outside "
    "the rules, the window or the limit.",
    "I cannot help; please contact the customer, a supervisor or the policyholder. The authority "
    "and deadline do not permit it.",
    "Done.",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_vague_refusal_completes_nothing(name: str) -> None:
    """A refusal without the case's reason completes no task, not even one that must be declined."""
    scenario = find(name)
    with closing(HostedScenario(scenario)) as world:
        verifier = Verifier(scenario)
        untouched = world.states(world.lease().state())
        passed = [
            (task.id, answer)
            for task in scenario.tasks
            for answer in VAGUE
            if all(finding.passed for finding in verifier.run(task, *untouched, answer))
        ]

    assert passed == []
