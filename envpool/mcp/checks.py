"""Verifying a task of a world whose state is unknown: by calling its tools once more."""

from itertools import count

import anyio

from envpool.core.errors import WorldError
from envpool.core.types import Env, ToolResult
from scenarios.call_checks import CallCheck
from scenarios.checks import Finding
from scenarios.format import Scenario, Task
from scenarios.mcp_tasks import answer_findings

_numbers = count()  # an id is executed once, and a check is a call each time


async def verify_by_calls(
    env: Env, scenario: Scenario, task: Task, answer: str, *, patience: float = 60.0
) -> tuple[Finding, ...]:
    """The findings of a foreign scenario's task, made in the world in which it was played, after
    the agent's last step and before the lease is left.

    Raises WorldError when the world breaks meanwhile, or a check takes longer than `patience`
    seconds.
    """
    assert scenario.foreign is not None
    found = list(answer_findings(task, answer))
    for check in scenario.foreign.checks.get(task.id, ()):
        result = await _asked(env, check, patience)
        found.append(check.finding(result.text, failed=result.is_error))
    return tuple(found)


async def _asked(env: Env, check: CallCheck, patience: float) -> ToolResult:
    with anyio.move_on_after(patience):
        return await env.call(check.name, check.arguments, f"check-{next(_numbers)}")
    raise WorldError(f"the check by {check.name} took longer than {patience:g} s")
