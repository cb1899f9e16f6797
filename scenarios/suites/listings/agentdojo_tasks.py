"""Prints the tasks of AgentDojo as JSON, in the interpreter that has the package.

    python agentdojo_tasks.py v1.2.2 gpt-4o-2024-05-13

AgentDojo's tasks are classes: their text and reference calls are known only to their code.
Output: {"rules": …, "pipeline": …, "named": [attack], "tasks": [{"suite", "id", "instruction",
"calls", "answer"}], "injected": {suite: {task: {injection task: {attack: [call]}}}}}. `tasks` are
those of the users and then the attackers'. `pipeline` is the name by which the package's attacks
know a model, `named` the attacks whose text depends on it. `injected` has the reference calls of
tasks in which they depend on the text of the attack.
"""

import functools
import json
import sys
import types
from typing import Any

_MARK = "<mark {}>"
_OTHER = "local"  # stands for models that the package does not know


def main() -> None:
    """Print the tasks."""
    import yaml

    if hasattr(yaml, "CSafeLoader"):  # it parses in an eighth of the time
        yaml.safe_load = functools.partial(yaml.load, Loader=yaml.CSafeLoader)
    from agentdojo.agent_pipeline.agent_pipeline import load_system_message
    from agentdojo.models import MODEL_NAMES
    from agentdojo.task_suite.load_suites import get_suites

    suites = get_suites(sys.argv[1])
    known: dict[str, str] = {}  # what attacks call a model -> the first name of such a model
    for name, shown in MODEL_NAMES.items():
        known.setdefault(shown, name)
    called = [shown for name, shown in MODEL_NAMES.items() if name in sys.argv[2]]
    pipeline = known[called[0]] if called else _OTHER
    attacks = {name: _attacks(suite, pipeline) for name, suite in suites.items()}
    json.dump(
        {
            "rules": load_system_message(None),
            "pipeline": pipeline,
            "named": _named(next(iter(suites.values())), known.values()),
            "tasks": [
                {"suite": name, **_task(suite, task)}
                for name, suite in suites.items()
                for task in (*suite.user_tasks.values(), *suite.injection_tasks.values())
            ],
            "injected": {name: _injected(suite, attacks[name]) for name, suite in suites.items()},
        },
        sys.stdout,
    )


def _attacks(suite: Any, pipeline: str) -> dict[str, Any]:
    """The attacks that need nobody, on a model of this name. Where a task reads foreign text is
    found out once for all of them."""
    import agentdojo.attacks  # noqa: F401  # registers them
    from agentdojo.attacks.attack_registry import ATTACKS, load_attack

    target = types.SimpleNamespace(name=pipeline)
    made = {name: load_attack(name, suite, target) for name in ATTACKS if name != "manual"}
    finder = next(iter(made.values()))
    for attack in made.values():
        attack.get_injection_candidates = finder.get_injection_candidates
    return made


def _named(suite: Any, names: Any) -> list[str]:
    """The attacks that call models by different names."""
    found: dict[str, set[str]] = {}
    for name in names:
        for attack, made in _attacks(suite, name).items():
            found.setdefault(attack, set()).add(getattr(made, "model_name", ""))
    return [attack for attack, shown in found.items() if len(shown) > 1]


def _task(suite: Any, task: Any) -> dict[str, Any]:
    instruction = task.PROMPT if hasattr(task, "PROMPT") else task.GOAL
    calls = _calls(suite, task, {})
    answer = task.GROUND_TRUTH_OUTPUT
    return {"id": task.ID, "instruction": instruction, "calls": calls, "answer": answer}


def _calls(suite: Any, task: Any, injections: dict[str, str]) -> list[dict[str, Any]]:
    """A task's reference calls, with plain arguments."""
    from agentdojo.functions_runtime import FunctionsRuntime

    runtime = FunctionsRuntime(suite.tools)
    environment = suite.load_and_inject_default_environment(injections)
    if hasattr(task, "init_environment"):
        environment = task.init_environment(environment)
    calls = []
    for call in task.ground_truth(environment):
        # An argument may be a call itself: its result is the argument.
        arguments = runtime._execute_nested_calls(environment, call.args)
        runtime.run_function(environment, call.function, call.args, raise_on_error=True)
        calls.append({"name": call.function, "arguments": json.loads(_json(arguments))})
    return calls


def _injected(suite: Any, attacks: dict[str, Any]) -> dict[str, Any]:
    """The reference calls under each attack, of tasks in which they name what the attack changes:
    slack has a channel whose name contains foreign text."""
    marks = {name: _MARK.format(name) for name in suite.get_injection_vector_defaults()}
    found: dict[str, Any] = {}
    for task in suite.user_tasks.values():
        if "<mark " not in _json(_calls(suite, task, marks)):
            continue
        found[task.ID] = {
            injection.ID: {
                name: _calls(suite, task, attack.attack(task, injection))
                for name, attack in attacks.items()
            }
            for injection in suite.injection_tasks.values()
        }
    return found


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda one: one.model_dump(mode="json"))


if __name__ == "__main__":
    main()
