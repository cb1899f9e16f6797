"""The grid of a run: tasks by tries, and the tries of one task.

The tries of a task are all of its episodes, in the order of their groups and members: a run that
plays each task eight times has eight tries of it, whatever `-g` was.
"""

from collections.abc import Sequence

import msgspec

from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.episode_rows import lines_of
from rehearsal_room.viewer.reading.lines import EpisodeTableLine
from rehearsal_room.viewer.reading.open_runs import NotHereError

MAX_CELLS = 64  # tries of a task that are shown in its row
MAX_TASKS = 1_000


class GridCell(msgspec.Struct, frozen=True):
    """A try in the grid."""

    episode: str
    label: str | None
    reward: float | None
    ending: str | None
    end_digest: str
    group: str
    member: int


class GridRow(msgspec.Struct):
    """A task in the grid."""

    scenario: str
    task: str
    group: str  # of the first try
    tries: int
    completed: int
    cells: list[GridCell]  # at most MAX_CELLS


class Grid(msgspec.Struct, frozen=True):
    """Some tasks with their tries."""

    total: int  # tasks
    rows: Sequence[GridRow]


def grid(index: RunIndex, offset: int = 0, limit: int = MAX_TASKS) -> Grid:
    """The tasks from `offset` on, by scenario and name. Raises LogError."""
    keys = index.kept(
        "grid_tasks",
        lambda: index.rows("SELECT DISTINCT scenario, task FROM episodes ORDER BY scenario, task"),
    )
    chosen = keys[offset : offset + min(limit, MAX_TASKS)]
    if not chosen:
        return Grid(len(keys), [])
    found: dict[tuple[str, str], GridRow] = {}
    rows = index.rows(
        "SELECT scenario, task, episode, label, reward, ending, end_digest, grp, member"
        " FROM episodes WHERE (scenario, task) >= (?, ?) AND (scenario, task) <= (?, ?)"
        " ORDER BY scenario, task, grp, member, number",
        *chosen[0],
        *chosen[-1],
    )
    for scenario, task, *cell in rows:
        one = GridCell(*cell)
        row = found.get((scenario, task))
        if row is None:
            row = found[scenario, task] = GridRow(scenario, task, one.group, 0, 0, [])
        row.tries += 1
        row.completed += one.label == "completed"
        if len(row.cells) < MAX_CELLS:
            row.cells.append(one)
    return Grid(len(keys), list(found.values()))


def tries_of(index: RunIndex, group: str, limit: int) -> tuple[int, list[EpisodeTableLine]]:
    """The tries of the task of a group: their number, and the first of them. Raises
    NotHereError where the run does not have the group."""
    first = index.rows("SELECT scenario, task FROM episodes WHERE grp = ? LIMIT 1", group)
    if not first:
        raise NotHereError(f"{index.path.parent}: there is no group {group!r}")
    sql = "SELECT number FROM episodes WHERE scenario = ? AND task = ? ORDER BY grp, member, number"
    numbers = [number for (number,) in index.rows(sql, *first[0])]
    return len(numbers), lines_of(index, numbers[:limit])
