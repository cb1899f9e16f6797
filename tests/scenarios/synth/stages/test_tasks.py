"""The checks of the stage that writes the user, the rules and the tasks."""

import json
from typing import Any

import pytest

from rehearsal_room.scenarios.synth.core.coverage import UNNAMED, missing_functions, uncovered
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ProvenTask,
    RuleDraft,
    ScenarioIdea,
    TaskDraft,
    TaskPlan,
    UserDraft,
)
from rehearsal_room.scenarios.synth.stages.tasks import TasksStage

LEND = {"instruction": "Lend the long ladder to Ana Ruiz.", "id": "lend", "functions": ["lend"]}
WAIVE = {
    "instruction": "Waive the whole fine of Ben Okafor, please.",
    "id": "waive",
    "kind": "decline",
    "rule": 1,
    "functions": ["waive"],
}
RULES = [
    {"rule": "At most 12.00 are waived in a month.", "functions": ["waive"]},
    {"rule": "- Nobody has more than 2 tools.", "functions": ["lend"]},
]


def stage() -> TasksStage:
    return TasksStage(ScenarioIdea("Tools", "A library of tools."), Prompts(), 2)


def answer(**changes: Any) -> str:
    """An answer without a fault, but for the changes."""
    whole = {"functions": ["lend", "waive"], "policy": RULES, "tasks": [LEND, WAIVE]}
    return json.dumps({**whole, **changes})


async def test_rules_functions_and_tasks_are_kept_together() -> None:
    """The policy that the agent reads has the rules' texts alone."""
    checked = await stage().check(answer())
    assert (checked.faults, checked.notes) == ((), ())
    plan = checked.value
    assert plan is not None
    assert plan.policy == (
        "- At most 12.00 are waived in a month.\n- Nobody has more than 2 tools."
    )
    assert plan.rules[1] == RuleDraft("Nobody has more than 2 tools.", ("lend",))
    assert [(task.id, task.functions, task.rule) for task in plan.tasks] == [
        ("lend", ("lend",), 0),
        ("waive", ("waive",), 1),
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"functions": ["lend", "waive", "repair"]}, "no task uses the core function repair: "),
        (
            {"policy": [*RULES, "Be brief to everybody."]},
            "rule 3 ('Be brief to everybody.') names no function: ",
        ),
        ({"tasks": [LEND, WAIVE | {"rule": 3}]}, "task waive: there is no rule 3, only 2"),
        ({"tasks": [LEND, WAIVE | {"functions": ["waive", "No"]}]}, "'No' cannot be the name of a"),
    ],
)
async def test_a_fault_names_what_is_missing(changes: dict[str, Any], fault: str) -> None:
    """Which core function has no task, which rule no function, which number no rule."""
    checked = await stage().check(answer(**changes))
    [found] = checked.faults
    assert found.startswith(fault)


async def test_an_answer_that_names_no_functions_is_accepted() -> None:
    """What it says of rules and tasks cannot be compared, which is noted."""
    rules = "# Rules\n\n- Be kind.\n2. Be brief.\n"
    checked = await stage().check(answer(functions=[], policy=rules))
    assert (checked.faults, checked.notes) == ((), (UNNAMED,))
    assert checked.value is not None
    assert [rule.text for rule in checked.value.rules] == ["Be kind.", "Be brief."]


def test_a_named_function_must_be_specified_and_practised() -> None:
    """A fault says who needs a function that is missing; a decline practises what it asks for."""
    tasks = (
        TaskDraft("lend", "change", "Lend it.", ("lend",)),
        TaskDraft("waive", "decline", "Waive it.", ("waive",), 1),
    )
    rules = (RuleDraft("At most 12.00.", ("waive",)),)
    plan = TaskPlan(UserDraft(), "", tasks, ("lend", "waive", "repair"), rules)
    assert missing_functions(plan, {"lend", "repair"}) == [
        "there is no function waive: it is a core function; rule 1 is about it; task waive needs it"
    ]
    proven = ProvenTask(tasks[1], "", (), "No.", "simple", 1, 1)
    assert uncovered(plan, (proven,)) == ("lend", "repair")
