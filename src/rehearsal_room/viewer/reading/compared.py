"""Two runs compared: the paired statistics of `rehearse compare`, and the tasks one by one."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.outcomes.scores import SCORE_SQL
from rehearsal_room.judge.statistics.compare_output import warning_lines
from rehearsal_room.judge.statistics.compared_runs import compare_runs
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.episode_rows import names_of
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.plain import built
from rehearsal_room.viewer.reading.run_page import kinds_in

_MAX_EPISODES = 16  # of a task that are named
TaskScores = dict[tuple[str, str], "TaskScore"]


class TaskScore(msgspec.Struct, frozen=True):
    """A task in one run."""

    n: int
    completed: int
    mean: float | None  # share of the episodes with a verdict that are completed


class TaskPair(msgspec.Struct, frozen=True):
    """A task in both runs (None: the run has no episode of it)."""

    scenario: str
    task: str
    a: TaskScore | None
    b: TaskScore | None
    change: Literal["gained", "lost", "same", "left out"]
    episodes_a: list[str]
    episodes_b: list[str]


def compared(first: ShownRun, second: ShownRun) -> dict[str, Any]:
    """The comparison, as `rehearse compare --json` has it, with rows, and what else differs in the
    command's own words. Raises SettingsError and LogError."""
    indexes = {run.log_folder: run.index() for run in (first, second)}

    def kinds_of(folder: Path) -> dict[str, int]:
        return kinds_in(indexes[folder], names_of(indexes[folder]))

    found = compare_runs([first.log_folder, second.log_folder], kinds_of=kinds_of)
    return {
        **built(found),
        "differs": list(warning_lines(found)),
        "rows": task_pairs(first.index(), second.index()),
    }


def task_pairs(first: RunIndex, second: RunIndex) -> list[TaskPair]:
    """The tasks of both runs."""
    a, b = _tasks(first), _tasks(second)
    rows = []
    for key in sorted(a.keys() | b.keys()):
        one, other = a.get(key), b.get(key)
        change: Literal["gained", "lost", "same", "left out"] = "left out"
        if one and other and one.mean is not None and other.mean is not None:
            same = one.mean == other.mean
            change = "same" if same else "gained" if other.mean > one.mean else "lost"
        rows.append(
            TaskPair(*key, one, other, change, _episodes(first, *key), _episodes(second, *key))
        )
    return rows


def _tasks(index: RunIndex) -> TaskScores:
    rows = index.rows(
        f"SELECT scenario, task, count(*), coalesce(sum({SCORE_SQL}), 0), avg({SCORE_SQL})"  # nosec B608 # a constant
        " FROM episodes WHERE ending IS NOT NULL GROUP BY scenario, task"
    )
    return {(scenario, task): TaskScore(*counts) for scenario, task, *counts in rows}


def _episodes(index: RunIndex, scenario: str, task: str) -> list[str]:
    sql = "SELECT episode FROM episodes WHERE scenario = ? AND task = ? ORDER BY member, number"
    rows = index.rows(f"{sql} LIMIT ?", scenario, task, _MAX_EPISODES)
    return [episode for (episode,) in rows]
