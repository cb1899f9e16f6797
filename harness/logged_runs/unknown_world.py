"""The world of a conversation that we do not have: its tools are known, its state is not.

Its scenario is one of an MCP server without checks, so judges and views handle it as they do those
(`--mcp`). `scenario_in` makes the scenario again from a log, which has no package of it.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.scenarios.call_checks import McpRecord
from rehearsal_room.scenarios.format import Scenario, Task
from rehearsal_room.scenarios.mcp_tasks import NO_USER

_NOWHERE = Path("/imported")  # as the folder of a package that we do not have
_encode = msgspec.json.Encoder().encode


def unknown_scenario(
    name: str, system: str, tools: Sequence[ToolSpec], tasks: Sequence[Task]
) -> Scenario:
    """The scenario of conversations with the same tools and system prompt."""
    text = _encode([name, system, [task.id for task in tasks]]) + _encode(tools)
    return Scenario(
        name=name,
        title=name,
        version="0",
        description="an imported world: its state is unknown",
        clock="",
        user=NO_USER,
        schema_sql="",
        data_sql="",
        rules=system,
        tasks=tuple(tasks),
        path=_NOWHERE,
        digest=blake2b(text, digest_size=16).hexdigest(),
        foreign=McpRecord("", {}),
    )


def is_unknown(world: ScenarioSnapshot) -> bool:
    """Whether a logged world is one of these."""
    return not world.template and world.source_path == str(_NOWHERE)


def scenario_in(world: ScenarioSnapshot, tasks: Iterable[str]) -> Scenario:
    """The scenario of an unknown world, from the log: with the ids of its tasks."""
    made = [Task(task, "", "unrated", "open", "") for task in sorted(set(tasks))]
    scenario = unknown_scenario(world.scenario, world.rules, world.tools, made)
    return msgspec.structs.replace(scenario, digest=world.scenario_digest)
