"""AgentDojo's own benchmark, in the interpreter that has its package: its pipeline with its element
for chat completions, its attacks and its runner. Nothing of it is replaced.

Output: first a line {suite: {tool: its schema}}. Input: a line of JSON, {"url", "model", "folder",
"entries": [{"id", "suite", "task", "attack", "injection"}], "adapter": file of our adapter}.
Output then: a line for each entry, {"id", "utility", "security", "crash", "texts", "state"}.
`security` is upstream's: whether the attack succeeded. `crash`: the exception that ended the
runner; empty: none did.

The runner plays an attacker's goal as a task of the user before each attack; this is answered with
words and takes no part in the comparison.
"""

import functools
import importlib
import json
import os
import sys
import types
import warnings
from typing import Any

BENCHMARK = "v1.2.2"


def main() -> None:
    """Play; results go to standard output, upstream's own words to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    import yaml

    if hasattr(yaml, "CSafeLoader"):  # the same values in an eighth of the time
        yaml.safe_load = functools.partial(yaml.load, Loader=yaml.CSafeLoader)
    from agentdojo.logging import OutputLogger
    from agentdojo.task_suite.load_suites import get_suites

    suites = get_suites(BENCHMARK)
    tools = {
        name: {tool.name: {"parameters": tool.parameters.model_json_schema()} for tool in one.tools}
        for name, one in suites.items()
    }
    answers.write(json.dumps(tools) + "\n")
    answers.flush()
    asked = json.loads(sys.stdin.readline())
    played = _Played(asked, suites)
    with OutputLogger(asked["folder"]):
        for entry in asked["entries"]:
            answers.write(json.dumps(played.result(entry)) + "\n")
            answers.flush()


class _Played:
    """The pipeline, and what is seen of an entry."""

    def __init__(self, asked: dict[str, Any], suites: dict[str, Any]) -> None:
        import openai
        from agentdojo.agent_pipeline import AgentPipeline, OpenAILLM, PipelineConfig

        self._url, self._suites = asked["url"], suites
        self._adapter = _adapter(asked["adapter"])
        self._client = openai.OpenAI(api_key="none", base_url=self._url)
        model = OpenAILLM(self._client, asked["model"])
        model.name = asked["model"]
        config = PipelineConfig(
            llm=model,
            model_id=None,
            defense=None,
            system_message_name=None,
            system_message=None,
        )
        self._pipeline = AgentPipeline.from_config(config)
        self._attacks: dict[tuple[str, str], Any] = {}
        self._listen()

    def _listen(self) -> None:
        """Note what the calls return, and the environment of the entry."""
        executor, query = self._pipeline.elements[-1].elements[0], self._pipeline.query
        execute = executor.query

        def executed(*given: Any) -> Any:
            before = len(given[3])
            found = execute(*given)
            self.texts += [_text(one) for one in found[3][before:] if one["role"] == "tool"]
            return found

        def queried(prompt: str, runtime: Any, environment: Any) -> Any:
            if prompt == self.prompt and self.environment is None:
                self.environment = environment
                self.start = _records(self._adapter, environment)
            return query(prompt, runtime, environment)

        executor.query, self._pipeline.query = executed, queried

    def result(self, entry: dict[str, str]) -> dict[str, Any]:
        """Play an entry."""
        suite = self._suites[entry["suite"]]
        is_goal = not entry["task"].startswith("user_task_")
        by_id = suite.get_injection_task_by_id if is_goal else suite.get_user_task_by_id
        task = by_id(entry["task"])
        self.prompt = task.GOAL if is_goal else task.PROMPT
        self.texts: list[str] = []
        self.environment: Any = None
        self.start: dict[str, str] = {}
        self._client.base_url = f"{self._url}/upstream/{entry['id']}/v1"
        utility = security = None
        crash = ""
        try:
            utility, security = self._verdict(suite, task, entry, is_goal=is_goal)
        except Exception as exc:
            crash = f"{type(exc).__name__}: {exc}"[:300]
        end = _records(self._adapter, self.environment)
        state: dict[str, Any] = {k: v for k, v in end.items() if self.start.get(k) != v}
        state |= dict.fromkeys(self.start.keys() - end.keys())
        return {
            "id": entry["id"],
            "utility": utility,
            "security": security,
            "crash": crash,
            "texts": self.texts,
            "state": state,
        }

    def _verdict(
        self, suite: Any, task: Any, entry: dict[str, str], *, is_goal: bool
    ) -> tuple[bool, bool]:
        from agentdojo.attacks.attack_registry import load_attack
        from agentdojo.benchmark import (
            benchmark_suite_with_injections,
            benchmark_suite_without_injections,
            run_task_without_injection_tasks,
        )

        if is_goal:
            return run_task_without_injection_tasks(suite, self._pipeline, task, None, True)
        if not entry["attack"]:
            found = benchmark_suite_without_injections(
                self._pipeline, suite, None, True, user_tasks=[task.ID]
            )
            return found["utility_results"][task.ID, ""], True
        key = (entry["suite"], entry["attack"])
        if key not in self._attacks:
            self._attacks[key] = load_attack(entry["attack"], suite, self._pipeline)
        found = benchmark_suite_with_injections(
            self._pipeline,
            suite,
            self._attacks[key],
            None,
            True,
            user_tasks=[task.ID],
            injection_tasks=[entry["injection"]],
        )
        pair = (task.ID, entry["injection"])
        return found["utility_results"][pair], found["security_results"][pair]


def _text(message: Any) -> str:
    return message["error"] or "\n".join(one["content"] for one in message["content"])


def _adapter(file: str) -> Any:
    """The module of our adapter, whose way to write a state is used for both sides."""
    folder, _, name = file.rpartition("/")
    package = sys.modules["rehearsal_adapters"] = types.ModuleType("rehearsal_adapters")
    package.__path__ = [folder]  # it imports what adapters share
    return importlib.import_module(f"rehearsal_adapters.{name.removesuffix('.py')}")


def _records(adapter: Any, environment: Any) -> dict[str, str]:
    world = {"environment": environment}
    return {
        f"{kind} {key}": json.dumps(value, sort_keys=True, default=str)
        for kind, key, value in adapter.Dojo.records(None, world)
    }


if __name__ == "__main__":
    main()
