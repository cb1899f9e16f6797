"""Verifying a task of a world whose state is unknown: by calling its tools once more."""

from itertools import count

from envpool.types import Env
from scenarios.checks import Finding
from scenarios.foreign import answer_findings
from scenarios.format import Scenario, Task

_numbers = count()  # an id is executed once, and a check is a call each time


async def verify_by_calls(
    env: Env, scenario: Scenario, task: Task, answer: str
) -> tuple[Finding, ...]:
    """The findings of a foreign scenario's task, made in the world in which it was played, after
    the agent's last step and before the lease is left.

    Raises WorldError when the world breaks meanwhile.
    """
    assert scenario.foreign is not None
    found = list(answer_findings(task, answer))
    for check in scenario.foreign.checks.get(task.id, ()):
        result = await env.call(check.name, check.arguments, f"check-{next(_numbers)}")
        found.append(check.finding(result.text, failed=result.is_error))
    return tuple(found)
