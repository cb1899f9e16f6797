"""The tasks of a world as OpenEnv and ORS list them: splits, and specifications of tasks.

The split `train` has the tasks that are played where a world is named; `dialogues` those that are
chosen by name only. A specification names its task twice: by its id, and by AWM's index into all
tasks of the world. Dialogues whose user no server plays are in none of them.
"""

from typing import Any

from rehearsal_room.envpool.core.talks import is_served
from rehearsal_room.scenarios.errors import UnknownScenario
from rehearsal_room.scenarios.format import Scenario, Task

Spec = dict[str, Any]


class BadTask(Exception):
    """A request names no task of the world; the message is a sentence."""


def splits(scenario: Scenario) -> list[dict[str, str]]:
    """The splits that have tasks."""
    found = [{"name": "train", "type": "train"}]
    if any(task.must_be_chosen for task in scenario.tasks):
        found.append({"name": "dialogues", "type": "validation"})
    return found


def specs(scenario: Scenario, split: str) -> list[Spec]:
    """The specifications of a split's tasks. Raises BadTask.

    Example: [{"id": "cancel-pending", "scenario": "shop_support", "task_idx": 0, …}]
    """
    names = [one["name"] for one in splits(scenario)]
    if split not in names:
        known = ", ".join(names)
        raise BadTask(f"world {scenario.name!r} has no split {split!r}; it has {known}")
    wants_dialogues = split == "dialogues"
    return [
        spec_of(scenario, task)
        for task in scenario.tasks
        if task.must_be_chosen == wants_dialogues and is_served(task)
    ]


def spec_of(scenario: Scenario, task: Task) -> Spec:
    """The specification of one task."""
    return {
        "id": task.id,
        "scenario": scenario.name,
        "task_idx": scenario.tasks.index(task),
        "instruction": task.instruction,
        "difficulty": task.difficulty,
        "kind": task.kind,
    }


def spec_at(scenario: Scenario, split: str, index: int) -> Spec:
    """The specification at an index of a split. Raises BadTask."""
    found = specs(scenario, split)
    if not 0 <= index < len(found):
        raise BadTask(
            f"split {split!r} has tasks 0 to {len(found) - 1}, and there is none at {index}"
        )
    return found[index]


def default_tasks(scenario: Scenario) -> list[Task]:
    """The tasks from which a client that names none gets one."""
    return [task for task in scenario.default_tasks if is_served(task)]


def task_at(scenario: Scenario, task_idx: int) -> Task:
    """The task with AWM's index. Raises BadTask."""
    if not 0 <= task_idx < len(scenario.tasks):
        raise BadTask(f"task_idx {task_idx} out of range (0..{len(scenario.tasks) - 1})")
    return scenario.tasks[task_idx]


def task_of(scenario: Scenario, spec: Any) -> Task:
    """The task that a specification names, by `id`, `task` or `task_idx`. Raises BadTask."""
    if isinstance(spec, dict):
        name = spec.get("task", spec.get("id"))
        index = spec.get("task_idx")
        if isinstance(name, str):
            try:
                return scenario.task(name.removeprefix(f"{scenario.name}:"))
            except UnknownScenario as exc:
                raise BadTask(str(exc)) from exc
        if isinstance(index, int) and not isinstance(index, bool):
            return task_at(scenario, index)
    raise BadTask("a task is named by `task` or `id` (text) or by `task_idx` (a number)")
