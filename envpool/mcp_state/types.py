"""What a foreign server's state is read as: tables, rows, and the rows that changed.

with closing(SqliteReader(path)) as reader:
    start = list(reader.all_rows())
    ...                              # the server answers a call
    for write in reader.read().writes: ...
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

RowValues = tuple[Any, ...]  # one row, in column order


class TableShape(msgspec.Struct, frozen=True):
    """The columns and the key of a table."""

    name: str
    columns: tuple[tuple[str, str], ...]  # name and declared type
    key: tuple[int, ...]  # positions of the primary key's columns; empty: the rowid is the key
    without_rowid: bool


class RowWrite(msgspec.Struct, frozen=True):
    """A row that differs between two readings."""

    table: str
    rowid: int | None  # None: the table has no rowids
    before: RowValues | None  # None: the row was not there
    after: RowValues | None  # None: the row is gone


class Reading(msgspec.Struct, frozen=True):
    """The net changes between two readings.

    Within a table, deleted rows come first, then changed rows, then new ones. `shapes` holds the
    tables that are new or have other columns or another key, and None for a dropped one; every row
    that such a table had or has is among the writes, in the shape that it had or has.
    """

    writes: tuple[RowWrite, ...] = ()
    shapes: Mapping[str, TableShape | None] | None = None  # None: no table's shape changed


class StateReader(Protocol):
    """Reads the state of a server that runs as it would without us. `read` and `all_rows` raise
    WorldError where the state cannot be read (any longer)."""

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """The tables, as of the last reading."""
        ...

    def all_rows(self) -> Iterator[tuple[str, int | None, RowValues]]:
        """Table, rowid and values of every row, as of the last reading."""
        ...

    def read(self) -> Reading:
        """What changed since the last reading, or since the opening."""
        ...

    def close(self) -> None:
        """Release what the reader holds."""
        ...
