"""The net of many row changes: the joint effect of several calls on a world."""

from collections.abc import Iterable
from typing import Any

from rehearsal_room.scenarios.api import Row, RowChange


def net_changes(changes: Iterable[Iterable[RowChange]]) -> tuple[RowChange, ...]:
    """One change for each row that differs between start and end, by table and key.

    `changes` holds the changes of each call, in the order of the calls. The result leaves out a
    row whose value changed and changed back, and a row that was created and then deleted.

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
    net.sort(key=change_order)
    return tuple(net)


def change_order(change: RowChange) -> tuple[str, list[tuple[int, Any]]]:
    """The sort key of a change: its table, then its key as SQLite orders values (NULL, numbers,
    texts, blobs)."""
    return change.table, [(_storage_class(value), value) for value in change.key]


def _storage_class(value: Any) -> int:
    if isinstance(value, (int, float)):
        return 1
    if isinstance(value, str):
        return 2
    return 0 if value is None else 3


def _same(before: Row | None, after: Row | None) -> bool:
    """Whether SQLite holds two rows equal: it distinguishes 1 and 1.0, which Python does not."""
    if before is None or after is None:
        return before is after
    return before == after and all(
        type(value) is type(after[column]) for column, value in before.items()
    )
