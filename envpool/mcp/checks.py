"""Verify a task of a world whose state is unknown, by further calls of its tools."""

from itertools import count

import anyio

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.scenarios.call_checks import CallCheck
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task
from rehearsal_room.scenarios.mcp_tasks import answer_findings

_numbers = count()  # each check needs a new call id, because an id is executed once


async def verify_by_calls(
    env: Env, scenario: Scenario, task: Task, answer: str, *, timeout_s: float = 60.0
) -> tuple[Finding, ...]:
    """The findings of a foreign scenario's task, made in the world of the episode, after the
    agent's last step and before the lease ends.

    Raises WorldError when the world breaks during a check, or a check takes longer than `timeout_s`
    seconds.
    """
    assert scenario.foreign is not None
    findings = list(answer_findings(task, answer))
    for check in scenario.foreign.checks.get(task.id, ()):
        result = await _call(env, check, timeout_s)
        findings.append(check.finding(result.text, failed=result.is_error))
    return tuple(findings)


async def _call(env: Env, check: CallCheck, timeout_s: float) -> ToolResult:
    with anyio.move_on_after(timeout_s):
        return await env.call(check.name, check.arguments, f"check-{next(_numbers)}")
    raise WorldError(f"the check by {check.name} took longer than {timeout_s:g} s")
