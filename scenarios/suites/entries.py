"""One entry of a suite as a scenario with one task."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.call_checks import McpRecord
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.format import Scenario, Task, TaskKind

_NO_USER = User("", "", "")
_LATER_OF_RECORDS = (
    *("attempts", "unlisted", "users_unlisted", "empty_replies", "shows_opening"),
    *("ends_on_unknown_tool", "renders_rules", "unscored"),
)
_LATER_OF_TASKS = ("criterion", "criteria_threshold", "stops", "follows")
ANSWER = "Done."  # of a reference solution where the suite names none


def identifier(entry: str) -> str:
    """A name for an entry: lower-case letters, digits and `_`.

    Example: "live_simple_0-0-0" -> "live_simple_0_0_0"
    """
    return re.sub(r"\W", "_", entry.lower())


def entry_task(
    id: str, instruction: str, answer: str = ANSWER, *, kind: TaskKind = "open", **more: Any
) -> Task:
    """The task of an entry, whose difficulty nobody has rated. `more`: other fields of Task."""
    return Task(id, instruction, "unrated", kind, answer, **more)


def entry_scenario(
    record: SuiteRecord,
    task: Task,
    *,
    title: str,
    path: Path,
    rules: str = "",
    user: User = _NO_USER,
    clock: str = "",
) -> Scenario:
    """The scenario of an entry, named like its task. `path` is where its data is."""
    known = _without(msgspec.to_builtins(record), record, _LATER_OF_RECORDS)
    content = msgspec.json.encode((task_content(task), known, rules, user, clock))
    return Scenario(
        name=task.id,
        title=title,
        version=record.version,
        description=f"Entry {title} of {record.suite}",
        clock=clock,
        user=user,
        schema_sql="",
        data_sql="",
        rules=rules,
        tasks=(task,),
        path=path,
        digest=hashlib.blake2b(content, digest_size=16).hexdigest(),
        foreign=_foreign(record),
        suite=record,
    )


def task_content(task: Task) -> dict[str, Any]:
    """What a task's digest is made of."""
    return _without(msgspec.to_builtins(task), task, _LATER_OF_TASKS)


def _without(content: dict[str, Any], of: msgspec.Struct, later: Sequence[str]) -> dict[str, Any]:
    """The content without those of the `later` fields that have their usual value, so that tasks
    and records of before these were there keep their digests."""
    usual = {field.name: field.default for field in msgspec.structs.fields(of)}
    kept = [name for name in later if getattr(of, name) != usual[name]]
    return {name: value for name, value in content.items() if name not in later or name in kept}


def _foreign(record: SuiteRecord) -> McpRecord | None:
    """What says that the state of the world is unknown; None: it is known."""
    if record.served is None:
        return None
    return McpRecord(", ".join(server.name for server in record.served.servers), {})
