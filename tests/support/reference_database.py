"""The reference for tests of the world store: plain SQLite, one database image for each world.

It shares only the tools' code and the checks of their arguments with the pool: it has no overlay,
no shared page cache, no tracking. A state is the bytes of a database file.
"""

import itertools
import sqlite3
from datetime import datetime
from typing import Any

import apsw
import msgspec

from rehearsal_room.envpool.core.types import StoredState, ToolErrorKind
from rehearsal_room.envpool.inprocess.toolset import BadArguments, load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.database import Database
from rehearsal_room.envpool.store.digest import hex_digest, rows_sum
from rehearsal_room.scenarios.errors import ToolError as Refused

Dump = dict[str, list[str]]  # table -> its rows, as texts in which 1 and 1.0 differ

_numbers = itertools.count(1)
_ALLOWED = {
    apsw.SQLITE_SELECT,
    apsw.SQLITE_READ,
    apsw.SQLITE_INSERT,
    apsw.SQLITE_UPDATE,
    apsw.SQLITE_DELETE,
    apsw.SQLITE_FUNCTION,
    apsw.SQLITE_SAVEPOINT,
    apsw.SQLITE_RECURSIVE,
}


class _Clock(apsw.VFS):
    def __init__(self, clock: str) -> None:
        self.name = f"reference-{next(_numbers)}"
        moment = datetime.fromisoformat(clock.replace("Z", "+00:00"))
        self._julian_day = moment.timestamp() / 86_400 + 2_440_587.5
        super().__init__(self.name, "")

    def xCurrentTime(self) -> float:
        return self._julian_day

    def xCurrentTimeInt64(self) -> int:
        return round(self._julian_day * 86_400_000)


class ReferenceDatabase:
    """Executes calls on database images of one scenario."""

    def __init__(self, world: HostedScenario) -> None:
        self.start = world.template.image
        self._tools = load(world.scenario)
        self._clock = _Clock(world.scenario.clock)
        self._connection = apsw.Connection(":memory:", vfs=self._clock.name)
        self._db = Database(self._connection, world.scenario.clock, world.scenario.user)
        self._connection.deserialize("main", self.start)
        self._connection.execute("PRAGMA foreign_keys=ON").fetchall()
        self._num_ticks = 0
        self._connection.set_progress_handler(self._is_past_limit, 100_000)

        def refuse(*_: object) -> None:
            raise ValueError("random functions are disabled")

        for name in ("random", "randomblob"):
            self._connection.create_scalar_function(name, refuse)

    def call(
        self, image: bytes, name: str, arguments: Any
    ) -> tuple[bytes, str, ToolErrorKind | None]:
        """The state after a call, its text and its error; the unchanged image where it failed."""
        connection = self._connection
        if name not in self._tools:
            return image, "", "unknown_tool"
        try:
            checked = self._tools[name].arguments(arguments)
        except BadArguments:
            return image, "", "arguments"
        connection.deserialize("main", image)
        connection.set_last_insert_rowid(0)
        self._num_ticks = 0
        connection.execute("BEGIN")
        connection.authorizer = lambda op, *_: (
            apsw.SQLITE_OK if op in _ALLOWED else apsw.SQLITE_DENY
        )
        try:
            value = self._tools[name].function(self._db, **checked)
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            text.encode()
            connection.authorizer = None
            dump_of(connection)  # rows that cannot be read fail the call
            connection.execute("COMMIT")
            return connection.serialize("main"), text, None
        except Refused as exc:
            return self._roll_back(image, str(exc).encode(errors="replace").decode(), "refused")
        except apsw.InterruptError:
            return self._roll_back(image, "", "timeout")
        except Exception:
            return self._roll_back(image, "", "internal")

    def _is_past_limit(self) -> bool:
        self._num_ticks += 1
        return self._num_ticks > 10

    def _roll_back(
        self, image: bytes, text: str, error: ToolErrorKind
    ) -> tuple[bytes, str, ToolErrorKind]:
        self._connection.authorizer = None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        return image, text, error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._clock.unregister()


def dump_of(connection: apsw.Connection | sqlite3.Connection) -> Dump:
    """Every row of every table in the order of rowids or keys."""
    tables = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        " AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    return {
        str(name): [
            repr(tuple(row))
            for row in connection.execute(
                f"SELECT * FROM {name} {'' if wr else 'ORDER BY _rowid_'}"
            )
        ]
        for name, wr in tables
    }


def open_image(image: bytes) -> sqlite3.Connection:
    """A plain connection to a state. The caller closes it."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(image)
    return connection


def image_of(world: HostedScenario, state: StoredState) -> bytes:
    """A stored state as the bytes of a database file."""
    pages = list(world.template.pages[: state.num_pages])
    pages += [bytes(1024)] * (state.num_pages - len(pages))
    for number, page in state.pages.items():
        pages[number - 1] = page
    return b"".join(pages)


def read_image(world: HostedScenario, image: bytes) -> tuple[Dump, str, str]:
    """A state read by a plain connection: its dump, its digest, and SQLite's integrity check."""
    connection = open_image(image)
    try:
        total = sum(
            rows_sum(table.name, connection.execute(table.select_all))
            for table in world.template.tables.values()
        )
        (check,) = connection.execute("PRAGMA integrity_check").fetchone()
        return dump_of(connection), hex_digest(total % 2**128), check
    finally:
        connection.close()
