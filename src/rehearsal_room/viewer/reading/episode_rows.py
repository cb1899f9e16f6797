"""The table of a run's episodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.viewer.index.hand_labels import NO_LABELS, HandLabels
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.filters import Query, order_of, where_of
from rehearsal_room.viewer.reading.lines import LINE_COLUMNS, EpisodeTableLine, episode_line
from rehearsal_room.viewer.reading.open_runs import NotHereError

MAX_ROWS = 1_000


class EpisodeTable(msgspec.Struct, frozen=True):
    """Some of the episodes that a filter finds."""

    total: int
    rows: list[EpisodeTableLine]


class Neighbours(msgspec.Struct, frozen=True):
    """The episodes before and after one in a list."""

    position: int | None  # of the episode itself, from 0; None: it is not in the list
    total: int
    previous: EpisodeTableLine | None  # None: there is none
    next: EpisodeTableLine | None


def episode_table(index: RunIndex, query: Query, labels: HandLabels = NO_LABELS) -> EpisodeTable:
    """The episodes that a query asks for. Raises SettingsError and LogError."""
    where, bound = where_of(query, labels)
    order = order_of(_last(query, "sort", "episode"))
    offset, limit = _whole(query, "offset", 0), min(MAX_ROWS, _whole(query, "limit", 100))
    total = index.num_episodes(where, bound)
    chosen = f"SELECT number FROM episodes WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
    numbers = [number for (number,) in index.rows(chosen, *bound, limit, offset)]
    return EpisodeTable(total, lines_of(index, numbers, labels))


def episodes_of(
    index: RunIndex, query: Query, labels: HandLabels, *, limit: int
) -> tuple[int, list[str]]:
    """How many episodes a query asks for, and the first of them. Raises SettingsError and
    LogError."""
    where, bound = where_of(query, labels)
    order = order_of(_last(query, "sort", "episode"))
    sql = f"SELECT episode FROM episodes WHERE {where} ORDER BY {order} LIMIT ?"
    found = [episode for (episode,) in index.rows(sql, *bound, limit)]
    return index.num_episodes(where, bound), found


def neighbours(index: RunIndex, query: Query, labels: HandLabels, episode: str) -> Neighbours:
    """The episodes beside one in the table that a query asks for. Raises SettingsError and
    LogError."""
    _, listed = episodes_of(index, query, labels, limit=-1)
    here = listed.index(episode) if episode in listed else None
    if here is None:
        return Neighbours(None, len(listed), None, None)
    before = listed[here - 1] if here else None
    after = listed[here + 1] if here + 1 < len(listed) else None
    lines = [None if one is None else line_of(index, one, labels) for one in (before, after)]
    return Neighbours(here, len(listed), lines[0], lines[1])


def lines_of(
    index: RunIndex, numbers: Sequence[int], labels: HandLabels = NO_LABELS
) -> list[EpisodeTableLine]:
    """The lines of episodes by their numbers, in this order."""
    marks = ", ".join("?" * len(numbers))
    rows = index.rows(f"SELECT {LINE_COLUMNS} FROM episodes WHERE number IN ({marks})", *numbers)
    names = names_of(index)
    found = {row[0]: episode_line(row, names, labels) for row in rows}
    return [found[number] for number in numbers if number in found]


def line_of(index: RunIndex, episode: str, labels: HandLabels = NO_LABELS) -> EpisodeTableLine:
    """The line of an episode. Raises NotHereError where the run does not have it."""
    rows = index.rows(f"SELECT {LINE_COLUMNS} FROM episodes WHERE episode = ?", episode)
    if not rows:
        raise NotHereError(f"{index.path.parent}: there is no episode {episode!r}")
    return episode_line(rows[0], names_of(index), labels)


def names_of(index: RunIndex) -> dict[int, list[str]]:
    """The sets of names of the index, by their ids."""
    rows = index.rows("SELECT id, names FROM names")
    return _NamesById(index, {number: msgspec.json.decode(text) for number, text in rows})


class _NamesById(dict[int, list[str]]):
    """Sets of names by their ids. One that was added since is looked up."""

    def __init__(self, index: RunIndex, known: Mapping[int, list[str]]) -> None:
        super().__init__(known)
        self._index = index

    def __missing__(self, number: int) -> list[str]:
        ((text,),) = self._index.rows("SELECT names FROM names WHERE id = ?", number)
        names: list[str] = msgspec.json.decode(text)
        self[number] = names
        return names


def _last(query: Query, name: str, default: str) -> str:
    values: Any = query.get(name) or (default,)
    return str(values[-1])


def _whole(query: Query, name: str, default: int) -> int:
    text = _last(query, name, str(default))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default
