"""The net row changes of a transaction, whatever its statements, triggers and savepoints did.

SQLite's pre-update hook reports each row before it changes. The first report of a row in a
transaction is kept as its "before"; just before COMMIT the row is read again as its "after". So a
rolled-back savepoint or a reverted change leaves nothing, and the cost depends on the rows that
changed, not on the size of the tables. (SQLite's session extension works the same way; attaching
it costs more.)

A row is identified by its primary key where there is one: changing a key removes one row and adds
another, and deleting a row and inserting it again under its key is one changed row.

The hook does not report every row of virtual tables, nor generated columns. For such tables the
tracker only records that they were touched; the caller compares them completely.
"""

from typing import Any

import apsw

from rehearsal_room.envpool.store.changes import change_order
from rehearsal_room.envpool.store.digest import sum_after_change
from rehearsal_room.envpool.store.template import RowValues, TableSchema
from rehearsal_room.scenarios.api import RowChange


class Tracker:
    """Collects the row changes of transactions, on one connection or on several used in turn.

    `untracked` holds the names of the touched tables that are not among the changes.
    """

    def __init__(self, connection: apsw.Connection, tables: dict[str, TableSchema]) -> None:
        self.untracked: set[str] = set()
        self._touched: dict[
            tuple[str, Any], RowValues | None
        ] = {}  # (table, rowid or key) -> before
        self.set_tables(tables)
        self.read_with(connection)
        self.attach(connection)

    def set_tables(self, tables: dict[str, TableSchema]) -> None:
        """Track these tables from now on."""
        self._tables = {name: table for name, table in tables.items() if table.tracked}
        self._untracked = {
            part: name
            for name, table in tables.items()
            if not table.tracked
            for part in (name, *table.shadows)
        }

    def attach(self, connection: apsw.Connection) -> None:
        """Collect the changes of this connection as well."""
        connection.preupdate_hook(self._record)

    def read_with(self, connection: apsw.Connection) -> None:
        """Use this connection to read the current rows."""
        self._execute = connection.execute

    def begin(self) -> None:
        """Forget the rows that an earlier transaction touched."""
        if self._touched:
            self._touched = {}
        if self.untracked:
            self.untracked = set()

    def net(self, total: int) -> tuple[tuple[RowChange, ...], int]:
        """The changes so far, ordered by table and key, and the row sum after them."""
        if not self._touched:
            return (), total
        touched, self._touched = self._touched, {}
        changes = []
        keyed: dict[tuple[str, RowValues], tuple[RowValues | None, RowValues | None]] = {}
        for (name, where), before in touched.items():
            table = self._tables[name]
            if table.without_rowid:
                key = where
                after = self._execute(table.select_row, key).fetchone()
                if after is not None and tuple([after[p] for p in table.key]) != key:
                    after = None  # a collation holds another key equal: that one is touched too
            else:
                key = (where,)
                after = self._execute(table.select_row, key).fetchone()
            if table.without_rowid or table.keyed_by_rowid:
                if before != after or _types(before) != _types(after):
                    total = sum_after_change(total, name, before, after)
                    changes.append(table.change(key, before, after))
                continue
            # A key may have moved from one rowid to another: its two halves are joined here.
            if before is not None:
                row = name, table.key_of(where, before)
                keyed[row] = before, keyed[row][1] if row in keyed else None
            if after is not None:
                row = name, table.key_of(where, after)
                keyed[row] = keyed[row][0] if row in keyed else None, after
        for (name, key), (before, after) in keyed.items():
            if before != after or _types(before) != _types(after):
                total = sum_after_change(total, name, before, after)
                changes.append(self._tables[name].change(key, before, after))
        if len(changes) > 1:
            changes.sort(key=change_order)
        return tuple(changes), total

    def _record(self, update: apsw.PreUpdate) -> None:
        name = update.table_name
        table = self._tables.get(name)
        if table is None or update.database_name != "main":
            if name in self._untracked and update.database_name == "main":
                self.untracked.add(self._untracked[name])
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


def _types(row: RowValues | None) -> list[type] | None:
    return None if row is None else [type(value) for value in row]
