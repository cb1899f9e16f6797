"""Which rows a transaction changed, net, whatever statements, triggers and savepoints did.

SQLite's pre-update hook reports each row before it changes. The first report of a row in a
transaction is kept as its "before"; just before COMMIT the row is read again as its "after". So a
rolled-back savepoint or a change undone leaves nothing, and cost follows the rows that changed, not
the size of the tables. (The session extension works the same way; attaching it costs more.)

A row is known by its primary key where there is one: a key that changes is one row less and one
more, and a row deleted and written anew under its key is one row changed.

The hook does not tell all of virtual tables' rows and of generated columns; of such tables it is
only noted that they were touched, and who asks compares them whole.
"""

from typing import Any

import apsw

from envpool.store.changes import place
from envpool.store.digest import moved
from envpool.store.template import Table, Values
from scenarios.api import RowChange


class Tracker:
    """Collects the changes of one connection's transactions, or of several that take turns.

    `unfollowed` has the names of the touched tables that are not among the changes.
    """

    def __init__(self, connection: apsw.Connection, tables: dict[str, Table]) -> None:
        self.unfollowed: set[str] = set()
        self._touched: dict[tuple[str, Any], Values | None] = {}  # (table, rowid or key) -> before
        self.know(tables)
        self.read_with(connection)
        self.watch(connection)

    def know(self, tables: dict[str, Table]) -> None:
        """Track these tables from now on."""
        self._tables = {name: table for name, table in tables.items() if table.followed}
        self._unfollowed = {
            part: name
            for name, table in tables.items()
            if not table.followed
            for part in (name, *table.shadows)
        }

    def watch(self, connection: apsw.Connection) -> None:
        """Collect the changes of this connection too."""
        connection.preupdate_hook(self._note)

    def read_with(self, connection: apsw.Connection) -> None:
        """Use this connection to see how rows are now."""
        self._execute = connection.execute

    def begin(self) -> None:
        """Forget what an earlier transaction touched."""
        if self._touched:
            self._touched = {}
        if self.unfollowed:
            self.unfollowed = set()

    def net(self, total: int) -> tuple[tuple[RowChange, ...], int]:
        """The changes so far, ordered by table and key, and the row sum after them."""
        if not self._touched:
            return (), total
        touched, self._touched = self._touched, {}
        changes = []
        keyed: dict[tuple[str, Values], tuple[Values | None, Values | None]] = {}
        for (name, where), before in touched.items():
            table = self._tables[name]
            if table.without_rowid:
                key = where
                after = self._execute(table.select_row, key).fetchone()
                if after is not None and tuple([after[p] for p in table.key]) != key:
                    after = None  # a collation calls another key equal: that one is touched too
            else:
                key = (where,)
                after = self._execute(table.select_row, key).fetchone()
            if table.without_rowid or table.known_by_rowid:
                if before != after or _types(before) != _types(after):
                    total = moved(total, name, before, after)
                    changes.append(table.change(key, before, after))
                continue
            # A key may have moved from one rowid to another: what is under it is put together.
            if before is not None:
                row = name, table.key_of(where, before)
                keyed[row] = before, keyed[row][1] if row in keyed else None
            if after is not None:
                row = name, table.key_of(where, after)
                keyed[row] = keyed[row][0] if row in keyed else None, after
        for (name, key), (before, after) in keyed.items():
            if before != after or _types(before) != _types(after):
                total = moved(total, name, before, after)
                changes.append(self._tables[name].change(key, before, after))
        if len(changes) > 1:
            changes.sort(key=place)
        return tuple(changes), total

    def _note(self, update: apsw.PreUpdate) -> None:
        name = update.table_name
        table = self._tables.get(name)
        if table is None or update.database_name != "main":
            if name in self._unfollowed and update.database_name == "main":
                self.unfollowed.add(self._unfollowed[name])
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


def _types(row: Values | None) -> list[type] | None:
    return None if row is None else [type(value) for value in row]
