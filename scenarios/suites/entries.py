"""One entry of a suite as a scenario with one task."""

import hashlib
import re
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.call_checks import McpRecord
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.format import Scenario, Task

_NO_USER = User("", "", "")
ANSWER = "Done."  # of a reference solution where the suite names none


def identifier(entry: str) -> str:
    """A name for an entry: lower-case letters, digits and `_`.

    Example: "live_simple_0-0-0" -> "live_simple_0_0_0"
    """
    return re.sub(r"\W", "_", entry.lower())


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
    known = msgspec.to_builtins(record)
    if record.attempts == 1:
        del known["attempts"]  # records of before it was there have the same digest
    asked = msgspec.to_builtins(task)
    if not task.follows:
        del asked["follows"]
    for name in ("renders_rules", "unscored"):
        if not known[name]:
            del known[name]
    content = msgspec.json.encode((asked, known, rules, user, clock))
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


def _foreign(record: SuiteRecord) -> McpRecord | None:
    """What says that the state of the world is unknown; None: it is known."""
    if record.served is None:
        return None
    return McpRecord(", ".join(server.name for server in record.served.servers), {})
