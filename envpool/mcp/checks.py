"""Verify a task of a world whose state is unknown, by further calls of its tools.

A check whose call breaks has seen nothing: the world failed, and the agent neither did nor did not
do its task. A check that can see nothing, since its tool or argument does not exist, is refused
before the first episode (`require_known_calls`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import anyio

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import WORLD_FAULTS, Env, ToolResult, ToolSpec
from rehearsal_room.scenarios.call_checks import CallCheck
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task
from rehearsal_room.scenarios.mcp_tasks import answer_findings

# Keywords of a schema by which arguments may be allowed that are not in its `properties`.
_OPENS = frozenset({"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"})
_numbers = count()  # each check needs a new call id, because an id is executed once


async def verify_by_calls(
    env: Env, scenario: Scenario, task: Task, answer: str, *, timeout_s: float = 60.0
) -> tuple[Finding, ...]:
    """The findings of a foreign scenario's task, made in the world of the episode, after the
    agent's last step and before the lease ends.

    Raises WorldError when the world or a tool breaks during a check, whatever the check expects, or
    a check takes longer than `timeout_s` seconds.
    """
    assert scenario.foreign is not None
    findings = list(answer_findings(task, answer))
    for check in scenario.foreign.checks.get(task.id, ()):
        result = await _call(env, check, timeout_s)
        if result.error in WORLD_FAULTS:
            raise WorldError(f"the check by {check.name} could not be made: {result.text}")
        findings.append(check.finding(result.text, failed=result.is_error))
    return tuple(findings)


async def _call(env: Env, check: CallCheck, timeout_s: float) -> ToolResult:
    with anyio.move_on_after(timeout_s):
        return await env.call(check.name, check.arguments, f"check-{next(_numbers)}")
    raise WorldError(f"the check by {check.name} took longer than {timeout_s:g} s")


def require_known_calls(scenario: Scenario, tools: Iterable[ToolSpec]) -> None:
    """Check that the calls of a foreign scenario's checks and oracles can be made. Raises PoolError
    naming the file, the task, and the tool or argument that does not exist."""
    known = {tool.name: tool for tool in tools}
    for task, where, name, arguments in _calls_of(scenario):
        if (tool := known.get(name)) is None:
            fault = f"there is no tool {name!r}; tools: {', '.join(known)}"
        elif strange := _unknown_arguments(tool.schema, arguments):
            taken = ", ".join(tool.schema["properties"]) or "none"
            names = ", ".join(map(repr, strange))
            fault = f"{name} has no argument {names}; arguments: {taken}"
        else:
            continue
        raise PoolError(f"{scenario.path}: task {task!r}: {where}: {fault}")


def _calls_of(scenario: Scenario) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The task, the place in it, the tool and the arguments of each call."""
    for task in scenario.tasks:
        checks = () if scenario.foreign is None else scenario.foreign.checks.get(task.id, ())
        for index, check in enumerate(checks):
            yield task.id, f"check[{index}]", check.name, check.arguments
        for index, call in enumerate(task.oracle):
            yield task.id, f"oracle[{index}]", call.name, call.arguments


def _unknown_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """The arguments that a schema does not have; none where it is open to others."""
    is_open = schema.get("additionalProperties", False) is not False
    if is_open or "properties" not in schema or not _OPENS.isdisjoint(schema):
        return []
    return [name for name in arguments if name not in schema["properties"]]
