"""What writes leave behind that were put right: log rows and moments of change.

A wrong write that a later call put right does not count (see judge.core.label_rules). But such a
pair leaves records of the two acts: `updated_at`, rows in an audit table. They do no harm either,
so a state is judged without them as well.

    cancel_order(4105)   orders 4105: status open -> cancelled, updated_at; order_events: a new row
    reopen_order(4105)   orders 4105: status cancelled -> open, updated_at; order_events: a new row
    -> judged as well without the two new rows, and with orders 4105 as it was

A call is put right where each value that it changed is as it was at the start, and so is all that
those calls changed which wrote the same values. Rows in a log of the world are left out too where
each value that their call wrote was written again by a later one: a typing error and its
correction. A row in a log that came with no other change is never left out: it may be what the call
was for. Nothing but records of acts is ever left out, so what stands is judged as it stands.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.store.changes import change_order, net_changes
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.format import Scenario

# Columns that say when a row was changed, by whom, or how often.
_STAMP = re.compile(
    r"(?:(?:last_)?(?:updated?|modif(?:y|ied)|changed?|edited|touched)(?:_(?:at|on|by|date|time))?"
    r"|(?:row_|lock_)?version|revision|etag)",
    re.IGNORECASE,
)
# Tables whose rows say what was done, in worlds that do not list theirs.
_LOG = re.compile(
    r"(?:^|_)(?:audit\w*|changelog|(?:activity|change|event)_logs?|\w+_events?|\w+_history"
    r"|activity|activities)$",
    re.IGNORECASE,
)
_AUDIT = re.compile(r"(?:^|_)audit(?:_|s?$)", re.IGNORECASE)
_LEAST = 3  # characters of a value that is looked for in a log row
_RowName = tuple[str, tuple[Any, ...]]  # table and key
_Cell = tuple[_RowName, str]  # a column of a row


class Logs(msgspec.Struct, frozen=True):
    """Which tables of a world are logs of acts. `listed` None: their names decide."""

    listed: frozenset[str] | None = None
    never: frozenset[str] = frozenset()  # whose rows always count

    def has(self, table: str) -> bool:
        """Whether new rows of the table may only say what was done."""
        if table in self.never:
            return False
        return bool(_LOG.search(table)) if self.listed is None else table in self.listed

    def has_surely(self, table: str) -> bool:
        """The same, where it is not only likely."""
        if table in self.never:
            return False
        return bool(_AUDIT.search(table)) if self.listed is None else table in self.listed


def logs_of(scenario: Scenario) -> Logs:
    """The logs of a world: those that it lists, or those that are named so, but for tables that
    `irreversible` and `never_touch` name."""
    never = {*scenario.irreversible, *(rule.table for rule in scenario.never_touch)}
    listed = None if scenario.act_logs is None else frozenset(scenario.act_logs)
    return Logs(listed, frozenset(never))


def is_stamp(column: str) -> bool:
    """Whether a column says when a row was changed, by whom, or how often."""
    return _STAMP.fullmatch(column) is not None


def left_behind(calls: Iterable[Sequence[RowChange]], logs: Logs) -> tuple[RowChange, ...]:
    """The net changes, by table and key, that only record acts which were put right. `calls` has
    the changes of each call, in order."""
    writes = [_Write(changes, logs) for changes in calls if changes]
    if len(writes) < 2:
        return ()
    net = {_name(change): change for change in net_changes(one.changes for one in writes)}
    undone = _undone(writes, net, logs)
    if not undone and not any(one.records for one in writes):
        return ()
    found: dict[_RowName, RowChange] = {}
    for index, write in enumerate(writes):
        if index in undone:
            beside = [writes[n] for n in undone if n != index and writes[n].meets(write)]
            records = [
                one
                for one in write.records
                if logs.has_surely(one.table) or _is_kept_by_each(one.table, beside)
            ]
        elif _is_overwritten(write, writes[index + 1 :]):
            records = [one for one in write.records if logs.has_surely(one.table)]
        else:
            continue
        for one in records:
            left = net.get(_name(one))
            if left is not None and left.before is None and left.after == one.after:
                found[_name(one)] = left
    for name, change in net.items():
        wrote = [index for index, one in enumerate(writes) if name in one.rows]
        if wrote and undone.issuperset(wrote) and not _substance(change, logs):
            found[name] = change
    return tuple(sorted(found.values(), key=change_order))


def without_corrected(
    changes: Sequence[RowChange], calls: Iterable[Sequence[RowChange]], logs: Logs
) -> tuple[RowChange, ...]:
    """The changes, but in each log row without the wrong value that its call corrected, which the
    tool wrote there: "email: a@b.co to a@b.com". Each is left out once a column; whatever else the
    row says stays."""
    written: dict[_Cell, set[str]] = {}  # what earlier calls wrote, as text
    wrong: dict[_RowName, set[str]] = {}
    for write in (_Write(changes, logs) for changes in calls):
        found = set[str]()
        for cell, change in write.cells.items():
            before = "" if change.before is None else str(change.before[cell[1]])
            found |= {before} & written.get(cell, set())
            if change.after is not None:
                written.setdefault(cell, set()).add(str(change.after[cell[1]]))
        for one in write.records:
            wrong[_name(one)] = {value for value in found if len(value) >= _LEAST}
    return tuple(_without(one, wrong.get(_name(one), set())) for one in changes)


def _without(change: RowChange, values: Iterable[str]) -> RowChange:
    row = dict(change.after or {})
    for value in sorted(values, key=len, reverse=True):
        row = {
            name: text.replace(value, "", 1) if isinstance(text, str) else text
            for name, text in row.items()
        }
    return msgspec.structs.replace(change, after=row) if values else change


def _is_kept_by_each(table: str, writes: Sequence["_Write"]) -> bool:
    """Whether each of these calls, and one at least, wrote a new row there: a table that has a row
    of one act and none of the act that undid it may be what the first call was for."""
    return bool(writes) and all(
        any(one.table == table for one in write.records) for write in writes
    )


class _Write:
    """What one call changed, divided into records of the act and all else."""

    def __init__(self, changes: Sequence[RowChange], logs: Logs) -> None:
        self.changes = changes
        self.records = [one for one in changes if one.before is None and logs.has(one.table)]
        others = [one for one in changes if one not in self.records]
        self.rows = {_name(one) for one in others}
        self.cells = {
            (_name(one), column): one for one in others for column in _substance(one, logs)
        }

    def meets(self, other: "_Write") -> bool:
        """Whether both changed one value."""
        return not self.cells.keys().isdisjoint(other.cells)


def _undone(writes: Sequence[_Write], net: dict[_RowName, RowChange], logs: Logs) -> frozenset[int]:
    """The calls that changed something and of which nothing stands, nor of any other call that
    wrote the same values."""
    standing: set[_Cell] = {
        (name, column) for name, change in net.items() for column in _substance(change, logs)
    }
    found = {
        index for index, one in enumerate(writes) if one.cells and standing.isdisjoint(one.cells)
    }
    while True:
        others = set[_Cell]().union(
            *(one.cells for index, one in enumerate(writes) if index not in found)
        )
        kept = {index for index in found if others.isdisjoint(writes[index].cells)}
        if kept == found:
            return frozenset(found)
        found = kept


def _is_overwritten(write: _Write, later: Sequence[_Write]) -> bool:
    """Whether a call changed values of rows that were there, each of which a later call changed
    again: what stands is the later one's."""
    return bool(write.cells) and all(
        change.before is not None
        and change.after is not None
        and any(cell in one.cells for one in later)
        for cell, change in write.cells.items()
    )


def _substance(change: RowChange, logs: Logs) -> frozenset[str]:
    """The columns in which a change is more than the record of an act; of a row that came or went,
    all of them."""
    before, after = change.before, change.after
    if before is None or after is None:
        return frozenset(_columns(before) | _columns(after))
    return frozenset(
        column
        for column, value in after.items()
        if (value != before.get(column) or type(value) is not type(before.get(column)))
        and (change.table in logs.never or not _STAMP.fullmatch(column))
    )


def _columns(row: Row | None) -> set[str]:
    return set() if row is None else set(row)


def _name(change: RowChange) -> _RowName:
    return change.table, change.key
