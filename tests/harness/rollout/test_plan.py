"""The episodes of a run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.plan import plan_of, select_tasks
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario, Task
from tests.support.paths import LIBRARY
from tests.support.run_context import library

TASKS: list[tuple[Scenario, Task]] = [(library(), task) for task in library().tasks]


@given(
    num_tasks=st.integers(1, len(TASKS)),
    groups=st.integers(1, 30),
    group_size=st.integers(1, 8),
    seed=st.integers(-(2**70), 2**70),
)
def test_a_plan_is_a_function_of_its_settings(
    num_tasks: int, groups: int, group_size: int, seed: int
) -> None:
    """The same settings give the same episodes; a group has one task and numbered members; all
    seeds differ and fit into 48 bits."""
    settings: dict[str, Any] = {
        "episodes": groups * group_size,
        "group_size": group_size,
        "seed": seed,
    }
    tasks = TASKS[:num_tasks]
    plan = list(plan_of(tasks, **settings))
    assert plan == list(plan_of(tasks, **settings))
    assert len({one.episode for one in plan}) == len(plan) == groups * group_size
    for number, one in enumerate(plan):
        group = number // group_size
        assert (one.group, one.member, one.group_size, one.attempt) == (
            f"g{group:06d}",
            number % group_size,
            group_size,
            1,
        )
        assert (one.scenario, one.task) == tasks[group % num_tasks]
        assert 0 <= one.seed < 2**48
    assert len({one.seed for one in plan}) == len(plan)
    other = list(plan_of(tasks, **{**settings, "seed": seed + 1}))
    assert {one.seed for one in plan}.isdisjoint(one.seed for one in other)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    """More episodes are added at the end."""
    short = list(plan_of(TASKS, episodes=4, group_size=2, seed=1))
    long = list(plan_of(TASKS, episodes=40, group_size=2, seed=1))
    assert long[:4] == short


def test_one_group_of_each_task() -> None:
    """Without a number of episodes each task has one group."""
    plan = list(plan_of(TASKS, episodes=None, group_size=3, seed=0))
    assert [one.task.id for one in plan] == [task.id for _, task in TASKS for _ in range(3)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": []}, "scenarios: there is no task to run"),
        ({"group_size": 0}, "group_size: must be at least 1, not 0"),
        ({"episodes": 0}, "episodes: must be at least 1, not 0"),
        ({"episodes": -2, "group_size": 2}, "episodes: must be at least 1, not -2"),
        (
            {"episodes": 2**40},
            "episodes: the plan has 1,099,511,627,776 of them; a run has at most 10,000,000",
        ),
        ({"episodes": 7, "group_size": 2}, "episodes: 7 is not a multiple of the group size 2"),
    ],
)
def test_what_cannot_be_planned(settings: dict[str, Any], message: str) -> None:
    """Invalid settings are refused at once, with the field's name."""
    arguments: dict[str, Any] = {
        "tasks": TASKS,
        "episodes": None,
        "group_size": 1,
        "seed": 0,
        **settings,
    }
    with pytest.raises(SettingsError, match=f"^{message}$"):
        plan_of(arguments.pop("tasks"), **arguments)


def test_selected_tasks_alternate() -> None:
    """Tasks alternate between scenarios, so that a short run has all scenarios."""
    names = [str(LIBRARY), f"{LIBRARY}:overdue"]
    selected = select_tasks(names)
    ids = [task.id for _, task in TASKS]
    assert [task.id for _, task in selected] == [ids[0], "overdue", *ids[1:]]
    assert len({id(scenario) for scenario, _ in selected}) == 1


def test_a_package_is_read_once() -> None:
    """However many of its tasks are named."""
    found: list[str] = []

    def find(name: str) -> Scenario:
        found.append(name)
        return library()

    names = [f"library:{task.id}" for task in library().tasks]
    assert len(select_tasks(names, find)) == 6
    assert found == ["library"]


@pytest.mark.parametrize("name", ["no-such-world", f"{LIBRARY}:no-such-task"])
def test_unknown_names(name: str) -> None:
    """The error names a scenario or task that does not exist."""
    with pytest.raises(ScenarioError, match="no-such"):
        select_tasks([name])


def test_a_part_of_the_tasks_is_a_sample() -> None:
    """The first tasks of the sampled order come from all parts of a world, and it is the same order
    for each number of episodes and each seed; every task is in it once."""
    names = ["shop_support", "claims_desk"]
    listed, sampled = (select_tasks(names, is_sampled=is_so) for is_so in (False, True))
    assert sorted(map(repr, listed)) == sorted(map(repr, sampled))
    assert sampled == select_tasks(names, is_sampled=True)
    places = [listed.index(one) for one in sampled[:20]]
    assert {place * 4 // len(listed) for place in places} == {0, 1, 2, 3}
    assert len({scenario.name for scenario, _ in sampled[:2]}) == 2
