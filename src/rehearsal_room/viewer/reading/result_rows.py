"""Results that are rows: JSON texts that a page can show as tables."""

from typing import Any

import msgspec

from rehearsal_room.viewer.reading.plain import plain

_MAX_TEXT = 2_000_000  # characters; a longer text is shown as text
_MAX_ROWS = 1_000


class RowsOfText(msgspec.Struct, frozen=True):
    """The rows in a text."""

    columns: list[str]
    rows: list[list[Any]]  # of plain values; nested ones are JSON texts
    name: str = ""  # of the field that holds the rows; empty: the text itself is the list
    total: int = 0


def rows_of(text: str) -> RowsOfText | None:
    """The rows in a JSON text: a list of objects, or an object with one such list; None: it has
    none.

    Example: '{"orders": [{"id": 7}, {"id": 8, "note": "x"}]}' ->
        columns ["id", "note"], rows [[7, None], [8, "x"]], name "orders"
    """
    if text[:1] not in ("[", "{") or len(text) > _MAX_TEXT:
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    name = ""
    if isinstance(value, dict):
        lists = [key for key, item in value.items() if _is_rows(item)]
        if len(lists) != 1 or len(value) > 3:
            return None
        name = lists[0]
        value = value[name]
    if not _is_rows(value):
        return None
    columns = list(dict.fromkeys(key for row in value for key in row))
    rows = [[_cell(row.get(column)) for column in columns] for row in value[:_MAX_ROWS]]
    return RowsOfText(columns, rows, name, len(value))


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return plain(value)
