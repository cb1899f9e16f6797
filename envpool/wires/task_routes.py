"""The task routes, which OpenEnv and ORS share: splits, tasks, num_tasks, task, task_range."""

from typing import Any

from rehearsal_room.envpool.wires.http import WireError, number_field, read_object, text_field
from rehearsal_room.envpool.wires.task_lists import BadTask, spec_at, specs, splits
from rehearsal_room.scenarios.format import Scenario

NAMES = ("splits", "tasks", "num_tasks", "task", "task_range")


def task_answer(world: Scenario, method: str, what: str, body: bytes) -> Any:
    """The answer of one of the routes NAMES. Raises WireError."""
    if what not in NAMES:
        raise WireError(404, f"there is nothing at /{world.name}/{what}")
    allowed = "GET" if what == "splits" else "POST"
    if method != allowed:
        raise WireError(405, f"{method} is not served here", (b"allow", allowed.encode()))
    if what == "splits":
        return splits(world)
    asked = read_object(body)
    try:
        return _answer(world, what, text_field(asked, "split"), asked)
    except BadTask as exc:
        raise WireError(400, str(exc)) from exc


def _answer(world: Scenario, what: str, split: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Raises BadTask and WireError."""
    match what:
        case "tasks":
            return {"tasks": specs(world, split), "env_name": world.name}
        case "num_tasks":
            return {"num_tasks": len(specs(world, split))}
        case "task":
            found = spec_at(world, split, number_field(asked, "index"))
            return {"task": found, "env_name": world.name}
    bounds = [
        None if asked.get(name) is None else number_field(asked, name) for name in ("start", "stop")
    ]
    return {"tasks": specs(world, split)[slice(*bounds)], "env_name": world.name}
