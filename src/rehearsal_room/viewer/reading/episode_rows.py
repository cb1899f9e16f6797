"""The table of a run's episodes, and its grid of tasks and members."""

from collections.abc import Sequence
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


class GridCell(msgspec.Struct, frozen=True):
    """An episode in the grid."""

    episode: str
    label: str | None
    reward: float | None
    ending: str | None
    end_digest: str
    group: str


class GridTask(msgspec.Struct, frozen=True):
    """A row of the grid."""

    scenario: str
    task: str
    group: str


class Grid(msgspec.Struct, frozen=True):
    """Tasks by members: one row for each group."""

    tasks: list[GridTask]
    members: int
    cells: list[list[GridCell | None]]


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


def group_lines(index: RunIndex, group: str) -> list[EpisodeTableLine]:
    """The members of a group. Raises NotHereError where the run does not have it."""
    sql = "SELECT number FROM episodes WHERE grp = ? ORDER BY member, number"
    numbers = [number for (number,) in index.rows(sql, group)]
    if not numbers:
        raise NotHereError(f"{index.path.parent}: there is no group {group!r}")
    return lines_of(index, numbers)


def grid(index: RunIndex) -> Grid:
    """The whole run as a grid."""
    rows = index.rows(
        "SELECT scenario, task, grp, member, episode, label, reward, ending, end_digest"
        " FROM episodes ORDER BY scenario, task, grp, member"
    )
    tasks: dict[tuple[str, str, str], dict[int, GridCell]] = {}
    for scenario, task, group, member, episode, label, reward, ending, digest in rows:
        cell = GridCell(episode, label, reward, ending, digest, group)
        tasks.setdefault((scenario, task, group), {})[member] = cell
    members = 1 + max((member for found in tasks.values() for member in found), default=-1)
    return Grid(
        [GridTask(*key) for key in tasks],
        members,
        [[found.get(member) for member in range(members)] for found in tasks.values()],
    )


def names_of(index: RunIndex) -> dict[int, list[str]]:
    """The sets of names of the index, by their ids."""
    rows = index.rows("SELECT id, names FROM names")
    return {number: msgspec.json.decode(text) for number, text in rows}


def _last(query: Query, name: str, default: str) -> str:
    values: Any = query.get(name) or (default,)
    return str(values[-1])


def _whole(query: Query, name: str, default: int) -> int:
    text = _last(query, name, str(default))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default
