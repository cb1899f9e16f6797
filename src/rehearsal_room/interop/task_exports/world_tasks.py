"""What an export of tasks gets: a hosted world, its tools and the tasks that were chosen of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.talks import TALK, is_served
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.rollout.plan import select_tasks
from rehearsal_room.harness.users.left_out import num_left_out
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Scenario, Task


class WorldTasks(msgspec.Struct, frozen=True):
    """Tasks of one world."""

    scenario: Scenario
    tools: tuple[ToolSpec, ...]  # of the world, without `talk_to_user`
    tasks: tuple[Task, ...]

    def tools_of(self, task: Task) -> tuple[ToolSpec, ...]:
        """The tools of a world that a server leases for this task: a dialogue has `talk_to_user`,
        too."""
        return (*self.tools, TALK) if isinstance(task.user, UserAutomaton) else self.tools


class ChosenTasks(msgspec.Struct, frozen=True):
    """What an export writes, and how many dialogues it leaves out."""

    worlds: list[WorldTasks]
    num_unnamed: int  # of worlds that were named: an export has those that are named themselves
    num_unserved: int  # those whose user no server plays


class TaskFormat(msgspec.Struct, frozen=True):
    """A format in which tasks of worlds are written, for programs that play them."""

    output: str  # the default path
    # Writes the tasks to a path; returns their number. Raises SettingsError.
    write: Callable[[Path, Sequence[WorldTasks]], int]


async def hosted_tasks(
    pool: RoutingPool, names: Sequence[str], find: Callable[[str], Scenario]
) -> ChosenTasks:
    """The tasks of scenarios given as `name`, `path` or `name:task`, by world, in the order named.

    Raises ScenarioError and PoolError.
    """
    chosen: dict[str, tuple[Scenario, list[Task]]] = {}
    selected = select_tasks(names, find)
    served = [(scenario, task) for scenario, task in selected if is_served(task)]
    for scenario, task in served:
        _, tasks = chosen.setdefault(scenario.digest, (scenario, []))
        if task not in tasks:
            tasks.append(task)
    await pool.host_all(scenario for scenario, _ in chosen.values())
    worlds = [
        WorldTasks(scenario, pool.hosted(scenario).tools, tuple(tasks))
        for scenario, tasks in chosen.values()
    ]
    return ChosenTasks(worlds, num_left_out(names, selected), len(selected) - len(served))
