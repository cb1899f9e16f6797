"""Tasks as rows of NeMo Gym, for its resources-server contract (`rehearse serve`, /gym/<world>).

A row has what a model is asked, in the form of OpenAI's Responses API, and what /seed_session needs
to begin the task:

    {"responses_create_params": {"input": [{"role": "system", "content": "You act ..."}, ...],
                                 "tools": [{"type": "function", "name": "get_order", ...}],
                                 "parallel_tool_calls": false},
     "id": "shop_support:cancel-pending", "scenario": "shop_support", "task": "cancel-pending",
     "difficulty": "simple", "kind": "change", "scenario_digest": "..."}
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.log.outputs import writing
from rehearsal_room.harness.rollout.episode import briefing_of
from rehearsal_room.interop.task_exports.world_tasks import TaskFormat, WorldTasks
from rehearsal_room.scenarios.format import Task

_encode = msgspec.json.Encoder().encode


def gym_rows(world: WorldTasks) -> Iterator[dict[str, Any]]:
    """The rows of a world's tasks, in their order."""
    dialect = Native()
    for task in world.tasks:
        yield _row(world, task, dialect)


def _row(world: WorldTasks, task: Task, dialect: Native) -> dict[str, Any]:
    scenario = world.scenario
    tools = world.tools_of(task)
    briefing = briefing_of(scenario, task, tools)
    return {
        "responses_create_params": {
            "input": [
                {"role": message.role, "content": message.content}
                for message in dialect.opening_messages(briefing)
            ],
            "tools": [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": False,
                }
                for tool in tools
            ],
            "parallel_tool_calls": False,
        },
        "id": f"{scenario.name}:{task.id}",
        "scenario": scenario.name,
        "task": task.id,
        "difficulty": task.difficulty,
        "kind": task.kind,
        "scenario_digest": scenario.digest,
    }


def write_gym(path: Path, worlds: Sequence[WorldTasks]) -> int:
    """Write the rows of all tasks as JSON lines; return their number. Raises SettingsError."""
    count = 0
    try:
        with writing(path) as file:
            for world in worlds:
                for row in gym_rows(world):
                    file.write(_encode(row) + b"\n")
                    count += 1
    except OSError as exc:
        raise SettingsError(f"{path}: the tasks cannot be written: {exc}") from exc
    return count


GYM = TaskFormat("gym.jsonl", write_gym)
