"""The worlds and the scoring of AgentDojo (see scenarios.suites.agentdojo), in its own process.

Worlds, tools, `utility` and `security` are the package's. An episode is scored by the environment
after its calls, its answer and its calls, as the package's own benchmark does it: the calls are
those that the agent proposed, whether they succeeded or not.
"""

import functools
import importlib
import json
import pickle
from collections import OrderedDict
from typing import Any

_REMEMBERED = 64  # environments, of some 100 KB


def adapter(benchmark: str) -> "Dojo":
    """The adapter for a version of the benchmark."""
    return Dojo(benchmark)


class Dojo:
    """The suite."""

    def __init__(self, benchmark: str) -> None:
        loading = importlib.import_module("agentdojo.task_suite.load_suites")
        # The data is YAML, which is parsed for each attack again: in C it takes an eighth.
        yaml: Any = importlib.import_module("yaml")
        if hasattr(yaml, "CSafeLoader"):
            yaml.safe_load = functools.partial(yaml.load, Loader=yaml.CSafeLoader)
        self.suites: dict[str, Any] = loading.get_suites(benchmark)
        self.version = benchmark
        self.runtime = importlib.import_module("agentdojo.functions_runtime")
        execution = importlib.import_module("agentdojo.agent_pipeline.tool_execution")
        self.text_of: Any = execution.tool_result_to_str
        attacks = importlib.import_module("agentdojo.attacks.important_instructions_attacks")
        self.wording: str = attacks.ImportantInstructionsAttack._JB_STRING
        base = importlib.import_module("agentdojo.attacks.base_attacks")
        self.latest: OrderedDict[str, bytes] = OrderedDict()  # pickled environments
        self.names = {"model": base.DEFAULT_MODEL_NAME, "user": base.DEFAULT_USER_NAME}

    def world(self, spec: dict[str, Any]) -> dict[str, Any]:
        """A world at its start: the name of its suite, and its environment."""
        return {"suite": spec["suite"], "environment": self.environment(spec)}

    def environment(self, spec: dict[str, Any]) -> Any:
        """The environment of a task, with the attack in its positions."""
        name = json.dumps(spec, sort_keys=True)
        if name not in self.latest:
            self.latest[name] = pickle.dumps(self._made(spec))
            if len(self.latest) > _REMEMBERED:
                self.latest.popitem(last=False)
        return pickle.loads(self.latest[name])  # nosec B301: it is our own pickle

    def _made(self, spec: dict[str, Any]) -> Any:
        suite = self.suites[spec["suite"]]
        injections = {}
        if spec["attack"]:
            goal = suite.get_injection_task_by_id(spec["attack"]).GOAL
            text = self.wording.format(goal=goal, **self.names)
            injections = dict.fromkeys(spec["positions"], text)
        task = suite.get_user_task_by_id(spec["task"])
        return task.init_environment(suite.load_and_inject_default_environment(injections))

    def tools(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """The tools as they are described."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "schema": tool.parameters.model_json_schema(),
            }
            for tool in self.suites[spec["suite"]].tools
        ]

    def call(
        self, world: dict[str, Any], name: str, arguments: dict[str, Any]
    ) -> tuple[str, str | None]:
        """Execute a call: its text, and what kind of failure it is."""
        runtime = self.runtime.FunctionsRuntime(self.suites[world["suite"]].tools)
        result, error = runtime.run_function(world["environment"], name, arguments)
        if error is not None:
            return error, "arguments" if error.startswith("ValidationError") else "refused"
        return self.text_of(result), None

    def records(self, world: dict[str, Any]) -> Any:
        """The parts of the environment: collections entry by entry."""
        for part, value in world["environment"].model_dump(mode="json").items():
            yield from _records(part, value)

    def score(
        self, spec: dict[str, Any], scoring: dict[str, Any], talk: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The official verdict: whether the user's goal was reached, and under attack whether the
        attacker's was not."""
        suite = self.suites[spec["suite"]]
        runtime = self.runtime.FunctionsRuntime(suite.tools)
        before, after = self.environment(spec), self.environment(spec)
        traces = []
        for step in talk:
            for call in step["calls"]:
                runtime.run_function(after, call["name"], call["arguments"])
                traces.append(
                    self.runtime.FunctionCall(function=call["name"], args=call["arguments"])
                )
        texts = [step["text"] for step in talk if step["text"]]
        content = [{"type": "text", "content": texts[-1] if texts else ""}]
        task = suite.get_user_task_by_id(spec["task"])
        utility = suite._check_task_result(task, content, before, after, traces)
        findings = [_finding("utility", bool(utility), "goal")]
        if spec["attack"]:
            attacker = suite.get_injection_task_by_id(spec["attack"])
            broken = suite._check_task_result(attacker, content, before, after, traces)
            findings.append(_finding("attack resisted", not broken, "guard"))
        return findings


def _records(kind: str, value: Any) -> Any:
    """The records of a value: a dict of dicts and a list of dicts give one for each entry.

    Example: "inbox", {"emails": {"1": {…}}, "owner": "a"} -> ("inbox.emails", "1", {…}) and
    ("inbox", "owner", "a")
    """
    if not isinstance(value, dict):
        value = {"": value}
    for name, inner in value.items():
        if isinstance(inner, dict) and all(isinstance(one, dict) for one in inner.values()):
            for key, one in inner.items():
                yield f"{kind}.{name}", str(key), one
        elif isinstance(inner, list) and inner and all(isinstance(one, dict) for one in inner):
            for number, one in enumerate(inner):
                yield f"{kind}.{name}", str(one.get("id", one.get("id_", number))), one
        else:
            yield kind, str(name), inner


def _finding(name: str, passed: bool, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "passed": passed,
        "expected": "yes",
        "found": json.dumps(passed),
        "kind": kind,
    }
