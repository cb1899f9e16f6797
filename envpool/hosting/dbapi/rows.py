"""Convert SQLite's rows as `sqlite3` does: their description, converters and factories."""

import sqlite3
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from rehearsal_room.envpool.hosting.dbapi.slots import StatementInfo

FetchedRows = list[tuple[Any, ...]]


@lru_cache(maxsize=256)
def stdlib_cursor(names: tuple[str, ...]) -> sqlite3.Cursor:
    """A cursor of the stdlib with these columns, which the constructor of sqlite3.Row requires."""
    columns = ", ".join('NULL AS "' + name.replace('"', '""') + '"' for name in names)
    return sqlite3.connect(":memory:", check_same_thread=False).execute(f"SELECT {columns}")


def statement_info(
    kind: int, columns: Iterable[tuple[str, str | None]], detect_types: int
) -> StatementInfo:
    """The description and converters of a statement with these columns (name, declared type)."""
    description, converters = [], []
    for name, declared in columns:
        converter = None
        if detect_types & sqlite3.PARSE_COLNAMES and name.endswith("]") and "[" in name:
            name, _, column_type = name[:-1].partition("[")
            name = name.rstrip(" ") if name.endswith(" ") else name
            converter = _converter(column_type)
        if converter is None and detect_types & sqlite3.PARSE_DECLTYPES and declared:
            converter = _converter(declared.replace("(", " ").split(" ")[0])
        description.append((name, None, None, None, None, None, None))
        converters.append(converter)
    return StatementInfo(kind, tuple(description) or None, tuple(converters))


def _converter(declared: str) -> Callable[[bytes], Any] | None:
    found: Callable[[bytes], Any] | None = sqlite3.converters.get(declared.upper())
    return found


def convert_rows(
    rows: FetchedRows, info: StatementInfo, text_factory: Callable[[bytes], Any]
) -> FetchedRows:
    """Rows after the connection's converters and text factory."""
    return [
        tuple(
            _convert(value, converter, text_factory)
            for value, converter in zip(row, info.converters, strict=True)
        )
        for row in rows
    ]


def _convert(
    value: Any, converter: Callable[[bytes], Any] | None, text_factory: Callable[[bytes], Any]
) -> Any:
    if converter is not None and value is not None:
        return converter(value if isinstance(value, bytes) else str(value).encode())
    if isinstance(value, str) and text_factory is not str:
        return text_factory(value.encode())
    return value
