"""Texts for two values that differ: short, and cut around the first difference."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.core.short_text import shortened

_LONGEST = 300  # characters of each side
_BEFORE = 60  # of them ahead of the first difference
_MOST_ROWS = 6


def excerpts(expected: str, found: str) -> tuple[str, str]:
    """Both texts, long ones cut so that the first difference is visible. Cuts are marked `…`.

    Example, where the texts are long: "… 4 copies" and "… 3 copies" begin 60 characters before
    the digit.
    """
    if len(expected) <= _LONGEST and len(found) <= _LONGEST:
        return expected, found
    start = max(0, _first_difference(expected, found) - _BEFORE)
    return _cut(expected, start), _cut(found, start)


def _first_difference(expected: str, found: str) -> int:
    """The index of the first character that differs; 0 where the texts are equal."""
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return index
    return 0 if len(expected) == len(found) else min(len(expected), len(found))


def _cut(text: str, start: int) -> str:
    end = start + _LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def changes_text(changes: Sequence[RowChange]) -> str:
    """The changed rows as one text.

    Example: the change of an order's status -> `orders 7: status "open" -> "void"`
    """
    return "; ".join(map(_change_text, changes)) or "no row"


def _change_text(change: RowChange) -> str:
    row = _row_name(change)
    if change.before is None:
        return f"{row}: new {_row_text(change.after)}"
    if change.after is None:
        return f"{row}: deleted {_row_text(change.before)}"
    columns = _differing_columns(change)
    texts = (f"{c} {_value(change.before[c])} -> {_value(change.after[c])}" for c in columns)
    return f"{row}: {', '.join(texts)}"


def differing_rows(changes: Sequence[RowChange]) -> tuple[str, str]:
    """Two states, each as the text of the rows in which they differ; `before` is the expected one.

    Example: the change of an order's status -> `orders 7: status "open"`, and
    `orders 7: status "void"`
    """
    shown = changes[:_MOST_ROWS]
    left = len(changes) - len(shown)
    more = [f"and {left:,} more rows"] if left else []
    expected = [f"{_row_name(change)}: {_side(change, change.before)}" for change in shown]
    found = [f"{_row_name(change)}: {_side(change, change.after)}" for change in shown]
    return "; ".join(expected + more), "; ".join(found + more)


def _side(change: RowChange, row: Row | None) -> str:
    if row is None:
        return "absent"
    if change.before is None or change.after is None:
        return _row_text(row)
    return ", ".join(f"{column} {_value(row[column])}" for column in _differing_columns(change))


def _differing_columns(change: RowChange) -> list[str]:
    """The columns whose values differ; 1 and 1.0 count as different."""
    before, after = change.before or {}, change.after or {}
    return [column for column in after if repr(before.get(column)) != repr(after[column])]


def _row_name(change: RowChange) -> str:
    return f"{change.table} {', '.join(map(_value, change.key))}"


def _row_text(row: Row | None) -> str:
    return ", ".join(f"{column} {_value(value)}" for column, value in (row or {}).items())


def _value(value: Any) -> str:
    return shortened(f"{len(value)} bytes" if isinstance(value, bytes) else _json(value), 60)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
