"""The difference of two states of one scenario, row by row."""

from collections.abc import Mapping

import apsw
import msgspec

from rehearsal_room.envpool.store.changes import change_order
from rehearsal_room.envpool.store.template import RowValues, TableSchema
from rehearsal_room.scenarios.api import RowChange

RowsByKey = dict[RowValues, RowValues]
_encode = msgspec.msgpack.Encoder().encode  # 1, 1.0 and True are equal, but not their bytes


def changes_between(
    before: apsw.Connection,
    after: apsw.Connection,
    tables: Mapping[str, TableSchema],
    tables_after: Mapping[str, TableSchema] | None = None,
) -> tuple[RowChange, ...]:
    """The rows that differ, ordered by table and key; both states are read completely.

    `tables_after` are the tables of the second state, where its schema may differ: all rows of a
    created or dropped table count as changed, and so do those of a table with other columns.
    """
    later = tables if tables_after is None else tables_after
    changes: list[RowChange] = []
    for name in tables.keys() | later.keys():
        first, second = tables.get(name), later.get(name)
        old = _rows(before, first) if first else {}
        new = _rows(after, second) if second else {}
        same_columns = first is None or second is None or first.columns == second.columns
        if not same_columns or old != new or _encode([*old.items()]) != _encode([*new.items()]):
            changes += _row_changes(name, first, second, old, new, same_columns)
    return tuple(sorted(changes, key=change_order))


def _rows(connection: apsw.Connection, table: TableSchema) -> RowsByKey:
    rows: RowsByKey = {}
    for rowid, *values in connection.execute(table.select_identified):
        row = tuple(values)
        rows[table.key_of(rowid, row)] = row
    return rows


def _row_changes(
    name: str,
    first: TableSchema | None,
    second: TableSchema | None,
    old: RowsByKey,
    new: RowsByKey,
    same_columns: bool,
) -> list[RowChange]:
    changes = []
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if not same_columns or before != after or repr(before) != repr(after):
            was = first.as_dict(before) if first else None
            changes.append(RowChange(name, key, was, second.as_dict(after) if second else None))
    return changes
