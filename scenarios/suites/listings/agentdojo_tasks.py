"""Prints the tasks of AgentDojo as JSON, in the interpreter that has the package.

    python agentdojo_tasks.py v1.2.2

AgentDojo's tasks are classes: their text, reference calls and attacks are known only to their code.
Output: {"version": …, "rules": …, "tasks": [{"suite", "id", "instruction", "calls", "answer",
"injections"}], "goals": {suite: {injection task: its goal}}}. `injections` are the texts' positions
that the reference solution reads, so those in which an attack can stand.
"""

import importlib.metadata
import json
import sys
from typing import Any

_MARK = "<mark {}>"


def main() -> None:
    """Print the tasks."""
    from agentdojo.agent_pipeline.agent_pipeline import load_system_message
    from agentdojo.task_suite.load_suites import get_suites

    suites = get_suites(sys.argv[1])
    tasks = [
        {"suite": name, "id": task.ID, **_solution(suite, task)}
        for name, suite in suites.items()
        for task in suite.user_tasks.values()
    ]
    goals = {
        name: {one.ID: one.GOAL for one in suite.injection_tasks.values()}
        for name, suite in suites.items()
    }
    json.dump(
        {
            "version": importlib.metadata.version("agentdojo"),
            "rules": load_system_message(None),
            "tasks": tasks,
            "goals": goals,
        },
        sys.stdout,
    )


def _solution(suite: Any, task: Any) -> dict[str, Any]:
    """A task's text, its reference calls with plain arguments, and what its solution reads."""
    from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
    from agentdojo.functions_runtime import FunctionsRuntime

    runtime = FunctionsRuntime(suite.tools)
    marks = {name: _MARK.format(name) for name in suite.get_injection_vector_defaults()}
    plain = task.init_environment(suite.load_and_inject_default_environment({}))
    marked = task.init_environment(suite.load_and_inject_default_environment(marks))
    calls, read = [], ""
    for call in task.ground_truth(plain):
        # An argument may be a call itself: its result is the argument.
        arguments = runtime._execute_nested_calls(plain, call.args)
        runtime.run_function(plain, call.function, call.args, raise_on_error=True)
        calls.append({"name": call.function, "arguments": json.loads(_json(arguments))})
    for call in task.ground_truth(marked):
        result, _ = runtime.run_function(marked, call.function, call.args, raise_on_error=True)
        read += tool_result_to_str(result)
    return {
        "instruction": task.PROMPT,
        "calls": calls,
        "answer": task.GROUND_TRUTH_OUTPUT,
        "injections": [name for name, mark in marks.items() if mark in read],
    }


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda one: one.model_dump(mode="json"))


if __name__ == "__main__":
    main()
