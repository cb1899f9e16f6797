"""From SQLite's rows to what `sqlite3` makes of them: their description, converters, factories."""

import sqlite3
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from envpool.hosting.dbapi.slots import Known

Rows = list[tuple[Any, ...]]


@lru_cache(maxsize=256)
def twin(names: tuple[str, ...]) -> sqlite3.Cursor:
    """A cursor of the stdlib with these columns: sqlite3.Row takes no other."""
    columns = ", ".join('NULL AS "' + name.replace('"', '""') + '"' for name in names)
    return sqlite3.connect(":memory:", check_same_thread=False).execute(f"SELECT {columns}")


def known_of(kind: int, columns: Iterable[tuple[str, str | None]], detect_types: int) -> Known:
    """What a statement with these columns (name, declared type) gives."""
    description, converters = [], []
    for name, declared in columns:
        converter = None
        if detect_types & sqlite3.PARSE_COLNAMES and name.endswith("]") and "[" in name:
            name, _, kind_of_column = name[:-1].partition("[")
            name = name.rstrip(" ") if name.endswith(" ") else name
            converter = _converter(kind_of_column)
        if converter is None and detect_types & sqlite3.PARSE_DECLTYPES and declared:
            converter = _converter(declared.replace("(", " ").split(" ")[0])
        description.append((name, None, None, None, None, None, None))
        converters.append(converter)
    return Known(kind, tuple(description) or None, tuple(converters))


def _converter(declared: str) -> Callable[[bytes], Any] | None:
    found: Callable[[bytes], Any] | None = sqlite3.converters.get(declared.upper())
    return found


def shaped(rows: Rows, known: Known, text_factory: Callable[[bytes], Any]) -> Rows:
    """Rows as the connection's converters and text factory make them."""
    return [
        tuple(
            _value(value, converter, text_factory)
            for value, converter in zip(row, known.converters, strict=True)
        )
        for row in rows
    ]


def _value(
    value: Any, converter: Callable[[bytes], Any] | None, text_factory: Callable[[bytes], Any]
) -> Any:
    if converter is not None and value is not None:
        return converter(value if isinstance(value, bytes) else str(value).encode())
    if isinstance(value, str) and text_factory is not str:
        return text_factory(value.encode())
    return value
