"""Which rows of an episode's end differ from those of the solution's end.

Two rows are equal when all columns are, except for free text (another wording may be as good) and
for the numbers that SQLite gives to new rows. New rows have no common key, so they are compared by
their content, as many of each as there are.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rehearsal_room.harness.policies.solution_left import is_free_text
from rehearsal_room.judge.failures.reference import Reference, TableKeys
from rehearsal_room.scenarios.api import Row, RowChange

RowKey = tuple[str, tuple[Any, ...]]  # table and primary key
_NO_KEYS = TableKeys(None, frozenset())


class RowDifferences(msgspec.Struct, frozen=True):
    """Rows that are not as the solution leaves them."""

    found: frozenset[RowKey]  # rows that the episode changed, and changed wrongly
    expected: frozenset[RowKey]  # rows that the solution changes, and the episode did not so change


def row_differences(reference: Reference, changes: Iterable[RowChange]) -> RowDifferences:
    """Compare the net changes of an episode with the solution's."""
    found = tuple(changes)
    wanted = reference.changes
    if found == wanted:
        return RowDifferences(frozenset(), frozenset())
    old = {_key(one): one for one in wanted if one.before is not None}
    off_found, off_wanted = set[RowKey](), set[RowKey]()
    for one in found:
        if one.before is None:
            continue
        same = old.pop(_key(one), None)
        if same is None:
            off_found.add(_key(one))
        elif not equal_rows(one.after, same.after):
            off_found.add(_key(one))
            off_wanted.add(_key(one))
    off_wanted.update(old)
    new = _contents(found, reference.tables)
    if not new:  # most episodes that fail; the contents of the others' rows are not needed
        off_wanted.update(
            _key(one) for one in wanted if one.before is None and one.after is not None
        )
        return RowDifferences(frozenset(off_found), frozenset(off_wanted))
    left = _contents(wanted, reference.tables)
    for key, content in new.items():
        match = next((other for other, one in left.items() if one == content), None)
        if match is None:
            off_found.add(key)
        else:
            del left[match]
    off_wanted.update(left)
    return RowDifferences(frozenset(off_found), frozenset(off_wanted))


def _key(change: RowChange) -> RowKey:
    return change.table, change.key


def _contents(changes: Iterable[RowChange], tables: Mapping[str, TableKeys]) -> dict[RowKey, Row]:
    """The contents of new rows, comparable between two ends: a reference to another new row stands
    for what that row has."""
    new = [change for change in changes if change.before is None and change.after is not None]
    named: dict[Any, list[str]] = {one.key[0]: [] for one in new if len(one.key) == 1}
    plain = {_key(one): _content(one, tables, dict.fromkeys(named, "")) for one in new}
    for (table, key), content in plain.items():
        if len(key) == 1:
            named[key[0]].append(f"{table} {content}")
    labels = {number: "; ".join(sorted(rows)) for number, rows in named.items()}
    for one in new:
        if tables.get(one.table, _NO_KEYS).references:
            plain[_key(one)] = _content(one, tables, labels)
    return plain


def _content(change: RowChange, tables: Mapping[str, TableKeys], labels: Mapping[Any, str]) -> Row:
    """A new row without its number and without free text."""
    keys = tables.get(change.table, _NO_KEYS)
    return {
        column: labels.get(value, value) if column in keys.references else value
        for column, value in (change.after or {}).items()
        if column != keys.own and not is_free_text(value)
    }


def equal_rows(one: Row | None, other: Row | None) -> bool:
    """Whether two rows are equal but for free text."""
    if one is None or other is None:
        return one is other
    return all(
        value == other.get(column) or (is_free_text(value) and is_free_text(other.get(column)))
        for column, value in one.items()
    )
