"""VitaBench from a checkout of meituan-longcat/vitabench: deliveries, shops, travel, and all three
(arXiv:2509.26490).

Each task has a database of its own. A customer, whom a second model plays, answers fixed words in
the agent's name; the agent ends the talk by a word. A model decides on every rubric. Tasks and
prompts are read here; databases, tools and the evaluation are the checkout's own code in an
interpreter of the user's.
"""

import json
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.core.dialogue import ModelUser, ScriptedTurn
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.checkouts import (
    checkout_at,
    digest_of_files,
    file_json,
    file_text,
    project_version,
    require_release,
)
from rehearsal_room.scenarios.suites.entries import entry_scenario, entry_task, identifier

LANGUAGES = {"vitabench": "chinese", "vitabench_en": "english"}  # suite -> language of its tasks
# Category -> its domain as upstream names it.
DOMAINS = {
    "delivery": "delivery",
    "instore": "instore",
    "ota": "ota",
    "cross": "delivery,instore,ota",
}
INSTRUCTION = "A customer has joined the chat."
AGENT_STOP = "###STOP###"
STOPS = (AGENT_STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")
_RELEASE = "0.0.1"
_COMMIT = "of 2025-11-06"
_DIGEST = "b1bdcce91d9c890d2b37331e544817fa"  # of the commit's code and prompts
_OPENINGS = {"english": "Hello, how can I help you?", "chinese": "你好，请问需要什么服务？"}
_HELLO = {"english": "Hello, I need your help.", "chinese": "你好，我需要帮助。"}
_DAYS = {
    "english": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "chinese": tuple(f"星期{day}" for day in "一二三四五六日"),
}
_NO_USER_TOOLS = "Error: Invalid requestor: user. Only 'assistant' is supported."
_REPOSITORY = "https://github.com/meituan-longcat/vitabench"


class VitaBenchData:
    """The tasks of one language in a checkout. Nothing is read before it is asked for; a file that
    is missing raises PackageError."""

    def __init__(self, folder: str, suite: str) -> None:
        self._suite, self._language = suite, LANGUAGES[suite]
        self._root = checkout_at(folder, suite, "VitaBench", _REPOSITORY, "src/vita")
        self._package = self._root / "src" / "vita"
        require_release(
            *(self._root, "VitaBench", project_version(self._root), _RELEASE),
            lambda: digest_of(self._package) == _DIGEST,
            f"check out the commit {_COMMIT} of {_REPOSITORY}",
        )

    @property
    def version(self) -> str:
        """The checkout's version, and the beginning of the digest of its code."""
        return f"{_RELEASE}+{_DIGEST[:8]}"

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"folder": str(self._root), "language": self._language, "version": self.version}

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of a category, each with a world of its own. Raises PackageError."""
        name = "tasks_en.json" if self._language == "english" else "tasks.json"
        folder = "cross_domain" if category == "cross" else category
        path = self._root / "data" / "vita" / "domains" / folder / name
        return [self._scenario(category, task, path) for task in file_json(path)]

    def _scenario(self, category: str, task: dict[str, Any], path: Path) -> Scenario:
        name = f"{category}_{identifier(task['id'])}"
        prompt = self._prompts["user_system_prompt"]
        user = ModelUser(
            prompt=prompt.format(
                persona=str(task["user_scenario"]["user_profile"]),
                instructions=str(task["instructions"]),
            ),
            no_tool=_NO_USER_TOOLS,
            stops=STOPS,
            solution=(ScriptedTurn(_HELLO[self._language]),),
            opening=_OPENINGS[self._language],
        )
        made = entry_task(name, INSTRUCTION, user=user, stops=(AGENT_STOP,))
        time = task["environment"]["time"]
        day = datetime.fromisoformat(time).weekday()
        now = f"{time} {_DAYS[self._language][day]}"
        content = json.dumps(task, ensure_ascii=False, sort_keys=True).encode()
        world = {
            "domain": DOMAINS[category],
            "task": task["id"],
            "digest": blake2b(content, digest_size=8).hexdigest(),  # another task, another world
            "any_name": True,  # upstream answers calls of tools that there are not
        }
        record = SuiteRecord(
            self._suite, self.version, category, world, empty_replies=3, shows_opening=False
        )
        rules = self._prompts["agent_system_prompt"].format(time=now)
        return entry_scenario(record, made, title=str(task["id"]), path=path, rules=rules)

    @cached_property
    def _prompts(self) -> dict[str, str]:
        """The prompts of agent and customer in this language."""
        names = ("agent_system_prompt", "user_system_prompt")
        folder = self._package / "prompts"
        return {name: _block(file_text(folder / f"{name}.yaml"), self._language) for name in names}


def digest_of(package: Path) -> str:
    """The digest of a package's code and prompts; the list of models is the user's own."""
    files = sorted([*package.rglob("*.py"), *package.rglob("*.yaml")])
    return digest_of_files(package, [file for file in files if file != package / "models.yaml"])


def _block(text: str, key: str) -> str:
    """A literal block of a YAML file, without the last line's end.

    Example: 'name: a\\nenglish: |-\\n  One\\n\\n  two\\n', "english" -> "One\\n\\ntwo"
    """
    _, _, rest = text.partition(f"\n{key}: |-\n")
    lines = []
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        lines.append(line[2:])
    return "\n".join(lines).rstrip("\n")
