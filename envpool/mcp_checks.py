"""Verifying a task of a world whose state is unknown: by calling its tools once more."""

from envpool.types import Env
from scenarios.checks import Finding
from scenarios.expect import CallCheck
from scenarios.foreign import answer_findings
from scenarios.format import Scenario, Task


async def verify_by_calls(
    env: Env, scenario: Scenario, task: Task, answer: str
) -> tuple[Finding, ...]:
    """The findings of a foreign scenario's task, made in the world in which it was played, after
    the agent's last step and before the lease is left.

    Raises WorldError when the world breaks meanwhile.
    """
    assert scenario.foreign is not None
    found = list(answer_findings(task, answer))
    for index, check in enumerate(scenario.foreign.checks.get(task.id, ())):
        found.append(await _checked(env, check, f"check-{index}"))
    return tuple(found)


async def _checked(env: Env, check: CallCheck, call_id: str) -> Finding:
    result = await env.call(check.name, check.arguments, call_id)
    return check.finding(result.text, failed=result.is_error)
