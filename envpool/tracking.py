"""Which rows a transaction changed, net, whatever statements, triggers and savepoints did.

SQLite's pre-update hook reports each row before it changes. The first report of a row in a
transaction is kept as its "before"; just before COMMIT the row is read again as its "after". So a
rolled-back savepoint or a change undone leaves nothing, and cost follows the rows that changed, not
the size of the tables. (The session extension works the same way; attaching it costs more.)
"""

from typing import Any

import apsw

from envpool.digest import moved
from envpool.template import Table, Values
from scenarios.api import RowChange


class Tracker:
    """Collects the changes of one connection's transactions."""

    def __init__(self, connection: apsw.Connection, tables: dict[str, Table]) -> None:
        self._connection = connection
        self._tables = tables
        self._touched: dict[tuple[str, Any], Values | None] = {}  # (table, rowid or key) -> before
        connection.preupdate_hook(self._note)

    def begin(self) -> None:
        """Forget what an earlier transaction touched."""
        if self._touched:
            self._touched = {}

    def net(self, total: int) -> tuple[tuple[RowChange, ...], int]:
        """The changes so far, ordered by table and key, and the row sum after them."""
        if not self._touched:
            return (), total
        touched, self._touched = self._touched, {}
        changes = []
        for (name, where), before in touched.items():
            table = self._tables[name]
            cursor = self._connection.execute(
                table.select_row, where if table.without_rowid else (where,)
            )
            after = cursor.fetchone()
            if before != after or _types(before) != _types(after):
                total = moved(total, name, before, after)
                changes.append(table.change(where, before, after))
        if len(changes) > 1:
            changes.sort(key=order)
        return tuple(changes), total

    def _note(self, update: apsw.PreUpdate) -> None:
        name = update.table_name
        table = self._tables.get(name)
        if table is None or update.database_name != "main":
            return
        old = update.old
        if table.without_rowid:
            for values in (old, update.new):
                if values is not None:
                    key = tuple(values[position] for position in table.key)
                    self._touched.setdefault((name, key), old if values is old else None)
            return
        op = update.op
        if op == "INSERT":
            self._touched.setdefault((name, update.rowid_new), None)
            return
        self._touched.setdefault((name, update.rowid), old)
        if op == "UPDATE" and update.rowid_new != update.rowid:
            self._touched.setdefault((name, update.rowid_new), None)


def order(change: RowChange) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Sorts changes by table and key, keys of mixed types included."""
    return change.table, tuple((type(value).__name__, value) for value in change.key)


def _types(row: Values | None) -> list[type] | None:
    return None if row is None else [type(value) for value in row]
