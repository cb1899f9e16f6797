"""The final tables of an episode, from its world's template and the pages that it changed."""

import sqlite3
from contextlib import closing

from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.mcp.unknown_states import is_known
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.interop.exports.source import LoggedEpisode
from rehearsal_room.scenarios.api import Row

_MOST_BYTES = 2**31  # of a world's database


def final_tables(episode: LoggedEpisode) -> dict[str, list[Row]] | None:
    """Every row of every table at the end; None when the episode has no final state, or it is
    unknown. Raises LogError."""
    ended = episode.trajectory.ended
    if ended is None or ended.state is None or not is_known(ended.state):
        return None
    world, state = episode.world, ended.state
    if world.template != state.template:
        raise LogError(
            f"{episode.log}: episode {episode.row.episode!r} ended in a state of template"
            f" {state.template}, but its world has {world.template}"
        )
    try:
        return tables_of(image_with(world.image, state))
    except sqlite3.DatabaseError as exc:
        raise LogError(
            f"{episode.log}: the final state of episode {episode.row.episode!r} is damaged: {exc}"
        ) from exc


def image_with(image: bytes, state: StoredState) -> bytes:
    """The database of a stored state: its template's image with the changed pages written in.
    Raises sqlite3.DatabaseError for a state that no database has."""
    size = int.from_bytes(image[16:18], "big")  # SQLite's file format, 1.3.2
    size = 65_536 if size == 1 else size
    if not 0 <= state.num_pages * size <= _MOST_BYTES:
        raise sqlite3.DatabaseError(f"it has {state.num_pages:,} pages")
    database = bytearray(image[: state.num_pages * size].ljust(state.num_pages * size, b"\0"))
    for number, page in state.pages.items():
        if number < 1 or len(page) != size:
            raise sqlite3.DatabaseError(f"page {number} has {len(page):,} bytes")
        if number <= state.num_pages:  # later pages were cut off when the database shrank
            database[(number - 1) * size : number * size] = page
    return bytes(database)


def tables_of(image: bytes) -> dict[str, list[Row]]:
    """Every row of every table of a database, ordered by rowid or key.

    Raises sqlite3.DatabaseError when the bytes are not a database.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(image)
        names = database.execute(
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT GLOB 'sqlite_*' ORDER BY name"
        ).fetchall()
        return {name: _rows(database, name, has_rowid=not wr) for name, wr in names}


def _rows(database: sqlite3.Connection, table: str, *, has_rowid: bool) -> list[Row]:
    quoted = '"' + table.replace('"', '""') + '"'
    cursor = database.execute(f"SELECT * FROM {quoted}{' ORDER BY rowid' if has_rowid else ''}")
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor]
