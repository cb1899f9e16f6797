"""The task routes, which OpenEnv and ORS share.

GET  /splits
POST /tasks {split}   /num_tasks {split}   /task {split, index}
     /task_range {split, start, stop}
"""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rehearsal_room.envpool.protocols.http import number_field, object_of, text_field
from rehearsal_room.envpool.protocols.task_lists import spec_at, specs, splits
from rehearsal_room.envpool.server.answers import json
from rehearsal_room.scenarios.format import Scenario

_Asked = dict[str, Any]


def task_routes(prefix: str, world_of: Callable[[Request], Scenario]) -> list[Route]:
    """The routes below a prefix. `world_of` gives the world of a request, or raises
    HTTPException."""

    def answering(answer: Callable[[Scenario, str, _Asked], _Asked]) -> Any:
        async def endpoint(request: Request) -> Response:
            world, asked = world_of(request), await object_of(request)
            return json(answer(world, text_field(asked, "split"), asked))

        return endpoint

    async def listed(request: Request) -> Response:
        return json(splits(world_of(request)))

    answers = {"tasks": _tasks, "num_tasks": _num_tasks, "task": _task, "task_range": _task_range}
    return [
        Route(f"{prefix}/splits", listed),
        *(
            Route(f"{prefix}/{name}", answering(answer), methods=["POST"])
            for name, answer in answers.items()
        ),
    ]


# All of these raise BadTask and HTTPException.


def _tasks(world: Scenario, split: str, asked: _Asked) -> _Asked:
    return {"tasks": specs(world, split), "env_name": world.name}


def _num_tasks(world: Scenario, split: str, asked: _Asked) -> _Asked:
    return {"num_tasks": len(specs(world, split))}


def _task(world: Scenario, split: str, asked: _Asked) -> _Asked:
    return {"task": spec_at(world, split, number_field(asked, "index")), "env_name": world.name}


def _task_range(world: Scenario, split: str, asked: _Asked) -> _Asked:
    bounds = [
        None if asked.get(name) is None else number_field(asked, name) for name in ("start", "stop")
    ]
    return {"tasks": specs(world, split)[slice(*bounds)], "env_name": world.name}
