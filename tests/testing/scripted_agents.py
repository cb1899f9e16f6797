"""Agents that complete a share of their episodes, for tests of claims about agents."""

from functools import cache
from random import Random

from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task


def scripted(scenario: str, share: float, salt: str = "") -> AgentFunction:
    """An agent that plays the solution of a task with this chance, and else gives up. The same
    salt and seed make the same episode."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        if Random(f"{salt} {task.seed}").random() >= share:
            return "I cannot do that."
        solution = _tasks_of(scenario)[task.instruction]
        for call in solution.oracle:
            await env.call(call.name, dict(call.arguments))
        return solution.answer

    return agent


@cache
def _tasks_of(scenario: str) -> dict[str, Task]:
    """The tasks of a scenario by their instructions."""
    return {task.instruction: task for task in find(scenario).tasks}
