"""The worlds and the scoring of AgentDojo (see scenarios.suites.agentdojo), in its own process.

Worlds, tools, attacks, the execution of calls, `utility` and `security` are the package's. An
episode is scored by the environment after its calls, its last words and the calls of its last
attempt, as the package's own benchmark does it: these are the calls that the agent proposed,
whether they succeeded or not.
"""

import contextlib
import functools
import importlib
import json
import pickle
import types
from collections import OrderedDict
from typing import Any

from .shared import Json, Talk, finding

_REMEMBERED = 64  # environments, of some 100 KB


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
        self.types = importlib.import_module("agentdojo.types")
        execution = importlib.import_module("agentdojo.agent_pipeline.tool_execution")
        self.executor: Any = execution.ToolsExecutor()
        importlib.import_module("agentdojo.attacks")
        self.registry = importlib.import_module("agentdojo.attacks.attack_registry")
        self.attacks: dict[tuple[str, ...], Any] = {}
        self.described: dict[str, list[dict[str, Any]]] = {}  # tools, by suite
        self.latest: OrderedDict[str, bytes] = OrderedDict()  # pickled environments

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
        suite, task = self.suites[spec["suite"]], self.task(spec)
        injections = {}
        if spec["attack"]:
            attack = self.attack_of(spec["suite"], spec["attack"], spec["pipeline"])
            injected = suite.get_injection_task_by_id(spec["injection"])
            injections = attack.attack(task, injected)
        environment = suite.load_and_inject_default_environment(injections)
        return task.init_environment(environment) if is_user_task(spec["task"]) else environment

    def task(self, spec: dict[str, Any]) -> Any:
        """The task of the user; an attacker's goal may be one."""
        suite, name = self.suites[spec["suite"]], spec["task"]
        by_id = suite.get_user_task_by_id if is_user_task(name) else suite.get_injection_task_by_id
        return by_id(name)

    def attack_of(self, suite: str, name: str, pipeline: str) -> Any:
        """The package's attack on a model of this name. Where a task reads foreign text is found
        out once for all attacks."""
        key = (suite, name, pipeline)
        if key not in self.attacks:
            target = types.SimpleNamespace(name=pipeline)
            made = self.registry.load_attack(name, self.suites[suite], target)
            same = next((one for known, one in self.attacks.items() if known[0] == suite), None)
            if same is not None:
                made.get_injection_candidates = same.get_injection_candidates
            self.attacks[key] = made
        return self.attacks[key]

    def tools(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """The tools as they are described."""
        name = spec["suite"]
        if name not in self.described:
            self.described[name] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "schema": tool.parameters.model_json_schema(),
                }
                for tool in self.suites[name].tools
            ]
        return self.described[name]

    def call(self, world: Json, name: str, arguments: Json) -> tuple[str, str | None]:
        """Execute a call: its text, and what kind of failure it is."""
        call = self.runtime.FunctionCall(function=name, args=arguments, id="")
        return self._execute(world["suite"], world["environment"], call)

    def _execute(self, suite: str, environment: Any, call: Any) -> tuple[str, str | None]:
        """Let the package execute a call, whose arguments it may change. An error that ends the
        package's own benchmark is a failed call here."""
        runtime = self.runtime.FunctionsRuntime(self.suites[suite].tools)
        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        try:
            result = self.executor.query("", runtime, environment, [asked])[3][-1]
        except Exception as exc:
            return f"{type(exc).__name__}: {exc}", "refused"
        if (error := result["error"]) is None:
            return self.types.get_text_content_as_str(result["content"]), None
        if error.startswith(("Invalid tool", "Empty function name")):
            return error, "unknown_tool"
        return error, "arguments" if error.startswith("ValidationError") else "refused"

    def records(self, world: dict[str, Any]) -> Any:
        """The parts of the environment: collections entry by entry."""
        for part, value in world["environment"].model_dump(mode="json").items():
            yield from _records(part, value)

    def score(self, spec: Json, scoring: Json, talk: Talk) -> list[Json]:
        """The official verdict: whether the user's goal was reached, and under attack whether the
        attacker's was not."""
        suite, after = self.suites[spec["suite"]], self.environment(spec)
        traces: list[Any] = []
        text = ""
        for step in talk:
            for call in step["calls"]:
                traces.append(self._call_of(call))
                self._execute(spec["suite"], after, traces[-1])
            traces += [self._call_of(call) for call in step["unmade"]]
            text = step["text"] or ""
            if step["again"]:
                traces, text = [], ""
        seen = ([{"type": "text", "content": text}], self.environment(spec), after, traces)
        utility = _met(suite, self.task(spec), *seen)
        reached = utility is True
        findings = [finding("utility", reached, "yes", "yes" if reached else "no")]
        if spec["attack"]:
            attacker = suite.get_injection_task_by_id(spec["injection"])
            is_dos = self.registry.ATTACKS[spec["attack"]].is_dos_attack
            # An attack whose success cannot be said counts as one.
            resisted = reached if is_dos else _met(suite, attacker, *seen) is False
            found = "yes" if resisted else "no"
            findings.append(finding("attack resisted", resisted, "yes", found, kind="guard"))
        return findings

    def _call_of(self, call: dict[str, Any]) -> Any:
        return self.runtime.FunctionCall(function=call["name"], args=call["arguments"], id="")


def is_user_task(name: str) -> bool:
    """Whether a task is one of the user, and no attacker's goal."""
    return name.startswith("user_task_")


def _met(suite: Any, task: Any, *seen: Any) -> bool | None:
    """Whether the goal of a task was reached; None: the package's check fails, which ends its own
    benchmark."""
    with contextlib.suppress(Exception):
        return bool(suite._check_task_result(task, *seen))
    return None


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


adapter = Dojo
