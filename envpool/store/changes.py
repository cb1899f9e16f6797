"""The net of many row changes: what several calls did to a world, taken together."""

from collections.abc import Iterable
from typing import Any

from scenarios.api import Row, RowChange


def net_changes(changes: Iterable[Iterable[RowChange]]) -> tuple[RowChange, ...]:
    """One change for each row that differs between start and end, ordered by table and key.

    `changes` are those of each call, in the order of the calls. A row that went there and back
    again is not in the result, and neither is one that was created and then deleted.

    Example, the changes of three calls and their net:

        [RowChange("orders", (7,), {"id": 7, "status": "open"}, {"id": 7, "status": "held"})]
        [RowChange("orders", (7,), {"id": 7, "status": "held"}, {"id": 7, "status": "void"})]
        [RowChange("notes", (1,), None, {"id": 1}), RowChange("notes", (1,), {"id": 1}, None)]
        ->
        (RowChange("orders", (7,), {"id": 7, "status": "open"}, {"id": 7, "status": "void"}),)
    """
    firsts: dict[tuple[str, tuple[Any, ...]], RowChange] = {}
    lasts: dict[tuple[str, tuple[Any, ...]], RowChange] = {}
    for group in changes:
        for change in group:
            row = (change.table, change.key)
            firsts.setdefault(row, change)
            lasts[row] = change
    net = []
    for row, first in firsts.items():
        last = lasts[row]
        if not _same(first.before, last.after):
            net.append(
                first
                if first is last
                else RowChange(first.table, first.key, first.before, last.after)
            )
    net.sort(key=place)
    return tuple(net)


def place(change: RowChange) -> tuple[str, list[tuple[int, Any]]]:
    """Where a change stands among others: by table, then by key as SQLite orders values
    (NULL, numbers, texts, blobs)."""
    return change.table, [(_storage_class(value), value) for value in change.key]


def _storage_class(value: Any) -> int:
    if isinstance(value, (int, float)):
        return 1
    if isinstance(value, str):
        return 2
    return 0 if value is None else 3


def _same(before: Row | None, after: Row | None) -> bool:
    """Whether two rows are the same to SQLite: 1 and 1.0 are not, though Python calls them
    equal."""
    if before is None or after is None:
        return before is after
    return before == after and all(
        type(value) is type(after[column]) for column, value in before.items()
    )
