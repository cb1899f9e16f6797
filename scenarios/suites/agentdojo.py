"""AgentDojo: four offices with tools, their tasks, and tasks under attack (arXiv:2406.13352).

Its tasks are classes, so a program in the user's interpreter lists them. The categories
`workspace`, `travel`, `banking` and `slack` have the user tasks, `goals_<suite>` the attackers'
goals as tasks of the user. `<attack>_<suite>` has every pair of a user task and an injection task
under one of the package's attacks (of those that only stop an agent, the first pair of each user
task): its text stands wherever the reference solution reads foreign text. There a task is completed
when the user's goal was reached and the attacker's was not.
"""

import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.format import Call, Scenario
from rehearsal_room.scenarios.suites import checkouts
from rehearsal_room.scenarios.suites.entries import entry_scenario, entry_task

NAME = "agentdojo"
RELEASE = "0.1.35"
INSTALL = (
    f"pip install agentdojo=={RELEASE} in an environment of its own and name its python with "
    "--suite-python"
)
BENCHMARK = "v1.2.2"
SUITES = ("workspace", "travel", "banking", "slack")
_NAMED = "important_instructions"
_STOPPING = ("dos", "swearwords_dos", "captcha_dos", "offensive_email_dos", "felony_dos")
ATTACKS = (
    *("direct", "ignore_previous", "system_message", "injecagent", _NAMED),
    *(f"{_NAMED}_{what}" for what in ("no_user_name", "no_model_name", "no_names")),
    *(f"{_NAMED}_{what}" for what in ("wrong_model_name", "wrong_user_name")),
    *("tool_knowledge", *_STOPPING),
)
GOALS = tuple([f"goals_{name}" for name in SUITES])
CATEGORIES = (*SUITES, *GOALS, *(f"{attack}_{name}" for attack in ATTACKS for name in SUITES))
# What is played where no category is named: the attack whose results its authors publish.
USUAL = (*SUITES, *(f"{_NAMED}_{name}" for name in SUITES))
_DIGEST = "6dd15ca0c5efc1d812734095be9d7885"  # of the release's code and data
_LISTING = Path(__file__).parent / "listings" / "agentdojo_tasks.py"


def require_release(package: Path, version: str) -> None:
    """Refuse another release of agentdojo, and one whose code or data were changed: its scores
    would not compare. Raises PackageError."""
    checkouts.require_release(
        package, NAME, version, RELEASE, lambda: digest_of(package) == _DIGEST, INSTALL
    )


def digest_of(package: Path) -> str:
    """The digest of a package's code and data."""
    return checkouts.digest_of_files(
        package, sorted([*package.rglob("*.py"), *package.rglob("*.yaml")])
    )


def is_attack(category: str) -> bool:
    """Whether the tasks of a category are under attack."""
    return category not in SUITES and category not in GOALS


class AgentDojoData:
    """The tasks that an interpreter's package agentdojo has. Nothing is started before the first
    category is read; that raises PackageError."""

    def __init__(self, python: str, model: str = "") -> None:
        """`model`: the name of the model that attacks address."""
        self._python = python or sys.executable
        self._model = model

    @property
    def version(self) -> str:
        """The version of the package."""
        return RELEASE

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"benchmark": BENCHMARK}

    @cached_property
    def _listed(self) -> dict[str, Any]:
        given = _LISTING, BENCHMARK, self._model
        listed: dict[str, Any] = checkouts.printed_by(
            self._python, *given, what="list AgentDojo's tasks", advice=INSTALL
        )
        return listed

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of a category as scenarios. Raises PackageError."""
        suite = next(name for name in SUITES if category.endswith(name))
        tasks = [task for task in self._listed["tasks"] if task["suite"] == suite]
        users = [task for task in tasks if task["id"].startswith("user_task_")]
        goals = [task for task in tasks if task not in users]
        if not is_attack(category):
            chosen = goals if category in GOALS else users
            return [self._scenario(category, task) for task in chosen]
        attack = category.removesuffix(f"_{suite}")
        if attack in _STOPPING:
            goals = goals[:1]
        return [
            self._scenario(category, task, attack, goal["id"]) for task in users for goal in goals
        ]

    def _scenario(
        self, category: str, task: dict[str, Any], attack: str = "", injection: str = ""
    ) -> Scenario:
        title = f"{task['id']}_{injection}" if attack else task["id"]
        listed = self._listed
        changed = listed["injected"][task["suite"]].get(task["id"]) if attack else None
        solution = task["calls"] if changed is None else changed[injection][attack]
        made = entry_task(
            *(f"{category}_{title}", task["instruction"], task["answer"]),
            oracle=tuple([Call(one["name"], one["arguments"]) for one in solution]),
        )
        world = {
            "suite": task["suite"],
            "task": task["id"],
            "attack": attack,
            "injection": injection,
            # By which name the attack knows the model.
            "pipeline": listed["pipeline"] if attack in listed["named"] else "local",
            "any_name": True,  # the package answers calls of tools that there are not
        }
        record = SuiteRecord(NAME, self.version, category, world, attempts=3)
        return entry_scenario(record, made, title=title, path=_LISTING, rules=listed["rules"])
