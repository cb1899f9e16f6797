"""Whether rules, core functions and tasks of a plan belong together.

A rule without a function cannot be followed or enforced, and a core function without a task is
never practised. A plan that names no core functions cannot be compared; that is noted.
"""

import keyword
from collections.abc import Collection, Iterator

from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.synth.core.world_drafts import ProvenTask, TaskPlan
from rehearsal_room.scenarios.value_checks import NAME

_SHOWN = 70  # characters of a rule
UNNAMED = "no core functions are named: rules and tasks cannot be compared with them"


def plan_faults(plan: TaskPlan) -> list[str]:
    """What a plan lacks: names that are none, functions without a task, rules without a
    function, and numbers of rules that do not exist."""
    faults = [
        f"task {task.id}: there is no rule {task.rule}, only {len(plan.rules)}"
        for task in plan.tasks
        if not 0 <= task.rule <= len(plan.rules)
    ]
    if not plan.functions:
        return faults
    faults += [
        f"{name!r} cannot be the name of a function: use lower-case letters, digits and underscores"
        for name in named_functions(plan)
        if NAME.fullmatch(name) is None or keyword.iskeyword(name)
    ]
    used = {name for task in plan.tasks for name in task.functions}
    faults += [
        f"no task uses the core function {name}: name it in a task that does, change a task so "
        "that it does, or leave it out of `functions`"
        for name in plan.functions
        if name not in used
    ]
    faults += [
        f"rule {number} ({_shown(rule.text)}) names no function: name those that enforce it or "
        "that it is about, or leave the rule out"
        for number, rule in enumerate(plan.rules, 1)
        if not rule.functions
    ]
    return faults


def named_functions(plan: TaskPlan) -> tuple[str, ...]:
    """Every function that the plan names, each once, core functions first."""
    names = [*plan.functions]
    names += [name for rule in plan.rules for name in rule.functions]
    names += [name for task in plan.tasks for name in task.functions]
    return tuple(dict.fromkeys(names))


def missing_functions(plan: TaskPlan, tools: Collection[str]) -> list[str]:
    """A fault for each function that the plan names and the specification lacks."""
    return [
        f"there is no function {name}: {'; '.join(_needed_by(plan, name))}"
        for name in named_functions(plan)
        if name not in tools
    ]


def describe_functions(plan: TaskPlan) -> list[str]:
    """A line for each function that the plan names.

    Example: "waive_fine: it is a core function; rule 8 is about it"
    """
    return [f"{name}: {'; '.join(_needed_by(plan, name))}" for name in named_functions(plan)]


def _needed_by(plan: TaskPlan, name: str) -> Iterator[str]:
    if name in plan.functions:
        yield "it is a core function"
    rules = [str(number) for number, rule in enumerate(plan.rules, 1) if name in rule.functions]
    if rules:
        yield f"rule {', '.join(rules)} is about it"
    if tasks := [task.id for task in plan.tasks if name in task.functions]:
        yield f"task {', '.join(tasks)} needs it"


def uncovered(plan: TaskPlan, proven: Collection[ProvenTask]) -> tuple[str, ...]:
    """The core functions that no proved task practises: no oracle calls them, and no decline
    asks for them."""
    called = {call.name for each in proven for call in each.oracle}
    asked = {name for each in proven if each.task.kind == "decline" for name in each.task.functions}
    return tuple(name for name in plan.functions if name not in called | asked)


def _shown(text: str) -> str:
    return repr(shortened(text, _SHOWN))
