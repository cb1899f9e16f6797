"""MCP-Universe from a checkout: tasks on real MCP servers (arXiv:2508.14704).

A task is a JSON file with a question, the form of the answer, the servers and the evaluators. The
servers are started from mcpuniverse/mcp/configs/server_list.json for each episode; the evaluators
are the checkout's own code in an interpreter of the user's. Most servers need the network, a key,
or a program that the user has installed.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.served_worlds import (
    EvaluatorCheck,
    ServedWorld,
    ServerSpec,
    filled,
    variables_in,
)
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.checkouts import (
    checkout_at,
    file_bytes,
    file_json,
    printed_by,
)
from rehearsal_room.scenarios.suites.entries import entry_scenario, entry_task, identifier
from rehearsal_room.scenarios.suites.server_lists import read_servers, servers_of
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags

NAME = "mcp_universe"
CATEGORIES = (
    *("location_navigation", "repository_management", "financial_analysis", "3d_design"),
    *("browser_automation", "web_search", "multi_server"),
)
# Where the tasks are: the first is that of version 1, the second what later commits have.
_TASKS = ("mcpuniverse/benchmark/configs/mcpuniverse", "mcpuniverse/benchmark/mcpuniverse")
_SERVERS = "mcpuniverse/mcp/configs/server_list.json"
# What decides what a model is sent and how its answer is judged, in the package's release.
RELEASE = "1.1.3"
DIGEST = "a4c870494ea46c60"
_AGENT = (
    *("agent/function_call.py", "agent/base.py", "agent/utils.py"),
    *("agent/configs/function_call_prompt.j2", "llm/openai.py", "benchmark/task.py"),
    *("evaluator/evaluator.py", "evaluator/functions.py"),
)
_LISTING = Path(__file__).parent / "listings" / "mcp_universe_prompts.py"
_FORM = "\n\nAnswer with one JSON object of this form, and with nothing else:\n"


class McpUniverseData:
    """The tasks of a checkout. Raises PackageError for a folder that is none."""

    def __init__(self, flags: SuiteFlags) -> None:
        self._flags, url = flags, "https://github.com/SalesforceAIResearch/MCP-Universe"
        self._root = checkout_at(flags.folder, NAME, "MCP-Universe", url, *_TASKS)
        self._tasks = next(at for one in _TASKS if (at := self._root / one).exists())

    @cached_property
    def version(self) -> str:
        """A digest of the tasks: a checkout has no version of its own."""
        digest = blake2b(digest_size=4)
        for path in sorted(self._tasks.rglob("*.json")):
            digest.update(file_bytes(path))
        return digest.hexdigest()

    def options(self) -> dict[str, Any]:
        """Nothing: no adapter keeps its worlds."""
        return {}

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of a category. Raises PackageError."""
        paths = sorted(self._folder_of(category).glob("*.json"))
        found = [self._scenario(category, path) for path in paths]
        if not self._flags.prompts:
            return found
        prompts = self._asked(category, found)["prompts"]
        return [self._with_prompt(*both) for both in zip(found, prompts, strict=True)]

    def max_iterations(self, categories: Sequence[str]) -> int:
        """How often upstream's agent asks its model in a task of these categories. Raises
        PackageError where they differ in it, and for another release's agent."""
        self.require_release()
        limits = {name: self._asked(name, [])["max_iterations"] for name in categories}
        if len(set(limits.values())) > 1:
            named = ", ".join(f"{name} {limit}" for name, limit in limits.items())
            raise PackageError(
                f"{self._tasks}: the categories differ in their limit of steps ({named}), so play "
                "them one by one with --category, or with --prompts ours"
            )
        return int(next(iter(limits.values())))

    def require_release(self) -> None:
        """Refuse a checkout whose agent or evaluators are not those of the release. Raises
        PackageError."""
        if (found := digest_of(self._root / "mcpuniverse")) != DIGEST:
            raise PackageError(
                f"{self._root}: agent and evaluators of this checkout (digest {found}) are not "
                f"those of MCP-Universe {RELEASE}, so scores would not compare with those of its "
                "runner: check out that release, or play with --prompts ours"
            )

    def _with_prompt(self, scenario: Scenario, prompt: str) -> Scenario:
        (task,) = scenario.tasks
        assert scenario.suite is not None
        asked = msgspec.structs.replace(task, instruction=prompt)
        return entry_scenario(scenario.suite, asked, title=scenario.title, path=scenario.path)

    def _asked(self, category: str, scenarios: Sequence[Scenario]) -> dict[str, Any]:
        """The limit and the prompts of upstream's agent. Raises PackageError."""
        benchmark = self._tasks / f"{category}.yaml"
        if not benchmark.is_file():
            raise PackageError(
                f"{benchmark}: this file, which names the limit of upstream's agent, is missing; "
                "--prompts ours needs none"
            )
        questions = []
        for scenario in scenarios:
            config = _read(scenario.path)
            question = str(config.get("question", ""))
            values = self._flags.values(variables_in(question))
            questions.append([filled(question, values), config.get("output_format")])
        asked = {"root": str(self._root), "benchmark": str(benchmark), "questions": questions}
        found: dict[str, Any] = printed_by(
            *(self._flags.python or sys.executable, _LISTING),
            given=json.dumps(asked),
            has_user_packages=True,
            what="list the prompts of MCP-Universe's agent",
            advice="name an interpreter that has the checkout's packages with --suite-python, or "
            "play with --prompts ours",
        )
        return found

    def _folder_of(self, category: str) -> Path:
        for folder in (self._tasks / category, self._tasks / "task_configs" / category):
            if folder.is_dir():
                return folder
        there = [one for one in CATEGORIES if (self._tasks / one).is_dir()]
        raise PackageError(
            f"{self._tasks}: there is no folder {category!r} with tasks; choose with --category: "
            f"{', '.join(there) or 'it has none'}"
        )

    @cached_property
    def _servers(self) -> Mapping[str, ServerSpec]:
        return read_servers(self._root / _SERVERS) | self._flags.servers

    def _scenario(self, category: str, path: Path) -> Scenario:
        name = f"{category}_{identifier(path.stem)}"
        config = _read(path)
        if config.get("prepares"):
            raise PackageError(
                f"{path}: the task has `prepares`, which are MCPMark's: play that suite from its "
                "own checkout (rehearse eval mcpmark)"
            )
        question = str(config.get("question", ""))
        values = self._flags.values(variables_in(question))
        asked = filled(question, values) + _form(config.get("output_format"))
        task = entry_task(name, asked, answer="")
        world = ServedWorld(
            root=str(self._root),
            servers=servers_of(f"task {name!r}", config.get("mcp_servers") or (), self._servers),
            check=EvaluatorCheck(config),
            unfilled=tuple(name for name in variables_in(question) if name not in values),
        )
        record = SuiteRecord(NAME, self.version, category, {}, served=world)
        return entry_scenario(record, task, title=path.stem, path=path)


def digest_of(package: Path) -> str:
    """The digest of the agent and its evaluators; files that are missing count as empty."""
    found = blake2b(digest_size=8)
    for name in _AGENT:
        path = package / name
        found.update(name.encode() + (file_bytes(path) if path.is_file() else b""))
    return found.hexdigest()


def _form(form: object) -> str:
    """What the answer must look like; empty: the task demands no form."""
    return f"{_FORM}{json.dumps(form, indent=2)}" if form else ""


def _read(path: Path) -> dict[str, Any]:
    config = file_json(path)
    if not isinstance(config, dict) or not config.get("evaluators"):
        raise PackageError(f"{path}: the task has no evaluators, so it could not be judged")
    return config
