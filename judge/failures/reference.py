"""What an episode is compared with: the solution of its task, played in the same world."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing

import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Call, Task


class TableKeys(msgspec.Struct, frozen=True):
    """Which columns of a table name records."""

    own: str | None  # the number that SQLite gives to a new row; None: there is none
    references: frozenset[str]  # columns that name rows of other tables


class Reference(msgspec.Struct, frozen=True):
    """A task's solution with its effects."""

    task: Task
    results: tuple[ToolResult, ...]  # one for each call of `task.oracle`
    changes: tuple[RowChange, ...]  # net
    tables: dict[str, TableKeys]  # empty where the world's tables are not known
    enumerated: frozenset[tuple[str, str]] = frozenset()  # tool and argument with named values

    @property
    def calls(self) -> tuple[Call, ...]:
        """The solution's calls."""
        return self.task.oracle


def reference_of(
    task: Task,
    results: Iterable[ToolResult],
    tables: dict[str, TableKeys],
    enumerated: frozenset[tuple[str, str]] = frozenset(),
) -> Reference:
    """The reference of a task whose solution gave these results, call by call."""
    given = tuple(results)
    changes = net_changes(result.changes for result in given)
    return Reference(task, given, changes, tables, enumerated)


def tables_in(image: bytes) -> dict[str, TableKeys]:
    """The keys of each table of a database, given as the bytes of its file; none where they are not
    a database of SQLite."""
    if not image.startswith(b"SQLite format 3\0"):
        return {}
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(image)
        try:
            names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {name: _keys_of(db, name) for (name,) in names}
        except sqlite3.DatabaseError:  # the image is damaged
            return {}


def _keys_of(db: sqlite3.Connection, table: str) -> TableKeys:
    columns = db.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()
    foreign = db.execute('SELECT "from" FROM pragma_foreign_key_list(?)', (table,)).fetchall()
    references = frozenset(name for (name,) in foreign)
    keys = [(name, type_) for name, type_, pk in columns if pk]
    if len(keys) == 1 and keys[0][1].upper() == "INTEGER" and keys[0][0] not in references:
        return TableKeys(keys[0][0], references)
    return TableKeys(None, references)
