"""Comparing two states of one scenario, row by row."""

from typing import Any

import apsw

from envpool.template import Table
from envpool.tracking import order
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
    return tuple(sorted(changes, key=order))


def _rows(connection: apsw.Connection, table: Table) -> dict[Any, tuple[Any, ...]]:
    rows: dict[Any, tuple[Any, ...]] = {}
    for identity, *values in connection.execute(table.select_identified):
        row = tuple(values)
        key = tuple(row[position] for position in table.key) if table.without_rowid else identity
        rows[key] = row
    return rows


def _compared(
    table: Table, old: dict[Any, tuple[Any, ...]], new: dict[Any, tuple[Any, ...]]
) -> list[RowChange]:
    changes = []
    for identity in old.keys() | new.keys():
        before, after = old.get(identity), new.get(identity)
        if before != after or repr(before) != repr(after):
            changes.append(table.change(identity, before, after))
    return changes
