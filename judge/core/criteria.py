"""What the criteria of a task come to: one goal, met from the task's threshold on."""

import math
from collections.abc import Sequence

import msgspec

from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

MET = "enough criteria met"  # the name of the goal
EXACT = 1e-9  # sums of weights such as 0.1 and 0.2 are not exact


def with_goal(findings: Sequence[Finding], task: Task) -> tuple[Finding, ...]:
    """The findings with the goal of their criteria, in place of an earlier one; as they are where
    there are no criteria. The goal is open where it depends on criteria that are.

    Example: shares 1 and 0 with weights 3 and 1, threshold 0.7 -> met, with a share of 0.75
    """
    criteria = [one for one in findings if one.kind == "criterion"]
    others = tuple(one for one in findings if one.name != MET or one.kind != "goal")
    if not criteria:
        return tuple(findings)
    threshold = task.criteria_threshold
    total = math.fsum(one.weight for one in criteria)
    least = math.fsum((one.share or 0.0) * one.weight for one in criteria) / total
    most = (
        least
        + math.fsum((1 - (one.share or 0.0)) * one.weight for one in criteria if one.is_open)
        / total
    )
    passed = least >= threshold - EXACT
    is_open = not passed and most >= threshold - EXACT
    found = f"{least:.4g}" + (f" to {most:.4g}" if most > least else "")
    goal = Finding(
        MET, passed, f"a share of at least {threshold:g}", found, "goal", is_open=is_open
    )
    return (*others, goal)


def unasked(findings: Sequence[Finding]) -> list[Finding]:
    """The criteria whose share only a model can tell, and none was asked."""
    return [one for one in findings if one.kind == "criterion" and one.share is None]


def without_asking(scenario: Scenario) -> Scenario:
    """The scenario as if a model met each criterion that asks one: its tasks have the criteria by
    code alone, which must reach what is left of the threshold: 0 where a model that always agrees
    completes the task."""
    tasks = tuple([_without_asking(task) for task in scenario.tasks])
    return msgspec.structs.replace(scenario, tasks=tasks)


def _without_asking(task: Task) -> Task:
    by_code = tuple([one for one in task.criterion if one.check])
    asked = math.fsum(one.weight for one in task.criterion if not one.check)
    if not asked:
        return task
    left = math.fsum(one.weight for one in by_code)
    reach = task.criteria_threshold * (left + asked) - asked
    threshold = min(1.0, reach / left) if reach > EXACT else 0.0
    return msgspec.structs.replace(task, criterion=by_code, criteria_threshold=threshold)
