"""Comparing two states of one scenario, row by row."""

import apsw

from envpool.changes import place
from envpool.template import Table, Values
from scenarios.api import RowChange


def changes_between(
    before: apsw.Connection, after: apsw.Connection, tables: dict[str, Table]
) -> tuple[RowChange, ...]:
    """The rows that differ, ordered by table and key; both states are read whole."""
    changes: list[RowChange] = []
    for table in tables.values():
        old, new = _rows(before, table), _rows(after, table)
        if old != new or repr(old) != repr(new):
            changes += _compared(table, old, new)
    return tuple(sorted(changes, key=place))


def _rows(connection: apsw.Connection, table: Table) -> dict[Values, Values]:
    rows: dict[Values, Values] = {}
    for rowid, *values in connection.execute(table.select_identified):
        row = tuple(values)
        rows[table.key_of(rowid, row)] = row
    return rows


def _compared(
    table: Table, old: dict[Values, Values], new: dict[Values, Values]
) -> list[RowChange]:
    changes = []
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if before != after or repr(before) != repr(after):
            changes.append(table.change(key, before, after))
    return changes
