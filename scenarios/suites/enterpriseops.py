"""EnterpriseOps-Gym from a checkout: office tasks in MCP servers, each with an SQL database.

Its tasks are JSON files, one each, in a folder that the user names: those that its own runner
writes (`oracle__csm__….json`), or any folder of such files, whose name or that of a folder above
says the mode. The mode is the category: the tools of the reference solution alone (`oracle`), or
with 5, 10 or 15 others, as the file's `selected_tools` lists them. A file that names no mode is in
the category `tasks`.
"""

import json
from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.core.dialogue import UserScript
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.checkouts import (
    checkout_at,
    file_bytes,
    project_version,
    require_release,
)
from rehearsal_room.scenarios.suites.entries import entry_scenario, entry_task, identifier
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags

NAME = "enterpriseops"
CATEGORIES = ("oracle", "plus_5_tools", "plus_10_tools", "plus_15_tools", "tasks")
ROUNDS = 50  # replies of a model, as upstream's ReAct loop
AUDIT = "changes that no verifier asks about"  # the finding of this name (see the adapter)
NO_CHANGE = "none of "  # how its text begins where there are none
_TITLE, _REPOSITORY = "EnterpriseOps-Gym", "https://github.com/ServiceNow/EnterpriseOps-Gym"
_RELEASE = "0.1.0"
_DIGEST = "22f0e11cdcb8d0d9818a5238248e891b"  # of the code that plays and decides
_CODE = (
    *(f"benchmark/{name}.py" for name in ("executor", "llm_client", "mcp_client", "models")),
    *("benchmark/verifier.py", "orchestrators/base.py", "orchestrators/react.py"),
)
_OWN_TASKS = "data/revised"
_NOT_OF_TASKS = ("task_id", "domain")  # of the data set's rows; its runner leaves them out
_TEXTS = ("system_prompt", "user_prompt")
_LISTS = ("gym_servers_config", "verifiers")  # JSON in a text, as in the data set, or as it is


class EnterpriseOpsData:
    """The tasks of a folder, played by the code of a checkout. Raises PackageError for a folder
    that is none, and for another version of the code, whose scores would not compare."""

    def __init__(self, flags: SuiteFlags) -> None:
        self._root = checkout_at(flags.folder, NAME, _TITLE, _REPOSITORY, _CODE[0])
        require_release(
            *(self._root, _TITLE, project_version(self._root), _RELEASE),
            lambda: digest_of(self._root) == _DIGEST,
            f"check out the state of 2026-08-19 of {_REPOSITORY}",
        )
        self._tasks = Path(flags.tasks).absolute() if flags.tasks else self._root / _OWN_TASKS
        if not self._tasks.is_dir():
            raise PackageError(f"{self._tasks}: there is no such folder of tasks (--suite-tasks)")

    @cached_property
    def version(self) -> str:
        """The checkout's version, and a digest of the tasks."""
        digest = blake2b(digest_size=4)
        for path in self._files:
            digest.update(file_bytes(path))
        return f"{_RELEASE}+{digest.hexdigest()}"

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"folder": str(self._root), "tasks": str(self._tasks), "version": self.version}

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of a mode; there may be none. Raises PackageError."""
        return [self._scenario(category, path) for path in self._of(category)]

    @cached_property
    def _files(self) -> list[Path]:
        found = sorted(self._tasks.rglob("*.json"))
        if not found:
            raise PackageError(f"{self._tasks}: there are no tasks (*.json) in this folder")
        return found

    def _of(self, category: str) -> Iterator[Path]:
        for path in self._files:
            if self._category(path) == category:
                yield path

    def _category(self, path: Path) -> str:
        """The mode that a file's name begins with, or that a folder has as its name."""
        relative = path.relative_to(self._tasks)
        for name in (*relative.name.split("__")[:1], *relative.parts[:-1]):
            mode = name.replace("+", "plus_")
            if mode in CATEGORIES:
                return mode
        return CATEGORIES[-1]

    def _scenario(self, category: str, path: Path) -> Scenario:
        config = _read(path)
        parts = path.relative_to(self._tasks).with_suffix("").parts
        title = "__".join(part for part in parts if part != category)
        title = title.removeprefix(f"{category}__")
        # There is no user: an agent that reaches the limit of replies has ended the talk.
        user = UserScript(executes_withheld=True, ends_at_limit=True)
        named = f"{category}_{identifier(title)}", config["user_prompt"]
        task = entry_task(*named, answer="", user=user)
        world = {"task": config, "any_name": True, "checked_live": True}
        record = SuiteRecord(NAME, self.version, category, world)
        return entry_scenario(record, task, title=title, path=path, rules=config["system_prompt"])


def _read(path: Path) -> dict[str, Any]:
    """The configuration in a file, as upstream's runner reads it. Raises PackageError."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(given, dict):
            raise ValueError(f"it is a {type(given).__name__}, expected an object")
        config = {
            name: json.loads(value) if name in _LISTS and isinstance(value, str) else value
            for name, value in given.items()
            if not name.startswith("_") and name not in _NOT_OF_TASKS
        }
    except (OSError, ValueError, RecursionError) as exc:
        raise PackageError(f"{path}: it is not a task of EnterpriseOps-Gym: {exc}") from exc
    servers, verifiers = config.get(_LISTS[0]), config.setdefault(_LISTS[1], [])
    is_task = (
        all(isinstance(config.get(name), str) for name in _TEXTS)
        and isinstance(servers, list)
        and servers
        and all(_is_server(one) for one in servers)
        and isinstance(verifiers, list)
        and all(isinstance(one, dict) for one in verifiers)
    )
    if not is_task:
        raise PackageError(
            f"{path}: a task has {', '.join(_TEXTS)} (texts), gym_servers_config (servers, each "
            "with mcp_server_name and mcp_server_url) and verifiers"
        )
    config["verifiers"] = [
        {name: value for name, value in one.items() if not name.startswith("_")}
        for one in verifiers
    ]
    return {"mcp_endpoint": "/mcp", "context": {}, **config, "number_of_runs": 1}


def _is_server(given: Any) -> bool:
    names = ("mcp_server_name", "mcp_server_url")
    return isinstance(given, dict) and all(isinstance(given.get(name), str) for name in names)


def digest_of(root: Path) -> str:
    """A digest of a checkout's code that plays tasks and decides them."""
    digest = blake2b(digest_size=16)
    for name in _CODE:
        digest.update(file_bytes(root / name).replace(b"\r\n", b"\n"))
    return digest.hexdigest()
