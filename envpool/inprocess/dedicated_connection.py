"""One plain SQLite connection for one world: the baseline for measurements of the world store.

It has the same tools, checks and transactions, and shares nothing: no switch, no change tracking,
no digest. Rolling back one outer transaction undoes an episode, so the connection stays warm: its
page cache and its prepared statements are never dropped.
"""

from typing import Any

import apsw
import msgspec

from rehearsal_room.envpool.inprocess.toolset import BadArguments, Tool, load
from rehearsal_room.envpool.store.database import Database
from rehearsal_room.envpool.store.overlay import keep_prepared_statements
from rehearsal_room.envpool.store.template import Template
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.format import Scenario

_encode = msgspec.json.Encoder().encode


class DedicatedConnection:
    """A warm connection with a scenario's tools. The caller closes it."""

    def __init__(self, scenario: Scenario, template: Template) -> None:
        self._tools: dict[str, Tool] = load(scenario)
        source = apsw.Connection(":memory:")
        source.deserialize("main", template.image)
        self._connection = apsw.Connection(":memory:", statementcachesize=512)
        keep_prepared_statements(self._connection)
        with self._connection.backup("main", source, "main") as backup:
            backup.step()
        source.close()
        for pragma in ("journal_mode=MEMORY", "temp_store=MEMORY", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._db = Database(self._connection, scenario.clock, scenario.user)
        self._execute = self._connection.execute

    def begin(self) -> None:
        """Begin an episode."""
        self._execute("BEGIN")

    def end(self) -> None:
        """Undo the episode."""
        self._execute("ROLLBACK")

    def call(self, name: str, arguments: Any) -> str | None:
        """Execute one call in its own transaction; returns its text, or None when it failed."""
        tool = self._tools.get(name)
        if tool is None:
            return None
        try:
            checked = tool.arguments(arguments)
        except BadArguments:
            return None
        self._execute("SAVEPOINT call")
        try:
            value = tool.function(self._db, **checked)
            text = value if isinstance(value, str) else _encode(value).decode()
        except (ToolError, apsw.Error, TypeError, KeyError, ValueError):
            self._execute("ROLLBACK TO call")
            text = None
        self._execute("RELEASE call")
        return text

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
