"""AgentDojo: four offices with tools, their tasks, and tasks under attack (arXiv:2406.13352).

Its tasks are classes, so a program in the user's interpreter lists them. The categories
`workspace`, `travel`, `banking` and `slack` have the user tasks. `attack_<suite>` has every pair of
a user task and an injection task: the attacker's goal stands, in the benchmark's own wording
`important_instructions_no_names`, wherever the reference solution reads foreign text. There a task
is completed when the user's goal was reached and the attacker's was not.
"""

import json
import os
import subprocess  # nosec B404
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Call, Scenario, Task
from rehearsal_room.scenarios.suites.entries import entry_scenario

NAME = "agentdojo"
BENCHMARK = "v1.2.2"
SUITES = ("workspace", "travel", "banking", "slack")
CATEGORIES = (*SUITES, *(f"attack_{name}" for name in SUITES))
_LISTING = Path(__file__).parent / "listings" / "agentdojo_tasks.py"


class AgentDojoData:
    """The tasks that an interpreter's package agentdojo has. Nothing is started before the first
    category is read; that raises PackageError."""

    def __init__(self, python: str) -> None:
        self._python = python or sys.executable

    @property
    def version(self) -> str:
        """The version of the package."""
        return str(self._listed["version"])

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"benchmark": BENCHMARK}

    @cached_property
    def _listed(self) -> dict[str, Any]:
        command = [self._python, "-I", str(_LISTING), BENCHMARK]
        try:
            found = subprocess.run(  # nosec B603
                command,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
                env=_environment(),
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise PackageError(f"{self._python} cannot be started: {exc}") from exc
        if found.returncode:
            last = (found.stderr.strip().splitlines() or ["no message"])[-1]
            raise PackageError(
                f"{self._python} cannot list AgentDojo's tasks ({last}): pip install agentdojo in "
                "an environment of its own and name its python with --suite-python"
            )
        listed: dict[str, Any] = json.loads(found.stdout)
        return listed

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of a category as scenarios. Raises PackageError."""
        is_attack = category.startswith("attack_")
        suite = category.removeprefix("attack_")
        tasks = [task for task in self._listed["tasks"] if task["suite"] == suite]
        if not is_attack:
            return [self._scenario(category, task, None) for task in tasks]
        goals = self._listed["goals"][suite]
        return [self._scenario(category, task, goal) for task in tasks for goal in goals]

    def _scenario(self, category: str, task: dict[str, Any], attack: str | None) -> Scenario:
        title = task["id"] if attack is None else f"{task['id']}_{attack}"
        made = Task(
            id=f"{category}_{title}",
            instruction=task["instruction"],
            difficulty="unrated",
            kind="open",
            answer=task["answer"],
            oracle=tuple(Call(one["name"], one["arguments"]) for one in task["calls"]),
        )
        world = {
            "suite": task["suite"],
            "task": task["id"],
            "attack": attack,
            "positions": task["injections"] if attack else [],
        }
        record = SuiteRecord(NAME, self.version, category, world)
        return entry_scenario(
            record, made, title=title, path=_LISTING, rules=self._listed["rules"].strip()
        )


def _environment() -> dict[str, str]:
    """The variables that the listing gets: no keys."""
    return {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
