"""A world as tables: what is in them at a turn, and what differs from the start and from the turn
before."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.viewer.reading.episode import changed_columns
from rehearsal_room.viewer.reading.open_runs import NotHereError
from rehearsal_room.viewer.reading.plain import plain
from rehearsal_room.viewer.worlds.logged_world import (
    TableShape,
    changes_until,
    digest_at,
    logged_world,
    quoted,
    shapes_of,
)

Word = Literal["same", "new", "changed", "deleted"]
ShownMoment = Literal["all", "start", "before"]
MAX_ROWS = 1_000


class ShownColumn(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str
    type: str
    pk: bool
    references: str | None  # as `table.column`


class Counts(msgspec.Struct, frozen=True):
    """How many rows differ."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class WorldTable(msgspec.Struct, frozen=True):
    """A table of a world, counted."""

    name: str
    columns: list[ShownColumn]
    rows: int
    from_start: Counts
    from_before: Counts


class WorldAt(msgspec.Struct, frozen=True):
    """A world after so many turns."""

    turn: int
    turns: int
    digest: str
    exact: bool  # whether the state has the logged digest
    tables: list[WorldTable]


class TableRow(msgspec.Struct, frozen=True):
    """A row, and how it differs."""

    key: list[Any]
    values: list[Any]
    start: Word  # against the start
    before: Word  # against the turn before
    was: dict[str, Any] | None  # values at the start of the columns that have changed since


class TablePage(msgspec.Struct, frozen=True):
    """Some rows of a table."""

    columns: list[ShownColumn]
    total: int
    rows: list[TableRow]


def world_at(trajectory: Trajectory, world: ScenarioSnapshot | None, turn: int) -> WorldAt:
    """The world after so many turns. Raises SettingsError."""
    turn = max(0, min(turn, len(trajectory.steps)))
    with logged_world(trajectory, world, turn) as (database, is_exact):
        start = changes_until(trajectory, turn)
        before = changes_until(trajectory, turn, after=max(0, turn - 1))
        tables = tables_with(database, start, before)
    return WorldAt(turn, len(trajectory.steps), digest_at(trajectory, turn), is_exact, tables)


def table_at(
    trajectory: Trajectory,
    world: ScenarioSnapshot | None,
    turn: int,
    table: str,
    *,
    only: ShownMoment,
    offset: int,
    limit: int,
) -> TablePage:
    """Some rows of a table after so many turns. Raises SettingsError and NotHereError."""
    turn = max(0, min(turn, len(trajectory.steps)))
    with logged_world(trajectory, world, turn) as (database, _):
        start = changes_until(trajectory, turn)
        before = changes_until(trajectory, turn, after=max(0, turn - 1))
        return table_page(database, table, start, before, only=only, offset=offset, limit=limit)


def tables_with(
    database: sqlite3.Connection, start: Iterable[RowChange], before: Iterable[RowChange]
) -> list[WorldTable]:
    """The tables of a database, with what changed since the start and since the turn before."""
    since, last = list(start), list(before)
    found = []
    for shape in shapes_of(database).values():
        ((rows,),) = database.execute(f"SELECT count(*) FROM {quoted(shape.name)}")
        counts = _counts(since, shape.name), _counts(last, shape.name)
        found.append(WorldTable(shape.name, columns_of(shape), rows, *counts))
    return found


def table_page(
    database: sqlite3.Connection,
    table: str,
    start: Iterable[RowChange],
    before: Iterable[RowChange],
    *,
    only: ShownMoment,
    offset: int,
    limit: int,
) -> TablePage:
    """Some rows of a table; rows that are deleted are shown with those that differ only."""
    shape = shapes_of(database).get(table)
    if shape is None:
        raise NotHereError(f"this world has no table {table!r}")
    since, last = _by_key(start, table), _by_key(before, table)
    limit = min(limit, MAX_ROWS)
    if only == "all":
        ((total,),) = database.execute(f"SELECT count(*) FROM {quoted(table)}")
        page = database.execute(f"{shape.select} LIMIT ? OFFSET ?", (limit, offset))
        found = [_row(shape, row, since, last) for row in page]
        return TablePage(columns_of(shape), total, found)
    differing = since if only == "start" else last
    rows = [_row(shape, row, since, last) for row in database.execute(shape.select)]
    rows = [one for one in rows if _text(one.key) in differing]
    gone = [change for change in differing.values() if change.after is None]
    rows += [_deleted(shape, change, since, last) for change in gone]
    return TablePage(columns_of(shape), len(rows), rows[offset : offset + limit])


def columns_of(shape: TableShape) -> list[ShownColumn]:
    """The columns of a table."""
    keys = set(shape.key)
    listed = zip(shape.columns, shape.types, shape.references, strict=True)
    return [
        ShownColumn(name, kind, position in keys, references)
        for position, (name, kind, references) in enumerate(listed)
    ]


def word_of(change: RowChange | None) -> Word:
    """What happened to a row."""
    if change is None:
        return "same"
    if change.before is None:
        return "new"
    return "deleted" if change.after is None else "changed"


def _row(
    shape: TableShape,
    row: Sequence[Any],
    since: Mapping[str, RowChange],
    last: Mapping[str, RowChange],
) -> TableRow:
    rowid, *values = row
    key = plain(shape.key_of(rowid, values))
    change = since.get(_text(key))
    was = None
    if change is not None and change.before is not None:
        before = change.before
        was = {name: plain(before.get(name)) for name in changed_columns(change)} or None
    word = word_of(change)
    return TableRow(key, plain(values), word, word_of(last.get(_text(key))), was)


def _deleted(
    shape: TableShape,
    change: RowChange,
    since: Mapping[str, RowChange],
    last: Mapping[str, RowChange],
) -> TableRow:
    key = plain(change.key)
    before = change.before or {}
    values = [plain(before.get(name)) for name in shape.columns]
    words = word_of(since.get(_text(key))), word_of(last.get(_text(key)))
    return TableRow(key, values, *words, None)


def _counts(changes: Iterable[RowChange], table: str) -> Counts:
    words = [word_of(change) for change in changes if change.table == table]
    return Counts(words.count("new"), words.count("changed"), words.count("deleted"))


def _by_key(changes: Iterable[RowChange], table: str) -> dict[str, RowChange]:
    return {_text(plain(change.key)): change for change in changes if change.table == table}


def _text(key: Any) -> str:
    return msgspec.json.encode(key).decode()
