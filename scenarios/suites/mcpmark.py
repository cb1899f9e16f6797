"""MCPMark from a checkout: tasks in a folder of files or a Postgres database (arXiv:2509.24002).

    tasks/<service>/<suite>/<category>/<task>/{meta.json, description.md, verify.py}

An episode of a file system task begins with a copy of the category's folder, which the user has
downloaded; one of a Postgres task with a new database. The task's verify.py decides, as a process
of its own. The standard tasks are played; those named `easy` have a category of their own.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.served_worlds import (
    DatabaseStart,
    FolderStart,
    ScriptCheck,
    ServedWorld,
    ServerSpec,
)
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.checkouts import (
    checkout_at,
    file_bytes,
    file_text,
    project_version,
)
from rehearsal_room.scenarios.suites.entries import entry_scenario, entry_task, identifier
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags

NAME = "mcpmark"
CATEGORIES = ("filesystem", "postgres", "filesystem_easy", "postgres_easy")
FOLDER_VARIABLE = "FILESYSTEM_TEST_DIR"
_ROOT_VARIABLE = "FILESYSTEM_TEST_ROOT"  # of the folders; relative to the checkout
_SERVERS = {
    "filesystem": ServerSpec(
        "filesystem",
        ("npx", "-y", "@modelcontextprotocol/server-filesystem", "{{FILESYSTEM_TEST_DIR}}"),
    ),
    "postgres": ServerSpec(
        "postgres",
        ("pipx", "run", "postgres-mcp", "--access-mode=unrestricted"),
        {"DATABASE_URI": "{{DATABASE_URL}}"},
    ),
}
_NOTES = {
    "filesystem": "",
    "postgres": "\n\nThe tools are connected to the Postgres database of this task.",
}
_FILES = ("description.md", "verify.py")


class _Meta(msgspec.Struct):
    task_id: str = ""
    category_id: str = ""


class McpMarkData:
    """The tasks of a checkout. Raises PackageError for a folder that is none."""

    def __init__(self, flags: SuiteFlags) -> None:
        self._flags, url = flags, "https://github.com/eval-sys/mcpmark"
        self._root = checkout_at(flags.folder, NAME, "MCPMark", url, "tasks")

    @cached_property
    def version(self) -> str:
        """The checkout's version, and a digest of the tasks that can be played here."""
        digest = blake2b(digest_size=4)
        for category in CATEGORIES:
            for path in self._folders(category):
                for name in _FILES:
                    digest.update(file_bytes(path / name))
        return f"{project_version(self._root)}+{digest.hexdigest()}"

    def options(self) -> dict[str, Any]:
        """Nothing: no adapter keeps its worlds."""
        return {}

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of a category. Raises PackageError."""
        found = [self._scenario(category, path) for path in self._folders(category)]
        if not found:
            raise PackageError(f"{self._path_of(category)}: there are no tasks here")
        return found

    def _path_of(self, category: str) -> Path:
        service, _, suite = category.partition("_")
        return self._root / "tasks" / service / (suite or "standard")

    def _folders(self, category: str) -> Iterator[Path]:
        for path in sorted(self._path_of(category).glob("*/*")):
            if all((path / name).is_file() for name in _FILES):
                yield path

    def _scenario(self, category: str, path: Path) -> Scenario:
        service = category.partition("_")[0]
        meta = _meta_of(path)
        group = meta.category_id or path.parent.name
        name = f"{category}_{identifier(group)}_{identifier(meta.task_id or path.name)}"
        asked = file_text(path / "description.md").strip() + _NOTES[service]
        task = entry_task(name, asked, answer="")
        world = ServedWorld(
            root=str(self._root),
            servers=((_SERVERS | self._flags.servers)[service],),
            check=ScriptCheck(
                str(path / "verify.py"), ("psycopg2",) if service == "postgres" else ()
            ),
            start=self._database(path, group) if service == "postgres" else self._folder(group),
        )
        record = SuiteRecord(NAME, self.version, category, {}, served=world)
        return entry_scenario(record, task, title=f"{group}/{path.name}", path=path)

    def _folder(self, group: str) -> FolderStart:
        named = _ROOT_VARIABLE in self._flags.variables and os.environ.get(_ROOT_VARIABLE, "")
        root = self._root / (named or "test_environments")
        return FolderStart(str(root / group), FOLDER_VARIABLE)

    def _database(self, path: Path, group: str) -> DatabaseStart:
        script = path / "prepare_environment.py"
        dump = self._root / "postgres_state" / f"{group}.backup"
        return DatabaseStart(group, str(dump), str(script) if script.is_file() else "")


def _meta_of(path: Path) -> _Meta:
    try:
        return msgspec.json.decode((path / "meta.json").read_bytes(), type=_Meta)
    except FileNotFoundError:
        return _Meta()
    except (OSError, *UNREADABLE) as exc:
        raise PackageError(f"{path / 'meta.json'}: it is not a task's description: {exc}") from exc
